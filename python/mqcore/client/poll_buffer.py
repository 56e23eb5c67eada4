"""What was pulled and waits for a poll, queue by queue in turn; queues that are paused wait apart.

Knows neither brokers nor offsets.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from mqcore.client.message import ReceivedMessage
from mqcore.client.process_queue import PolledQueue
from mqcore.client.queue_puller import HeldQueue
from mqcore.model.queues import MessageQueue

__all__ = ["PollBuffer", "polled"]


class PollBuffer:
    """The queues of one member that have messages for a poll.

    Attributes:
        paused: Queues that nothing is given of now.
        is_ended: Whether no more will come.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """Takes a monotonic time."""
        self.paused: set[MessageQueue] = set()
        self.is_ended = False
        self._now_ms = now_ms
        self._ready: deque[HeldQueue] = deque()
        self._parked: list[HeldQueue] = []
        self._arrival: asyncio.Future[None] | None = None

    def add(self, held: HeldQueue) -> None:
        """Lets a queue that has messages wait for its turn."""
        if held not in self._ready:
            self._ready.append(held)
        self._wake()

    def end(self) -> None:
        """Ends polls that wait."""
        self.is_ended = True
        self._wake()

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Gives nothing of some queues until `resume`."""
        self.paused.update(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Gives messages of some queues again."""
        self.paused.difference_update(queues)
        self._ready.extend(self._parked)
        self._parked.clear()
        self._wake()

    async def poll(self, timeout_s: float | None, count_max: int) -> list[ReceivedMessage]:
        """Returns the next messages, of one queue; none after the time, or at the end.

        Args:
            timeout_s: How long to wait for the first one; None for ever.
            count_max: How many at the most.
        """
        loop = asyncio.get_running_loop()
        ends_s = None if timeout_s is None else loop.time() + timeout_s
        while not self.is_ended:
            found = self._take(count_max)
            if found:
                return found
            left_s = None if ends_s is None else ends_s - loop.time()
            if left_s is not None and left_s <= 0:
                break
            self._arrival = loop.create_future()
            await asyncio.wait([self._arrival], timeout=left_s)
        return []

    def _take(self, count_max: int) -> list[ReceivedMessage]:
        """Takes what waits of the queue whose turn it is."""
        while self._ready:
            held = self._ready.popleft()
            state = polled(held)
            if state.is_dropped or held.is_leaving or state.queue in self.paused:
                # What is forgotten comes again, to whoever has the queue then.
                if state.queue in self.paused and not held.is_leaving:
                    self._parked.append(held)
                continue
            found: list[ReceivedMessage] = []
            while state.has_waiting and len(found) < count_max:
                parcel = state.take(self._now_ms())
                if parcel is None:
                    break
                found.extend(parcel.messages)
            if state.has_waiting:
                self._ready.append(held)
            held.on_space_freed()
            if found:
                state.tally(len(found), 0, is_done=True)
                return found
        return []

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)


def polled(held: HeldQueue) -> PolledQueue[ReceivedMessage]:
    """Returns the state of a queue that is polled."""
    assert isinstance(held.state, PolledQueue)
    return held.state
