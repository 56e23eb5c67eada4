"""What a master has asked its controller of the sync-state set, and what may come of it yet.

A request without an answer may be taken later, also behind one that was refused: then sends must
wait for whoever it names. So a set is given up only where the controller shows the old one, and, if
a try before had no answer, has refused whatever was sent (`FENCE_SET`). Values alone: who asks, and
when, is `Membership`.
"""

from dataclasses import dataclass

from mqcore.broker.replication.controller_messages import Ask, Purpose, SyncStateSet
from mqcore.broker.replication.orders import RefuseSet

__all__ = ["SetRequests"]


@dataclass(slots=True)
class SetRequests:
    """The requests of one reign.

    Attributes:
        wanted: The set that is to be asked for, or is asked for now.
        count: How many sets were asked for.
        doubtful: The epoch of the set that a request without an answer was to replace.
    """

    wanted: SyncStateSet | None = None
    count: int = 0
    doubtful: int | None = None
    # The epoch of the set that a refused one was to replace, and which one was asked for last then,
    # until it is known which set counts.
    _refused: tuple[int, int] | None = None
    # Which one was asked for last when the controller was to refuse whatever was sent.
    _fences: int | None = None

    @property
    def purpose(self) -> Purpose | None:
        """What is to be asked."""
        if self._fences is not None:
            return Purpose.FENCE
        return None if self.wanted is None else Purpose.ALTER

    def alter(self, wanted: SyncStateSet) -> None:
        """Notes that another set is wanted."""
        self.wanted = wanted
        self.count += 1

    def begin_reign(self) -> None:
        """Forgets what was asked for in an earlier epoch of the master."""
        self.wanted = self.doubtful = self._refused = self._fences = None

    def unheard(self, ask: Ask) -> None:
        """Notes that a request has no answer."""
        if ask.purpose is Purpose.ALTER:
            self.doubtful = SyncStateSet.parse(ask.body).epoch

    def hear_refusal(self) -> bool:
        """Hears that the set was refused; returns whether the group is to be looked at."""
        wanted, self.wanted = self.wanted, None
        if wanted is None:
            return True
        if wanted.epoch == self.doubtful:
            # The try before may come to the controller behind this one.
            self._fences = self.count
            return False
        # Something is otherwise than we think: who is master, or which set counts.
        self._refused = (wanted.epoch, self.count)
        return True

    def hear_fenced(self, *, is_done: bool) -> None:
        """Hears whether what was sent until now is refused from now on.

        A controller of RocketMQ knows no such request: there a look has to do.
        """
        number, self._fences = self._fences, None
        epoch, self.doubtful = self.doubtful, None
        if is_done:
            # What was asked for meanwhile is of the set before, too.
            self.wanted = None
        elif epoch is not None and number is not None:
            self._refused = (epoch, number)

    def hear_set(self, known: SyncStateSet) -> RefuseSet | None:
        """Hears which set the controller has, behind a refusal; returns what is to be given up."""
        if self._refused is None:
            return None
        (replaced, number), self._refused = self._refused, None
        is_old = known.epoch <= replaced and number == self.count
        return RefuseSet(number) if is_old else None

    def hear_newer(self) -> None:
        """Hears of a larger epoch: what was asked for of the set before is refused."""
        self.doubtful = self._fences = None
