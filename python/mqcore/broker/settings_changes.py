"""Which settings a tool may change while the broker runs, and how the file keeps the change.

What is *live* in the tables of settings: never a path, an address, a name or anything that another
program runs. Pure functions.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from mqcore.broker.delays import parse_levels
from mqcore.config import BrokerSettings, Configuration, Setting, broker_settings
from mqcore.config.keys import SPELLINGS, nearest
from mqcore.config.values import Value, parsed
from mqcore.errors import RefusedError
from mqcore.native.errors import SettingError
from mqcore.remoting import ResponseCode

# Refused by the official broker whatever its own black list contains.
_NEVER: Final = frozenset({"brokerConfigPath", "rocketmqHome", "configBlackList"})

SOURCE: Final = "changed by a tool"
# Of unknown keys so many are named, and so much of each.
_KEYS_SHOWN: Final = 10
_KEY_CHARS_SHOWN: Final = 60


def changed(
    settings: BrokerSettings, pairs: Mapping[str, str]
) -> tuple[BrokerSettings, dict[str, str]]:
    """Returns settings with changes, and those changes that were made: all of them or none.

    The official broker leaves out a key that it does not know and answers success: whoever
    misspells one never hears of it.

    Raises:
        RefusedError: A key may not be changed, is not known, or a value is none of its kind.
    """
    black_list = {key.strip() for key in settings.config_black_list.split(";")}
    configuration = settings.configuration
    known = dict(configuration.settings)
    made: dict[str, str] = {}
    unknown = []
    for written, text in pairs.items():
        key = SPELLINGS.get(written, written)
        if key in _NEVER or key in black_list:
            raise RefusedError(
                "Can not update config in black list.", code=ResponseCode.NO_PERMISSION
            )
        setting = known.get(key)
        if setting is None:
            near = nearest(key, configuration.program)
            unknown.append(f"{key[:_KEY_CHARS_SHOWN]}{f' (did you mean {near}?)' if near else ''}")
            continue
        if not setting.key.is_live:
            can = sorted(name for name, each in configuration.settings.items() if each.key.is_live)
            raise RefusedError(
                f"{key} cannot be changed while the broker runs: set it in its configuration and "
                f"restart. What can: {', '.join(can)}",
                code=ResponseCode.NO_PERMISSION,
            )
        known[key] = Setting(setting.key, _value(setting, text), SOURCE)
        made[key] = text.strip()
    if unknown:
        shown = ", ".join(unknown[:_KEYS_SHOWN])
        more = f" and {len(unknown) - _KEYS_SHOWN} more" if len(unknown) > _KEYS_SHOWN else ""
        raise RefusedError(
            f"nothing was changed: unknown keys {shown}{more}", code=ResponseCode.SYSTEM_ERROR
        )
    renewed = Configuration(configuration.program, known, configuration.warnings)
    fresh = broker_settings(renewed)
    _check_levels(fresh.delay_levels)
    # What the start found out, such as the host's name and the chosen port, stays what it was.
    fresh = replace(
        fresh,
        listener=settings.listener,
        engine=settings.engine,
        advertised_host=settings.advertised_host,
        replication_host=settings.replication_host,
        name=settings.name,
        name_servers=settings.name_servers,
    )
    return fresh, made


def _check_levels(text: str) -> None:
    try:
        parse_levels(text)
    except SettingError as error:
        raise RefusedError(error.message, code=ResponseCode.SYSTEM_ERROR) from error


def _value(setting: Setting, text: str) -> Value:
    try:
        return parsed(setting.key.kind, text.strip())
    except ValueError as error:
        raise RefusedError(
            f"{setting.key.name}={text}: {error}", code=ResponseCode.SYSTEM_ERROR
        ) from error


def file_with(text: str, changes: Mapping[str, str]) -> str:
    """Returns a properties file with changes: lines of those keys replaced, the rest as it was."""
    left = dict(changes)
    lines = []
    for line in text.splitlines():
        match = re.match(r"\s*([^#!\s=:]+)\s*[=:]", line)
        if match is not None and match[1] in changes:
            if match[1] in left:
                lines.append(f"{match[1]}={left.pop(match[1])}")
            continue
        lines.append(line)
    lines.extend(f"{key}={value}" for key, value in left.items())
    return "\n".join(lines) + "\n"
