"""Views become HTML or JSON. Everything is escaped; no style and no script is in a page."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from mqcore.console import formats
from mqcore.console.views import View, url

__all__ = ["Rendering", "as_plain"]

_TEXT_CHARS_MAX: Final = 1 << 20


def as_plain(value: Any) -> Any:
    """Returns a value as JSON has it: classes with fields become objects."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: as_plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_plain(item) for item in value]
    names = [name for name in ("topic", "broker_name", "queue_id") if hasattr(value, name)]
    return {name: getattr(value, name) for name in names} if names else str(value)


def _without(pairs: Mapping[str, str], *names: str) -> dict[str, str]:
    """Returns the pairs of a URL's query but those of some names."""
    return {name: value for name, value in pairs.items() if name not in names}


class Rendering:
    """The templates."""

    def __init__(self) -> None:
        """Loads them when they are first used."""
        self._environment = environment = Environment(
            loader=PackageLoader("mqcore.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters |= {
            "number": formats.number,
            "rate": formats.rate,
            "bytes": formats.bytes_text,
            "when": formats.when,
            "duration": formats.duration,
            "ago": formats.ago,
            "microseconds": formats.microseconds,
            "shell": shlex.join,
            "without": _without,
        }
        environment.globals["href"] = url

    def page(self, view: View, context: Mapping[str, Any]) -> str:
        """Returns a view as HTML.

        Args:
            view: The view.
            context: What every page has: who looks, what was not answered.
        """
        template = self._environment.get_template(view.template)
        return template.render(**context, **view.data, title=view.title)

    def json(self, view: View, faults: Any) -> str:
        """Returns the data of a view as JSON."""
        data = {"data": as_plain(view.data), "faults": as_plain(faults)}
        return json.dumps(data, ensure_ascii=False)
