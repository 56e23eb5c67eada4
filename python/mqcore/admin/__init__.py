"""The administrator's side: one typed method per administrative request, for tools and consoles.

async with Admin("127.0.0.1:9876") as admin:
    await admin.topics.create("orders", queues=8)
    for row in (await admin.groups.progress("billing")).queues:
        print(row.queue, row.lag)

`mqcore.aio.Admin` is this `Admin`; `mqcore.Admin` has the same methods without `await`.
"""

from mqcore.access import Acl, Entry, Policy, Resource, User
from mqcore.admin.access import Access, AccessDecision
from mqcore.admin.admin import Admin
from mqcore.admin.audits import AuditCheck, AuditPage, Audits
from mqcore.admin.broker_settings import BrokerSetting
from mqcore.admin.brokers import Brokers
from mqcore.admin.dead_letters import DeadLetter, DeadLetters, ResendResult, Resent
from mqcore.admin.groups import LATEST_MS, Groups
from mqcore.admin.limits import BrokerLimits, Quota, UserConnections
from mqcore.admin.messages import Messages
from mqcore.admin.name_servers import NameServers
from mqcore.admin.results import (
    ClusterInfo,
    Connected,
    CounterWindow,
    GroupConnections,
    GroupProgress,
    HandOver,
    HandOverStep,
    QueueProgress,
    QueueRange,
    Refill,
    Replica,
    ReplicationStatus,
    TopicStats,
)
from mqcore.admin.slow import RequestStage, SlowRequest, SlowRequests
from mqcore.admin.topics import Topics
from mqcore.admin.traces import Traces
from mqcore.audit import Wanted as AuditWanted
from mqcore.client.routes import TopicRoute
from mqcore.model.groups import GroupConfig
from mqcore.model.request_modes import RequestMode
from mqcore.model.topics import TopicConfig
from mqcore.model.traces import MessageTrace
from mqcore.occupancy import FilePart, Held, Mapped, Occupied

__all__ = [
    "LATEST_MS",
    "Access",
    "AccessDecision",
    "Acl",
    "Admin",
    "AuditCheck",
    "AuditPage",
    "AuditWanted",
    "Audits",
    "BrokerLimits",
    "BrokerSetting",
    "Brokers",
    "ClusterInfo",
    "Connected",
    "CounterWindow",
    "DeadLetter",
    "DeadLetters",
    "Entry",
    "FilePart",
    "GroupConfig",
    "GroupConnections",
    "GroupProgress",
    "Groups",
    "HandOver",
    "HandOverStep",
    "Held",
    "Mapped",
    "MessageTrace",
    "Messages",
    "NameServers",
    "Occupied",
    "Policy",
    "QueueProgress",
    "QueueRange",
    "Quota",
    "Refill",
    "Replica",
    "ReplicationStatus",
    "RequestMode",
    "RequestStage",
    "ResendResult",
    "Resent",
    "Resource",
    "SlowRequest",
    "SlowRequests",
    "TopicConfig",
    "TopicRoute",
    "TopicStats",
    "Topics",
    "Traces",
    "User",
    "UserConnections",
]
