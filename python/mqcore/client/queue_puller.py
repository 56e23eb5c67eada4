"""One queue that a consumer holds: pulls it again and again, and hands on what came.

The state is `process_queue`'s, what follows an answer is `pulling`'s; here is the waiting. Knows
neither handlers nor rebalancing.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from mqcore.client.consumer_calls import Cluster
from mqcore.client.logical_records import logical_records
from mqcore.client.message import ReceivedMessage
from mqcore.client.process_queue import (
    ConcurrentQueue,
    FlowBounds,
    OrderlyQueue,
    Parcel,
    PolledQueue,
)
from mqcore.client.properties import RETRY_TOPIC
from mqcore.client.pulling import (
    ERROR_PAUSE_MS,
    PULL_TIMEOUT_S,
    SUSPEND_MS,
    After,
    PullStep,
    pull_fields,
    step_after,
    step_after_failure,
)
from mqcore.errors import MQError, NameServerError, RemotingError
from mqcore.model.static_topics import is_logical
from mqcore.model.subscriptions import SubscriptionData
from mqcore.model.topics import RETRY_PREFIX
from mqcore.native import Command, decode_records
from mqcore.remoting import RequestCode

__all__ = ["HeldQueue", "Holder", "PullSettings", "QueueKind", "parcels_of"]

_log = logging.getLogger(__name__)

QueueKind: TypeAlias = (
    ConcurrentQueue[ReceivedMessage] | OrderlyQueue[ReceivedMessage] | PolledQueue[ReceivedMessage]
)
_MS_PER_S: Final = 1000
# A queue whose flow is blocked looks again after so long at the latest; settling wakes it sooner.
_BLOCKED_LOOK_S: Final = 1.0
# A broker that answers at once that there is nothing, instead of holding the pull, is asked again
# after so long: it must not make us spin.
_UNHELD_MS: Final = 20
# Of one answer: far more than the messages of a usual pull.
_ANSWER_BYTES_MAX: Final = 1 << 20
# The first pull after a heartbeat that a broker missed.
_HEARD_PAUSE_MS: Final = 20


@dataclass(frozen=True, slots=True)
class PullSettings:
    """How queues are pulled.

    Attributes:
        count_max: Messages of one pull; the broker has a bound of its own, 32 by default.
        parcel_max: Messages of one call of the handler.
        suspend_ms: How long a broker holds a pull where there is nothing.
        timeout_s: How long its answer is waited for: longer than the broker holds it.
        interval_ms: A pause between two pulls that brought messages.
        sends_subscription: Put the filter into each pull.
        is_lite: From a consumer that pulls by itself.
        commits: Whether pulls carry the offset to commit.
    """

    count_max: int = 32
    parcel_max: int = 1
    suspend_ms: int = SUSPEND_MS
    timeout_s: float = PULL_TIMEOUT_S
    interval_ms: int = 0
    sends_subscription: bool = False
    is_lite: bool = False
    commits: bool = True


class Holder(Protocol):
    """Who holds queues, as one of them sees it."""

    @property
    def bounds(self) -> FlowBounds:
        """How much of one queue may wait."""
        ...

    def subscription(self, topic: str) -> SubscriptionData | None:
        """Returns what is wanted of a topic; None where nothing is any more."""
        ...

    def block(self, held: "HeldQueue") -> str | None:
        """Returns why a queue must not be pulled now, beyond its own bounds."""
        ...

    def arrived(self, held: "HeldQueue", parcels: Sequence[Parcel[ReceivedMessage]]) -> None:
        """Takes messages that came; they are in the queue's state already."""
        ...

    async def moved(self, held: "HeldQueue", next_offset: int) -> None:
        """Hears that the broker has no such offset: the queue must begin anew."""
        ...

    async def heartbeat(self) -> None:
        """Sends the brokers the subscriptions: one of them does not know them."""
        ...

    def shown_topic(self, topic: str) -> str:
        """Returns a topic as users know it."""
        ...

    def is_news(self, broker_name: str) -> bool:
        """Returns whether it was not reported lately that a broker gives no messages; notes it."""
        ...


