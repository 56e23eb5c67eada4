"""Which settings a tool may change while the broker runs, and how the file keeps the change.

By the tables of settings: *live* ones change at once, those of the *next start* in the
file alone. Never a path, an address, a name or anything that another program runs. Pure functions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from mqcore.broker.delays import parse_levels
from mqcore.config import BrokerSettings, Configuration, Setting, broker_settings
from mqcore.config.keys import SPELLINGS, Fate, nearest
from mqcore.config.log_levels import log_levels_of
from mqcore.config.values import Value, parsed, rendered
from mqcore.errors import RefusedError
from mqcore.native import quotas_fault
from mqcore.native.errors import SettingError
from mqcore.remoting import ResponseCode

# Refused by the official broker whatever its own black list contains.
_NEVER: Final = frozenset({"brokerConfigPath", "rocketmqHome", "configBlackList"})

SOURCE: Final = "changed by a tool"
SOURCE_NEXT: Final = "changed by a tool, from the next start on"
# Of unknown keys so many are named, and so much of each.
_KEYS_SHOWN: Final = 10
_KEY_CHARS_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Changes:
    """What a request changes.

    Attributes:
        settings: All settings with the changes.
        made: The changed keys with their texts, for the file.
        is_of_store: Whether a setting of the open store is among them.
        remark: Which of them take effect at the next start; None where all do at once.
    """

    settings: BrokerSettings
    made: Mapping[str, str]
    is_of_store: bool
    remark: str | None


def changed(
    settings: BrokerSettings, pairs: Mapping[str, str], *, has_file: bool = True
) -> Changes:
    """Returns settings with changes: all of them or none.

    The official broker leaves out a key that it does not know and answers success: whoever
    misspells one never hears of it.

    Args:
        settings: The settings now.
        pairs: The changes, by key.
        has_file: Whether the broker has a file that keeps what takes effect at the next start.

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
        _check_changeable(setting, configuration, has_file=has_file)
        source = SOURCE if setting.key.is_live else SOURCE_NEXT
        known[key] = Setting(setting.key, _value(setting, text), source)
        made[key] = text.strip()
    if unknown:
        shown = ", ".join(unknown[:_KEYS_SHOWN])
        more = f" and {len(unknown) - _KEYS_SHOWN} more" if len(unknown) > _KEYS_SHOWN else ""
        raise RefusedError(
            f"nothing was changed: unknown keys {shown}{more}", code=ResponseCode.SYSTEM_ERROR
        )
    of_store = {
        key: rendered(known[key].value)
        for key in made
        if known[key].key.fate is Fate.ENGINE and known[key].key.is_live
    }
    later = sorted(key for key in made if not known[key].key.is_live)
    return Changes(
        settings=_renewed(settings, known, of_store),
        made=made,
        is_of_store=bool(of_store),
        remark=f"from the next start on: {', '.join(later)}" if later else None,
    )


def _renewed(
    settings: BrokerSettings, known: Mapping[str, Setting], of_store: Mapping[str, str]
) -> BrokerSettings:
    configuration = settings.configuration
    renewed = Configuration(configuration.program, known, configuration.warnings)
    fresh = broker_settings(renewed)
    _check_levels(fresh.delay_levels)
    _check_log_levels(fresh.log_levels)
    _check_quotas(fresh.quotas)
    # What the start found out, such as the host's name and the chosen port, stays what it was.
    return replace(
        fresh,
        listener=replace(
            settings.listener,
            connections_per_address=fresh.listener.connections_per_address,
            connections_per_user=fresh.listener.connections_per_user,
            held_bytes_per_user=fresh.listener.held_bytes_per_user,
        ),
        engine={**settings.engine, **of_store},
        advertised_host=settings.advertised_host,
        replication_host=settings.replication_host,
        name=settings.name,
        name_servers=settings.name_servers,
    )


def _check_changeable(setting: Setting, configuration: Configuration, *, has_file: bool) -> None:
    """Refuses a key that no tool may change."""
    key = setting.key
    if key.is_live or (key.is_kept and has_file):
        return
    if key.is_kept:
        fault = (
            f"{key.name} takes effect at the next start, and this broker was started without a "
            "properties file that could keep it: start it with -c FILE"
        )
    elif key.fate is Fate.INERT:
        fault = f"{key.name} has no effect here: {key.words}"
    else:
        can = sorted(
            name
            for name, each in configuration.settings.items()
            if each.key.is_live or (each.key.is_kept and has_file)
        )
        fault = (
            f"{key.name} cannot be changed while the broker runs: set it in its configuration and "
            f"restart. What can: {', '.join(can)}"
        )
    raise RefusedError(fault, code=ResponseCode.NO_PERMISSION)


def _check_levels(text: str) -> None:
    try:
        parse_levels(text)
    except SettingError as error:
        raise RefusedError(error.message, code=ResponseCode.SYSTEM_ERROR) from error


def _check_log_levels(text: str) -> None:
    try:
        log_levels_of(text)
    except ValueError as error:
        fault = f"mqcoreLogLevels: {error}"
        raise RefusedError(fault, code=ResponseCode.SYSTEM_ERROR) from error


def _check_quotas(text: str) -> None:
    fault = quotas_fault(text)
    if fault is not None:
        raise RefusedError(f"mqcoreQuotas: {fault}", code=ResponseCode.SYSTEM_ERROR)


def _value(setting: Setting, text: str) -> Value:
    try:
        return parsed(setting.key.kind, text.strip())
    except ValueError as error:
        raise RefusedError(
            f"{setting.key.name}={text}: {error}", code=ResponseCode.SYSTEM_ERROR
        ) from error
