"""What a controller is asked, as the extension takes it.

Knows no request of the wire.
"""

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["AlterSetRow", "CandidateRow", "ClaimRow", "ControllerGroupRow", "ElectRow"]


class ControllerGroupRow(NamedTuple):
    """Which controllers agree with one another.

    Attributes:
        number: The number of this one.
        members: The numbers of all.
        heartbeat_ms: Between two messages of an idle leader.
        election_ms: Without one for at least so long, another one is elected.
        wait_ms: How long a request waits until enough of them agree.
    """

    number: int = 0
    members: Sequence[int] = (0,)
    heartbeat_ms: int = 200
    election_ms: int = 1_000
    wait_ms: int = 4_000


class CandidateRow(NamedTuple):
    """A living broker, as its last heartbeat describes it.

    Attributes:
        id: Its id.
        epoch: The last epoch in its log, -1 for none.
        max_offset: Where its log ends (bytes), -1 where it did not report it.
        priority: Of equal ones the smaller number wins.
    """

    id: int
    epoch: int
    max_offset: int
    priority: int


class AlterSetRow(NamedTuple):
    """A master wants another set.

    Attributes:
        name: The broker name.
        master: Id of who asks.
        master_epoch: The master's epoch, as it knows it.
        set_epoch: The set's epoch, as it knows it.
        in_sync: Ids of the set that it wants.
        alive: Ids of who is alive.
        in_sync_min: With fewer copies a master acknowledges nothing.
    """

    name: str
    master: int
    master_epoch: int
    set_epoch: int
    in_sync: Sequence[int]
    alive: Sequence[int]
    in_sync_min: int = 1


class ClaimRow(NamedTuple):
    """Which process registers under an id.

    Attributes:
        check_code: Names the process; the broker has it from then on.
        seen: The check code that the broker had when it was looked whether that process lives.
        is_held: Whether it may live.
    """

    check_code: str
    seen: str
    is_held: bool


class ElectRow(NamedTuple):
    """Somebody wants a master.

    Attributes:
        name: The broker name.
        broker_id: The broker that asks, or that a person wants; None: the controller asks.
        is_designated: Whether a person wants that broker and no other.
        master_epoch: What held when the living were counted.
        set_epoch: The same of the set.
        alive: Who is alive.
        allows_unclean: Whether a broker may become master that may miss messages.
        in_sync_min: With fewer copies a master acknowledges nothing.
    """

    name: str
    broker_id: int | None
    is_designated: bool
    master_epoch: int
    set_epoch: int
    alive: Sequence[CandidateRow]
    allows_unclean: bool = False
    in_sync_min: int = 1
