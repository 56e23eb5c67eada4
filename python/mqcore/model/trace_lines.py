"""Lines of the message trace read back, as clients of all versions write them.

After `TraceDataEncoder.decoderFromTraceDataString`; pure functions of text. What cannot be read is
passed over: a trace topic takes lines from anybody. Knows no message and no connection.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

__all__ = [
    "DELIVERY_RESULTS",
    "SEND_KINDS",
    "AfterLine",
    "BeforeLine",
    "EndLine",
    "Line",
    "PubLine",
    "RecallLine",
    "lines_of",
]

_CONTENT: Final = "\x01"
_FIELD: Final = "\x02"
# `MessageType` and `ConsumeReturnType` by their ordinals.
SEND_KINDS: Final = ("normal", "half", "commit", "delayed", "ordered")
DELIVERY_RESULTS: Final = ("SUCCESS", "TIME_OUT", "EXCEPTION", "RETURN_NULL", "FAILED")


@dataclass(frozen=True, slots=True)
class PubLine:
    """A send (`Pub`).

    Attributes:
        time_ms: When it began, Unix ms.
        region: The broker's region.
        group: The producer's group.
        topic: The topic.
        message_id: The unique id; of a batch all of them, with commas between.
        tags: The tag, None for none.
        keys: The keys, with blanks between, None for none.
        address: The broker's address.
        body_bytes: How long the body was, as it was sent.
        cost_ms: How long the send took.
        kind: What it was: one of `SEND_KINDS`, or a number.
        offset_id: The broker's id; empty where the client was too old to write it.
        is_ok: Whether it was acknowledged.
    """

    time_ms: int
    region: str | None
    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: str | None
    address: str
    body_bytes: int
    cost_ms: int
    kind: str
    offset_id: str
    is_ok: bool


@dataclass(frozen=True, slots=True)
class BeforeLine:
    """A message that a consumer is about to be given (`SubBefore`).

    Attributes:
        time_ms: When, Unix ms.
        region: The broker's region.
        group: The consumer's group.
        request_id: Names the call; its `AfterLine` has it too.
        message_id: The unique id.
        retry_times: How often it was tried before.
        keys: The keys, with blanks between, None for none.
    """

    time_ms: int
    region: str | None
    group: str
    request_id: str
    message_id: str
    retry_times: int
    keys: str | None


@dataclass(frozen=True, slots=True)
class AfterLine:
    """A message that a consumer was given (`SubAfter`).

    Attributes:
        request_id: Names the call.
        message_id: The unique id.
        cost_ms: Its part of how long the call took.
        is_ok: Whether it was consumed.
        keys: The keys, with blanks between, None for none.
        result: How the call ended: one of `DELIVERY_RESULTS`; empty where the client was too old
            to write it.
        time_ms: When it was written, Unix ms; 0 where the client did not write it.
        group: The consumer's group; empty where the client did not write it.
    """

    request_id: str
    message_id: str
    cost_ms: int
    is_ok: bool
    keys: str | None
    result: str
    time_ms: int
    group: str


@dataclass(frozen=True, slots=True)
class EndLine:
    """A transaction that was ended (`EndTransaction`).

    Attributes:
        time_ms: When, Unix ms.
        region: The broker's region.
        group: The producer's group.
        topic: The topic.
        message_id: The unique id.
        tags: The tag, None for none.
        keys: The keys, with blanks between, None for none.
        address: The broker's address.
        transaction_id: The transaction.
        state: `COMMIT_MESSAGE`, `ROLLBACK_MESSAGE` or `UNKNOW`.
        is_from_check: Whether the broker had asked.
    """

    time_ms: int
    region: str | None
    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: str | None
    address: str
    transaction_id: str | None
    state: str
    is_from_check: bool


@dataclass(frozen=True, slots=True)
class RecallLine:
    """A timed message that was taken back (`Recall`).

    Attributes:
        time_ms: When, Unix ms.
        region: The broker's region.
        group: The producer's group.
        topic: The topic.
        message_id: The unique id.
        is_ok: Whether the broker took it back.
    """

    time_ms: int
    region: str | None
    group: str
    topic: str
    message_id: str
    is_ok: bool


Line = PubLine | BeforeLine | AfterLine | EndLine | RecallLine


def lines_of(body: bytes) -> Iterator[Line]:
    """Yields the lines of one trace message, in order."""
    for text in body.decode(errors="replace").split(_FIELD):
        kind, *fields = text.split(_CONTENT)
        read = _READERS.get(kind)
        if read is None:
            continue
        try:
            line = read(fields)
        except (IndexError, ValueError):
            continue
        yield line


def _pub(fields: list[str]) -> PubLine:
    # The broker's id came before the last field; clients of 5.x with one more field name
    # themselves behind it.
    has_offset_id = len(fields) >= 13
    return PubLine(
        time_ms=int(fields[0]),
        region=_word(fields[1]),
        group=fields[2],
        topic=fields[3],
        message_id=fields[4],
        tags=_word(fields[5]),
        keys=_word(fields[6]),
        address=fields[7],
        body_bytes=int(fields[8]),
        cost_ms=int(fields[9]),
        kind=_named(SEND_KINDS, fields[10]),
        offset_id=(_word(fields[11]) or "") if has_offset_id else "",
        is_ok=_is_true(fields[12] if has_offset_id else fields[11]),
    )


def _before(fields: list[str]) -> BeforeLine:
    return BeforeLine(
        time_ms=int(fields[0]),
        region=_word(fields[1]),
        group=fields[2],
        request_id=fields[3],
        message_id=fields[4],
        retry_times=int(fields[5]),
        keys=_word(fields[6]),
    )


def _after(fields: list[str]) -> AfterLine:
    # Each of the two came with a later version of the client.
    has_result, has_time = len(fields) >= 6, len(fields) >= 8
    return AfterLine(
        request_id=fields[0],
        message_id=fields[1],
        cost_ms=int(fields[2]),
        is_ok=_is_true(fields[3]),
        keys=_word(fields[4]),
        result=_named(DELIVERY_RESULTS, fields[5]) if has_result and fields[5] else "",
        time_ms=int(fields[6]) if has_time else 0,
        group=fields[7] if has_time else "",
    )


def _end(fields: list[str]) -> EndLine:
    return EndLine(
        time_ms=int(fields[0]),
        region=_word(fields[1]),
        group=fields[2],
        topic=fields[3],
        message_id=fields[4],
        tags=_word(fields[5]),
        keys=_word(fields[6]),
        address=fields[7],
        transaction_id=_word(fields[9]),
        state=fields[10],
        is_from_check=_is_true(fields[11]),
    )


def _recall(fields: list[str]) -> RecallLine:
    return RecallLine(
        time_ms=int(fields[0]),
        region=_word(fields[1]),
        group=fields[2],
        topic=fields[3],
        message_id=fields[4],
        is_ok=_is_true(fields[5]),
    )


_READERS: Final[Mapping[str, Callable[[list[str]], Line]]] = {
    "Pub": _pub,
    "SubBefore": _before,
    "SubAfter": _after,
    "EndTransaction": _end,
    "Recall": _recall,
}


def _word(text: str) -> str | None:
    # Java writes null as a word.
    return None if text in ("null", "") else text


def _is_true(text: str) -> bool:
    return text.lower() == "true"


def _named(names: tuple[str, ...], text: str) -> str:
    number = int(text)
    return names[number] if 0 <= number < len(names) else text
