"""Two masters without slaves: one is killed under load, and what was acknowledged is all there."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from client.serving import Cluster, pulled, scripted
from interop.servers import OURS, Program, prepared
from mqcore import Message, QueueRef, SendResult, aio
from mqcore.errors import SendError
from mqcore.native import Command, decode_records
from mqcore.remoting import Client, Request, RequestCode

_QUEUES = 4


@contextmanager
def two_masters(root: Path) -> Iterator[tuple[Program, dict[str, Program]]]:
    """Runs a name server and two brokers as processes; gives it and them by name."""
    first = prepared(OURS, root / "a", {"brokerName": "a"})
    second = prepared(OURS, root / "b", {"brokerName": "b"})
    second.broker.settings["namesrvAddr"] = first.namesrv.address
    programs = (first.namesrv, first.broker, second.broker)
    try:
        for program in programs:
            program.start()
        yield first.namesrv, {"a": first.broker, "b": second.broker}
    finally:
        for program in reversed(programs):
            program.stop()


async def _create(client: Client, broker: Program, topic: str) -> None:
    ext = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(_QUEUES),
        "writeQueueNums": str(_QUEUES),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    code = RequestCode.UPDATE_AND_CREATE_TOPIC
    assert (await client.call(broker.address, code, ext, timeout_s=20.0)).code == 0


async def _kept(client: Client, broker: Program, topic: str) -> set[tuple[str, str]]:
    """Returns the unique and offset ids of every message that a broker has of a topic."""
    found: set[tuple[str, str]] = set()
    for queue_id in range(_QUEUES):
        offset, end = 0, 1
        while offset < end:
            ext = {
                "consumerGroup": "g",
                "topic": topic,
                "queueId": str(queue_id),
                "queueOffset": str(offset),
                "maxMsgNums": "32",
                "sysFlag": "4",
                "commitOffset": "0",
                "suspendTimeoutMillis": "0",
                "subscription": "*",
                "subVersion": "0",
                "expressionType": "TAG",
            }
            code = RequestCode.PULL_MESSAGE
            answer = await client.call(broker.address, code, ext, timeout_s=20.0)
            end = int(answer.ext["maxOffset"])
            if answer.code == 0:
                records = decode_records(answer.body)
                found |= {(record.uniq_key or "", record.message_id) for record in records}
            offset = int(answer.ext["nextBeginOffset"])
    return found


@pytest.mark.slow
def test_sends_go_on_when_a_master_is_killed_and_nothing_acknowledged_is_lost(
    tmp_path: Path,
) -> None:
    acknowledged: list[SendResult] = []
    refused: list[SendError] = []

    async def work(namesrv: Program, brokers: dict[str, Program]) -> None:
        killed = asyncio.Event()

        async def load(producer: aio.Producer) -> None:
            # So many after the kill that every task meets the dead broker's queues.
            after = 0
            while after < 20:
                try:
                    acknowledged.append(await producer.send(Message("load", b"x" * 100)))
                except SendError as error:
                    refused.append(error)
                after += killed.is_set()

        async with Client() as client:
            for broker in brokers.values():
                await _create(client, broker, "load")
            async with aio.Producer(namesrv.address, group="pg", timeout_s=20.0) as producer:
                while len(await producer.queues("load")) < 2 * _QUEUES:
                    await producer.instance.refresh_route("load")
                tasks = [asyncio.ensure_future(load(producer)) for _ in range(16)]
                while len(acknowledged) < 500:  # noqa: ASYNC110 - the load is under way
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(brokers["a"].kill)
                killed.set()
                await asyncio.gather(*tasks)
            await asyncio.to_thread(brokers["a"].start)
            kept = await _kept(client, brokers["a"], "load")
            kept |= await _kept(client, brokers["b"], "load")
        stored = {(result.message_id, result.offset_message_id) for result in acknowledged}
        assert stored <= kept

    with two_masters(tmp_path) as (namesrv, brokers):
        asyncio.run(work(namesrv, brokers))
    assert refused == []
    assert {result.queue.broker_name for result in acknowledged} == {"a", "b"}
    assert max(result.attempts for result in acknowledged) == 2


def test_a_send_that_timed_out_after_it_was_stored_is_there_twice_with_one_id(
    cluster: Cluster,
) -> None:
    async def work() -> None:
        swallowed: list[Request] = []

        async def forward(request: Request) -> Command | None:
            async with Client() as client:
                code, ext = RequestCode.SEND_MESSAGE_V2, dict(request.ext)
                answer = await client.call(cluster.broker, code, ext, request.body, timeout_s=20.0)
            if not swallowed:
                swallowed.append(request)
                return None
            return request.answer(answer.code, answer.remark, ext=answer.ext)

        with scripted() as server:
            server.send = forward
            async with aio.Producer(server.address, group="pg", try_timeout_s=1.0) as producer:
                result = await producer.send(Message("twice", b"x"), timeout_s=20.0)
        assert result.attempts == 2
        queue = QueueRef("twice", "b", result.queue.queue_id)
        # One by one: the second may not be in its queue yet, and is waited for then.
        records = [record for at in (0, 1) for record in await pulled(cluster, queue, at)]
        assert [record.uniq_key for record in records] == [result.message_id] * 2

    asyncio.run(work())
