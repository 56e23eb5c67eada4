"""The blocking twin of `mqcore.client.sender`: the same tries, waited for in the caller's thread.

Routes come from the loop's thread, which keeps them fresh; everything else stays in this one.
"""

import threading

from mqcore.client.blocking.loop_thread import LoopThread
from mqcore.client.blocking.sockets import SocketPool
from mqcore.client.delivery import Delivery
from mqcore.client.hooks import call_after_send, call_before_send
from mqcore.client.message import Message
from mqcore.client.outgoing import Outgoing
from mqcore.client.results import QueueRef, SendResult
from mqcore.client.sender import ONEWAY_FLAG, Sender, check_timeout
from mqcore.client.topics import Target
from mqcore.clock import monotonic_ms
from mqcore.errors import MQError, RemotingError

__all__ = ["BlockingSender"]

_MS_PER_S = 1000


class BlockingSender:
    """Sends as the group of an asyncio sender, with its routes, settings, faults and hooks."""

    def __init__(self, thread: LoopThread, sender: Sender) -> None:
        """Takes the asyncio sender and the loop that it lives on."""
        self._thread = thread
        self._sender = sender
        instance = sender.instance
        self._closed = threading.Event()
        self._pool = SocketPool(tls=instance.tls, connect_timeout_s=instance.connect_timeout_s)

    def close(self) -> None:
        """Closes its connections; a send that waits for its next try ends."""
        self._closed.set()
        self._pool.close()

    def target(self, name: str, timeout_s: float | None = None) -> Target:
        """Returns a topic to be sent to; args and errors are those of `Sender.target`."""
        if timeout_s is not None:
            check_timeout(timeout_s)
        found = self._sender.targets.known(name)
        if found is not None and found.queues:
            return found
        return self._thread.run(lambda: self._sender.target(name, timeout_s))

    def deliver(
        self,
        target: Target,
        outgoing: Outgoing,
        message: Message,
        *,
        timeout_s: float | None = None,
        fixed: QueueRef | None = None,
        began_ms: int | None = None,
    ) -> SendResult:
        """Sends until it is acknowledged or given up.

        Args:
            target: The topic.
            outgoing: What is sent.
            message: What the user gave; of a batch the first message.
            timeout_s: The deadline over all tries; the settings' one when not given.
            fixed: The one queue that it must go to.
            began_ms: When the deadline began to count; now when not given.

        Raises:
            SendError: It was not acknowledged.
        """
        sender = self._sender
        delivery = sender.delivery(target, outgoing, timeout_s, fixed, began_ms)
        while True:
            if not target.queues:
                self._thread.run(lambda: sender.until_writable_route(delivery, target))
            queue, left_ms = delivery.next_try(target.queues, monotonic_ms())
            result: SendResult | None = None
            try:
                address = sender.instance.address_of(sender.instance.broker_of(queue))
                if address is None:
                    address = self._thread.run(lambda queue=queue: sender.master_of(queue))  # type: ignore[misc]
                if sender.hooks:
                    result = self._watched(delivery, outgoing, message, address, left_ms)
                else:
                    result = self._try(delivery, outgoing, queue, address, left_ms)
            except RemotingError as error:
                delivery.failed(error, monotonic_ms())
            if result is not None:
                return result
            if delivery.has_moved:
                self._thread.run(lambda: sender.refresh_now(target.topic))
            else:
                self._thread.soon(sender.refresh_soon, target.topic)
            pause_ms = delivery.pause_ms(monotonic_ms())
            if pause_ms and self._closed.wait(pause_ms / _MS_PER_S):
                raise delivery.stopped()

    def oneway(
        self, target: Target, outgoing: Outgoing, message: Message, *, fixed: QueueRef | None
    ) -> None:
        """Sends without wanting an answer.

        Raises:
            RemotingError: There was no connection, or no space on it.
        """
        sender = self._sender
        queue = fixed or target.choice.next(
            target.queues, faults=sender.faults, now_ms=monotonic_ms()
        )
        address = sender.instance.address_of(sender.instance.broker_of(queue))
        if address is None:
            address = self._thread.run(lambda: sender.master_of(queue))
        context = None
        if sender.hooks:
            context = sender.context(outgoing, message, queue, address, "ONEWAY")
            call_before_send(sender.hooks, context)
        _, frame = sender.encode(outgoing, queue, flag=ONEWAY_FLAG)
        self._pool.send(address, frame, sender.settings.timeout_s)
        if context is not None:
            call_after_send(sender.hooks, context)

    def _try(
        self,
        delivery: Delivery,
        outgoing: Outgoing,
        queue: QueueRef,
        address: str,
        left_ms: float,
    ) -> SendResult | None:
        opaque, frame = self._sender.encode(outgoing, queue)
        answer = self._pool.exchange(address, opaque, frame, left_ms / _MS_PER_S, outgoing.code)
        if delivery.accepted(answer, address, monotonic_ms()):
            return delivery.result(answer, address)
        return None

    def _watched(
        self,
        delivery: Delivery,
        outgoing: Outgoing,
        message: Message,
        address: str,
        left_ms: float,
    ) -> SendResult | None:
        """Makes one try that hooks hear of."""
        sender = self._sender
        assert delivery.queue is not None
        context = sender.context(outgoing, message, delivery.queue, address, "SYNC")
        call_before_send(sender.hooks, context)
        try:
            context.result = self._try(delivery, outgoing, delivery.queue, address, left_ms)
        except MQError as error:
            context.error = error
            raise
        finally:
            call_after_send(sender.hooks, context)
        return context.result
