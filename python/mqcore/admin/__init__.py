"""The administrator's side: one typed method per administrative request, for tools and consoles.

async with Admin("127.0.0.1:9876") as admin:
    await admin.topics.create("orders", queues=8)
    for row in (await admin.groups.progress("billing")).queues:
        print(row.queue, row.lag)
"""

from mqcore.admin.admin import Admin
from mqcore.admin.dead_letters import DeadLetter, Resent
from mqcore.admin.groups import LATEST_MS
from mqcore.admin.results import (
    ClusterInfo,
    Connected,
    CounterWindow,
    GroupConnections,
    GroupProgress,
    QueueProgress,
    QueueRange,
    TopicStats,
)

__all__ = [
    "LATEST_MS",
    "Admin",
    "ClusterInfo",
    "Connected",
    "CounterWindow",
    "DeadLetter",
    "GroupConnections",
    "GroupProgress",
    "QueueProgress",
    "QueueRange",
    "Resent",
    "TopicStats",
]
