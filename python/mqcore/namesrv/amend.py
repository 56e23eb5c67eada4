"""The settings that may be changed while a name server runs, and how they are shown.

Each has its type; a path, an address and what the process was started with are not among them.
Pure functions of settings.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Annotated, get_args, get_origin, get_type_hints

from mqcore.config import NamesrvSettings
from mqcore.config.effective import Setting
from mqcore.config.values import parsed, rendered
from mqcore.errors import RefusedError

__all__ = ["CHANGEABLE", "amended", "properties_text"]

_SYSTEM_ERROR = 1
_NO_PERMISSION = 16
_SOURCE = "administrator"

# Official keys that a request may change: switches and intervals, nothing that names a place.
CHANGEABLE = frozenset(
    {
        "orderMessageEnable",
        "returnOrderTopicConfigToBroker",
        "enableAllTopicList",
        "enableTopicList",
        "deleteTopicWithBrokerRegistration",
        "notifyMinBrokerIdChanged",
        "supportActingMaster",
        "scanNotActiveBrokerInterval",
        "needWaitForService",
        "waitSecondsForService",
    }
)
# The official black list, which the configuration may make longer and not shorter.
_BLACK_LIST = frozenset({"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"})


def amended(settings: NamesrvSettings, pairs: Mapping[str, str]) -> NamesrvSettings:
    """Returns the settings with some of them changed: all, or none.

    Args:
        settings: What they are.
        pairs: Official keys with texts.

    Raises:
        RefusedError: One of them may not be changed, or is no value of its kind.
    """
    names = _fields_by_key()
    blocked = _BLACK_LIST | {name.strip() for name in settings.config_black_list.split(";")}
    changes: dict[str, object] = {}
    shown = dict(settings.configuration.settings)
    for name, text in pairs.items():
        if name in blocked:
            raise RefusedError("Can not update config in black list.", code=_NO_PERMISSION)
        if name not in CHANGEABLE:
            raise RefusedError(
                f"{name} cannot be changed while the name server runs", code=_NO_PERMISSION
            )
        key = shown[name].key
        try:
            value = parsed(key.kind, text)
        except ValueError as error:
            raise RefusedError(f"{name}={text[:80]}: {error}", code=_SYSTEM_ERROR) from error
        if isinstance(value, int) and not isinstance(value, bool) and value <= 0:
            raise RefusedError(f"{name}={text[:80]}: expected more than 0", code=_SYSTEM_ERROR)
        changes[names[name]] = value
        shown[name] = Setting(key, value, _SOURCE)
    configuration = replace(settings.configuration, settings=shown)
    return replace(settings, configuration=configuration, **changes)  # type: ignore[arg-type]


def properties_text(settings: NamesrvSettings) -> str:
    """Returns all settings as a properties file; secrets are masked."""
    rows = settings.configuration.settings.values()
    return "".join(
        f"{row.key.name}={row.shown if row.key.is_secret else rendered(row.value)}\n"
        for row in rows
    )


def _fields_by_key() -> dict[str, str]:
    """Returns the field of each official key."""
    hints = get_type_hints(NamesrvSettings, include_extras=True)
    found = {}
    for field in fields(NamesrvSettings):
        hint = hints[field.name]
        if get_origin(hint) is Annotated:
            found[get_args(hint)[1]] = field.name
    return found
