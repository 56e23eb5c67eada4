"""From a message to what is sent of it: properties, compression, the fields of the header. Pure.

After the official `DefaultMQProducerImpl.sendKernelImpl` and `Validators`. Knows no queue yet, and
no broker.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mqcore.client import properties as names
from mqcore.client.message import Message
from mqcore.client.properties import properties_text
from mqcore.client.settings import ProducerSettings
from mqcore.errors import MessageError, MessageReason
from mqcore.model.queues import MessageQueue
from mqcore.model.topics import AUTO_CREATE_TOPIC, UNSENDABLE_TOPICS
from mqcore.native import compress
from mqcore.remoting.request_codes import RequestCode

__all__ = [
    "PROPERTIES_BYTES_MAX",
    "SEND",
    "SEND_BATCH",
    "SEND_FIELDS",
    "SEND_REPLY",
    "TRANSACTION_PREPARED",
    "Outgoing",
    "check_sendable",
    "outgoing_of",
    "send_fields",
    "send_values",
]

# A record keeps the length of its properties in a signed word of two bytes.
PROPERTIES_BYTES_MAX: Final = 32767
SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
SEND_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
SEND_REPLY: Final = int(RequestCode.SEND_REPLY_MESSAGE_V2)
# The letters of the second version: group, topic, template, its queues, queue, system flag, born
# at, flag, properties, reconsume times, unit mode, most reconsume times, batch, broker's name.
SEND_FIELDS: Final = tuple("abcdefghijklmn")
_COMPRESSED: Final = 0x1
TRANSACTION_PREPARED: Final = 0x4
_COMPRESSION_SHIFT: Final = 8


@dataclass(slots=True)
class Outgoing:
    """What is sent of a message, whichever queue it goes to.

    Attributes:
        topic: The topic, its namespace included.
        body: The body as it is sent.
        properties: The properties as one text.
        message_id: The unique id; of a batch all of them, joined by commas.
        born_ms: When it was made ready, in ms since 1970.
        code: The request that carries it.
        sys_flag: Compression and transaction bits.
        flag: The user's number.
        is_batch: Whether the body holds several messages.
        reconsume_times: Of a message that a consumer sends back by itself.
        max_reconsume_times: The bound of these, or None.
    """

    topic: str
    body: bytes
    properties: str
    message_id: str
    born_ms: int
    code: int = SEND
    sys_flag: int = 0
    flag: int = 0
    is_batch: bool = False
    reconsume_times: int = 0
    max_reconsume_times: int | None = None


def check_sendable(message: Message, settings: ProducerSettings) -> None:
    """Checks what the official client checks before it sends.

    Raises:
        MessageError: The message cannot be sent.
    """
    if type(message) is not Message and not isinstance(message, Message):
        raise MessageError(f"a mqcore.Message is expected, not {type(message).__name__}")
    size = len(message.body)
    if size == 0:
        raise MessageError(f"topic {message.topic}: the body is empty")
    if size > settings.body_bytes_max:
        raise MessageError(
            f"topic {message.topic}: the body has {size} bytes, of {settings.body_bytes_max} that "
            "may be sent: send parts, or raise body_bytes_max and the broker's maxMessageSize",
            size_bytes=size,
            limit_bytes=settings.body_bytes_max,
            reason=MessageReason.TOO_LARGE,
        )
    if message.topic in UNSENDABLE_TOPICS:
        raise MessageError(f"topic {message.topic}: nobody but the broker may send to it")


def outgoing_of(
    message: Message,
    *,
    topic: str,
    message_id: str,
    born_ms: int,
    settings: ProducerSettings,
    instance_id: str = "",
    more: Mapping[str, str] | None = None,
    sys_flag: int = 0,
) -> Outgoing:
    """Returns what is sent of a message that was checked.

    Args:
        message: The message.
        topic: The topic, its namespace included.
        message_id: Its unique id.
        born_ms: The wall clock.
        settings: The producer's settings.
        instance_id: The namespace, empty for none.
        more: Further properties, which the client sets itself.
        sys_flag: Transaction bits.

    Raises:
        MessageError: The properties are too long.
    """
    text = message.properties_text
    if more:
        text += properties_text(more)
    if instance_id:
        text += f"{names.INSTANCE_ID}\x01{instance_id}\x02"
    text += f"{names.UNIQ_KEY}\x01{message_id}\x02"
    # One character is four bytes at the most: short texts are not encoded to be measured.
    if len(text) * 4 > PROPERTIES_BYTES_MAX:
        check_properties(message.topic, text)
    body = message.body
    threshold = settings.compress_above_bytes
    if threshold is not None and len(body) >= threshold:
        small = compress(body, settings.algorithm, settings.compression_level)
        if len(small) < len(body):
            body = small
            sys_flag |= _COMPRESSED | settings.algorithm << _COMPRESSION_SHIFT
    is_reply = more is not None and names.MSG_TYPE in more
    code = SEND_REPLY if is_reply else SEND
    return Outgoing(topic, body, text, message_id, born_ms, code, sys_flag, message.flag)


def check_properties(topic: str, text: str) -> None:
    """Checks that properties fit into a record.

    Raises:
        MessageError: They do not.
    """
    size = len(text.encode())
    if size > PROPERTIES_BYTES_MAX:
        raise MessageError(
            f"topic {topic}: tags, keys and properties have {size} bytes together, of "
            f"{PROPERTIES_BYTES_MAX} that a message can carry",
            size_bytes=size,
            limit_bytes=PROPERTIES_BYTES_MAX,
            reason=MessageReason.TOO_LARGE,
        )


def send_values(
    outgoing: Outgoing, queue: MessageQueue, group: str, default_queues: int
) -> tuple[str | int | None, ...]:
    """Returns the values of `SEND_FIELDS`, of SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE.

    Args:
        outgoing: What is sent.
        queue: Where to.
        group: The producer's group, the namespace included.
        default_queues: Queues of a topic that the broker makes for it.
    """
    return (
        group,
        outgoing.topic,
        AUTO_CREATE_TOPIC,
        default_queues,
        queue.queue_id,
        outgoing.sys_flag,
        outgoing.born_ms,
        outgoing.flag,
        outgoing.properties,
        outgoing.reconsume_times,
        "false",
        outgoing.max_reconsume_times,
        "true" if outgoing.is_batch else "false",
        queue.broker_name,
    )


def send_fields(
    outgoing: Outgoing, queue: MessageQueue, group: str, default_queues: int
) -> dict[str, str]:
    """Returns the header's fields by name, for whoever must change them."""
    values = send_values(outgoing, queue, group, default_queues)
    pairs = zip(SEND_FIELDS, values, strict=True)
    return {name: str(value) for name, value in pairs if value is not None}
