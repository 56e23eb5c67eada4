"""How far a broker is with its controller, and how often it asks what. Values; knows no request."""

from dataclasses import dataclass
from enum import Enum

__all__ = ["Phase", "Timetable"]


class Phase(Enum):
    """How far a broker is, in the official words' order (`ReplicasManager.State`)."""

    INITIAL = "no controller has named the leader"
    LEADER_KNOWN = "not registered with the controller"
    REGISTERED = "no master is elected"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Timetable:
    """How often what is asked, ms.

    Attributes:
        replicas_ms: Who the master is (`syncBrokerMetadataPeriod`).
        leader_ms: Which controller leads (`syncControllerMetadataPeriod`).
        heartbeat_ms: Distance of heartbeats (`brokerHeartbeatInterval`).
        heartbeat_timeout_ms: After which silence the controller takes the broker for dead
            (`controllerHeartBeatTimeoutMills`).
        election_priority: The smallest is preferred among equals (`brokerElectionPriority`).
    """

    replicas_ms: int = 5_000
    leader_ms: int = 10_000
    heartbeat_ms: int = 1_000
    heartbeat_timeout_ms: int = 10_000
    election_priority: int = 2_147_483_647
