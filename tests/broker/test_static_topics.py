"""Static topics at one broker: the numbers of logical queues in every request, and the table.

Moves between brokers are in `tests/interop/test_static_topics.py` and `tests/cli`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest

from live_broker import Live, live
from loops import run_on, until
from mqcore.broker.static_pulls import Pulled, logical_pull
from mqcore.broker.static_topics import StaticTopicTable
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.model.static_topics import MappingFaultError, MappingItem, StaticTopic
from mqcore.native import Command, decode_records
from mqcore.remoting import RequestCode, ResponseCode

OFFICIAL_FILE = Path(__file__).with_name("official_topicQueueMapping.json")
BROKER, OTHER = "b", "elsewhere"
TOPIC, GROUP = "static", "g"
# Queue 0 has gone on behind 10,000 in another physical queue; queue 1 is led elsewhere.
ITEMS = (MappingItem(0, 0, BROKER, 0), MappingItem(1, 2, BROKER, 10_000))
AWAY = (MappingItem(0, 1, BROKER, 0), MappingItem(1, 0, OTHER))
MOVED = {0: ITEMS, 1: AWAY}


def topic_of(queues: Mapping[int, tuple[MappingItem, ...]], epoch: int = 1) -> StaticTopic:
    """Returns the topic with some queues."""
    return StaticTopic(TOPIC, BROKER, 2, epoch, queues=queues)


async def put(client: Live, topic: StaticTopic, **fields: object) -> Command:
    """Sets the topic as mqadmin does."""
    mapping = topic.to_json()
    mapping["hostedQueues"] = {str(key): row for key, row in mapping["hostedQueues"].items()}
    ext = {"topic": TOPIC, "readQueueNums": 3, "writeQueueNums": 3, "perm": 6, **fields}
    return await client.call(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, ext, compact(mapping))


def with_broker(tmp_path: Path, work: Callable[[Live], Coroutine[Any, Any, None]]) -> None:
    """Runs `work` with a broker."""

    async def bounded() -> None:
        async with live(tmp_path / "store") as client:
            await work(client)

    run_on("asyncio", bounded())


async def offset(client: Live, code: int, **fields: object) -> str | None:
    """Asks about queue 0; returns the offset of the answer."""
    ext = {"topic": TOPIC, "queueId": 0, "consumerGroup": GROUP, **fields}
    answer = await client.call(code, ext)
    return answer.ext.get("offset") if answer.code == 0 else f"{answer.code}"


async def in_two_parts(client: Live) -> None:
    """Sends two messages to the first part of queue 0, and one to the second."""
    first = topic_of({0: ITEMS[:1], 1: AWAY[:1]})
    assert (await put(client, first)).code == 0
    for number in range(2):
        sent = await client.send(TOPIC, b"first", 0)
        assert (sent.ext["queueId"], sent.ext["queueOffset"]) == ("0", str(number))
    # The times of the parts differ.
    await asyncio.sleep(0.01)
    assert (await put(client, topic_of(MOVED, 2))).code == 0
    sent = await client.send(TOPIC, b"second", 0)
    assert (sent.ext["queueId"], sent.ext["queueOffset"]) == ("0", "10000")
    await client.settled()


def test_every_request_has_the_numbers_of_the_logical_queue(tmp_path: Path) -> None:
    async def work(client: Live) -> None:
        await in_two_parts(client)
        assert await offset(client, RequestCode.GET_MIN_OFFSET) == "0"
        assert await offset(client, RequestCode.GET_MAX_OFFSET) == "10001"
        ask, commit = RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.UPDATE_CONSUMER_OFFSET
        assert await offset(client, ask) == "22", "a group that was never here"
        for at in ("1", "10000", "10001"):
            await offset(client, commit, commitOffset=at)
            assert await offset(client, ask) == at
        # It is kept with the physical queue that has it.
        kept = client.broker.state.fast_path.offsets.of(GROUP, TOPIC)
        assert kept == {0: 1, 2: 1}
        search = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        assert await offset(client, search, timestamp=0) == "0"
        second = await client.pull(TOPIC, 10_000)
        time = decode_records(second.body)[0].store_timestamp_ms
        assert await offset(client, search, timestamp=time) == "10000"
        earliest = await client.call(
            RequestCode.GET_EARLIEST_MSG_STORETIME, {"topic": TOPIC, "queueId": 0}
        )
        assert 0 < int(earliest.ext["timestamp"]) < time

    with_broker(tmp_path, work)


def test_a_pull_goes_on_in_the_next_part(tmp_path: Path) -> None:
    async def work(client: Live) -> None:
        await in_two_parts(client)
        at, bodies = 0, []
        for _ in range(4):
            answer = await client.pull(TOPIC, at, wait_ms=0)
            delta = int(answer.ext["offsetDelta"])
            if answer.code == 0:
                records = decode_records(answer.body)
                bodies += [(each.queue_offset + delta, each.body) for each in records]
            else:
                assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
            at = int(answer.ext["nextBeginOffset"])
            assert (answer.ext["minOffset"], answer.ext["maxOffset"]) != ("", "")
            if at == 10_001:
                break
        assert bodies == [(0, b"first"), (1, b"first"), (10_000, b"second")]
        # One that is held hears of the next message.
        held = asyncio.ensure_future(client.pull(TOPIC, at, wait_ms=15_000))
        await until(lambda: client.broker.state.fast_path.stats()["held"] == 1)
        await client.send(TOPIC, b"third", 0)
        answer = await held
        assert (answer.code, answer.ext["nextBeginOffset"]) == (0, "10002")

    with_broker(tmp_path, work)


def test_a_held_pull_ends_when_its_queue_moves(tmp_path: Path) -> None:
    async def work(client: Live) -> None:
        await in_two_parts(client)
        held = asyncio.ensure_future(client.pull(TOPIC, 10_001, wait_ms=15_000))
        await until(lambda: client.broker.state.fast_path.stats()["held"] == 1)
        away = (*ITEMS, MappingItem(2, 0, OTHER))
        assert (await put(client, topic_of({0: away, 1: AWAY}, 3))).code == 0
        answer = await held
        assert answer.code == ResponseCode.PULL_NOT_FOUND
        assert answer.ext["nextBeginOffset"] == answer.ext["maxOffset"] == "10001"
        refused = await client.pull(TOPIC, 10_001)
        assert refused.code == ResponseCode.NOT_LEADER_FOR_QUEUE

    with_broker(tmp_path, work)


def test_a_transaction_ends_in_a_later_part(tmp_path: Path) -> None:
    async def work(client: Live) -> None:
        await in_two_parts(client)
        fields = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": "U"}
        half = await client.send(TOPIC, b"half", 0, **fields)
        # Its offset is that of the queue of half messages: the end names it.
        assert (half.code, half.ext["queueId"], half.ext["queueOffset"]) == (0, "0", "0")
        end = {
            "topic": TOPIC,
            "producerGroup": "pg",
            "tranStateTableOffset": half.ext["queueOffset"],
            "commitLogOffset": int(half.ext["msgId"][16:], 16),
            "commitOrRollback": 8,
            "msgId": "U",
        }
        assert (await client.call(RequestCode.END_TRANSACTION, end)).code == 0
        await client.settled()
        answer = await client.pull(TOPIC, 10_001)
        found = decode_records(answer.body)[0]
        assert (found.body, found.queue_offset + int(answer.ext["offsetDelta"])) == (
            b"half",
            10_001,
        )

    with_broker(tmp_path, work)


def test_a_queue_that_another_broker_leads_is_refused(tmp_path: Path) -> None:
    async def work(client: Live) -> None:
        await in_two_parts(client)
        sent = await client.send(TOPIC, b"x", 1)
        assert sent.code == ResponseCode.NOT_LEADER_FOR_QUEUE
        assert sent.remark == "static-1 does not exit in request process of current broker b"
        ask = {"queueId": 1}
        for code, why in (
            (RequestCode.GET_MAX_OFFSET, "static-1 does not exit in request process of"),
            (RequestCode.GET_MIN_OFFSET, "static-1 is not leader in broker b, request code 31"),
            (RequestCode.GET_EARLIEST_MSG_STORETIME, "static-1 does not exit"),
        ):
            answer = await client.call(code, {"topic": TOPIC, **ask})
            assert answer.code == ResponseCode.NOT_LEADER_FOR_QUEUE
            assert (answer.remark or "").startswith(why)
        # With `lo=false` the queue is a physical one.
        bound = {"topic": TOPIC, "queueId": 2, "lo": "false"}
        assert (await client.call(RequestCode.GET_MAX_OFFSET, bound)).ext["offset"] == "1"
        # Any queue means one that is led here.
        assert (await client.send(TOPIC, b"x", -1)).ext["queueId"] == "0"

    with_broker(tmp_path, work)


def test_what_lies_elsewhere_is_asked_for_by_name(tmp_path: Path) -> None:
    async def work(client: Live) -> None:
        items = (MappingItem(0, 0, OTHER, 0), MappingItem(1, 0, BROKER, 10_000))
        assert (await put(client, topic_of({0: items}))).code == 0
        answer = await client.call(RequestCode.GET_MIN_OFFSET, {"topic": TOPIC, "queueId": 0})
        assert answer.code == ResponseCode.SYSTEM_ERROR, "there is no name server"
        # A queue that begins here needs nobody.
        assert await offset(client, RequestCode.GET_MAX_OFFSET) == "10000"

    with_broker(tmp_path, work)


def test_a_mapping_that_contradicts_what_is_there_changes_nothing(tmp_path: Path) -> None:
    async def work(client: Live) -> None:
        assert (await put(client, topic_of({0: ITEMS}, 5))).code == 0
        version = client.broker.state.topics.version
        for topic, why in (
            (topic_of({0: ITEMS}, 4), "small epoch 4 < 5"),
            (topic_of({}, 5), "equal epoch with null data"),
            (topic_of({0: ITEMS[:1]}, 5), "leader is different"),
            (topic_of({0: ITEMS[::-1]}, 6), "gen does not increase"),
            (StaticTopic(TOPIC, OTHER, 2, 6, queues={}), "one of broker elsewhere"),
            (StaticTopic("x", BROKER, 2, 6, queues={}), "one of x"),
        ):
            answer = await put(client, topic)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert why in (answer.remark or "")
        assert client.broker.state.topics.version == version
        assert (await put(client, topic_of({}, 4), force=True)).code == 0
        found = client.broker.state.static_topics.find(TOPIC)
        assert found is not None
        assert (found.epoch, found.queues) == (4, {0: ITEMS})

    with_broker(tmp_path, work)


def test_a_topic_is_given_with_its_mapping_and_forgotten_with_it(tmp_path: Path) -> None:
    async def work(client: Live) -> None:
        assert (await put(client, topic_of(MOVED))).code == 0
        ask = RequestCode.GET_TOPIC_CONFIG
        found = await client.json(ask, {"topic": TOPIC, "lo": True})
        assert StaticTopic.of_json(found["mappingDetail"]) == topic_of(MOVED)
        assert "mappingDetail" not in await client.json(ask, {"topic": TOPIC})
        every = await client.json(RequestCode.GET_ALL_TOPIC_CONFIG)
        slave = StaticTopicTable(0)
        assert slave.follow(compact(every)) == (TOPIC,)
        assert slave.find(TOPIC) == topic_of(MOVED)
        assert slave.follow(compact(every)) == ()
        path = tmp_path / "store" / "config" / "topicQueueMapping.json"
        assert parse_object(path.read_bytes())["topicQueueMappingInfoMap"][TOPIC]["epoch"] == 1
        gone = await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
        assert gone.code == 0
        assert parse_object(path.read_bytes())["topicQueueMappingInfoMap"] == {}
        every = await client.json(RequestCode.GET_ALL_TOPIC_CONFIG)
        assert slave.follow(compact(every)) == (TOPIC,)
        await client.create(TOPIC, 2)
        assert (await client.send(TOPIC, b"x", 1)).ext["queueOffset"] == "0"

    with_broker(tmp_path, work)


def test_mappings_are_there_after_a_start(tmp_path: Path) -> None:
    async def work(client: Live) -> None:
        await in_two_parts(client)

    async def again(client: Live) -> None:
        assert (await client.pull(TOPIC, 10_000)).ext["offsetDelta"] == "10000"

    with_broker(tmp_path, work)
    with_broker(tmp_path, again)


def test_the_official_file_is_read_and_written_as_it_is() -> None:
    table = StaticTopicTable(0)
    table.load(OFFICIAL_FILE.read_bytes())
    topic = table.find("S")
    assert topic is not None
    assert (topic.broker, topic.total, topic.queues[3][1].logic_offset) == ("broker-b", 4, 10_000)
    assert table.text()() == OFFICIAL_FILE.read_bytes()


def test_a_part_begins_once() -> None:
    table = StaticTopicTable(0)
    table.put(topic_of({0: ITEMS}), 0)
    other = (ITEMS[0], MappingItem(1, 2, BROKER, 20_000))
    with pytest.raises(MappingFaultError, match="gen 1"):
        table.accepted(topic_of({0: other}, 2), is_forced=False)


@pytest.mark.parametrize(
    ("asked", "answered", "wanted"),
    [
        # The first part: what retention took moves the client, its end leads on.
        (0, Pulled(21, 5, 5, 9), Pulled(21, 5, 5, 10_000, 0)),
        (9, Pulled(19, 9, 5, 9), Pulled(20, 10_000, 10_000, 10_000, 10_000)),
        (6, Pulled(20, 7, 5, 9), Pulled(20, 7, 5, 10_000, 0)),
    ],
)
def test_a_pull_that_finds_nothing_goes_on(asked: int, answered: Pulled, wanted: Pulled) -> None:
    assert logical_pull(ITEMS, ITEMS[0], asked, answered) == wanted


def test_the_last_part_ends_like_an_ordinary_queue() -> None:
    last = ITEMS[1]
    assert logical_pull(ITEMS, last, 3, Pulled(19, 3, 0, 3)).code == ResponseCode.PULL_NOT_FOUND
    beyond = logical_pull(ITEMS, last, 9, Pulled(21, 3, 0, 3))
    assert (beyond.code, beyond.next_offset) == (ResponseCode.PULL_OFFSET_MOVED, 10_003)
    before = logical_pull(ITEMS, last, 0, Pulled(21, 2, 2, 3))
    assert (before.code, before.next_offset) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 10_002)
