"""What texts of forms and URLs mean: numbers, times, queues. Pure functions."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from mqcore.console.views import InputError
from mqcore.model.queues import MessageQueue

__all__ = ["named_queue", "number_within", "queue_text", "time_of"]

_QUEUE: Final = re.compile(r"(.+):(\d{1,9})")
# Unix ms of the year 9999 has fifteen digits.
_LONG: Final = re.compile(r"\d{1,18}")


def number_within(form: Mapping[str, str], name: str, default: str, low: int, high: int) -> int:
    """Returns a whole number of a form.

    Args:
        form: The form.
        name: Its field.
        default: The text that counts where the field is not there.
        low: The least.
        high: The most.

    Raises:
        InputError: It is none, or not within the bounds.
    """
    text = form.get(name, default).strip()
    if not text.isdecimal() or not low <= int(text[:9]) <= high:
        raise InputError(f"{name}: a number from {low} to {high} is expected")
    return int(text)


def named_queue(topic: str, text: str) -> MessageQueue:
    """Returns the queue of a topic that `BROKER:ID` names.

    Raises:
        InputError: It names none.
    """
    found = _QUEUE.fullmatch(text.strip())
    if found is None:
        raise InputError(f"queue {text[:100]!r}: BROKER:ID is expected, such as broker-a:3")
    return MessageQueue(topic, found[1], int(found[2]))


def queue_text(queue: MessageQueue) -> str:
    """Returns a queue as `named_queue` reads it."""
    return f"{queue.broker_name}:{queue.queue_id}"


def time_of(text: str) -> int:
    """Returns the time that a text names: UTC, as `2024-05-01T10:00`, or Unix ms.

    Raises:
        InputError: It names none.
    """
    text = text.strip()
    if _LONG.fullmatch(text):
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(
            f"time {text[:100]!r}: such as 2024-05-01T10:00 (UTC) is expected"
        ) from error
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return int(at.timestamp() * 1_000)
