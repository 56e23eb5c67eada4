"""The settings that may be changed while a name server runs, and how they are shown.

What is *live* in the tables of settings: switches and intervals, nothing that names a path.
Pure functions of settings.
"""

from collections.abc import Mapping
from dataclasses import replace

from mqcore.config import NamesrvSettings
from mqcore.config.effective import Setting
from mqcore.config.values import parsed, rendered
from mqcore.errors import RefusedError

__all__ = ["amended", "properties_text"]

_SYSTEM_ERROR = 1
_NO_PERMISSION = 16
_SOURCE = "administrator"

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
    blocked = _BLACK_LIST | {name.strip() for name in settings.config_black_list.split(";")}
    changes: dict[str, object] = {}
    shown = dict(settings.configuration.settings)
    for name, text in pairs.items():
        if name in blocked:
            raise RefusedError("Can not update config in black list.", code=_NO_PERMISSION)
        known = shown.get(name)
        if known is None or not known.key.is_live:
            raise RefusedError(
                f"{name} cannot be changed while the name server runs", code=_NO_PERMISSION
            )
        key = known.key
        try:
            value = parsed(key.kind, text)
        except ValueError as error:
            raise RefusedError(f"{name}={text[:80]}: {error}", code=_SYSTEM_ERROR) from error
        if isinstance(value, int) and not isinstance(value, bool) and value <= 0:
            raise RefusedError(f"{name}={text[:80]}: expected more than 0", code=_SYSTEM_ERROR)
        changes[key.field] = value
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
