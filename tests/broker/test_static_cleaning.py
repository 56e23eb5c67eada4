"""Mappings of static topics lose what nobody needs, and no group loses where it was."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from broker.test_registration import name_server
from broker.test_static_topics import put
from live_broker import Live, live
from loops import run_on
from mqcore.broker.static_cleaning import StaticCleaning
from mqcore.model.static_topics import MappingItem, StaticTopic
from mqcore.remoting import RequestCode

TOPIC, GROUP = "static", "g"


@asynccontextmanager
async def two(tmp_path: Path) -> AsyncIterator[tuple[Live, Live]]:
    """Two brokers of one name server."""
    async with name_server(tmp_path) as address:
        keys = {"namesrvAddr": address}
        async with (
            live(tmp_path / "a", brokerName="a", **keys) as first,
            live(tmp_path / "b", brokerName="b", **keys) as second,
        ):
            for each in (first, second):
                assert await each.broker.until_registered(address, timeout_s=20)
            yield first, second


def cleaning_of(client: Live) -> StaticCleaning:
    """Returns what looks at the mappings of a broker."""
    services = client.broker.hand_over_parts.services
    return services.cleaning


def topic_of(broker: str, *items: MappingItem, epoch: int = 1) -> StaticTopic:
    """Returns the topic with one queue."""
    return StaticTopic(TOPIC, broker, 1, epoch, queues={0: items})


async def commit(client: Live, group: str, offset: int) -> None:
    """Commits an offset of the logical queue."""
    ext = {"topic": TOPIC, "queueId": 0, "consumerGroup": group, "commitOffset": offset}
    assert (await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, ext)).code == 0


async def committed(client: Live, group: str) -> str | None:
    """Returns where a group goes on in the logical queue."""
    ext = {"topic": TOPIC, "queueId": 0, "consumerGroup": group}
    return (await client.call(RequestCode.QUERY_CONSUMER_OFFSET, ext)).ext.get("offset")


def test_requests_go_to_the_broker_that_has_the_offset(tmp_path: Path) -> None:
    async def run() -> None:
        async with two(tmp_path) as (first, second):
            here = MappingItem(0, 0, "a", 0)
            assert (await put(first, topic_of("a", here))).code == 0
            for body in (b"one", b"two"):
                assert (await first.send(TOPIC, body)).code == 0
            await first.settled()
            items = (here, MappingItem(1, 0, "b", 10_000))
            for client, broker in ((second, "b"), (first, "a")):
                assert (await put(client, topic_of(broker, *items, epoch=2))).code == 0
            assert (await second.send(TOPIC, b"three")).ext["queueOffset"] == "10000"
            await second.settled()
            ask = {"topic": TOPIC, "queueId": 0}
            found = [
                (await second.call(code, ask)).ext["offset"]
                for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
            ]
            assert found == ["0", "10001"]
            remote = await second.pull(TOPIC, 0, wait_ms=15_000)
            assert (remote.code, remote.ext["nextBeginOffset"]) == (0, "2")
            assert (remote.ext["offsetDelta"], remote.ext["maxOffset"]) == ("0", "10000")
            on = await second.pull(TOPIC, 2, wait_ms=15_000)
            assert (on.code, on.ext["nextBeginOffset"]) == (20, "10000")
            earliest = await second.call(RequestCode.GET_EARLIEST_MSG_STORETIME, ask)
            assert int(earliest.ext["timestamp"]) > 0
            search = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
            late = ask | {"timestamp": 1 << 60}
            found = [
                (await second.call(search, fields)).ext["offset"]
                for fields in (ask | {"timestamp": 0}, late, late | {"lo": "false"})
            ]
            assert found[0] == "0"
            assert int(found[1]) == 10_000 + int(found[2])
            await commit(second, GROUP, 1)
            assert first.broker.state.fast_path.offsets.of(GROUP, TOPIC) == {0: 1}
            assert await committed(second, GROUP) == "1"
            await commit(second, GROUP, 10_001)
            assert await committed(second, GROUP) == "10001"

    run_on("asyncio", run())


def test_an_empty_part_goes_and_groups_in_it_go_on(tmp_path: Path) -> None:
    async def run() -> None:
        async with two(tmp_path) as (first, second):
            items = (MappingItem(0, 0, "a", 0), MappingItem(1, 0, "b", 10_000))
            for client, broker in ((first, "a"), (second, "b")):
                assert (await put(client, topic_of(broker, *items))).code == 0
            await commit(second, GROUP, 0)
            await commit(second, "ahead", 10_007)
            await cleaning_of(second).clean()
            topic = second.broker.state.static_topics.find(TOPIC)
            assert topic is not None
            assert topic.queues == {0: items[1:]}
            assert await committed(second, GROUP) == "10000"
            assert await committed(second, "ahead") == "10007"
            # Who does not lead the queue leaves it as it is.
            await cleaning_of(first).clean()
            topic = first.broker.state.static_topics.find(TOPIC)
            assert topic is not None
            assert topic.queues == {0: items}

    run_on("asyncio", run())


def test_a_part_with_messages_stays_and_so_does_one_before_an_open_part(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path / "store") as client:
            items = (MappingItem(0, 0, "b", 0), MappingItem(1, 1, "b"))
            assert (await put(client, topic_of("b", *items))).code == 0
            await cleaning_of(client).clean()
            whole = client.broker.state.static_topics.find(TOPIC)
            assert whole is not None
            assert whole.queues == {0: items}
            assert (await put(client, topic_of("b", items[0], epoch=3), force=True)).code == 0
            await client.send(TOPIC, b"x")
            await client.settled()
            decided = (items[0], MappingItem(1, 1, "b", 10_000))
            assert (await put(client, topic_of("b", *decided, epoch=4))).code == 0
            await cleaning_of(client).clean()
            whole = client.broker.state.static_topics.find(TOPIC)
            assert whole is not None
            assert whole.queues == {0: decided}

    run_on("asyncio", run())


def test_a_queue_that_moved_on_is_forgotten(tmp_path: Path) -> None:
    async def run() -> None:
        async with two(tmp_path) as (first, second):
            here = MappingItem(0, 0, "a", 0)
            away = (here, MappingItem(1, 0, "elsewhere", 10_000))
            assert (await put(first, topic_of("a", *away))).code == 0
            led = (*away, MappingItem(2, 0, "b", 20_000))
            assert (await put(second, topic_of("b", *led, epoch=2))).code == 0
            await cleaning_of(first).clean()
            topic = first.broker.state.static_topics.find(TOPIC)
            assert topic is not None
            assert topic.queues == {0: away}, "the epochs differ"
            assert (await put(first, topic_of("a", *away, epoch=2))).code == 0
            await cleaning_of(first).clean()
            topic = first.broker.state.static_topics.find(TOPIC)
            assert topic is not None
            assert topic.queues == {}

    run_on("asyncio", run())
