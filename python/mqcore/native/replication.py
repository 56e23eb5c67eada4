"""How fast a master ships, and which sends it may acknowledge, as the extension takes them.

Knows no setting.
"""

from typing import NamedTuple

__all__ = ["ReplicationMembership", "ReplicationPace", "ReplicationQuorum"]


class ReplicationPace(NamedTuple):
    """How much goes to a slave.

    Attributes:
        batch_bytes: Bytes of one body at the most.
        bytes_per_second_max: Bytes of a second at the most; None for no bound.
        copied_bytes_per_second_max: Bytes of whole files that go to all who copy them in a second,
            while messages are stored; None for no bound.
    """

    batch_bytes: int
    bytes_per_second_max: int | None = None
    copied_bytes_per_second_max: int | None = None


class ReplicationQuorum(NamedTuple):
    """How many copies a send waits for.

    Attributes:
        in_sync_replicas: Copies, the master's among them; 1 counts as 2.
        in_sync_replicas_min: With fewer in sync, the master among them, nothing is stored.
        follows_in_sync: Wait for no more than are in sync, and for no fewer than the least.
        gap_max_bytes: A slave that is less behind is in sync.
        behind_max_bytes: A slave that is less behind is waited for.
    """

    in_sync_replicas: int = 1
    in_sync_replicas_min: int = 1
    follows_in_sync: bool = False
    gap_max_bytes: int = 268_435_456
    behind_max_bytes: int = 268_435_456


class ReplicationMembership(NamedTuple):
    """What a master under a controller needs to know of itself and its set.

    Attributes:
        controller_id: The own id.
        acks_whole_set: A send waits for the whole sync-state set (`allAckInSyncStateSet`).
        in_sync_replicas: Copies that a send waits for otherwise, the master's among them.
        in_sync_replicas_min: With fewer in the set, the master among them, nothing is stored.
        behind_max_ms: A member that is behind for longer is to leave the set
            (`haMaxTimeSlaveNotCatchup`).
        absent_max_ms: A member that is not connected for longer is to leave the set; one that joins
            has so long to get what it lacks, while sends wait for it.
    """

    controller_id: int
    acks_whole_set: bool = False
    in_sync_replicas: int = 1
    in_sync_replicas_min: int = 1
    behind_max_ms: int = 15_000
    absent_max_ms: int = 1_000
