"""What the broker knows of its replicas: who ships and who follows, and the master's addresses.

Holds no socket and no algorithm: the tables that handlers, metrics and replication share.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mqcore.native import (
    ReplicationEpochs,
    ReplicationMaster,
    ReplicationSlave,
    ReplicationTls,
)
from mqcore.remoting.renewal import Renewed

__all__ = ["HEARTBEAT_MIN_MS", "ActsForMaster", "Elections", "Replicas"]

# A smaller setting, which officially sends one as fast as it can, keeps nobody busy.
HEARTBEAT_MIN_MS = 100


class Elections(Protocol):
    """Who keeps a broker a member of its group, as the broker's parts call it."""

    def notified(self, ext: Mapping[str, str], body: bytes) -> None:
        """Takes a notice of the controller: who is master from an epoch on."""

    def alter(self, members: Iterable[int], set_epoch: int) -> None:
        """Asks for another sync-state set than that of an epoch."""

    async def hand_over(self, to: str, *, is_plan: bool) -> dict[str, Any]:
        """Begins to hand the role of the master over, or returns to whom it would go.

        Args:
            to: The address of the successor; empty for the best one.
            is_plan: Whether nothing is to be begun.

        Returns:
            How far it is, as `HandOverReport` has it.

        Raises:
            RefusedError: It cannot be handed over now.
        """

    def handed_over(self) -> dict[str, Any]:
        """Returns how far the last hand-over is, as `HandOverReport` has it."""

    def diverged(self, cut_at: int) -> None:
        """Hears that the log has to end at an offset before its master can be followed."""


class ActsForMaster(Protocol):
    """What makes a slave act for its master, as the broker's parts call it."""

    @property
    def acts(self) -> bool:
        """Whether it does."""

    def min_id_changed(self, min_id: int, address: str, ha_address: str) -> None:
        """Hears who has the smallest id of the group now."""


class Figures(Protocol):
    """How far a copy of whole files is, as figures show it."""

    @property
    def total_bytes(self) -> int:
        """Returns the bytes of all whole files that are to come."""

    @property
    def done_bytes(self) -> int:
        """Returns those that are in the log."""

    @property
    def bytes_per_second(self) -> int:
        """Returns the rate since it began."""


class Refill(Protocol):
    """A copy of whole files that is under way."""

    @property
    def figures(self) -> Figures:
        """Returns how far it is."""


class Members(Protocol):
    """Who belongs to the group of a broker."""

    async def is_member(self, host: str, own_host: str) -> bool:
        """Returns whether a host is that of a member; it may be asked for.

        Args:
            host: The address that a connection comes from.
            own_host: Our own address of it.
        """


class Protection(Protocol):
    """TLS between a master and its slaves."""

    @property
    def mode(self) -> str:
        """disabled, permissive or enforcing."""

    @property
    def ends(self) -> tuple[Renewed[ReplicationTls], ...]:
        """What follows the files of certificates."""

    def serving(self) -> ReplicationTls | None:
        """Returns what protects the next connection of a slave; None for a plain port."""

    def asking(self) -> ReplicationTls | None:
        """Returns what protects the next connection to a master; None for a plain one."""


@dataclass(slots=True)
class Replicas:
    """The replication of one broker.

    Attributes:
        controller_id: The id of the broker at its controller; 0 without one, and before it has a
            role.
        port: Where slaves connect; 0 while nothing listens.
        master: Ships the log, on a master that is listened to.
        slave: Follows the log of a master, on a slave.
        epochs: Which master wrote which part of the log; None without a controller.
        master_address: Where the master answers requests, as name servers or the controller know
            it; or empty.
        master_ha_address: Where it ships its log; or empty.
        has_master: Whether a slave is connected to its master.
        members: Who belongs to the group, on a master.
        protection: TLS of the port for slaves; None before replication is prepared.
        refilling: How far the copy of whole files is, while there is one.
        ended: Why the last connection to the master ended; empty while there was none.
        synced_ms: When the tables of the master were taken last; 0 for never.
        acting: Of a group with acting masters: what makes one of a slave.
        gives_access: Whether the master gives users and policies to its slaves: one of mqcore does.
        master_flush_offset: What the master had on its disk by the word of a tool; shown alone.
    """

    controller_id: int = 0
    port: int = 0
    master: ReplicationMaster | None = None
    slave: ReplicationSlave | None = None
    epochs: ReplicationEpochs | None = None
    master_address: str = ""
    master_ha_address: str = ""
    has_master: bool = False
    members: Members | None = None
    protection: Protection | None = None
    refilling: Refill | None = None
    ended: str = ""
    synced_ms: int = 0
    acting: ActsForMaster | None = None
    gives_access: bool = False
    master_flush_offset: int = 0

    def settled(self, appended: int) -> int:
        """Returns up to where no later master may cut the log, which ends at `appended`.

        That is the confirm offset of a member of a group, and the end without a controller.
        """
        return appended if self.epochs is None else self.epochs.positions().confirmed

    def learn(self, address: str, ha_address: str) -> None:
        """Takes what a name server knows of the master; what it does not know stays as it was."""
        self.master_address = address or self.master_address
        self.master_ha_address = ha_address or self.master_ha_address

    def learn_of_elected(self, address: str, ha_address: str) -> None:
        """Takes where the elected master ships its log.

        A name server may know an older master for a while: its address is no help.
        """
        if address == self.master_address:
            self.master_ha_address = ha_address or self.master_ha_address

    def elect(self, address: str, ha_address: str) -> None:
        """Takes a new master from the controller; where it ships its log may not be known yet."""
        self.master_address, self.master_ha_address = address, ha_address
        self.ended = ""