class HeldQueue:
    """A queue, its state, and the task that pulls it.

    Attributes:
        state: What is held.
        is_leaving: Whether it is being handed over: no more of it begins.
    """

    def __init__(
        self,
        state: QueueKind,
        group: str,
        holder: Holder,
        cluster: Cluster,
        settings: PullSettings,
        now_ms: Callable[[], int],
    ) -> None:
        """Takes the state, and who else is needed; `start` pulls."""
        self.state = state
        self.is_leaving = False
        self._group = group
        self._holder = holder
        self._cluster = cluster
        self._settings = settings
        self._now_ms = now_ms
        self._task: asyncio.Task[None] | None = None
        self._space_waiter: asyncio.Future[None] | None = None
        self._is_logged = False

    def start(self) -> None:
        """Pulls until `stop`."""
        name = f"mq-pull-{self.state.queue.topic}-{self.state.queue.queue_id}"
        self._task = asyncio.get_running_loop().create_task(self._pull_on(), name=name)

    def stop(self) -> None:
        """Pulls no more; what is held stays."""
        self.is_leaving = True
        if self._task is not None and self._task is not _current_task():
            self._task.cancel()

    @property
    def is_pulling(self) -> bool:
        """Whether the task lives."""
        return self._task is not None and not self._task.done()

    def wake(self) -> None:
        """Looks again whether there is space, where it waits for that."""
        if self._space_waiter is not None and not self._space_waiter.done():
            self._space_waiter.set_result(None)

    def on_space_freed(self) -> None:
        """Pulls again, where it waits for space and there is some now."""
        if self._space_waiter is not None and self.state.flow_block(self._holder.bounds) is None:
            self.wake()

    async def _pull_on(self) -> None:
        while not self.is_leaving:
            try:
                pause_ms = await self._pull_once()
            except MQError as error:
                pause_ms = ERROR_PAUSE_MS
                queue = self.state.queue
                level = logging.WARNING if self._holder.is_news(queue.broker_name) else logging.INFO
                _log.log(level, "%s: %s", queue.label, error.message)
            except Exception:
                # Whatever it was, a queue that nobody pulls is worse.
                pause_ms = ERROR_PAUSE_MS
                _log.exception("%s: pulling failed", self.state.queue.label)
            if pause_ms:
                await asyncio.sleep(pause_ms / _MS_PER_S)

    async def _pull_once(self) -> int:
        """Pulls once; returns how long to wait then, in ms."""
        state = self.state
        state.last_pull_ms = self._now_ms()
        if state.flow_block(self._holder.bounds) or self._holder.block(self):
            await self._wait_for_space()
            return 0
        subscription = self._holder.subscription(state.queue.topic)
        if subscription is None:
            return ERROR_PAUSE_MS
        asked = state.next_offset
        answer: Command | None = None
        try:
            answer = await self._ask(asked, subscription)
            step = step_after(answer, asked)
        except RemotingError as error:
            step = step_after_failure(error)
        if self.is_leaving:
            return 0
        if step.after is After.DELIVER and answer is not None:
            self._deliver(answer, step, asked, subscription)
            return self._settings.interval_ms
        return await self._follow(step)

    async def _follow(self, step: PullStep) -> int:
        state = self.state
        if step.after is After.PULL_ON:
            state.broker_id = step.broker_id
            is_moving = step.next_offset > state.next_offset
            state.put((), max(step.next_offset, state.next_offset))
            self._is_logged = False
            is_held = self._now_ms() - state.last_pull_ms >= _UNHELD_MS
            return 0 if is_held or is_moving else _UNHELD_MS
        if step.after is After.BEGIN_ANEW:
            _log.warning("%s: %s", state.queue.label, step.why)
            await self._holder.moved(self, step.next_offset)
            return 0
        state.broker_id = 0
        if step.wants_heartbeat and not self._is_logged:
            # A broker that was restarted, or hears of us by another connection, knows us now.
            self._is_logged = True
            _log.info("%s was not pulled yet: %s", state.queue, step.why)
            await self._holder.heartbeat()
            return _HEARD_PAUSE_MS
        # A retry topic appears with the first heartbeat; before that it is no news.
        queue = state.queue
        if not self._is_logged and not queue.topic.startswith(RETRY_PREFIX):
            # Its other queues have the same reason.
            level = logging.WARNING if self._holder.is_news(queue.broker_name) else logging.INFO
            _log.log(level, "%s: no messages now: %s. It is asked again", queue.label, step.why)
            self._is_logged = True
        if step.wants_heartbeat:
            await self._holder.heartbeat()
        if step.wants_route:
            # Who asks name servers reports that none answers; what was known stays.
            with contextlib.suppress(NameServerError):
                await self._cluster.refresh_route(state.queue.topic)
        return step.pause_ms

    async def _ask(self, offset: int, subscription: SubscriptionData) -> Command:
        state, settings = self.state, self._settings
        queue = state.queue
        name = self._cluster.broker_of(queue)
        address = self._cluster.any_address_of(name, state.broker_id)
        if address is None:
            raise RemotingError(f"no broker {name} is in the routes now", address="")
        commit_offset = -1
        if settings.commits and address == self._cluster.address_of(name):
            commit_offset = state.commit_offset or -1
        fields = pull_fields(
            self._group,
            queue,
            offset,
            subscription,
            count_max=settings.count_max,
            commit_offset=commit_offset,
            suspend_ms=settings.suspend_ms,
            sends_subscription=settings.sends_subscription,
            is_lite=settings.is_lite,
            # Records of a static topic are looked at one by one.
            bytes_max=None if is_logical(queue) else _ANSWER_BYTES_MAX,
        )
        return await self._cluster.call(
            address, RequestCode.PULL_MESSAGE, fields, timeout_s=settings.timeout_s
        )

    def _deliver(
        self, answer: Command, step: PullStep, asked: int, subscription: SubscriptionData
    ) -> None:
        state = self.state
        body = answer.body
        if is_logical(state.queue):
            body = logical_records(body, state.queue.queue_id, step.offset_delta)
        parcels = parcels_of(
            body,
            self,
            asked_offset=asked,
            subscription=subscription,
            parcel_max=self._settings.parcel_max,
            shown_topic=self._holder.shown_topic,
        )
        state.broker_id = step.broker_id
        self._is_logged = False
        state.put(parcels, max(step.next_offset, asked))
        if parcels:
            self._holder.arrived(self, parcels)

    async def _wait_for_space(self) -> None:
        self._space_waiter = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait([self._space_waiter], timeout=_BLOCKED_LOOK_S)
        finally:
            self._space_waiter = None


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def parcels_of(
    body: bytes,
    held: HeldQueue,
    *,
    asked_offset: int,
    subscription: SubscriptionData,
    parcel_max: int,
    shown_topic: Callable[[str], str],
) -> list[Parcel[ReceivedMessage]]:
    """Returns the messages of an answer that are wanted, in parcels.

    Brokers test tags by their hashes: the texts are tested here. A batch that a broker keeps as one
    record is taken apart first, as `PullAPIWrapper` does.

    Args:
        body: Records side by side.
        held: The queue that they come from.
        asked_offset: Messages before it were delivered already.
        subscription: What is wanted.
        parcel_max: Messages of one parcel at the most.
        shown_topic: Returns a topic as users know it.

    Raises:
        NoRecordError: The body is not whole.
    """
    batch = decode_records(body, unwraps=True)
    queue = held.state.queue
    if batch.wrapped:
        _log.warning("%s: %d batches that cannot be read come as they are", queue, batch.wrapped)
    topic = shown_topic(queue.topic)
    offsets, sizes = batch.queue_offsets.tolist(), batch.stored_body_lens_bytes.tolist()
    is_retry = queue.topic.startswith(RETRY_PREFIX)
    tags = subscription.tags if subscription.is_tag else frozenset()
    if not is_retry and not tags and offsets and offsets[0] >= asked_offset:
        # What nearly every answer is: all of it is wanted, and nothing need be looked at.
        return _cut(batch.received(queue, topic), offsets, sizes, parcel_max)
    messages, kept_offsets, kept_sizes = [], [], []
    for record, offset, size in zip(batch, offsets, sizes, strict=True):
        if offset < asked_offset or (tags and record.tags not in tags):
            continue
        if is_retry:
            topic = shown_topic(record.properties.get(RETRY_TOPIC, queue.topic))
        messages.append(ReceivedMessage(record, queue, topic))
        kept_offsets.append(offset)
        kept_sizes.append(size)
    return _cut(messages, kept_offsets, kept_sizes, parcel_max)


def _cut(
    messages: list[ReceivedMessage], offsets: list[int], sizes: list[int], parcel_max: int
) -> list[Parcel[ReceivedMessage]]:
    """Returns messages in parcels of at most so many."""
    if parcel_max == 1:
        return [
            Parcel((message,), offset, offset, 1, size)
            for message, offset, size in zip(messages, offsets, sizes, strict=True)
        ]
    return [
        Parcel(part, span[0], span[-1], len(part), sum(sizes[at : at + parcel_max]))
        for at in range(0, len(messages), parcel_max)
        if (part := messages[at : at + parcel_max]) and (span := offsets[at : at + parcel_max])
    ]
