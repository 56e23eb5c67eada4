"""Sends what is ready to be sent: finds routes and connections, waits for answers, tries again.

What a try means is `delivery`'s. Belongs to the event loop of its instance; the blocking twin is
`mqcore.client.blocking.sender`.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import cast

from mqcore.client.delivery import RETRY_PAUSE_MS, Delivery, TryRules
from mqcore.client.faults import FaultStrategy
from mqcore.client.hooks import SendContext, SendHook, call_after_send, call_before_send
from mqcore.client.instance import Instance
from mqcore.client.message import Message
from mqcore.client.option_values import fault_of
from mqcore.client.outgoing import (
    SEND,
    SEND_BATCH,
    SEND_FIELDS,
    SEND_REPLY,
    Outgoing,
    send_fields,
    send_values,
)
from mqcore.client.results import QueueRef, SendResult
from mqcore.client.route_search import RouteSearch
from mqcore.client.settings import ProducerSettings
from mqcore.client.topics import Target, Targets
from mqcore.clock import monotonic_ms, wall_ms
from mqcore.errors import (
    CallTimeoutError,
    ConnectError,
    ConnectionLostError,
    MQError,
    RemotingError,
    UsageError,
)
from mqcore.native import Command, FrameForm
from mqcore.remoting.link import Link
from mqcore.remoting.request_codes import code_name

__all__ = ["ONEWAY_FLAG", "Sender", "check_queue", "check_timeout", "late_error"]

ONEWAY_FLAG = 2
_MS_PER_S = 1000


def check_queue(queue: object, target: Target) -> QueueRef:
    """Returns a queue that a user or a selector names, when the topic has it.

    Raises:
        UsageError: It is no queue of the topic.
    """
    if not isinstance(queue, QueueRef):
        raise UsageError(f"queue: a mqcore.QueueRef is expected, not {type(queue).__name__}")
    if queue.topic != target.topic:
        queue = QueueRef(target.topic, queue.broker_name, queue.queue_id)
    if queue not in target.queues:
        raise UsageError(
            f"queue {queue.queue_id} of broker {queue.broker_name}: topic {target.topic} has no "
            f"such queue to write; it has {len(target.queues)}"
        )
    return queue


def check_timeout(timeout_s: float) -> None:
    """Checks the deadline that a call gives.

    Raises:
        UsageError: It is no number above 0.
    """
    fault = fault_of(timeout_s, float)
    if fault is None and timeout_s <= 0:
        fault = f"{timeout_s!r} is not above 0"
    if fault is not None:
        raise UsageError(f"timeout_s: {fault}")


def late_error(address: str, code: int, timeout_ms: float) -> CallTimeoutError:
    """Returns the error of a try without an answer."""
    return CallTimeoutError(
        f"{address}: no answer to {code_name(code)} within {timeout_ms:g} ms",
        address=address,
        code=code,
        timeout_s=timeout_ms / _MS_PER_S,
    )


class Sender:
    """Sends as one group.

    Attributes:
        instance: The client.
        group: The group, the namespace included.
        settings: Retries and deadlines.
        targets: The topics that were sent to.
        faults: Who is left alone, or None where that is off.
        hooks: Who hears of tries.
        rules: How often and how long a send is tried.
        forms: The requests that carry messages, by their code.
    """

    def __init__(
        self,
        instance: Instance,
        group: str,
        settings: ProducerSettings,
        *,
        faults: FaultStrategy | None = None,
        hooks: Sequence[SendHook] = (),
    ) -> None:
        """Takes what it sends with."""
        self.instance = instance
        self.group = group
        self.settings = settings
        self.faults = faults
        self.hooks: tuple[SendHook, ...] = tuple(hooks)
        self.targets = Targets()
        self.rules = TryRules.of(settings)
        self._rules_once = self.rules.once()
        hub = instance.remote.hub
        self.forms = {
            code: FrameForm(code, SEND_FIELDS, hub.language, hub.version)
            for code in (SEND, SEND_BATCH, SEND_REPLY)
        }

    async def target(self, name: str, timeout_s: float | None = None) -> Target:
        """Returns a topic to be sent to, by the name that users call it.

        While no name server answers, or none knows a broker yet, it asks again.

        Args:
            name: The topic.
            timeout_s: For how long it asks; the settings' deadline when not given.

        Raises:
            NoRouteError: No broker has it.
            NameServerError: No name server answered in time.
            UsageError: The time is no number above 0.
        """
        if timeout_s is not None:
            check_timeout(timeout_s)
        found = self.targets.known(name)
        if found is not None and found.queues:
            return found
        topic = self.instance.full_name(name)
        limit_s = self.settings.timeout_s if timeout_s is None else timeout_s
        search = RouteSearch(self.instance, topic, is_patient=self.rules.until_deadline)
        return self.targets.put(name, await search.route(limit_s))

    async def deliver(
        self,
        target: Target,
        outgoing: Outgoing,
        message: Message,
        *,
        timeout_s: float | None = None,
        fixed: QueueRef | None = None,
        began_ms: int | None = None,
        first: QueueRef | None = None,
    ) -> SendResult:
        """Sends until it is acknowledged or given up.

        Cancelling forgets the answer; the message may be stored all the same.

        Args:
            target: The topic.
            outgoing: What is sent.
            message: What the user gave; of a batch the first message.
            timeout_s: The deadline over all tries; the settings' one when not given.
            fixed: The one queue that it must go to.
            began_ms: When the deadline began to count; now when not given.
            first: Where its first try goes; the next queue of the round when not given.

        Raises:
            SendError: It was not acknowledged.
        """
        delivery = self.delivery(target, outgoing, timeout_s, fixed, began_ms)
        if first is not None:
            delivery.queue = first
        return await self._try_on(delivery, target, outgoing, message)

    async def go_on(
        self,
        delivery: Delivery,
        target: Target,
        outgoing: Outgoing,
        message: Message,
        address: str,
        ended: Command | RemotingError,
    ) -> SendResult:
        """Goes on with a send whose first try was made already; for the rest see `deliver`.

        Args:
            delivery: Its tries.
            target: The topic.
            outgoing: What is sent.
            message: What the user gave.
            address: Where the first try went.
            ended: The answer to it, or why there was none.

        Raises:
            SendError: It was not acknowledged.
        """
        if isinstance(ended, RemotingError):
            delivery.failed(ended, monotonic_ms())
        elif delivery.accepted(ended, address, monotonic_ms()):
            return delivery.result(ended, address)
        await self._until_next(delivery, target)
        return await self._try_on(delivery, target, outgoing, message)

    async def _try_on(
        self, delivery: Delivery, target: Target, outgoing: Outgoing, message: Message
    ) -> SendResult:
        while True:
            if not target.queues:
                await self.until_writable_route(delivery, target)
            queue, left_ms = delivery.next_try(target.queues, monotonic_ms())
            try:
                address = self.instance.address_of(self.instance.broker_of(queue))
                if address is None:
                    address = await self.master_of(queue)
                if self.hooks:
                    result = await self._watched(delivery, outgoing, message, address, left_ms)
                else:
                    answer = await self.exchange(address, outgoing, queue, left_ms)
                    if delivery.accepted(answer, address, monotonic_ms()):
                        return delivery.result(answer, address)
                    result = None
            except RemotingError as error:
                delivery.failed(error, monotonic_ms())
                result = None
            if result is not None:
                return result
            await self._until_next(delivery, target)

    async def _until_next(self, delivery: Delivery, target: Target) -> None:
        """Waits until the next try is to be made."""
        if delivery.has_moved:
            await self.refresh_now(target.topic)
        else:
            self.refresh_soon(target.topic)
        pause_ms = delivery.pause_ms(monotonic_ms())
        if pause_ms:
            await asyncio.sleep(pause_ms / _MS_PER_S)
            if not self.instance.is_open:
                raise delivery.stopped()

    async def until_writable_route(self, delivery: Delivery, target: Target) -> None:
        """Waits for a broker with a master, as long as the send may take."""
        left_ms = delivery.left_ms(monotonic_ms()) - RETRY_PAUSE_MS
        search = RouteSearch(self.instance, target.topic, is_patient=self.rules.until_deadline)
        await search.until_writable(left_ms / _MS_PER_S)

    async def oneway(
        self, target: Target, outgoing: Outgoing, message: Message, *, fixed: QueueRef | None
    ) -> None:
        """Sends without wanting an answer.

        Raises:
            RemotingError: There was no connection, or no space on it.
        """
        queue = fixed
        if queue is None:
            queue = target.choice.next(target.queues, faults=self.faults, now_ms=monotonic_ms())
        address = self.instance.address_of(self.instance.broker_of(queue))
        if address is None:
            address = await self.master_of(queue)
        context = None
        if self.hooks:
            context = self.context(outgoing, message, queue, address, "ONEWAY")
            call_before_send(self.hooks, context)
        fields = send_fields(outgoing, queue, self.group, self.instance.default_queues)
        await self.instance.oneway(address, outgoing.code, fields, outgoing.body)
        if context is not None:
            call_after_send(self.hooks, context)

    def delivery(
        self,
        target: Target,
        outgoing: Outgoing,
        timeout_s: float | None,
        fixed: QueueRef | None,
        began_ms: int | None = None,
    ) -> Delivery:
        """Returns the tries of a send; for the arguments see `deliver`."""
        return Delivery(
            outgoing,
            # Who asked may be gone: no other try would find it.
            self._rules_once if outgoing.code == SEND_REPLY else self.rules,
            target.choice,
            began_ms=monotonic_ms() if began_ms is None else began_ms,
            timeout_s=timeout_s,
            fixed=fixed,
            faults=self.faults,
        )

    async def exchange(
        self, address: str, outgoing: Outgoing, queue: QueueRef, timeout_ms: float
    ) -> Command:
        """Makes one try; returns the broker's answer, whatever its code.

        Raises:
            RemotingError: There was none; its classes give the reason.
        """
        # The one that runs: whoever sends has checked that.
        loop = self.instance.loop or asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_ms / _MS_PER_S
        link = self.instance.remote.open_link(address)
        if link is None:
            link = await self.instance.remote.link(address, timeout_s=timeout_ms / _MS_PER_S)
        if link.is_write_paused:
            await self._until_writable(link, deadline_s - loop.time())
        opaque, frame = self.encode(outgoing, queue)
        future = link.ask(opaque, frame, deadline_s)
        try:
            answer = await future
        except BaseException:
            # An answer is forgotten by itself.
            link.forget(opaque)
            raise
        if answer is None:
            raise late_error(address, outgoing.code, timeout_ms)
        # `SendAnswer`s are not asked for.
        return cast(Command, answer)

    def encode(self, outgoing: Outgoing, queue: QueueRef, *, flag: int = 0) -> tuple[int, bytes]:
        """Returns the number and the frame of a send to a queue."""
        instance = self.instance
        opaque = instance.remote.hub.next_opaque()
        if instance.credentials is None:
            values = send_values(outgoing, queue, self.group, instance.default_queues)
            return opaque, self.forms[outgoing.code].encode(opaque, values, outgoing.body, flag)
        fields = send_fields(outgoing, queue, self.group, instance.default_queues)
        hub = instance.remote.hub
        command = hub.request(outgoing.code, opaque, flag, fields, outgoing.body)
        return opaque, command.encode()

    async def _watched(
        self,
        delivery: Delivery,
        outgoing: Outgoing,
        message: Message,
        address: str,
        left_ms: float,
    ) -> SendResult | None:
        """Makes one try that hooks hear of."""
        assert delivery.queue is not None
        context = self.context(outgoing, message, delivery.queue, address, "SYNC")
        call_before_send(self.hooks, context)
        try:
            answer = await self.exchange(address, outgoing, delivery.queue, left_ms)
            if delivery.accepted(answer, address, monotonic_ms()):
                context.result = delivery.result(answer, address)
        except MQError as error:
            context.error = error
            raise
        finally:
            call_after_send(self.hooks, context)
        return context.result

    def context(
        self, outgoing: Outgoing, message: Message, queue: QueueRef, address: str, mode: str
    ) -> SendContext:
        """Returns what hooks receive for one try."""
        return SendContext(self.group, message, outgoing, queue, address, wall_ms(), mode)

    async def master_of(self, queue: QueueRef) -> str:
        """Returns the address of a queue's master, after asking again.

        Raises:
            ConnectError: Its broker has no master now.
        """
        await self.instance.refresh_route(queue.topic)
        address = self.instance.address_of(self.instance.broker_of(queue))
        if address is None:
            raise ConnectError(
                f"broker {queue.broker_name} has no master in the route of {queue.topic}",
                address=queue.broker_name,
            )
        return address

    async def refresh_now(self, topic: str) -> None:
        """Asks for the route; where no name server answers, what was known stays."""
        with contextlib.suppress(RemotingError):
            await self.instance.refresh_route(topic)

    def refresh_soon(self, topic: str) -> None:
        """Asks for the route beside the next try: the failed broker may be gone from it."""

        async def refresh() -> None:
            await self.refresh_now(topic)

        self.instance.soon(f"route of {topic}", refresh)

    async def _until_writable(self, link: Link, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, timeout_s)):
                await link.until_writable()
        except TimeoutError as error:
            raise ConnectionLostError(
                f"{link.peer}: no space to send within {timeout_s:g} s", address=link.peer
            ) from error
