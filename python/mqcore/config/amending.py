"""The settings that may change while a name server or a controller runs, and how they are shown.

What is *live* in the tables of settings: switches and intervals, nothing that names a path.
Pure functions of settings.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from mqcore.config.effective import Configuration, Setting
from mqcore.config.keys import table_keys
from mqcore.config.settings import ControllerSettings, NamesrvSettings, key_fields
from mqcore.config.values import parsed, rendered
from mqcore.errors import RefusedError

__all__ = ["amended", "properties_text"]

_SYSTEM_ERROR = 1
_NO_PERMISSION = 16
_SOURCE = "administrator"

_Settings = TypeVar("_Settings", NamesrvSettings, ControllerSettings)


def amended(
    settings: _Settings, pairs: Mapping[str, str], black_list: Collection[str], program: str
) -> _Settings:
    """Returns the settings with some of them changed: all, or none.

    Args:
        settings: What they are.
        pairs: Official keys with texts.
        black_list: Keys that nobody changes remotely, beside those of the configuration.
        program: What to call the program in a refusal.

    Raises:
        RefusedError: One of them may not be changed, or is no value of its kind.
    """
    listed: str = settings.config_black_list
    blocked = {*black_list, *(name.strip() for name in listed.split(";"))}
    fields = {key: field for field, key in key_fields(type(settings)).items()}
    changes: dict[str, object] = {}
    shown = dict(settings.configuration.settings)
    for name, text in pairs.items():
        if name in blocked:
            raise RefusedError("Can not update config in black list.", code=_NO_PERMISSION)
        known = shown.get(name)
        if known is None or not known.key.is_live or name not in fields:
            raise RefusedError(
                f"{name} cannot be changed while the {program} runs", code=_NO_PERMISSION
            )
        key = known.key
        try:
            value = parsed(key.kind, text)
        except ValueError as error:
            raise RefusedError(f"{name}={text[:80]}: {error}", code=_SYSTEM_ERROR) from error
        if isinstance(value, int) and not isinstance(value, bool) and value <= 0:
            raise RefusedError(f"{name}={text[:80]}: expected more than 0", code=_SYSTEM_ERROR)
        changes[fields[name]] = value
        shown[name] = Setting(key, value, _SOURCE)
    configuration = replace(settings.configuration, settings=shown)
    return replace(settings, configuration=configuration, **changes)  # type: ignore[arg-type]


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
