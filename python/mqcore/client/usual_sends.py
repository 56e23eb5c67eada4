"""The first try of usual sends: a message alone, as it is, to a broker that is connected.

It makes no object of a try but the future of its answer: with many sends in flight these objects
would cost more than the sends. Whatever is not usual (a body to be compressed, hooks, faults,
credentials, no connection, no space on it) and whatever comes after a first try is `sender`'s.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from mqcore.client.identity import UniqueIds
from mqcore.client.message import Message
from mqcore.client.outgoing import PROPERTIES_BYTES_MAX, SEND, Outgoing, outgoing_of
from mqcore.client.properties import INSTANCE_ID, UNIQ_KEY
from mqcore.client.results import QueueRef, SendResult, SendStatus
from mqcore.client.sender import Sender, late_error
from mqcore.client.topics import Target
from mqcore.clock import monotonic_ms, wall_ms
from mqcore.errors import RemotingError
from mqcore.model.topics import AUTO_CREATE_TOPIC
from mqcore.native import Command, SendAnswer
from mqcore.remoting.link import Asked, Link

__all__ = ["UsualSends"]

_MS_PER_S: Final = 1000
# Properties of more characters may be too long: a character is four bytes at the most, and the
# unique id and the namespace are put behind them.
_TEXT_LEN_MAX: Final = PROPERTIES_BYTES_MAX // 4 - 1024
# Larger bodies gain nothing here, and would make the space for all frames of a turn large.
_BODY_LEN_MAX: Final = 16 << 10
_SEND_OK: Final = SendStatus.SEND_OK


class UsualSends:
    """Sends messages of one producer, each alone."""

    def __init__(
        self, sender: Sender, ids: UniqueIds, prepared: Callable[[Target, Message], Outgoing]
    ) -> None:
        """Takes what it sends with.

        Args:
            sender: Makes every other try.
            ids: Gives each message its unique id.
            prepared: Makes of a message what is sent where it is not usual.
        """
        self._sender = sender
        self._ids = ids
        self._prepared = prepared
        instance = sender.instance
        namespace = instance.namespace
        instance_id = f"{INSTANCE_ID}\x01{namespace}\x02" if namespace else ""
        self._form = sender.forms[SEND]
        # What is between the user's properties and the unique id.
        self._before_id = f"{instance_id}{UNIQ_KEY}\x01"
        self._is_usual = sender.faults is None and instance.credentials is None
        threshold = sender.settings.compress_above_bytes
        self._body_len_max = (
            _BODY_LEN_MAX if threshold is None else min(_BODY_LEN_MAX, threshold - 1)
        )

    async def send(
        self,
        target: Target,
        message: Message,
        *,
        timeout_s: float | None,
        fixed: QueueRef | None,
        began_ms: int | None = None,
    ) -> SendResult:
        """Sends a checked message until it is acknowledged or given up.

        Cancelling forgets the answer; the message may be stored all the same.

        Args:
            target: The topic.
            message: The message.
            timeout_s: The deadline over all tries; the settings' one when not given.
            fixed: The one queue that it must go to.
            began_ms: When the deadline began to count; now when not given.

        Raises:
            SendError: It was not acknowledged.
        """
        sender = self._sender
        rules = sender.rules
        now_ms = monotonic_ms()
        if began_ms is None:
            began_ms = now_ms
        left_ms = rules.timeout_ms if timeout_s is None else timeout_s * _MS_PER_S
        left_ms = min(left_ms - (now_ms - began_ms), rules.try_timeout_ms)
        queue, address, link = fixed, "", None
        if left_ms > 0 and target.queues and self._is_usual_message(message):
            if queue is None:
                queue = target.choice.next(target.queues)
            address = sender.instance.address_of(sender.instance.broker_of(queue)) or ""
            link = sender.instance.remote.open_link(address)
        if queue is None or link is None or link.is_write_paused:
            return await sender.deliver(
                target,
                self._prepared(target, message),
                message,
                timeout_s=timeout_s,
                fixed=fixed,
                began_ms=began_ms,
                first=queue,
            )
        queues = target.queues
        born_ms = wall_ms()
        message_id = self._ids.next(born_ms)
        opaque = sender.instance.remote.hub.next_opaque()
        ended: Command | RemotingError
        try:
            answer = await self._ask(link, opaque, message, queue, message_id, born_ms, left_ms)
            if type(answer) is SendAnswer:
                if answer.queue_id != queue.queue_id:
                    queue = QueueRef(queue.topic, queue.broker_name, answer.queue_id)
                offset, offset_id = answer.queue_offset, answer.offset_message_id
                return SendResult(_SEND_OK, message_id, queue, offset, offset_id)
            ended = late_error(address, SEND, left_ms) if answer is None else answer
        except RemotingError as error:
            ended = error
        except BaseException:
            # An answer is forgotten by itself.
            link.forget(opaque)
            raise
        outgoing = self._outgoing(target, message, message_id, born_ms)
        delivery = sender.delivery(target, outgoing, timeout_s, fixed, began_ms)
        delivery.took(queue, queues)
        return await sender.go_on(delivery, target, outgoing, message, address, ended)

    def _is_usual_message(self, message: Message) -> bool:
        """Returns whether a message is sent as it is, with nothing looked up or added."""
        return (
            self._is_usual
            and not self._sender.hooks
            and len(message.body) <= self._body_len_max
            and len(message.properties_text) <= _TEXT_LEN_MAX
        )

    def _ask(
        self,
        link: Link,
        opaque: int,
        message: Message,
        queue: QueueRef,
        message_id: str,
        born_ms: int,
        timeout_ms: float,
    ) -> Asked:
        sender = self._sender
        instance = sender.instance
        loop = instance.loop or asyncio.get_running_loop()
        # As those of `send_values`.
        values = (
            sender.group,
            queue.topic,
            AUTO_CREATE_TOPIC,
            instance.default_queues,
            queue.queue_id,
            0,
            born_ms,
            message.flag,
            f"{message.properties_text}{self._before_id}{message_id}\x02",
            0,
            "false",
            None,
            "false",
            queue.broker_name,
        )
        deadline_s = loop.time() + timeout_ms / _MS_PER_S
        return link.ask_send(self._form, opaque, values, message.body, deadline_s)

    def _outgoing(
        self, target: Target, message: Message, message_id: str, born_ms: int
    ) -> Outgoing:
        """Returns what was sent, for further tries: ids and times stay."""
        return outgoing_of(
            message,
            topic=target.topic,
            message_id=message_id,
            born_ms=born_ms,
            settings=self._sender.settings,
            instance_id=self._sender.instance.namespace,
        )
