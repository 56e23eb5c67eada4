"""Which brokers to leave alone for a while: the official `MQFaultStrategy`. Pure, time passed in.

Off unless asked for. A send that was cancelled shows nothing about a broker and is not counted.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from mqcore.model.queues import MessageQueue

__all__ = ["OFFICIAL_49", "OFFICIAL_53", "FaultStrategy", "FaultTable", "Outcome", "QueueChoice"]


@dataclass(frozen=True, slots=True)
class FaultTable:
    """How long a broker is left alone after an answer that took so long.

    Attributes:
        latency_ms: Bounds of latency, ascending.
        isolation_ms: For how long, per bound.
        failure_latency_ms: What a failed try counts as.
    """

    latency_ms: tuple[int, ...]
    isolation_ms: tuple[int, ...]
    failure_latency_ms: int

    def isolation(self, latency_ms: int) -> int:
        """Returns for how long a broker with this latency is left alone, in ms."""
        pairs = zip(reversed(self.latency_ms), reversed(self.isolation_ms), strict=True)
        return next((isolation for bound, isolation in pairs if latency_ms >= bound), 0)


OFFICIAL_49: Final = FaultTable(
    (50, 100, 550, 1000, 2000, 3000, 15000), (0, 0, 30000, 60000, 120000, 180000, 600000), 30000
)
OFFICIAL_53: Final = FaultTable(
    (50, 100, 550, 1800, 3000, 5000, 15000), (0, 0, 2000, 5000, 6000, 10000, 30000), 10000
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a try shows about a broker.

    Attributes:
        is_failed: Whether it counts as a failure, whatever time it took.
        is_reachable: Whether the broker could be reached.
    """

    is_failed: bool = False
    is_reachable: bool = True


@dataclass(slots=True)
class _Item:
    available_from_ms: int = 0
    is_reachable: bool = True
    check_from_ms: int = 0


class FaultStrategy:
    """What the last tries showed about each broker.

    `LatencyFaultToleranceImpl` of 5.3, with a table that may be 4.9's.
    """

    def __init__(
        self,
        table: FaultTable = OFFICIAL_53,
        *,
        detector: bool = False,
        detect_interval_ms: int = 2000,
    ) -> None:
        """Begins with every broker in order.

        Args:
            table: How long who is left alone.
            detector: Whether unreachable brokers are tested, and left alone until they answer
                (`startDetectorEnable`).
            detect_interval_ms: How often one is tested.
        """
        self.table = table
        self.has_detector = detector
        self._detect_interval_ms = detect_interval_ms
        self._items: dict[str, _Item] = {}

    def note(self, broker_name: str, latency_ms: int, outcome: Outcome, now_ms: int) -> None:
        """Notes how a try ended.

        Args:
            broker_name: Who was tried.
            latency_ms: How long it took.
            outcome: What it shows.
            now_ms: Now.
        """
        counted = self.table.failure_latency_ms if outcome.is_failed else latency_ms
        item = self._items.setdefault(broker_name, _Item())
        isolation = self.table.isolation(counted)
        if isolation > 0:
            item.available_from_ms = max(item.available_from_ms, now_ms + isolation)
        item.is_reachable = outcome.is_reachable

    def is_available(self, broker_name: str, now_ms: int) -> bool:
        """Whether a broker is not left alone now."""
        item = self._items.get(broker_name)
        return item is None or now_ms >= item.available_from_ms

    def is_reachable(self, broker_name: str) -> bool:
        """Whether a broker could be reached the last time."""
        item = self._items.get(broker_name)
        return item is None or item.is_reachable

    def due_for_detection(self, now_ms: int) -> list[str]:
        """Returns the brokers to be tested now; each comes again after the interval."""
        due = [name for name, item in self._items.items() if now_ms >= item.check_from_ms]
        for name in due:
            self._items[name].check_from_ms = now_ms + self._detect_interval_ms
        return due

    def detected(self, broker_name: str) -> None:
        """Notes that a broker answered a test."""
        if broker_name in self._items:
            self._items[broker_name].is_reachable = True

    def forget(self, broker_name: str) -> None:
        """Forgets a broker that no route has any more."""
        self._items.pop(broker_name, None)

    def pick_one_at_least(self) -> str | None:
        """Returns any broker that can be reached (`pickOneAtLeast`), None without one."""
        names = [name for name, item in self._items.items() if item.is_reachable]
        return random.choice(names) if names else None


class QueueChoice:
    """Round robin over the queues of a topic, from a random start.

    `TopicPublishInfo.selectOneMessageQueue`. A thread that comes between two others takes another
    queue; nothing else can happen.
    """

    def __init__(self) -> None:
        """Begins anywhere."""
        self._at = random.randrange(1 << 16)

    def next(
        self,
        queues: Sequence[MessageQueue],
        *,
        last_broker: str | None = None,
        faults: FaultStrategy | None = None,
        now_ms: int = 0,
    ) -> MessageQueue:
        """Returns the next queue.

        Args:
            queues: The queues, at least one.
            last_broker: Who the last try of the same message went to: another one is preferred.
            faults: Who is left alone.
            now_ms: Now.
        """
        if faults is not None:
            found = self._pick(
                queues,
                lambda name: name != last_broker and faults.is_available(name, now_ms),
            ) or self._pick(queues, lambda name: name != last_broker and faults.is_reachable(name))
            if found is None:
                name = faults.pick_one_at_least()
                found = self._pick(queues, lambda other: other == name)
            if found is not None:
                return found
        if last_broker is not None:
            found = self._pick(queues, lambda name: name != last_broker)
            if found is not None:
                return found
        self._at = at = self._at + 1
        return queues[at % len(queues)]

    def _pick(
        self, queues: Sequence[MessageQueue], accepts: Callable[[str], bool]
    ) -> MessageQueue | None:
        for _ in queues:
            self._at = at = self._at + 1
            queue = queues[at % len(queues)]
            if accepts(queue.broker_name):
                return queue
        return None
