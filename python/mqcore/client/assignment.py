"""The queues that a consumer holds: divided among the members again and again, handed over, begun.

After `RebalanceImpl` and `RebalanceService`. Knows neither handlers nor pulls: who holds queues
opens and hands them over. Every 20 s, and whenever a change is notified.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from mqcore.client.consumer_calls import Cluster, ConsumerCalls
from mqcore.client.queue_puller import HeldQueue
from mqcore.client.routes import TopicRoute
from mqcore.errors import MQError, NameServerError, NoRouteError
from mqcore.model.allocation import Strategy, allocated
from mqcore.model.queues import MessageQueue
from mqcore.model.topics import RETRY_PREFIX

__all__ = ["Assignment", "Division", "QueueOwner"]

_log = logging.getLogger(__name__)

# After a round that could not finish the next one comes sooner, at a growing distance.
_AGAIN_FIRST_S: Final = 0.5
_AGAIN_FACTOR: Final = 2.0
# Its distance at the most: whoever starts after us, broker or producer, is found within that.
_AGAIN_MAX_S: Final = 5.0
# How long a topic that a broker makes at the first send may be missing before that is reported.
_MISSING_S: Final = 10.0


class QueueOwner(Protocol):
    """Who holds the queues."""

    def topics(self) -> Collection[str]:
        """Returns the topics whose queues are divided."""
        ...

    def fixed(self, topic: str) -> Iterable[MessageQueue] | None:
        """Returns the queues of a topic that somebody chose; None where they are divided."""
        ...

    async def open(self, queue: MessageQueue) -> HeldQueue | None:
        """Begins a queue; returns None where that must be tried again."""
        ...

    async def hand_over(self, held: HeldQueue) -> None:
        """Lets a queue go: saves its offset, gives its lock up. Bounded in time."""
        ...

    async def rebalanced(self, topic: str, all_queues: Collection[MessageQueue]) -> None:
        """Hears that the queues held of a topic changed."""
        ...

    async def heartbeat(self) -> None:
        """Sends the heartbeat that makes us a member to the brokers."""
        ...

    def is_stuck(self, held: HeldQueue) -> bool:
        """Returns whether nobody pulls a queue any more, though somebody should."""
        ...


@dataclass(frozen=True, slots=True)
class Division:
    """How a group divides its queues.

    Attributes:
        strategy: Who gets which; None gives every queue to everybody (broadcast).
        hand_over_s: How long a queue that may have been another member's is left alone first.
        interval_s: The distance of rounds at the most.
    """

    strategy: Strategy | None
    hand_over_s: float
    interval_s: float


class Assignment:
    """The queues of one consumer.

    Attributes:
        held: The queues that are ours now.
    """

    def __init__(
        self, cluster: Cluster, calls: ConsumerCalls, owner: QueueOwner, division: Division
    ) -> None:
        """Takes who asks, who holds, and how it is divided."""
        self.held: dict[MessageQueue, HeldQueue] = {}
        self._cluster = cluster
        self._calls = calls
        self._owner = owner
        self._division = division
        self._leaving: dict[MessageQueue, asyncio.Task[None]] = {}
        self._woken = asyncio.Event()
        self._lock = asyncio.Lock()
        self._is_closed = False
        self._warned: set[str] = set()
        # Topics whose last round failed, and was reported.
        self._undivided: set[str] = set()
        # Topics that no broker has, and since when, on the loop's clock.
        self._missing_since_s: dict[str, float] = {}

    def wake(self) -> None:
        """Begins a round soon."""
        self._woken.set()

    async def run(self) -> None:
        """Does rounds until it is cancelled."""
        again_s = _AGAIN_FIRST_S
        is_balanced = False
        while True:
            wait_s = self._division.interval_s if is_balanced else again_s
            try:
                async with asyncio.timeout(wait_s):
                    await self._woken.wait()
                again_s = _AGAIN_FIRST_S
            except TimeoutError:
                again_s = min(again_s * _AGAIN_FACTOR, self._division.interval_s, _AGAIN_MAX_S)
            try:
                is_balanced = await self.round()
            except Exception:
                # Whatever it was: without rounds nothing would ever come to us, or leave us.
                is_balanced = False
                _log.exception("queues were not divided")

    async def round(self) -> bool:
        """Divides the queues of all topics; returns whether everything is as it should be."""
        self._woken.clear()
        async with self._lock:
            if self._is_closed:
                return True
            topics = set(self._owner.topics())
            gone = [held for queue, held in self.held.items() if queue.topic not in topics]
            await self._let_go(gone)
            rounds = await asyncio.gather(
                *(self._topic(topic) for topic in sorted(topics)), return_exceptions=True
            )
            for topic, outcome in zip(sorted(topics), rounds, strict=True):
                if isinstance(outcome, BaseException):
                    if not isinstance(outcome, Exception):
                        raise outcome
                    _log.error("the queues of %s were not divided", topic, exc_info=outcome)
            return all(outcome is True for outcome in rounds) and not self._leaving

    async def _topic(self, topic: str) -> bool:
        found = await self._wanted(topic)
        if found is None:
            return False
        route, wanted, is_shared = found
        lost = [
            held
            for queue, held in self.held.items()
            if queue.topic == topic and (queue not in wanted or self._owner.is_stuck(held))
        ]
        await self._let_go(lost)
        fresh = [
            queue
            for queue in sorted(wanted)
            if queue not in self.held and queue not in self._leaving
        ]
        if fresh and is_shared and self._division.hand_over_s:
            # Who had them until now is notified at the same time, and saves its offsets meanwhile.
            await asyncio.sleep(self._division.hand_over_s)
        opened = await asyncio.gather(*(self._open(queue) for queue in fresh))
        if lost or any(opened):
            mine = sorted(queue for queue in self.held if queue.topic == topic)
            _log.info("%s: %d of %d queues are ours", topic, len(mine), len(route.read_queues))
            await self._owner.rebalanced(topic, route.read_queues)
        return all(opened)

    async def _wanted(self, topic: str) -> tuple[TopicRoute, frozenset[MessageQueue], bool] | None:
        """Returns what should be ours of a topic, and whether there are other members."""
        try:
            route = self._cluster.known_route(topic) or await self._cluster.route(topic)
            self._warned.discard(topic)
            self._missing_since_s.pop(topic, None)
            strategy = self._division.strategy
            fixed = self._owner.fixed(topic)
            if fixed is not None:
                return route, frozenset(fixed), False
            if strategy is None:
                return route, frozenset(route.read_queues), False
            members = await self._members(route)
            mine = allocated(strategy, self._cluster.client_id, route.read_queues, members)
        except NoRouteError as error:
            self._report_missing(topic, error)
            return None
        except NameServerError as error:
            # Reported by who asked.
            _log.debug("the queues of %s stay as they are: %s", topic, error.message)
            return None
        except MQError as error:
            level = logging.DEBUG if topic in self._undivided else logging.WARNING
            self._undivided.add(topic)
            _log.log(level, "the queues of %s stay as they are: %s", topic, error.message)
            return None
        self._undivided.discard(topic)
        return route, mine, len(members) > 1

    def _report_missing(self, topic: str, error: NoRouteError) -> None:
        """Warns once of a topic that is not there, where nobody is about to make it."""
        # The retry topic is made by a broker that hears our heartbeat.
        if topic in self._warned or topic.startswith(RETRY_PREFIX):
            return
        now_s = asyncio.get_running_loop().time()
        since_s = self._missing_since_s.setdefault(topic, now_s)
        if error.is_made_by_sends and now_s - since_s < _MISSING_S:
            return
        self._warned.add(topic)
        _log.warning("nothing is consumed of %s yet: %s", topic, error.message)

    async def _members(self, route: TopicRoute) -> list[str]:
        """Returns the members as a broker knows them; registers us where it does not know us."""
        members: list[str] = []
        try:
            members = await self._calls.consumer_ids(route)
        except MQError as error:
            _log.debug("a broker knows no member of the group: %s", error.message)
        if self._cluster.client_id not in members:
            await self._owner.heartbeat()
            members = await self._calls.consumer_ids(route)
        return members

    async def _open(self, queue: MessageQueue) -> bool:
        try:
            held = await self._owner.open(queue)
        except MQError as error:
            _log.warning("%s: cannot begin yet: %s", queue.label, error.message)
            return False
        if held is None:
            return False
        if self._is_closed:
            # It was asked for before the end: whoever comes next must not wait for its lock.
            held.stop()
            await self._owner.hand_over(held)
            return True
        self.held[queue] = held
        held.start()
        return True

    async def _let_go(self, lost: Collection[HeldQueue]) -> None:
        """Lets queues go; waits for those that are quick, the others end beside the rounds."""
        tasks = []
        for held in lost:
            queue = held.state.queue
            del self.held[queue]
            held.stop()
            task = asyncio.get_running_loop().create_task(self._owner.hand_over(held))
            self._leaving[queue] = task
            task.add_done_callback(partial(self._left, queue))
            tasks.append(task)
        if tasks:
            await asyncio.wait(tasks, timeout=self._division.hand_over_s)

    def _left(self, queue: MessageQueue, done: asyncio.Task[None]) -> None:
        self._leaving.pop(queue, None)
        if not done.cancelled() and done.exception() is not None:
            _log.error("%s: not handed over cleanly", queue.label, exc_info=done.exception())
        # It may have come back to us meanwhile.
        self.wake()

    def replace(self, before: HeldQueue, held: HeldQueue) -> None:
        """Puts a queue that was begun anew in the place of the one held, if that still is."""
        queue = held.state.queue
        if not self._is_closed and self.held.get(queue) is before:
            self.held[queue] = held
            held.start()

    def drop(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, HeldQueue]:
        """Takes queues out without handing them over; the next round begins them again."""
        found = {queue: held for queue in queues if (held := self.held.pop(queue, None))}
        for held in found.values():
            held.stop()
            held.state.is_dropped = True
        return found

    async def close(self) -> list[HeldQueue]:
        """Ends the rounds and every pull; returns what was held."""
        self._is_closed = True
        for held in self.held.values():
            held.stop()
        if self._leaving:
            await asyncio.wait(list(self._leaving.values()), timeout=self._division.hand_over_s)
        for task in list(self._leaving.values()):
            task.cancel()
        return list(self.held.values())
