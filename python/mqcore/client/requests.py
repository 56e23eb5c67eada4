"""Request and reply: a message that waits for another one, by correlation id.

After `DefaultMQProducerImpl.request` and `MessageUtil.createReplyMessage`. A reply comes back on
the connection that heartbeats, from the broker that the request went through.
"""

import asyncio
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mqcore.client import properties as names
from mqcore.client.message import Message, ReceivedMessage
from mqcore.client.properties import parse_properties
from mqcore.client.settings import BODY_BYTES_MAX
from mqcore.clock import wall_ms
from mqcore.errors import MessageError
from mqcore.native import Compression, decompress
from mqcore.native.errors import CompressionError
from mqcore.remoting.dispatch import Request

__all__ = ["Reply", "Waiting", "reply_of", "reply_properties", "request_properties"]

_COMPRESSED: Final = 0x1
_COMPRESSION_MASK: Final = 0x7
_REPLY_TOPIC_SUFFIX: Final = "_REPLY_TOPIC"
# A reply that inflates to more than any message may have is none.
_INFLATED_BYTES_MAX: Final = 16 * BODY_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Reply:
    """What a consumer replied.

    Attributes:
        body: The content.
        properties: All its properties.
        topic: The topic of replies that it came through.
        born_timestamp_ms: When it was sent, in ms since 1970 by the replier's clock.
        born_host: The replier's address.
        flag: The replier's number.
    """

    body: bytes
    properties: Mapping[str, str]
    topic: str
    born_timestamp_ms: int
    born_host: str
    flag: int

    @property
    def correlation_id(self) -> str:
        """What ties it to its request."""
        return self.properties.get(names.CORRELATION_ID, "")

    def body_text(self, encoding: str = "utf-8") -> str:
        """Returns the content as text.

        Raises:
            UnicodeDecodeError: It is none.
        """
        return self.body.decode(encoding)

    def json(self) -> Any:
        """Returns the value of a content that is JSON.

        Raises:
            ValueError: It is none.
        """
        return json.loads(self.body)


class Waiting:
    """Requests that wait for their reply, on one event loop."""

    def __init__(self) -> None:
        """Begins with none."""
        self._futures: dict[str, asyncio.Future[Reply]] = {}

    def begin(self, correlation_id: str) -> asyncio.Future[Reply]:
        """Returns what the reply to a request will resolve."""
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._futures[correlation_id] = future
        return future

    def end(self, correlation_id: str) -> None:
        """Waits no longer."""
        self._futures.pop(correlation_id, None)

    def take(self, correlation_id: str, request: Request) -> bool:
        """Gives a reply to who waits for it; returns whether somebody does.

        Raises:
            RefusedError: The broker's request cannot be read.
        """
        future = self._futures.get(correlation_id)
        if future is None or future.done():
            return False
        try:
            future.set_result(_read(request))
        except CompressionError as error:
            future.set_exception(error)
        return True


def request_properties(client_id: str, timeout_s: float) -> dict[str, str]:
    """Returns what makes a message a request: a new correlation id, who asks, for how long."""
    return {
        names.CORRELATION_ID: str(uuid.uuid4()),
        names.REPLY_TO_CLIENT: client_id,
        names.TTL: str(int(timeout_s * 1000)),
    }


def reply_of(request: ReceivedMessage, body: bytes | str) -> Message:
    """Returns the message that replies to a request that was received.

    Raises:
        MessageError: It is no request, or the broker did not name its cluster.
    """
    if not isinstance(request, ReceivedMessage):
        raise MessageError(f"a ReceivedMessage is expected, not {type(request).__name__}")
    cluster = request.properties.get(names.CLUSTER)
    if not request.properties.get(names.CORRELATION_ID):
        raise MessageError(f"message {request.message_id} of {request.topic} asks for no reply")
    if not cluster:
        raise MessageError(
            f"message {request.message_id} of {request.topic} cannot be replied to: its broker "
            "has not put its cluster's name into it"
        )
    return Message(cluster + _REPLY_TOPIC_SUFFIX, body)


def reply_properties(request: ReceivedMessage) -> dict[str, str]:
    """Returns what makes a message the reply to a request."""
    copied = (names.CORRELATION_ID, names.REPLY_TO_CLIENT, names.TTL)
    found = {name: request.properties[name] for name in copied if name in request.properties}
    return found | {names.MSG_TYPE: "reply"}


def _read(request: Request) -> Reply:
    sys_flag = request.integer("sysFlag", 0)
    body = request.body
    if sys_flag & _COMPRESSED:
        kind = sys_flag >> 8 & _COMPRESSION_MASK
        body = decompress(body, Compression(kind or Compression.ZLIB), _INFLATED_BYTES_MAX)
    properties = parse_properties(request.ext.get("properties", ""))
    properties[names.ARRIVE_TIME] = str(wall_ms())
    return Reply(
        body=body,
        properties=properties,
        topic=request.ext.get("topic", ""),
        born_timestamp_ms=request.integer("bornTimestamp", 0),
        born_host=request.ext.get("bornHost", ""),
        flag=request.integer("flag", 0),
    )
