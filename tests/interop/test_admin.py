"""What our administrator asks is answered by the official brokers, of 4.9 and 5.3, as by ours."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from interop.official import VERSIONS
from interop.servers import BROKER_NAME, OURS, Servers, Software, official_software, serving
from mqcore import aio
from mqcore.admin import LATEST_MS, Admin
from mqcore.client.message import Message
from mqcore.client.results import SendResult
from mqcore.clock import wall_ms
from mqcore.errors import MQError, NoRouteError, ResponseError
from mqcore.model.groups import GroupConfig
from mqcore.model.queues import MessageQueue

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("sent")]

TOPIC, GROUP = "TopicRequests", "CG_requests"
COUNT = 8
# Routes, indexes and statistics follow within seconds.
DEADLINE_S = 30.0


@contextmanager
def software(version: str | None) -> Iterator[Software]:
    yield OURS if version is None else official_software(version)


@pytest.fixture(scope="module", params=[None, *VERSIONS], ids=["ours", *VERSIONS])
def version(request: pytest.FixtureRequest) -> str | None:
    """Returns whose servers are asked: None for ours."""
    found: str | None = request.param
    if found is not None:
        # What has to be fetched and unpacked first.
        request.getfixturevalue({"4.9.7": "official_49", "5.3.3": "official_53"}[found])
    return found


@pytest.fixture(scope="module")
def running(version: str | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with software(version) as chosen, serving(chosen, tmp_path_factory.mktemp("room")) as servers:
        yield servers


@pytest.fixture(scope="module")
def sent(running: Servers) -> list[SendResult]:
    """Makes a topic, fills it, and lets a group read it."""

    async def run() -> list[SendResult]:
        namesrv = running.namesrv.address
        async with Admin(namesrv) as admin:
            await eventually(lambda: admin.topics.create(TOPIC, queues=2))
            await admin.groups.put(GroupConfig(GROUP))
        async with aio.Producer(namesrv, group="PG_room") as producer:
            results = [
                await producer.send(Message(TOPIC, b"%d" % n, tags="t", keys=[f"k{n}", "all"]))
                for n in range(COUNT)
            ]
        async with aio.PullConsumer(namesrv, group=GROUP, topics=TOPIC) as consumer:
            for queue in await consumer.topic_queues(TOPIC):
                consumer.seek(queue, 0)
            polled: list[str] = []
            async with asyncio.timeout(DEADLINE_S):
                while len(polled) < COUNT:
                    polled += [message.message_id for message in await consumer.poll(1.0)]
            assert sorted(polled) == sorted(result.message_id for result in results)
            await consumer.commit()
        return results

    return asyncio.run(run())


async def eventually(ask: Callable[[], Awaitable[Any]]) -> Any:
    """Asks until it is answered with something: a server may need a moment."""
    last_s = asyncio.get_running_loop().time() + DEADLINE_S
    while True:
        try:
            found = await ask()
        except MQError:
            found = None
        if found or asyncio.get_running_loop().time() > last_s:
            return found
        await asyncio.sleep(0.1)


def asked(running: Servers, work: Callable[[Admin], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with Admin(running.namesrv.address) as admin:
            return await work(admin)

    return asyncio.run(run())


def test_topics_are_seen(running: Servers) -> None:
    async def work(admin: Admin) -> None:
        assert TOPIC in await admin.topics.names()
        cluster = await admin.brokers.cluster()
        (name,) = cluster.clusters
        assert cluster.masters(name) == {BROKER_NAME: running.broker.address}
        assert TOPIC in await admin.topics.of_cluster(name)
        assert "TBW102" in await admin.topics.of_system()
        assert (await admin.topics.all_configs())[TOPIC][BROKER_NAME].write_queues == 2
        assert (await admin.topics.configs(TOPIC))[BROKER_NAME].read_queues == 2
        stats = await admin.topics.stats(TOPIC)
        assert sum(row.count for row in stats.queues) == COUNT
        # 5.3.3 counts the topic itself as one.
        assert GROUP in await eventually(lambda: admin.topics.groups(TOPIC))
        with pytest.raises(NoRouteError):
            await admin.topics.stats("nowhere")

    asked(running, work)


def test_a_topic_comes_and_goes(running: Servers) -> None:
    async def work(admin: Admin) -> None:
        await admin.topics.create("TopicShort", queues=1, ordered=True)
        assert await eventually(lambda: admin.topics.route("TopicShort"))
        await admin.topics.delete("TopicShort")
        assert "TopicShort" not in await admin.topics.names()

    asked(running, work)


def test_groups_are_seen(running: Servers) -> None:
    async def work(admin: Admin) -> None:
        assert (await admin.groups.configs())[GROUP][BROKER_NAME].retry_queues == 1
        progress = await admin.groups.progress(GROUP, topic=TOPIC)
        assert (progress.lag, len(progress.queues)) == (0, 2)
        assert await admin.groups.connections("CG_nobody") is None
        await admin.groups.put(GroupConfig("CG_short"))
        await admin.groups.delete("CG_short")
        assert "CG_short" not in await admin.groups.configs()

    asked(running, work)


def test_an_online_group_reports_its_state(running: Servers) -> None:
    async def work(admin: Admin) -> None:
        namesrv = running.namesrv.address

        async def handle(message: object) -> None:
            del message

        async with aio.PushConsumer(namesrv, group="CG_live", topics=TOPIC, handler=handle):
            online = await eventually(lambda: admin.groups.connections("CG_live"))
            (client,) = online.clients
            assert online.message_model == "CLUSTERING"
            assert TOPIC in online.subscriptions
            info = await admin.groups.running_info("CG_live", client.client_id)
            assert "properties" in info
            with pytest.raises(ResponseError):
                await admin.groups.running_info("CG_live", "nobody")

    asked(running, work)


def test_a_group_is_moved(running: Servers) -> None:
    async def lag(admin: Admin) -> int:
        return (await admin.groups.progress(GROUP, topic=TOPIC)).lag

    async def work(admin: Admin) -> None:
        await admin.groups.reset_to_time(GROUP, TOPIC, 0)
        assert await lag(admin) == COUNT
        moved = await admin.groups.reset_to_time(GROUP, TOPIC, LATEST_MS)
        assert (len(moved), await lag(admin)) == (2, 0)
        await admin.groups.clone(GROUP, "CG_clone", TOPIC)
        assert (await admin.groups.progress("CG_clone", topic=TOPIC)).lag == 0

    asked(running, work)


def test_one_queue_is_moved_to_an_offset(running: Servers) -> None:
    queue = MessageQueue(TOPIC, BROKER_NAME, 0)

    async def work(admin: Admin) -> None:
        await admin.groups.reset_to_time(GROUP, TOPIC, LATEST_MS)
        assert await admin.groups.reset_queue(GROUP, queue, 1) == 1
        rows = (await admin.groups.progress(GROUP, topic=TOPIC)).queues
        assert {row.queue: row.group_offset for row in rows}[queue] == 1

    asked(running, work)


def test_messages_are_found(running: Servers, sent: list[SendResult]) -> None:
    first = sent[0]

    async def work(admin: Admin) -> None:
        found = await admin.messages.by_offset_id(first.offset_message_id)
        assert (found.body, found.uniq_key) == (b"0", first.message_id)
        same = await eventually(lambda: admin.messages.by_unique_id(TOPIC, first.message_id))
        assert [each.message_id for each in same] == [first.offset_message_id]
        keyed = await eventually(lambda: admin.messages.by_key(TOPIC, "all"))
        assert len(keyed) == COUNT
        assert await admin.messages.by_key(TOPIC, "none") == []
        (placed,) = await admin.messages.at(first.queue, first.queue_offset)
        assert placed.body == b"0"
        assert await admin.messages.at(first.queue, 1_000) == []
        assert await admin.topics.offset_at(first.queue, 0) == 0
        assert await admin.topics.offset_at(first.queue, wall_ms() + 60_000) > 0

    asked(running, work)


def test_a_broker_is_seen_and_set(running: Servers) -> None:
    async def work(admin: Admin) -> None:
        address = running.broker.address
        # An official broker has no figures before its first sample, and fails without them.
        assert "putTps" in await eventually(lambda: admin.brokers.runtime(address))
        await admin.brokers.change_config(address, {"defaultTopicQueueNums": "5"})
        assert (await admin.brokers.config(address))["defaultTopicQueueNums"] == "5"
        assert await admin.brokers.counter(address, "TOPIC_PUT_NUMS", "nothing") is None
        assert await admin.brokers.producers(address, "nobody") == []

    asked(running, work)
