"""Where a group would go on in a topic, before it is moved: by a time, or by so many messages.

Asks, and changes nothing. `Groups.reset_to_time` and `Groups.reset_queue` move.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from mqcore.admin.admin import Admin
from mqcore.admin.groups import LATEST_MS
from mqcore.errors import MQError
from mqcore.model.queues import MessageQueue

__all__ = ["shifted", "targets_of_time"]

# Questions at once: brokers have other work.
_AT_ONCE_MAX: Final = 16


async def targets_of_time(admin: Admin, topic: str, time_ms: int) -> dict[MessageQueue, int]:
    """Returns where a reset to a time would lead, by queue.

    Args:
        admin: The administrator.
        topic: Which.
        time_ms: Unix ms; `LATEST_MS` for behind the last message.

    Raises:
        NoRouteError: No name server knows the topic.
    """
    queues = (await admin.topics.stats(topic)).queues
    if time_ms == LATEST_MS:
        return {row.queue: row.max_offset for row in queues}
    gate = asyncio.Semaphore(_AT_ONCE_MAX)

    async def at(queue: MessageQueue) -> int:
        async with gate:
            return await admin.topics.offset_at(queue, time_ms)

    found = await asyncio.gather(*(at(row.queue) for row in queues))
    # A queue without a message answers any time with its end.
    ends = zip(queues, found, strict=True)
    return {row.queue: min(max(at, row.min_offset), row.max_offset) for row, at in ends}


async def shifted(
    admin: Admin,
    topic: str,
    before: Mapping[MessageQueue, int],
    steps: int,
    only: MessageQueue | None = None,
) -> dict[MessageQueue, int]:
    """Returns where a group comes by so many messages from where it is, in each queue it reads.

    Args:
        admin: The administrator.
        topic: Which.
        before: Where the group is, by queue.
        steps: Messages; below 0: back.
        only: Only this queue.

    Raises:
        MQError: It has committed nothing there.
        NoRouteError: No name server knows the topic.
    """
    ends = {row.queue: row for row in (await admin.topics.stats(topic)).queues}
    queues = [each for each in before if each in ends and only in (None, each)]
    if not queues:
        where = f"queue {only}" if only else f"topic {topic}"
        raise MQError(
            f"the group has committed no offset in {where}: "
            "there is nothing to count from; use --to start or --to end"
        )
    return {
        each: min(max(before[each] + steps, ends[each].min_offset), ends[each].max_offset)
        for each in queues
    }
