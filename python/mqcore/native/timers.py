"""The timers of a store: messages that wait for a time of their own.

Enters what came into the queue of the wheel's topic, and delivers what is due: a call at a time,
from any thread, whenever the owner of a timetable says so.
"""

from dataclasses import dataclass

from mqcore.native._native import NativeTimers

__all__ = ["Ticked", "TimerProgress", "Timers"]


@dataclass(frozen=True, slots=True)
class Ticked:
    """What a call did.

    Attributes:
        entered: Messages taken from the queue.
        delivered: Messages stored in their topic.
        rolled: Messages that go around the wheel again.
        deleted: Messages that were recalled.
        skipped: Messages passed over: gone by retention, or with nowhere to go.
        late_ms: How late the last one was delivered, behind the end of its step.
        has_more: Whether more can be done now.
    """

    entered: int
    delivered: int
    rolled: int
    deleted: int
    skipped: int
    late_ms: int
    has_more: bool


@dataclass(frozen=True, slots=True)
class TimerProgress:
    """How far the timers are.

    Attributes:
        read_ms: Time of the first slot that is not delivered, Unix ms.
        queue_offset: Next queue offset to enter.
        behind: Messages in the queue that are not entered.
        waiting: Messages in slots that are not delivered.
        changes: Rises with each change of what waits.
        entered: Messages entered since the start.
        delivered: Messages delivered since the start.
        log_bytes: Bytes of the timer log on the disk.
        wheel_bytes: Bytes of the wheel in memory.
    """

    read_ms: int
    queue_offset: int
    behind: int
    waiting: int
    changes: int
    entered: int
    delivered: int
    log_bytes: int
    wheel_bytes: int


class Timers(NativeTimers):
    """The timers of an open store; `flush` makes durable what was done, deliveries included.

    `is_due` tells whether `tick` would do anything. `step_ms` is the length of a step:
    a message is delivered at the first step that does not begin before its time. `check_point` is
    the body of GET_TIMER_CHECK_POINT, `waiting_rows` how many messages of each topic wait, and
    since when: `set_waiting_rows` takes them as they were saved, `forget` drops a topic.

    Args:
        store: The store.
        now_ms: The time, Unix ms; the store's clock without one.
    """

    def tick(self, now_ms: int | None = None) -> Ticked:
        """Enters what came, and delivers what is due. Bounded; may wait for the disk.

        Raises:
            StoreError: The first message could not be stored; the next call goes on there.
        """
        return Ticked(*self.tick_row(now_ms))

    def progress(self) -> TimerProgress:
        """Returns how far the timers are. Waits for a call that is under way."""
        return TimerProgress(*self.progress_row())
