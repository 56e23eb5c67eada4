"""What a membership has a broker do: take a role, take a sync-state set, keep or forget its id.

Values; who performs them is `ControlledBroker` for roles and sets, `ControllerLink` for the files.
"""

from dataclasses import dataclass

from mqcore.broker.replication.controller_messages import SyncStateSet
from mqcore.broker.replication.identity import Candidate, Identity

__all__ = [
    "Become",
    "Follow",
    "ForgetCandidate",
    "ForgetIdentity",
    "KeepCandidate",
    "KeepIdentity",
    "Order",
    "RefuseSet",
    "RoleOrder",
    "SettleEnd",
    "TakeSet",
]


@dataclass(frozen=True, slots=True)
class Become:
    """An order: be the master.

    Attributes:
        epoch: The epoch of the reign.
        members: The sync-state set.
    """

    epoch: int
    members: SyncStateSet


@dataclass(frozen=True, slots=True)
class Follow:
    """An order: be a slave.

    Attributes:
        epoch: The epoch of the master's reign.
        master_id: The id of the master at the controller.
        master_address: Where it answers requests.
        ha_address: Where it ships its log, where the controller sends it (ours may); else empty.
    """

    epoch: int
    master_id: int
    master_address: str
    ha_address: str = ""


@dataclass(frozen=True, slots=True)
class TakeSet:
    """An order to a master: this is the sync-state set now."""

    members: SyncStateSet


@dataclass(frozen=True, slots=True)
class RefuseSet:
    """An order to a master: the set that it asked for was refused, and nothing of it was taken.

    Attributes:
        number: How many sets it had asked for then. It is void when it has asked for another one
            since, which may be taken.
    """

    number: int


@dataclass(frozen=True, slots=True)
class KeepCandidate:
    """An order: write down which id is going to be applied for."""

    candidate: Candidate


@dataclass(frozen=True, slots=True)
class KeepIdentity:
    """An order: write down the id, then remove what was written for the application."""

    identity: Identity


@dataclass(frozen=True, slots=True)
class ForgetCandidate:
    """An order: remove what was written for the application: the id is somebody else's."""


@dataclass(frozen=True, slots=True)
class ForgetIdentity:
    """An order: remove the id: what this log has lost, others of the set still have."""


@dataclass(frozen=True, slots=True)
class SettleEnd:
    """An order: forget that the log may have lost its end, the controller's sets were looked at.

    It comes behind `ForgetIdentity`, where that follows from it.
    """


RoleOrder = Become | Follow | TakeSet | RefuseSet
Order = RoleOrder | KeepCandidate | KeepIdentity | ForgetCandidate | ForgetIdentity | SettleEnd
