"""What a consumer holds of one queue between pull and commit: parcels, their order, the bounds.

Pure state over passed-in times; belongs to the event loop's thread. Knows no socket and no handler.
The rules are those of `org.apache.rocketmq.client.impl.consumer.ProcessQueue`.

The one promise: `commit_offset` never passes a message that is not settled.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from mqcore.model.queues import MessageQueue

__all__ = [
    "LOCK_LIFE_MS",
    "PULL_IDLE_MS",
    "ConcurrentQueue",
    "FlowBounds",
    "OrderlyQueue",
    "Parcel",
    "PolledQueue",
    "QueueState",
]

# A lock that was not renewed for so long counts no more (the broker keeps it for 60 s).
LOCK_LIFE_MS: Final = 30_000
# A queue that nobody pulled for so long lost its puller: the next rebalance begins it anew.
PULL_IDLE_MS: Final = 120_000
_MIB: Final = 1 << 20

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class FlowBounds:
    """How much of one queue may wait for handlers before it is pulled no more.

    Attributes:
        count_max: Messages (`pullThresholdForQueue`).
        bytes_max: Bytes of their bodies as stored (`pullThresholdSizeForQueue`).
        span_max: Queue offsets from the oldest unsettled message to the newest
            (`consumeConcurrentlyMaxSpan`): so many are consumed again at the most when a crash
            forgets what was settled behind the oldest one.
    """

    count_max: int = 1000
    bytes_max: int = 100 * _MIB
    span_max: int = 2000


@dataclass(slots=True, eq=False)
class Parcel(Generic[M]):
    """Messages of one queue that one call of the handler gets.

    Attributes:
        messages: They; empty once they are settled, so that nothing keeps them alive.
        first_offset: Queue offset of the first one.
        last_offset: Queue offset of the last one.
        count: How many.
        body_bytes: Bytes of their bodies, as stored.
        started_ms: When its handler began, or None.
        is_settled: Whether it need not be consumed any more.
        attempts: How often it was consumed in vain here, without a broker knowing.
    """

    messages: Sequence[M]
    first_offset: int
    last_offset: int
    count: int
    body_bytes: int
    started_ms: int | None = None
    is_settled: bool = False
    attempts: int = 0


@dataclass(slots=True, eq=False)
class QueueState:
    """What both kinds of queue know.

    Attributes:
        queue: Which queue.
        next_offset: Where the next pull begins.
        is_dropped: Whether it is no longer ours: nothing of it is started or committed.
        count: Messages held.
        body_bytes: Bytes of their bodies.
        last_pull_ms: When it was last pulled.
        last_consume_ms: When messages were last taken or settled.
        is_locked: Whether the broker gave us its order lock.
        last_lock_ms: When the lock was last renewed.
        unlock_tries: How often it could not be given up, because a handler ran.
        broker_id: Which broker of the name the next pull asks; the broker suggests it.
        done: Messages consumed since `take_tally`.
        failed: Messages that failed since then.
        calls: Calls of the handler since then.
        took_ms: What they took together.
    """

    queue: MessageQueue
    next_offset: int
    last_pull_ms: int
    last_consume_ms: int = 0
    is_dropped: bool = False
    count: int = 0
    body_bytes: int = 0
    is_locked: bool = False
    last_lock_ms: int = 0
    unlock_tries: int = 0
    broker_id: int = 0
    done: int = 0
    failed: int = 0
    calls: int = 0
    took_ms: int = 0

    def tally(self, count: int, took_ms: int, *, is_done: bool) -> None:
        """Counts a call of the handler."""
        if is_done:
            self.done += count
        else:
            self.failed += count
        self.calls += 1
        self.took_ms += took_ms

    def take_tally(self) -> tuple[int, int, int, int]:
        """Returns messages done, failed, ms and calls since the last time."""
        found = self.done, self.failed, self.took_ms, self.calls
        self.done = self.failed = self.calls = self.took_ms = 0
        return found

    def flow_block(self, bounds: FlowBounds) -> str | None:
        """Returns why nothing is pulled now, None where there is space."""
        if self.count > bounds.count_max:
            return f"{self.count} messages wait"
        if self.body_bytes > bounds.bytes_max:
            return f"{self.body_bytes} bytes wait"
        return None

    def _hold(self, parcels: Sequence[Parcel[Any]]) -> None:
        for parcel in parcels:
            self.count += parcel.count
            self.body_bytes += parcel.body_bytes

    def _let_go(self, parcel: Parcel[Any]) -> None:
        self.count -= parcel.count
        self.body_bytes -= parcel.body_bytes

    def has_lock(self, now_ms: int) -> bool:
        """Returns whether the order lock still counts."""
        return self.is_locked and now_ms - self.last_lock_ms <= LOCK_LIFE_MS

    def is_pull_idle(self, now_ms: int) -> bool:
        """Returns whether nobody pulls it any more, though somebody should."""
        return now_ms - self.last_pull_ms > PULL_IDLE_MS


@dataclass(slots=True, eq=False)
class ConcurrentQueue(QueueState, Generic[M]):
    """A queue whose parcels are consumed at once and settled in any order."""

    _parcels: deque[Parcel[M]] = field(default_factory=deque)
    _put_end: int = -1

    def put(self, parcels: Sequence[Parcel[M]], next_offset: int) -> None:
        """Takes what a pull brought, in ascending order of offsets.

        Args:
            parcels: The messages that passed the filter; maybe none.
            next_offset: Where the next pull begins: all below it is here or not wanted.
        """
        self._hold(parcels)
        self._parcels.extend(parcels)
        self.next_offset = self._put_end = next_offset

    def settle(self, parcel: Parcel[M], now_ms: int) -> bool:
        """Notes that a parcel need not be consumed again; returns whether it was still open."""
        if parcel.is_settled:
            return False
        parcel.is_settled = True
        parcel.messages = ()
        self._let_go(parcel)
        self.last_consume_ms = now_ms
        parcels = self._parcels
        while parcels and parcels[0].is_settled:
            parcels.popleft()
        return True

    @property
    def commit_offset(self) -> int | None:
        """The first offset that must be consumed again after a crash; None before any pull."""
        if self._parcels:
            return self._parcels[0].first_offset
        return self._put_end if self._put_end >= 0 else None

    @property
    def span(self) -> int:
        """Queue offsets from the oldest open message to the newest."""
        return self._parcels[-1].last_offset - self._parcels[0].first_offset if self._parcels else 0

    def flow_block(self, bounds: FlowBounds) -> str | None:
        """Returns why nothing is pulled now, None where there is space."""
        if self.span > bounds.span_max:
            return f"the oldest message is {self.span} offsets behind"
        return QueueState.flow_block(self, bounds)

    def overdue(self, now_ms: int, timeout_ms: int) -> Iterator[Parcel[M]]:
        """Yields the parcels whose handler has run for longer than it may."""
        for parcel in self._parcels:
            started_ms = parcel.started_ms
            if (
                not parcel.is_settled
                and started_ms is not None
                and now_ms - started_ms > timeout_ms
            ):
                yield parcel

    @property
    def has_running(self) -> bool:
        """Whether a handler runs for a parcel that is not settled."""
        return any(p.started_ms is not None and not p.is_settled for p in self._parcels)

    @property
    def open_range(self) -> tuple[int, int] | None:
        """The offsets of the oldest and the newest open message."""
        if not self._parcels:
            return None
        return self._parcels[0].first_offset, self._parcels[-1].last_offset


@dataclass(slots=True, eq=False)
class _TakenInOrder(QueueState, Generic[M]):
    """A queue whose parcels wait, and are taken one after the other."""

    _waiting: deque[Parcel[M]] = field(default_factory=deque)
    _commit_offset: int = -1

    @property
    def commit_offset(self) -> int | None:
        """The first offset that must come again after a crash; None where none is known."""
        return self._commit_offset if self._commit_offset >= 0 else None

    @property
    def has_waiting(self) -> bool:
        """Whether there is something to take."""
        return bool(self._waiting)

    @property
    def open_range(self) -> tuple[int, int] | None:
        """The offsets of the oldest and the newest waiting message."""
        if not self._waiting:
            return None
        return self._waiting[0].first_offset, self._waiting[-1].last_offset


@dataclass(slots=True, eq=False)
class OrderlyQueue(_TakenInOrder[M]):
    """A queue whose messages are consumed one parcel after the other, under an order lock.

    Attributes:
        is_consuming: Whether a worker walks through it.
    """

    is_consuming: bool = False
    _taken: list[Parcel[M]] = field(default_factory=list)

    def put(self, parcels: Sequence[Parcel[M]], next_offset: int) -> None:
        """Takes what a pull brought, in ascending order of offsets."""
        self._hold(parcels)
        self._waiting.extend(parcels)
        self.next_offset = next_offset
        if not self._waiting and not self._taken:
            self._commit_offset = max(self._commit_offset, next_offset)

    def take(self, now_ms: int) -> Parcel[M] | None:
        """Takes the next parcel; None where none waits."""
        self.last_consume_ms = now_ms
        if not self._waiting:
            return None
        parcel = self._waiting.popleft()
        self._taken.append(parcel)
        return parcel

    def commit(self) -> int | None:
        """Settles everything taken; returns the offset to commit, None where nothing was taken."""
        if not self._taken:
            return None
        self._commit_offset = self._taken[-1].last_offset + 1
        for parcel in self._taken:
            parcel.is_settled = True
            parcel.messages = ()
            self._let_go(parcel)
        self._taken.clear()
        if not self._waiting:
            # What was pulled and not wanted behind the last one needs no second look.
            self._commit_offset = max(self._commit_offset, self.next_offset)
        return self._commit_offset

    def rollback(self) -> None:
        """Puts everything taken back to the front, in its order."""
        self._waiting.extendleft(reversed(self._taken))
        self._taken.clear()

    @property
    def has_running(self) -> bool:
        """Whether parcels are taken that are neither committed nor put back."""
        return bool(self._taken)

    @property
    def taken_range(self) -> tuple[int, int, int] | None:
        """First and last offset of what is taken, and how many messages."""
        if not self._taken:
            return None
        count = sum(parcel.count for parcel in self._taken)
        return self._taken[0].first_offset, self._taken[-1].last_offset, count


@dataclass(slots=True, eq=False)
class PolledQueue(_TakenInOrder[M]):
    """A queue whose messages are taken in order by who asks, and settled up to a point.

    Attributes:
        position: The offset behind what was taken.
    """

    position: int = -1

    def put(self, parcels: Sequence[Parcel[M]], next_offset: int) -> None:
        """Takes what a pull brought, in ascending order of offsets."""
        self._hold(parcels)
        self._waiting.extend(parcels)
        is_all_settled = self._commit_offset == self.position
        self.next_offset = next_offset
        if not self._waiting:
            # What is not wanted counts as taken, and as settled where nothing else is open.
            self.position = next_offset
            if is_all_settled:
                self._commit_offset = next_offset

    def take(self, now_ms: int) -> Parcel[M] | None:
        """Takes the next parcel; None where none waits."""
        if not self._waiting:
            return None
        parcel = self._waiting.popleft()
        self._let_go(parcel)
        self.last_consume_ms = now_ms
        self.position = parcel.last_offset + 1 if self._waiting else self.next_offset
        return parcel

    def settle_taken(self) -> None:
        """Notes that what was taken need not come again."""
        self._commit_offset = self.position

    @property
    def has_running(self) -> bool:
        """Whether a handler runs: there is none."""
        return False
