"""The sections of the page of the command line, made from the commands of click themselves.

Usage, texts and options are what `--help` prints; nothing of any command is known here.
"""

import inspect
import re
from collections.abc import Iterator

import click

from mqcore.cli.main import commands

_PROGRAM = "mqcore"


def sections() -> str:
    """Returns a section for each command, as Markdown."""
    return "".join(_sections(commands, _PROGRAM, None))


def _sections(command: click.Command, name: str, parent: click.Context | None) -> Iterator[str]:
    context = command.context_class(
        command, info_name=name, parent=parent, **command.context_settings
    )
    level = 2 + context.command_path.count(" ")
    yield f"\n{'#' * level} {context.command_path}\n"
    yield _text(command.help)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"\n```\n{usage}\n```\n"
    yield _options(command, context)
    yield _text(command.epilog)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            if found is not None and not found.hidden:
                yield from _sections(found, each, context)


def _text(help_text: str | None) -> str:
    """Returns a help text; a paragraph that click does not wrap becomes a block."""
    parts = []
    for paragraph in inspect.cleandoc(help_text or "").split("\n\n"):
        if paragraph.startswith("\b\n"):
            parts.append(f"\n```\n{paragraph[2:]}\n```\n")
        elif paragraph:
            parts.append(f"\n{_plain(paragraph)}\n")
    return "".join(parts)


def _options(command: click.Command, context: click.Context) -> str:
    """Returns a table of the options; empty where there is none but for the help."""
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    rows = [
        f"| `{names.replace('|', chr(0x2223))}` | {_plain(words)} |\n"
        for names, words in filter(None, records)
        # An argument has no text of its own.
        if words and not names.endswith("--help")
    ]
    return "\n| option | what it does |\n|---|---|\n" + "".join(rows) if rows else ""


def _plain(text: str) -> str:
    """Returns a text that Markdown shows as it is, outside of its code spans."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if at % 2 else re.sub(r"([\\*_<>|\[\]{}#])", r"\\\1", part)
        for at, part in enumerate(parts)
    )
