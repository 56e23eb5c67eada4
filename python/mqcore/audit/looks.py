"""What requests are about that every server answers: settings by their keys. Pure functions."""

from collections.abc import Mapping, Sequence
from typing import Final

from mqcore.audit.lines import Secret
from mqcore.config import Configuration, parse_properties
from mqcore.config.keys import SPELLINGS
from mqcore.config.values import rendered
from mqcore.errors import ConfigFileError
from mqcore.remoting import Request

__all__ = ["settings_named", "settings_now"]

_PREFIX: Final = "Setting:"
# Of a key that is none so much is kept.
_KEY_CHARS_MAX: Final = 100


def settings_named(request: Request) -> list[str]:
    """Returns the settings that the body of a request names, `Setting:KEY` each."""
    try:
        pairs = parse_properties(request.body.decode("utf-8", "replace"), "the request")
    except ConfigFileError:
        return []
    return [f"{_PREFIX}{SPELLINGS.get(key, key)[:_KEY_CHARS_MAX]}" for key in pairs]


def settings_now(configuration: Configuration, names: Sequence[str]) -> Mapping[str, str]:
    """Returns the values of settings as they are now; keys that are none are left out.

    Args:
        configuration: All settings.
        names: `Setting:KEY` each.
    """
    found = {}
    for name in names:
        setting = configuration.settings.get(name.removeprefix(_PREFIX))
        if setting is not None:
            text = rendered(setting.value)
            found[setting.key.name] = Secret(text) if setting.key.is_secret else text
    return found
