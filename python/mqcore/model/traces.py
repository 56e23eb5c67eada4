"""What became of one message: its sends, its stored copies and each delivery, out of trace lines.

Pure functions of values. Knows no connection, and not how any of it is shown.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from mqcore.model.trace_lines import AfterLine, BeforeLine, EndLine, Line, PubLine, RecallLine

__all__ = ["Delivery", "GroupTrace", "MessageTrace", "Reported", "StoredCopy", "trace_of"]

# Part of the id of a batch.
_BATCH_SEPARATOR: Final = ","
_Kind = TypeVar("_Kind", covariant=True)
_Own = TypeVar("_Own", PubLine, EndLine, RecallLine)


@dataclass(frozen=True, slots=True)
class Reported(Generic[_Kind]):
    """A line, and who wrote it.

    Attributes:
        line: The line.
        host: The address that it came to the broker from.
    """

    line: _Kind
    host: str


@dataclass(frozen=True, slots=True)
class StoredCopy:
    """One record of the message, as a broker has it.

    Attributes:
        topic: The topic it lies in: its own, a group's for retries, or one for dead letters.
        queue_id: Its queue.
        queue_offset: Messages before it in the queue.
        offset_id: The broker's id.
        store_host: The broker's address.
        stored_ms: When it was stored, Unix ms.
        reconsume_times: How often it had been tried.
    """

    topic: str
    queue_id: int
    queue_offset: int
    offset_id: str
    store_host: str
    stored_ms: int
    reconsume_times: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """One call of a consumer's handler with the message.

    Attributes:
        request_id: Names the call.
        host: The consumer's address.
        retry_times: How often the message had been tried; None where only its end was reported.
        began_ms: When it began, Unix ms; None where only its end was reported.
        cost_ms: How long it took; None while its end was not reported.
        is_ok: Whether the message was consumed; None while its end was not reported.
        result: How the call ended; empty where its end was not reported.
    """

    request_id: str
    host: str
    retry_times: int | None
    began_ms: int | None
    cost_ms: int | None
    is_ok: bool | None
    result: str


@dataclass(frozen=True, slots=True)
class GroupTrace:
    """What a consumer group did with the message.

    Attributes:
        group: Its name; empty where clients did not write it.
        deliveries: In the order of time.
        copies: The message in the group's topics for retries and dead letters, oldest first.
    """

    group: str
    deliveries: tuple[Delivery, ...]
    copies: tuple[StoredCopy, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageTrace:
    """One message, as far as it was traced.

    Attributes:
        message_id: The unique id.
        topic: Its topic; None where no line names it.
        tags: Its tag, None for none.
        keys: Its keys.
        sends: The sends of it, oldest first; more than one where a send was repeated.
        ends: The ends of its transaction, oldest first.
        recalls: Attempts to take it back, oldest first.
        copies: The message in its topic, oldest first.
        groups: What consumers did, by group.
    """

    message_id: str
    topic: str | None
    tags: str | None
    keys: tuple[str, ...]
    sends: tuple[Reported[PubLine], ...]
    ends: tuple[Reported[EndLine], ...]
    recalls: tuple[Reported[RecallLine], ...]
    copies: tuple[StoredCopy, ...]
    groups: tuple[GroupTrace, ...]


def trace_of(message_id: str, reported: Iterable[Reported[Line]]) -> MessageTrace | None:
    """Returns what lines report of a message; None where no line is about it.

    A line that came twice (a trace that was sent again) counts once. The stored copies are not in
    the lines: they are left out.

    Args:
        message_id: The unique id.
        reported: Lines of any messages, in any order.
    """
    own = [each for each in dict.fromkeys(reported) if _is_about(each.line, message_id)]
    if not own:
        return None
    sends, ends, recalls = _of(own, PubLine), _of(own, EndLine), _of(own, RecallLine)
    named: list[PubLine | EndLine] = [each.line for each in sends]
    named += [each.line for each in ends]
    topics = [*(line.topic for line in named), *(each.line.topic for each in recalls)]
    # The producer's keys come first.
    keys = [line.keys for line in (*named, *_of_consumers(own)) if line.keys]
    return MessageTrace(
        message_id=message_id,
        topic=topics[0] if topics else None,
        tags=next((line.tags for line in named if line.tags), None),
        keys=tuple(keys[0].split()) if keys else (),
        sends=sends,
        ends=ends,
        recalls=recalls,
        copies=(),
        groups=_groups(own),
    )


def _is_about(line: Line, message_id: str) -> bool:
    return message_id in line.message_id.split(_BATCH_SEPARATOR)


def _of(reported: Iterable[Reported[Line]], kind: type[_Own]) -> tuple[Reported[_Own], ...]:
    found = [Reported(each.line, each.host) for each in reported if isinstance(each.line, kind)]
    return tuple(sorted(found, key=lambda each: each.line.time_ms))


def _of_consumers(reported: Iterable[Reported[Line]]) -> list[BeforeLine | AfterLine]:
    return [each.line for each in reported if isinstance(each.line, BeforeLine | AfterLine)]


def _groups(reported: Iterable[Reported[Line]]) -> tuple[GroupTrace, ...]:
    """Joins the lines from before and after each delivery, by group."""
    begins: dict[str, Reported[BeforeLine]] = {}
    ends: dict[str, AfterLine] = {}
    hosts: dict[str, str] = {}
    for each in reported:
        if isinstance(each.line, BeforeLine):
            begins[each.line.request_id] = Reported(each.line, each.host)
        elif isinstance(each.line, AfterLine):
            ends[each.line.request_id] = each.line
            hosts[each.line.request_id] = each.host
    found: dict[str, list[Delivery]] = {}
    for request_id in dict.fromkeys((*begins, *ends)):
        begin, end = begins.get(request_id), ends.get(request_id)
        group = begin.line.group if begin else end.group if end else ""
        found.setdefault(group, []).append(
            Delivery(
                request_id=request_id,
                host=begin.host if begin else hosts[request_id],
                retry_times=begin.line.retry_times if begin else None,
                began_ms=begin.line.time_ms if begin else None,
                cost_ms=end.cost_ms if end else None,
                is_ok=end.is_ok if end else None,
                result=end.result if end else "",
            )
        )
    return tuple(
        GroupTrace(group, tuple(sorted(found[group], key=_when))) for group in sorted(found)
    )


def _when(delivery: Delivery) -> tuple[int, int]:
    # One of which only the end is known comes last.
    began_ms = delivery.began_ms
    return (0, began_ms) if began_ms is not None else (1, 0)
