"""Where a consumer begins in a queue that it was given: the rules of `RebalancePushImpl`.

Knows no socket: who asks passes in who answers.
"""

from enum import Enum
from typing import Final, Protocol

from mqcore.model.queues import MessageQueue
from mqcore.model.topics import RETRY_PREFIX

__all__ = ["ConsumeFrom", "OffsetQueries", "starting_offset"]

# "The oldest message that there is": the broker corrects it where offset 0 is gone.
_FIRST: Final = 0


class ConsumeFrom(Enum):
    """Where a group begins that has never consumed a queue; its value is the official name.

    Brokers of version 4 and 5 begin a new group at offset 0 of a queue that still has its first
    message in memory, whatever is asked for here.
    """

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class OffsetQueries(Protocol):
    """Answers questions about the offsets of a queue."""

    async def max_offset(self, queue: MessageQueue) -> int:
        """Returns the offset behind the newest message."""
        ...

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Returns the offset of the first message stored at a time or later."""
        ...


async def starting_offset(
    queue: MessageQueue,
    stored: int | None,
    consume_from: ConsumeFrom,
    timestamp_ms: int,
    queries: OffsetQueries,
) -> int:
    """Returns the first offset to pull.

    Args:
        queue: The queue.
        stored: What the store of offsets knows; None where the group never consumed the queue.
        consume_from: Where a new group begins.
        timestamp_ms: The time, for `TIMESTAMP`, in ms since 1970.
        queries: Answers what else must be known.

    Raises:
        RemotingError: A question was not answered; ask again later, nothing is assumed.
    """
    if stored is not None:
        return stored
    if consume_from is ConsumeFrom.FIRST_OFFSET:
        return _FIRST
    is_retry = queue.topic.startswith(RETRY_PREFIX)
    if consume_from is ConsumeFrom.TIMESTAMP:
        if is_retry:
            return await queries.max_offset(queue)
        return await queries.search_offset(queue, timestamp_ms)
    # What was given back before the group first looked is to be consumed all the same.
    return _FIRST if is_retry else await queries.max_offset(queue)
