"""Many messages on standard output, in one of several forms."""

import json
import sys
from collections.abc import Callable, Iterable

import click

from mqcore.cli.message_text import body_of, json_of, print_card
from mqcore.cli.tables import time_text
from mqcore.client.message import ReceivedMessage

__all__ = ["FORMATS", "Printer"]


class Printer:
    """Prints messages in one form."""

    def __init__(self, form: str) -> None:
        """Takes the name of a form."""
        self._form = form

    def show(self, messages: Iterable[ReceivedMessage]) -> None:
        """Prints messages; returns when they are with whoever reads.

        Raises:
            BrokenPipeError: Nobody reads any more.
        """
        shown = FORMATS[self._form]
        if shown is None:
            for message in messages:
                print_card(message.record)
                click.echo()
            return
        out = sys.stdout.buffer
        out.write(b"".join(map(shown, messages)))
        out.flush()


def _line(message: ReceivedMessage) -> bytes:
    location = f"{message.queue.broker_name}:{message.queue.queue_id}/{message.queue_offset}"
    head = [time_text(message.record.store_timestamp_ms), location]
    head += [part for part in (message.tags, " ".join(message.keys)) if part]
    shown = "  ".join(head)
    if sys.stdout.isatty():
        shown = click.style(shown, dim=True)
    return shown.encode() + b"  " + body_of(message.record).rstrip(b"\n") + b"\n"


def _body(message: ReceivedMessage) -> bytes:
    return body_of(message.record) + b"\n"


def _raw(message: ReceivedMessage) -> bytes:
    return body_of(message.record)


def _json(message: ReceivedMessage) -> bytes:
    fields = json_of(message.record) | {"broker": message.queue.broker_name}
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


# The forms by name; a card is for the console.
FORMATS: dict[str, Callable[[ReceivedMessage], bytes] | None] = {
    "line": _line,
    "body": _body,
    "raw": _raw,
    "json": _json,
    "card": None,
}
