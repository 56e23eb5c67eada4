"""Pops of batch queues: a batch is one record there, and comes again as its messages."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.test_pop import INVISIBLE_MS, POPS, come_back, on_loop, pass_time, popper
from live_broker import Live, batch_fields, live
from loops import run_on
from mqcore.remoting import RequestCode
from popping import Popped, Popper


def batch_body(*bodies: str) -> bytes:
    """Returns messages with a property each, as the body of a batch."""
    parts = []
    for body in bodies:
        own = f"p\x01{body}\x02".encode()
        numbers = (22 + len(body) + len(own), 0, 0, 0, len(body))
        head = b"".join(number.to_bytes(4, "big") for number in numbers)
        parts.append(head + body.encode() + len(own).to_bytes(2, "big") + own)
    return b"".join(parts)


@asynccontextmanager
async def popping(path: Path, **keys: str) -> AsyncIterator[tuple[Live, Popper]]:
    """Runs a broker with a topic of one batch queue."""
    async with live(path, **(POPS | keys)) as running:
        if running.broker.state.topics.find("t") is None:
            ext = {
                "topic": "t",
                "defaultTopic": "TBW102",
                "readQueueNums": 1,
                "writeQueueNums": 1,
                "perm": 6,
                "topicFilterType": "SINGLE_TAG",
                "attributes": "+queue.type=BatchCQ",
            }
            assert (await running.call(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)).code == 0
        yield running, popper(running)


async def send_batch(running: Live, *bodies: str) -> None:
    """Sends messages as one record."""
    answer = await running.call(
        RequestCode.SEND_BATCH_MESSAGE, batch_fields("t"), batch_body(*bodies)
    )
    assert (answer.code, answer.ext["batchUniqId"]) == (0, "BATCH")


async def filled(running: Live) -> None:
    """Sends a message, a batch of three, another message."""
    await running.send("t", b"first")
    await send_batch(running, "a", "b", "c")
    await running.send("t", b"last")
    await running.settled()


def committed(running: Live) -> int | None:
    return running.broker.state.fast_path.offsets.find("g", "t", 0)


def offsets_and_bodies(popped: list[Popped]) -> list[tuple[int, bytes]]:
    return [(each.offset, each.body.encode()) for each in popped]


ALL = [(0, b"first"), (1, batch_body("a", "b", "c")), (4, b"last")]


@pytest.mark.parametrize("has_buffer", ["true", "false"])
def test_a_batch_is_popped_and_acknowledged_as_one(tmp_path: Path, has_buffer: str) -> None:
    run_on("asyncio", one_by_one(tmp_path, has_buffer))


async def one_by_one(path: Path, has_buffer: str) -> None:
    async with popping(path, enablePopBufferMerge=has_buffer) as (running, group):
        await filled(running)
        popped = await group.pop()
        assert offsets_and_bodies(popped) == ALL
        assert await group.pop() == []
        for each in popped:
            assert await group.ack(each) == 0
        assert committed(running) == 5
        # One at a time: the batch is one of them, however many messages it holds.
        await filled(running)
        for offset in (5, 6, 9):
            (each,) = await group.pop(maxMsgNums=1)
            assert (each.offset, await group.ack(each)) == (offset, 0)
        assert (await group.pop(), committed(running)) == ([], 10)


@on_loop
async def test_a_batch_that_nobody_acknowledges_comes_again_as_its_messages(
    tmp_path: Path,
) -> None:
    async with popping(tmp_path) as (running, group):
        await filled(running)
        first, *_ = await group.pop(invisibleTime=INVISIBLE_MS)
        assert await group.ack(first) == 0
    async with popping(tmp_path) as (running, group):
        assert (await group.pop(), committed(running)) == ([], 5)
        pass_time(running)
        await come_back(running)
        assert running.broker.state.revived == 4
        answer = await group.request()
        again = group.popped(answer)
        assert [each.body for each in again] == ["a", "b", "c", "last"]
        assert {(each.topic, each.times) for each in again} == {("%RETRY%g_t", 1)}
        assert [await group.ack(each) for each in again] == [0] * 4
        assert await group.pop() == []
        got = await running.pull("%RETRY%g_t", 0)
        for name in (b"INNER_NUM", b"INNER_BASE", b"UNIQ_KEY"):
            assert name not in got.body
        assert all(f"p\x01{each}\x02".encode() in got.body for each in "abc")


@on_loop
async def test_a_changed_time_holds_for_the_batch(tmp_path: Path) -> None:
    async with popping(tmp_path) as (running, group):
        await send_batch(running, "a", "b")
        await running.settled()
        (batch,) = await group.pop()
        assert (await group.change(batch, INVISIBLE_MS)).code == 0
        pass_time(running)
        await come_back(running)
        assert [each.body for each in await group.pop()] == ["a", "b"]


@on_loop
async def test_ordered_pops_go_on_behind_a_batch(tmp_path: Path) -> None:
    order = {"order": "true", "queueId": 0, "maxMsgNums": 1}
    async with popping(tmp_path) as (running, group):
        await filled(running)
        for expected, behind in zip(ALL, (1, 4, 5), strict=True):
            popped = await group.pop(**order)
            assert offsets_and_bodies(popped) == [expected]
            assert (await group.ack(popped[0]), committed(running)) == (0, behind)
        assert await group.pop(**order) == []


@pytest.mark.parametrize("order", ["true", "false"])
def test_a_group_in_the_middle_of_a_batch_gets_all_of_it(tmp_path: Path, order: str) -> None:
    run_on("asyncio", from_the_middle(tmp_path, order))


async def from_the_middle(path: Path, order: str) -> None:
    async with popping(path) as (running, group):
        await filled(running)
        await group.pop(maxMsgNums=1)
        running.broker.state.fast_path.offsets.commit("g", "t", 0, 2)
        popped = await group.pop(order=order, queueId=0)
        assert offsets_and_bodies(popped) == ALL[1:]
        assert [await group.ack(each) for each in popped] == [0, 0]
        assert committed(running) == 5
