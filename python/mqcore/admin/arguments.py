"""Arguments of administrative requests, checked before anything is sent. Knows no request."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mqcore.client.option_values import fault_of
from mqcore.errors import UsageError, UsageReason
from mqcore.model.queues import MessageQueue
from mqcore.model.topics import group_fault, topic_fault

__all__ = [
    "INT_MAX",
    "LONG_MAX",
    "group_name",
    "group_text",
    "lines_of",
    "of_queue",
    "of_type",
    "texts_of",
    "topic_name",
    "topic_text",
    "unix_ms",
    "whole",
]

# What Java has for most numbers, and for times.
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MS: Final = timedelta(milliseconds=1)
_SHOWN_CHARS_MAX: Final = 200


def of_type(name: str, value: object, kind: Any) -> None:
    """Refuses a value that is not of a type; see `mqcore.client.option_values.fault_of`.

    Raises:
        UsageError: It is not.
    """
    fault = fault_of(value, kind)
    if fault is not None:
        raise UsageError(f"{name}: {fault}")


def of_queue(queue: object) -> None:
    """Refuses what is no queue.

    Raises:
        UsageError: It is none.
    """
    if not isinstance(queue, MessageQueue):
        raise UsageError(
            f"queue: a mqcore.QueueRef is expected, such as `queue` of a SendResult or of a row of "
            f"`topics.stats(...).queues`, not {type(queue).__name__}"
        )


def texts_of(name: str, values: Iterable[str]) -> list[str]:
    """Returns several texts; one text alone is an iterable of letters, and meant otherwise.

    Raises:
        UsageError: It is one text, no iterable, or one of them is no text.
    """
    if isinstance(values, str):
        shown = values[:_SHOWN_CHARS_MAX].replace('"', "")
        raise UsageError(f'{name}: several are expected, not one str: {name}=["{shown}"]')
    if isinstance(values, bytes | Mapping) or not isinstance(values, Iterable):
        raise UsageError(
            f'{name}: several str are expected, such as {name}=["..."], not {type(values).__name__}'
        )
    found = list(values)
    for each in found:
        of_type(name, each, str)
    return found


def lines_of(name: str, values: Mapping[str, str]) -> list[str]:
    """Returns `key=value` lines.

    Raises:
        UsageError: It is no mapping, or one of its texts has a line break.
    """
    if not isinstance(values, Mapping):
        raise UsageError(
            f'{name}: a mapping such as {{"key": "value"}} is expected, not {type(values).__name__}'
        )
    lines = [f"{key}={value}" for key, value in values.items()]
    for line in lines:
        if len(line.splitlines()) > 1:
            raise UsageError(f"{name}: {line[:_SHOWN_CHARS_MAX]!r} has a line break")
    return lines


def whole(name: str, value: int, low: int = 0, high: int = INT_MAX) -> None:
    """Refuses what is no whole number, or out of bounds.

    Raises:
        UsageError: It is.
    """
    of_type(name, value, int)
    if value < low:
        raise UsageError(f"{name}: {value} is below {low}")
    if value > high:
        raise UsageError(f"{name}: {value} is above {high}")


def unix_ms(name: str, value: int | datetime, low: int = 0) -> int:
    """Returns a time in Unix ms.

    Args:
        name: The parameter.
        value: Unix ms, or a `datetime` with a time zone.
        low: The first number that is allowed.

    Raises:
        UsageError: It is none of both, or before 1970.
    """
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise UsageError(
                f"{name}: {value.isoformat()} has no time zone: `.astimezone()` makes it one of "
                "this machine's, `.replace(tzinfo=datetime.UTC)` one of UTC"
            )
        value = (value - _EPOCH) // _MS
    elif fault_of(value, int) is not None:
        shown = repr(value) if isinstance(value, int | float | str) else type(value).__name__
        raise UsageError(
            f"{name}: Unix ms as an int, or a datetime with a time zone, is expected, "
            f"not {shown[:_SHOWN_CHARS_MAX]}"
        )
    whole(name, value, low, LONG_MAX)
    return value


def topic_text(topic: str) -> None:
    """Refuses what cannot be the name of any topic, legal or not: it is asked for, not made.

    Raises:
        UsageError: It is no text, or blank.
    """
    of_type("topic", topic, str)
    if not topic.strip():
        raise UsageError(f"topic {topic[:_SHOWN_CHARS_MAX]!r}: {topic_fault(topic)}")


def topic_name(topic: str) -> None:
    """Refuses what is no legal name for a topic.

    Raises:
        UsageError: It is none.
    """
    of_type("topic", topic, str)
    fault = topic_fault(topic)
    if fault is not None:
        raise UsageError(f"topic {topic[:_SHOWN_CHARS_MAX]!r}: {fault}")


def group_text(group: str) -> None:
    """Refuses what cannot be the name of any group, legal or not: it is asked for, not made.

    Raises:
        UsageError: It is no text, or blank.
    """
    of_type("group", group, str)
    if not group.strip():
        raise _group_error(group, group_fault(group))


def group_name(group: str) -> None:
    """Refuses what is no legal name for a group.

    Raises:
        UsageError: It is none.
    """
    of_type("group", group, str)
    fault = group_fault(group)
    if fault is not None:
        raise _group_error(group, fault)


def _group_error(group: str, fault: str | None) -> UsageError:
    shown = group[:_SHOWN_CHARS_MAX]
    return UsageError(f"group {shown!r}: {fault}", group=group, reason=UsageReason.GROUP)
