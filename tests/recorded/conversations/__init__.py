"""All conversations, by the families of their requests."""

from typing import Final

from recorded.conversation import Conversation
from recorded.conversations import (
    access,
    brokers,
    clients,
    dialling,
    groups,
    later,
    namesrv,
    offsets,
    pops,
    pulls,
    queries,
    restarts,
    sends,
    topics,
    transactions,
)

__all__ = ["CONVERSATIONS"]

CONVERSATIONS: Final[tuple[Conversation, ...]] = (
    *sends.CONVERSATIONS,
    *pulls.CONVERSATIONS,
    *offsets.CONVERSATIONS,
    *queries.CONVERSATIONS,
    *restarts.CONVERSATIONS,
    *clients.CONVERSATIONS,
    *transactions.CONVERSATIONS,
    *later.CONVERSATIONS,
    *pops.CONVERSATIONS,
    *topics.CONVERSATIONS,
    *groups.CONVERSATIONS,
    *access.CONVERSATIONS,
    *brokers.CONVERSATIONS,
    *namesrv.CONVERSATIONS,
    *dialling.CONVERSATIONS,
)
