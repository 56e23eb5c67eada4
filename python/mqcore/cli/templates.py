"""Texts with fields to be filled from each message: `order-{.id}`, `{file}:{n}`.

`{n}` is the number of the message from 1, `{file}` the file that it came from, `{line}` its whole
text, `{.a.b.0}` a member of its body, which is JSON then. `{{` and `}}` are braces. Pure functions.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import click

__all__ = ["TEMPLATE", "Template", "filled"]

_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_NAMES = frozenset({"n", "file", "line"})


class Template:
    """A text with fields.

    Attributes:
        text: As it was written.
    """

    def __init__(self, text: str) -> None:
        """Reads a text.

        Raises:
            ValueError: A field is not known, or a brace is alone.
        """
        self.text = text
        self._parts: list[str | Callable[[Mapping[str, Any]], str]] = []
        end = 0
        for found in _FIELD.finditer(text):
            self._parts.append(text[end : found.start()])
            end = found.end()
            self._parts.append(_part(found))
        self._parts.append(text[end:])

    def fill(self, fields: Mapping[str, Any]) -> str:
        """Returns the text with its fields filled.

        Args:
            fields: `n`, `file` and `line`.

        Raises:
            ValueError: The body is no JSON, or lacks a member.
        """
        return "".join(part if isinstance(part, str) else part(fields) for part in self._parts)


def _part(found: re.Match[str]) -> str | Callable[[Mapping[str, Any]], str]:
    whole, name = found.group(0), found.group(1)
    if whole in ("{{", "}}"):
        return whole[0]
    if name is None:
        raise ValueError(f"a lone {whole!r}: write it twice")
    if name in _NAMES:
        return lambda fields: str(fields[name])
    if name.startswith("."):
        path = [step for step in name[1:].split(".") if step]
        return lambda fields: _member(fields, path, name)
    raise ValueError(f"unknown field {whole!r}: {{n}}, {{file}}, {{line}} or {{.member}} expected")


def _member(fields: Mapping[str, Any], path: list[str], name: str) -> str:
    try:
        value = json.loads(fields["line"])
    except ValueError as error:
        raise ValueError(
            f"message {fields['n']} is no JSON, but {{{name}}} is asked for"
        ) from error
    for step in path:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            raise ValueError(f"message {fields['n']} has no member {{{name}}}")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def filled(template: Template | None, fields: Mapping[str, Any]) -> str | None:
    """Returns a filled text, None without a template."""
    return None if template is None else template.fill(fields)


class _TemplateType(click.ParamType[Template]):
    """A text with fields on the command line."""

    name = "text"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Template:
        """Returns the template, or ends with a usage error."""
        if isinstance(value, Template):
            return value
        try:
            return Template(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


TEMPLATE = _TemplateType()
