"""Several messages as the body of one request. Pure functions of values.

Parts are laid side by side: total length, magic 0, CRC 0, flag, body with its length in four bytes,
properties with theirs in two. The broker makes a record of each, in a row in one queue.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from mqcore.client.identity import UniqueIds
from mqcore.client.message import Message
from mqcore.client.outgoing import SEND_BATCH, Outgoing, check_properties
from mqcore.client.properties import INSTANCE_ID, UNIQ_KEY
from mqcore.client.settings import ProducerSettings
from mqcore.errors import MessageError, MessageReason, RecordError
from mqcore.model.topics import RETRY_PREFIX
from mqcore.native import encode_parts

__all__ = [
    "PARTS_MAX",
    "PART_BYTES",
    "batch_fault",
    "batch_of",
    "check_batchable",
    "part_bytes",
    "split",
]

# A record of a batch counts its messages, and their offsets in a queue, in two bytes with a sign.
PARTS_MAX: Final = 32767
# What a part costs beside its body and the user's properties: lengths, and the unique id.
PART_BYTES: Final = 22 + 42


def batch_fault(message: Message) -> str | None:
    """Returns why a message cannot be part of a batch; None where it can."""
    if message.is_delayed:
        return "a delayed message cannot be part of a batch: send it alone"
    if message.topic.startswith(RETRY_PREFIX):
        return "a message of a retry topic cannot be part of a batch: send it alone"
    return None


def check_batchable(messages: Sequence[Message]) -> None:
    """Checks that messages may be sent together.

    Raises:
        MessageError: They may not.
    """
    if not messages:
        raise MessageError("a batch needs at least one message")
    first = messages[0]
    for message in messages:
        fault = batch_fault(message)
        if fault is not None:
            raise MessageError(f"topic {message.topic}: {fault}")
        if message.topic != first.topic:
            raise MessageError(
                f"a batch is of one topic: {first.topic} and {message.topic} are two"
            )
        if message.waits_stored != first.waits_stored:
            raise MessageError(
                f"topic {first.topic}: a batch waits to be stored, or does not; both were asked for"
            )


def part_bytes(message: Message) -> int:
    """Returns an upper bound of what a message takes in a batch, in bytes."""
    # A character is four bytes at the most.
    return PART_BYTES + len(message.body) + 4 * len(message.properties_text)


def split(messages: Sequence[Message], limit_bytes: int) -> Iterator[Sequence[Message]]:
    """Yields runs of messages that fit into one request each, in order.

    Args:
        messages: The messages, each of them short enough.
        limit_bytes: The most that a request's body may have; `PARTS_MAX` bounds it too.
    """
    begin, size = 0, 0
    for at, message in enumerate(messages):
        more = part_bytes(message)
        is_full = size + more > limit_bytes or at - begin == PARTS_MAX
        if size and is_full:
            yield messages[begin:at]
            begin, size = at, 0
        size += more
    if begin < len(messages):
        yield messages[begin:]


def batch_of(
    messages: Sequence[Message],
    *,
    topic: str,
    ids: UniqueIds,
    born_ms: int,
    settings: ProducerSettings,
    instance_id: str = "",
) -> Outgoing:
    """Returns what is sent of messages that were checked.

    Args:
        messages: The messages, of one topic.
        topic: The topic, its namespace included.
        ids: Gives each its unique id.
        born_ms: The wall clock.
        settings: The producer's settings.
        instance_id: The namespace, empty for none.

    Raises:
        MessageError: A message's properties, or all together, are too long.
    """
    tail = f"{INSTANCE_ID}\x01{instance_id}\x02" if instance_id else ""
    count = len(messages)
    lead, first = ids.take(count + settings.batch_keys, born_ms)
    try:
        parts = encode_parts(list(messages), lead, first, tail)
    except RecordError as error:
        for message in messages:
            check_properties(message.topic, message.properties_text + tail)
        raise MessageError(f"topic {topic}: {error.message}") from error
    len_bytes = len(parts.body)
    if len_bytes > settings.body_bytes_max:
        raise MessageError(
            f"topic {topic}: a batch of {len(messages)} messages has {len_bytes} bytes, of "
            f"{settings.body_bytes_max} that may be sent",
            size_bytes=len_bytes,
            limit_bytes=settings.body_bytes_max,
            reason=MessageReason.TOO_LARGE,
        )
    text = "" if messages[0].waits_stored else "WAIT\x01false\x02"
    if settings.batch_keys:
        text += f"{UNIQ_KEY}\x01{lead}{first + count & 0xFFFF:04X}\x02"
    return Outgoing(
        topic,
        parts.body,
        text,
        parts.ids,
        born_ms,
        code=SEND_BATCH,
        is_batch=True,
    )
