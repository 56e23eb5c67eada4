"""The settings that tools change while a name server or a controller runs, and how they are shown.

By the tables of settings, as for brokers: *live* ones change at once, those of the *next start* in
the file alone. Never a path, an address or a name. Of access control the limits alone: who may come
in is decided in the file. Functions of settings; `SettingsFile` writes.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from mqcore.config.effective import Configuration, Setting
from mqcore.config.keys import Key, table_keys
from mqcore.config.properties import change_file, parse_properties
from mqcore.config.settings import ControllerSettings, NamesrvSettings
from mqcore.config.values import parsed, rendered
from mqcore.errors import ConfigFileError, MQError, RefusedError

__all__ = ["Amendment", "SettingsFile", "amended", "properties_text"]

_SYSTEM_ERROR: Final = 1
_NO_PERMISSION: Final = 16
_SOURCE: Final = "administrator"
_SOURCE_NEXT: Final = "administrator, from the next start on"
# What else is live of access control lets people in: that is changed in the file.
_ACCESS_LIMITS: Final = frozenset({"mqcoreFailedSignaturesPerMinute", "mqcoreFirstRequestSeconds"})
# Parts of settings that keys name with a point before the field.
_LISTENER, _ACCESS, _CONTROLLER = "listener", "access", "controller"

_Settings = TypeVar("_Settings", NamesrvSettings, ControllerSettings)


@dataclass(frozen=True, slots=True)
class Amendment(Generic[_Settings]):
    """What a request changes.

    Attributes:
        settings: All settings with the changes that count at once.
        made: The changed keys with their texts, for the file.
        remark: Which of them take effect at the next start; None where all do at once.
    """

    settings: _Settings
    made: Mapping[str, str]
    remark: str | None


class SettingsFile:
    """The properties file that keeps changes over a restart; without one they last until then."""

    def __init__(self, path: Path | None) -> None:
        """Takes the file, None for none."""
        self.path = path

    async def keep(self, made: Mapping[str, str]) -> None:
        """Writes changes.

        Raises:
            RefusedError: They are in force, and could not be written.
        """
        if self.path is None or not made:
            return
        try:
            await asyncio.to_thread(change_file, self.path, made)
        except (MQError, OSError) as error:
            raise RefusedError(
                f"changed, but not kept over a restart: {error}", code=_SYSTEM_ERROR
            ) from error


def amended(
    settings: _Settings,
    body: bytes,
    black_list: Collection[str],
    program: str,
    *,
    has_file: bool = False,
) -> Amendment[_Settings]:
    """Returns settings with some of them changed: all that were asked for, or none.

    Args:
        settings: What they are.
        body: Official keys with texts, as a properties file has them.
        black_list: Keys that nobody changes remotely, beside those of the configuration.
        program: What to call the program in a refusal.
        has_file: Whether there is a file that keeps what takes effect at the next start.

    Raises:
        RefusedError: One of them may not be changed, or is no value of its kind.
    """
    try:
        pairs = parse_properties(body.decode(), "the request")
    except (UnicodeDecodeError, ConfigFileError) as error:
        raise RefusedError(str(error), code=_SYSTEM_ERROR) from error
    listed: str = settings.config_black_list
    blocked = {*black_list, *(name.strip() for name in listed.split(";"))}
    changes: dict[str, dict[str, object]] = {"": {}, _LISTENER: {}, _ACCESS: {}}
    shown, made = dict(settings.configuration.settings), {}
    for name, text in pairs.items():
        if name in blocked:
            raise RefusedError("Can not update config in black list.", code=_NO_PERMISSION)
        key = _changeable(settings, name, program, has_file=has_file)
        try:
            value = parsed(key.kind, text)
        except ValueError as error:
            raise RefusedError(f"{name}={text[:80]}: {error}", code=_SYSTEM_ERROR) from error
        if key.is_live:
            part, field = _part_and_field(key)
            changes[part][field] = value
        shown[name] = Setting(key, value, _SOURCE if key.is_live else _SOURCE_NEXT)
        made[name] = rendered(value)
    later = sorted(name for name in made if not shown[name].key.is_live)
    configuration = replace(settings.configuration, settings=shown)
    return Amendment(
        _with(settings, changes, configuration),
        made,
        f"from the next start on: {', '.join(later)}" if later else None,
    )


def _with(
    settings: _Settings,
    changes: Mapping[str, Mapping[str, object]],
    configuration: Configuration,
) -> _Settings:
    fresh: dict[str, Any] = dict(changes[""])
    for part in (_LISTENER, _ACCESS):
        fresh[part] = replace(getattr(settings, part), **changes[part])
    return replace(settings, configuration=configuration, **fresh)


def _part_and_field(key: Key) -> tuple[str, str]:
    """Returns the part of the settings that a key is in, empty for themselves, and its field."""
    part, _, field = key.field.rpartition(".")
    return ("" if part == _CONTROLLER else part, field)


def _changeable(
    settings: NamesrvSettings | ControllerSettings, name: str, program: str, *, has_file: bool
) -> Key:
    """Returns a key that a tool may change.

    Raises:
        RefusedError: It may not.
    """
    all_ = settings.configuration.settings
    known = all_.get(name)
    if known is not None:
        key = known.key
        if _is_live(settings, key) or (key.is_kept and has_file):
            return key
        if key.is_kept:
            raise RefusedError(
                f"{name} takes effect at the next start, and this {program} was started without a "
                "properties file that could keep it: start it with -c FILE",
                code=_NO_PERMISSION,
            )
    can = sorted(
        each
        for each, setting in all_.items()
        if _is_live(settings, setting.key) or (setting.key.is_kept and has_file)
    )
    raise RefusedError(
        f"{name[:80]} cannot be changed while the {program} runs: set it in its configuration and "
        f"restart. What can: {', '.join(can)}",
        code=_NO_PERMISSION,
    )


def _is_live(settings: NamesrvSettings | ControllerSettings, key: Key) -> bool:
    part, field = _part_and_field(key)
    if part == _ACCESS:
        return key.name in _ACCESS_LIMITS
    # A name server with a controller beside knows the keys of that one, and has not its fields.
    owner = settings if not part else getattr(settings, part)
    return key.is_live and hasattr(owner, field)


def properties_text(configuration: Configuration, tables: Collection[str]) -> str:
    """Returns settings as a properties file; secrets are masked.

    Args:
        configuration: All settings of a program.
        tables: Whose keys are shown.
    """
    names = {key.name for table in tables for key in table_keys(table)}
    rows = [row for name, row in configuration.settings.items() if name in names]
    return "".join(
        f"{row.key.name}={row.shown if row.key.is_secret else rendered(row.value)}\n"
        for row in rows
    )
