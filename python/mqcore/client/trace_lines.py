"""Lines of the message trace, as the official client writes them: pure functions of their fields.

After `TraceDataEncoder`, for the channel LOCAL. Knows no message, no topic and no connection.
"""

from typing import Final

__all__ = [
    "COMMIT",
    "DELAYED",
    "HALF",
    "NORMAL",
    "end_transaction_line",
    "pub_line",
    "sub_after_line",
    "sub_before_line",
]

_CONTENT: Final = "\x01"
_FIELD: Final = "\x02"
# `MessageType` by its ordinal.
NORMAL, HALF, COMMIT, DELAYED = 0, 1, 2, 3


def _line(kind: str, *fields: object) -> str:
    # Java writes null as a word, and truth values in lower case.
    texts = ("null" if item is None else str(item) for item in fields)
    return _CONTENT.join((kind, *texts)) + _FIELD


def pub_line(
    *,
    began_ms: int,
    region_id: str,
    group: str,
    topic: str,
    message_id: str,
    tags: str | None,
    keys: str | None,
    address: str,
    body_bytes: int,
    cost_ms: int,
    message_type: int,
    offset_message_id: str,
    is_ok: bool,
) -> str:
    """Returns the line of a send.

    Args:
        began_ms: When it began, in ms since 1970.
        region_id: The broker's region.
        group: The producer's group, without the namespace.
        topic: The topic, without the namespace.
        message_id: The unique id.
        tags: The tag.
        keys: The keys, with blanks between.
        address: The broker's address.
        body_bytes: How long the body was, as it was sent.
        cost_ms: How long it took.
        message_type: The ordinal of `MessageType`.
        offset_message_id: The broker's id.
        is_ok: Whether the status is SEND_OK.
    """
    ok = "true" if is_ok else "false"
    return _line(
        "Pub",
        *(began_ms, region_id, group, topic, message_id, tags, keys, address),
        *(body_bytes, cost_ms, message_type, offset_message_id, ok),
    )


def sub_before_line(
    *,
    now_ms: int,
    region_id: str | None,
    group: str,
    request_id: str,
    message_id: str,
    retry_times: int,
    keys: str | None,
) -> str:
    """Returns the line of a message that a consumer is about to be given."""
    return _line("SubBefore", now_ms, region_id, group, request_id, message_id, retry_times, keys)


def sub_after_line(
    *,
    request_id: str,
    message_id: str,
    cost_ms: int,
    is_ok: bool,
    keys: str | None,
    context_code: int,
    now_ms: int,
    group: str,
) -> str:
    """Returns the line of a message that a consumer was given.

    Args:
        request_id: The id that its SubBefore line has.
        message_id: The unique id.
        cost_ms: How long it took.
        is_ok: Whether it was consumed.
        keys: The keys, with blanks between.
        context_code: The ordinal of `ConsumeReturnType`.
        now_ms: Now, in ms since 1970.
        group: The consumer's group, without the namespace.
    """
    ok = "true" if is_ok else "false"
    fields = (request_id, message_id, cost_ms, ok, keys, context_code, now_ms, group)
    return _line("SubAfter", *fields)


def end_transaction_line(
    *,
    now_ms: int,
    region_id: str,
    group: str,
    topic: str,
    message_id: str,
    tags: str | None,
    keys: str | None,
    address: str,
    transaction_id: str | None,
    state: str,
    is_from_check: bool,
) -> str:
    """Returns the line of a transaction that was ended.

    Args:
        now_ms: Now, in ms since 1970.
        region_id: The broker's region.
        group: The producer's group, without the namespace.
        topic: The topic, without the namespace.
        message_id: The unique id.
        tags: The tag.
        keys: The keys, with blanks between.
        address: The broker's address.
        transaction_id: The transaction.
        state: `COMMIT_MESSAGE`, `ROLLBACK_MESSAGE` or `UNKNOW`.
        is_from_check: Whether the broker had asked.
    """
    checked = "true" if is_from_check else "false"
    return _line(
        "EndTransaction",
        *(now_ms, region_id, group, topic, message_id, tags, keys, address),
        *(COMMIT, transaction_id, state, checked),
    )
