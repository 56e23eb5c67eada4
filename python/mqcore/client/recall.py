"""Taking a timed message back: what its handle contains, and the request (`RecallMessageHandle`).

A handle is base64 of `v1 TOPIC BROKER TIME KEY`; a broker of 5.3.2 and later gives one with the
answer to the send of a timed message.
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Final, Self

from mqcore.client.instance import Instance
from mqcore.errors import MessageError, NoRouteError, ResponseError
from mqcore.remoting.client import way_out
from mqcore.remoting.request_codes import RequestCode

__all__ = ["RecallHandle", "recall"]

_VERSION: Final = "v1"
_PARTS: Final = 5
_SHOWN_CHARS: Final = 64


@dataclass(frozen=True, slots=True)
class RecallHandle:
    """What a handle contains.

    Attributes:
        topic: The topic, as brokers know it.
        broker_name: Who keeps the message.
        deliver_at_ms: When it is due, Unix ms.
        message_id: Its unique id.
    """

    topic: str
    broker_name: str
    deliver_at_ms: int
    message_id: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Returns what a handle contains.

        Raises:
            MessageError: It is none.
        """
        if not isinstance(text, str):
            raise MessageError(
                f"a recall handle as str is expected, not {type(text).__name__}: brokers give one "
                "for timed messages (delay=, deliver_at=) alone, from 5.3.2 on"
            )
        try:
            padded = text.encode("ascii") + b"=" * (-len(text) % 4)
            parts = base64.b64decode(padded, altchars=b"-_", validate=True).decode().split(" ")
            version, topic, broker_name, deliver_at, message_id = parts[:_PARTS]
            found = cls(topic, broker_name, int(deliver_at), message_id)
        except (ValueError, binascii.Error) as error:
            raise cls._none(text, "it cannot be read") from error
        if version != _VERSION:
            raise cls._none(text, f"version {version[:8]!r} is not known")
        return found

    @property
    def text(self) -> str:
        """The handle as a broker gives it."""
        parts = (_VERSION, self.topic, self.broker_name, str(self.deliver_at_ms), self.message_id)
        return base64.urlsafe_b64encode(" ".join(parts).encode()).decode()

    @staticmethod
    def _none(text: str, why: str) -> MessageError:
        shown = text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
        return MessageError(
            f"{shown!r} is no recall handle ({why}): give the recall_handle of a send's result"
        )


async def recall(instance: Instance, group: str, handle: str, timeout_s: float) -> str:
    """Asks the broker that keeps a timed message not to deliver it.

    Args:
        instance: The client.
        group: The producer's group, as brokers know it.
        handle: The handle.
        timeout_s: The deadline, in seconds.

    Returns:
        The unique id of the message.

    Raises:
        MessageError: It is no handle.
        NoRouteError: The broker is not known.
        ResponseError: The broker refused: recalls are switched off, or it is too late.
        RemotingError: It did not answer.
    """
    parsed = RecallHandle.parse(handle)
    await instance.route(parsed.topic, has_template=True)
    address = instance.address_of(parsed.broker_name)
    if address is None:
        raise NoRouteError(
            f"topic {parsed.topic}: broker {parsed.broker_name}, which keeps message "
            f"{parsed.message_id}, is not in its route: it is gone, or the handle is another "
            "cluster's",
            topic=parsed.topic,
        )
    ext = {"producerGroup": group, "topic": parsed.topic, "recallHandle": handle}
    ext["bname"] = parsed.broker_name
    answer = await instance.call(address, RequestCode.RECALL_MESSAGE, ext, timeout_s=timeout_s)
    if answer.code != 0:
        raise ResponseError(
            f"{address} did not recall message {parsed.message_id} of topic {parsed.topic}: "
            f"{answer.code} {answer.remark}{way_out(answer.remark or '')}",
            address=address,
            code=answer.code,
            remark=answer.remark or "",
        )
    return answer.ext.get("msgId") or parsed.message_id
