"""Lays what a user set over the defaults and checks it: every value knows its source.

Nothing is ignored silently: an unknown key, a key without effect and a value read otherwise than
it looks are warned about; a key that promises what is not there refuses the start. Touches no file.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from mqcore.config.keys import SPELLINGS, Fate, Key, Program, keys_of, nearest
from mqcore.config.layers import Layer
from mqcore.config.values import MASK, Value, misread_warning, parsed, rendered
from mqcore.errors import ConfigurationError

_REPORTED_VERSION = "reportedVersion"
# V5_0_0_SNAPSHOT (`MQVersion`).
_ORDINAL_5_0 = 412
DEFAULT = "default"
# Of a program that takes other defaults than an official broker.
PROGRAM_DEFAULT = "default of this program"


@dataclass(frozen=True, slots=True)
class Setting:
    """One key with what it is now.

    Attributes:
        key: The key.
        value: Its value.
        source: Where the value comes from.
    """

    key: Key
    value: Value
    source: str

    @property
    def is_default(self) -> bool:
        """Whether nobody set it."""
        return self.source == DEFAULT

    @property
    def shown(self) -> str:
        """The value for people and logs: a secret is masked."""
        text = rendered(self.value)
        return MASK if self.key.is_secret and text else text


@dataclass(frozen=True, slots=True)
class Configuration:
    """All settings of one program.

    Attributes:
        program: Whose they are.
        settings: By official name, all keys of the program.
        warnings: What the user should know, one sentence each.
    """

    program: Program
    settings: Mapping[str, Setting]
    warnings: tuple[str, ...]

    def value(self, name: str) -> Value:
        """Returns the value of a key."""
        return self.settings[name].value

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Returns key, value, default and source of what has an effect or was set."""
        return [
            (name, setting.shown, setting.key.default, setting.source)
            for name, setting in self.settings.items()
            if setting.key.fate.is_honoured or not setting.is_default
        ]

    def engine_settings(self) -> dict[str, str]:
        """Returns the store's own settings that somebody set, for `mqcore.Store(config=...)`."""
        return {
            name: rendered(setting.value)
            for name, setting in self.settings.items()
            if setting.key.fate is Fate.ENGINE and not setting.is_default
        }


def resolved(
    program: Program,
    layers: Sequence[Layer],
    *,
    is_strict: bool = False,
    ignored: Collection[str] = (),
) -> Configuration:
    """Returns the settings of a program.

    Args:
        program: Whose.
        layers: What was set, the weakest first.
        is_strict: An unknown key, and a boolean that is neither true nor false, is an error.
        ignored: Keys that may promise what is not there.

    Raises:
        ConfigurationError: Lists everything that is wrong at once.
    """
    keys = keys_of(program)
    settings = {name: Setting(key, _default(key), DEFAULT) for name, key in keys.items()}
    warnings: list[str] = []
    faults: list[str] = []
    for name in ignored:
        if SPELLINGS.get(name, name) not in keys:
            faults.append(f"--ignore {name}: no such key{_guess(name, program)}")
    for layer in layers:
        (faults if is_strict else warnings).extend(layer.remarks)
        for written, text in layer.pairs.items():
            name = SPELLINGS.get(written, written)
            key = keys.get(name)
            origin = f"{layer.source}: {written}"
            if key is None:
                why = _foreign(name, program, is_strict=is_strict)
                (faults if is_strict else warnings).append(f"{origin}: {why}")
                continue
            try:
                value = parsed(key.kind, text)
            except ValueError as error:
                faults.append(f"{origin}={MASK if key.is_secret else text}: {error}")
                continue
            warning = misread_warning(key.kind, text)
            if warning is not None:
                (faults if is_strict else warnings).append(f"{origin}={text}: {warning}")
            settings[name] = Setting(key, value, layer.source)
    _follow_version(settings)
    for setting in settings.values():
        _check(setting, ignored, warnings, faults)
    if faults:
        raise ConfigurationError("; ".join(faults), faults=tuple(faults))
    return Configuration(program, settings, tuple(warnings))


def _default(key: Key) -> Value:
    """Returns the default; of a key without effect it is a text for people ("8 + cpus")."""
    return key.default if key.fate is Fate.INERT else parsed(key.kind, key.default)


def _follow_version(settings: dict[str, Setting]) -> None:
    """Replaces defaults that are others from version 5.0 on, where such a version is reported."""
    reported = settings.get(_REPORTED_VERSION)
    if reported is None or not _is_5(rendered(reported.value)):
        return
    for name, setting in settings.items():
        key = setting.key
        if key.default_5 != key.default:
            key = replace(key, default=key.default_5)
            value = _default(key) if setting.is_default else setting.value
            settings[name] = replace(setting, key=key, value=value)


def _is_5(version: str) -> bool:
    """Whether a version, by its name or as an ordinal, is 5.0 or later."""
    if version.isascii() and version.isdigit():
        return int(version) >= _ORDINAL_5_0
    major = version.strip().upper().removeprefix("V").partition("_")[0]
    return major.isascii() and major.isdigit() and int(major) >= 5


def _check(
    setting: Setting, ignored: Collection[str], warnings: list[str], faults: list[str]
) -> None:
    """Warns of a setting without effect, and refuses one whose promise would be broken."""
    key = setting.key
    if setting.is_default or rendered(setting.value) == rendered(_default(key)):
        return
    origin = f"{setting.source}: {key.name}={setting.shown}"
    if key.fate is Fate.INERT:
        warnings.append(f"{origin} has no effect: {key.words}")
    elif key.fate is Fate.REFUSED and key.name in {SPELLINGS.get(n, n) for n in ignored}:
        warnings.append(f"{origin} is ignored as requested: {key.words}")
    elif key.fate is Fate.REFUSED:
        faults.append(f"{origin}: {key.words}; --ignore {key.name} starts all the same")


def _foreign(name: str, program: Program, *, is_strict: bool) -> str:
    """Describes a key that the program does not have."""
    for other in Program:
        if other is not program and name in keys_of(other):
            return f"a key of the {other.value}, without effect here"
    fate = "" if is_strict else ", ignored"
    return f"unknown key{fate}{_guess(name, program)}"


def _guess(name: str, program: Program) -> str:
    near = nearest(name, program)
    return f"; did you mean {near}?" if near else ""
