"""What the broker knows of its replicas: who ships and who follows, and the master's addresses.

Holds no socket and no algorithm: the tables that handlers, metrics and replication share.
"""

from dataclasses import dataclass

from mqcore.native import ReplicationMaster, ReplicationSlave

__all__ = ["HEARTBEAT_MIN_MS", "Replicas"]

# A smaller setting, which officially sends one as fast as it can, keeps nobody busy.
HEARTBEAT_MIN_MS = 100


@dataclass(slots=True)
class Replicas:
    """The replication of one broker.

    Attributes:
        port: Where slaves connect; 0 while nothing listens.
        master: Ships the log, on a master that is listened to.
        slave: Follows the log of a master, on a slave.
        master_address: Where the master answers requests, as name servers know it; or empty.
        master_ha_address: Where it ships its log; or empty.
        ended: Why the last connection to the master ended; empty while there was none.
        synced_ms: When the tables of the master were taken last; 0 for never.
    """

    port: int = 0
    master: ReplicationMaster | None = None
    slave: ReplicationSlave | None = None
    master_address: str = ""
    master_ha_address: str = ""
    ended: str = ""
    synced_ms: int = 0

    def learn(self, address: str, ha_address: str) -> None:
        """Takes what a name server knows of the master; what it does not know stays as it was."""
        self.master_address = address or self.master_address
        self.master_ha_address = ha_address or self.master_ha_address
