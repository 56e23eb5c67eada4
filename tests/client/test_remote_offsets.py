"""Offsets at brokers: what is sent to whom at once, and what counts as saved."""

import asyncio
from typing import cast

from mqcore.client.consumer_calls import ConsumerCalls
from mqcore.client.offset_stores import RemoteOffsets
from mqcore.errors import CallTimeoutError
from mqcore.model.queues import MessageQueue


class Calls:
    """Notes which calls are under way together; those of `lost` queues are never answered."""

    def __init__(self) -> None:
        self.under_way: set[int] = set()
        self.together: list[set[int]] = []
        self.lost: set[int] = set()

    async def update_offset(self, queue: MessageQueue, offset: int) -> None:
        del offset
        self.under_way.add(queue.queue_id)
        self.together.append(set(self.under_way))
        await asyncio.sleep(0)
        self.under_way.discard(queue.queue_id)
        if queue.queue_id in self.lost:
            raise CallTimeoutError("no answer", address="broker")


def queue(number: int) -> MessageQueue:
    return MessageQueue("T", "b", number)


def test_the_first_offset_of_a_topic_is_sent_alone() -> None:
    calls = Calls()
    store = RemoteOffsets(cast(ConsumerCalls, calls))

    async def scene() -> None:
        assert await store.save({queue(n): 5 for n in range(4)}) == {queue(n): 5 for n in range(4)}
        assert len(calls.together[0]) == 1
        assert len(calls.together[1]) == 1, "the others wait for its answer"
        assert len(calls.together[3]) == 3
        calls.together.clear()
        await store.save({queue(n): 6 for n in range(4)})
        assert len(calls.together[3]) == 4, "its table is there now"

    asyncio.run(scene())


def test_what_is_not_acknowledged_is_not_saved() -> None:
    calls = Calls()
    calls.lost = {0, 1}
    store = RemoteOffsets(cast(ConsumerCalls, calls))

    async def scene() -> None:
        assert await store.save({queue(n): 5 for n in range(3)}) == {queue(2): 5}
        assert await store.save({}) == {}

    asyncio.run(scene())
