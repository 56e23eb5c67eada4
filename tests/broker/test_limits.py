"""A limit refuses what is new by its name, never what is there; long work is done in slices."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from live_broker import Live, another, live
from loops import run_on, until
from mqcore.broker import membership_changes
from mqcore.broker.processors import clients
from mqcore.model.relaxed_json import parse_object
from mqcore.native import Command
from mqcore.remoting import RequestCode, Slices


def group(name: str, topics: Iterable[str] = ("T",), kind: str = "TAG") -> dict[str, Any]:
    """Returns one consumer group of a heartbeat, as a client writes it."""
    wanted = [
        {"topic": topic, "subString": "*", "expressionType": kind, "subVersion": 1}
        for topic in topics
    ]
    return {
        "groupName": name,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": wanted,
        "unitMode": False,
    }


async def beat(
    client: Live, consumers: Iterable[dict[str, Any]] = (), producers: Iterable[str] = ()
) -> Command:
    """Sends a heartbeat."""
    body = {
        "clientID": f"client-{id(client)}",
        "consumerDataSet": list(consumers),
        "producerDataSet": [{"groupName": name} for name in producers],
    }
    return await client.call(RequestCode.HEART_BEAT, {}, json.dumps(body).encode())


async def create(client: Live, topic: str, queues: int = 1) -> Command:
    """Creates or changes a topic as a tool does."""
    ext = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": 6,
    }
    return await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)


def is_refused(answer: Command, key: str) -> bool:
    """Whether something was refused by a limit."""
    return answer.code == 1 and f"{key}=" in (answer.remark or "")


def test_new_topics_are_refused_and_those_of_a_store_are_served(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            for at in range(20):
                assert (await create(client, f"T{at}")).code == 0
            own = len(client.broker.state.topics.topics) - 20
        async with live(tmp_path, topicsMax=str(own + 5)) as client:
            assert len(client.broker.state.topics.topics) == own + 20
            for at in range(20):
                assert (await client.send(f"T{at}", b"x")).code == 0
            # An update of one that is there, by a tool; a new one by a tool and by a send.
            assert (await create(client, "T0", 4)).code == 0
            assert is_refused(await create(client, "New"), "topicsMax")
            assert is_refused(await client.send("New", b"x"), "topicsMax")
            assert is_refused(await client.send("%RETRY%nobody", b"x"), "topicsMax")
            rows = [
                {"topicName": f"L{at}", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
                for at in range(2)
            ]
            many = json.dumps({"topicConfigList": rows}).encode()
            code = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
            assert is_refused(await client.call(code, {}, many), "topicsMax")
            # A group's own topic is the group's to count.
            assert (await beat(client, [group("g")])).code == 0
            assert client.broker.state.topics.find("%RETRY%g") is not None
            for at in range(20):
                deleted = await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": f"T{at}"})
                assert deleted.code == 0
            assert (await create(client, "New")).code == 0

    run_on("uvloop", run())


def test_topics_that_sends_make_are_bounded(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            own = len(client.broker.state.topics.topics)
        async with live(tmp_path, topicsMax=str(own + 100)) as client:
            codes = [(await client.send(f"auto-{at}", b"x")).code for at in range(150)]
            assert codes == [0] * 100 + [1] * 50
            assert (await client.send("auto-7", b"x")).code == 0

    run_on("uvloop", run())


def test_queues_are_bounded_over_all_topics(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            own = client.broker.state.topics._queues
        async with live(tmp_path, queuesMax=str(own + 16)) as client:
            assert (await create(client, "T", 10)).code == 0
            assert is_refused(await create(client, "U", 7), "queuesMax")
            assert is_refused(await create(client, "T", 17), "queuesMax")
            assert (await create(client, "T", 4)).code == 0
            assert (await create(client, "U", 7)).code == 0
            deleted = await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
            assert deleted.code == 0
            assert (await create(client, "V", 9)).code == 0
        async with live(tmp_path, queuesMax="1") as client:
            # As many as there are, and fewer, are no new ones.
            assert client.broker.state.topics._queues == own + 16
            assert (await create(client, "U", 6)).code == 0
            assert is_refused(await create(client, "U", 7), "queuesMax")

    run_on("uvloop", run())


def test_new_groups_are_refused_and_the_others_of_a_heartbeat_are_taken(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            assert (await beat(client, [group(f"g{at}") for at in range(20)])).code == 0
            own = len(client.broker.state.groups.groups) - 20
        async with live(tmp_path, groupsMax=str(own + 5)) as client:
            state = client.broker.state
            assert len(state.groups.groups) == own + 20
            groups = [group("new"), *(group(f"g{at}") for at in range(20))]
            assert is_refused(await beat(client, groups), "groupsMax")
            assert sorted(state.members.consumers) == sorted(f"g{at}" for at in range(20))
            assert state.topics.find("%RETRY%new") is None
            code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            put = json.dumps({"groupName": "new", "retryMaxTimes": 3}).encode()
            assert is_refused(await client.call(code, {}, put), "groupsMax")
            known = json.dumps({"groupName": "g7", "retryMaxTimes": 3}).encode()
            assert (await client.call(code, {}, known)).code == 0
            await client.create("T")
            pulled = await client.pull("T", 0, group="another")
            assert is_refused(pulled, "groupsMax")
            assert (await client.pull("T", 0, group="g3")).code == 19

    run_on("uvloop", run())


def test_producer_groups_and_clients_of_a_group_are_bounded(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            live(tmp_path, clientsPerGroupMax="2") as client,
            another(client) as second,
            another(client) as third,
        ):
            members = client.broker.state.members
            for each in (client, second):
                assert (await beat(each, [group("g")], ["p"])).code == 0
            assert is_refused(
                await beat(third, [group("g"), group("h")], ["q"]), "clientsPerGroupMax"
            )
            assert len(members.consumers["g"].clients) == 2
            assert list(members.consumers["h"].clients) == list(members.producers["q"])
            # Who is in it already stays in it.
            assert (await beat(second, [group("g", ["T", "U"])], ["p"])).code == 0
        keys = {"groupsMax": "12"}
        async with live(tmp_path / "other", **keys) as client:
            answer = await beat(client, [], [f"p{at}" for at in range(20)])
            assert is_refused(answer, "groupsMax")
            assert len(client.broker.state.members.producers) == 12

    run_on("uvloop", run())


@pytest.mark.parametrize(
    ("groups", "key"),
    [
        ([group("g", [f"t{at}" for at in range(11)])], "subscriptionsPerGroupMax"),
        (
            [group(f"g{n}", [f"t{at}" for at in range(10)]) for n in range(3)],
            "subscriptionsPerHeartbeatMax",
        ),
        ([group(f"g{at}") for at in range(5)], "groupsPerHeartbeatMax"),
        ([group("g", [f"t{at}" * 400 for at in range(9)])], "heartbeatBytesMax"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_heartbeat_that_names_too_much_changes_nothing(
    tmp_path: Path, groups: list[dict[str, Any]], key: str
) -> None:
    async def run() -> None:
        keys = {
            "subscriptionsPerGroupMax": "10",
            "subscriptionsPerHeartbeatMax": "25",
            "groupsPerHeartbeatMax": "4",
            "heartbeatBytesMax": "5000",
        }
        async with live(tmp_path, **keys) as client:
            before = len(client.broker.state.groups.groups)
            assert is_refused(await beat(client, groups), key)
            assert len(client.broker.state.groups.groups) == before
            assert not client.broker.state.members.consumers
            assert (await beat(client, [group("g", [f"t{at}" for at in range(10)])])).code == 0

    run_on("uvloop", run())


def test_two_hundred_thousand_subscriptions_are_refused_by_the_defaults(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            answer = await beat(client, [group("g", [f"t{at}" for at in range(100_000)])])
            assert is_refused(answer, "heartbeatBytesMax")
            answer = await beat(client, [group("g", [f"t{at}" for at in range(20_001)])])
            assert is_refused(answer, "subscriptionsPerGroupMax")
            answer = await beat(client, [group(f"g{at}", []) for at in range(10_000)])
            assert is_refused(answer, "groupsPerHeartbeatMax")
            assert not client.broker.state.members.consumers

    run_on("uvloop", run())


class Counted(Slices):
    """A slice is over at once; all of them are counted."""

    all_of_them: list["Counted"] = []  # noqa: RUF012 - the list of one test at a time

    def __init__(self) -> None:
        super().__init__(slice_s=0.0)
        self.all_of_them.append(self)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[Counted]:
    """Every step of long work is a slice of its own."""
    Counted.all_of_them.clear()
    for module in (clients, membership_changes):
        monkeypatch.setattr(module, "Slices", Counted)
    return Counted


def test_a_large_heartbeat_lets_others_have_their_turn(
    tmp_path: Path, counted: type[Counted]
) -> None:
    async def run() -> None:
        async with live(tmp_path) as client, another(client) as other:
            state = client.broker.state
            groups = [group(f"g{at}", [f"t{n}" for n in range(100)]) for at in range(100)]
            assert (await beat(client, groups)).code == 0
            counted.all_of_them.clear()
            for at in range(100):
                groups[at] = group(f"g{at}", [f"u{n}" for n in range(100)])
            work = asyncio.create_task(beat(client, groups))
            # In between some groups are taken and others not yet, each of them as a whole.
            await until(lambda: "u0" in state.members.consumers["g0"].subscriptions)
            assert "u0" not in state.members.consumers["g99"].subscriptions
            for each in state.members.consumers.values():
                assert len(each.subscriptions) == 100
                assert len({topic[0] for topic in each.subscriptions}) == 1
            await other.create("T")
            assert (await other.send("T", b"meanwhile")).code == 0
            assert (await work).code == 0
            assert "u0" in state.members.consumers["g99"].subscriptions
            assert sum(each.count for each in counted.all_of_them) >= 200

    run_on("uvloop", run())


@pytest.mark.usefixtures("counted")
def test_who_leaves_a_group_while_its_heartbeat_is_taken_has_left(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            state = client.broker.state
            groups = [group(f"g{at}") for at in range(100)]
            assert (await beat(client, groups)).code == 0
            groups = [group(f"g{at}", ["U"]) for at in range(100)]
            work = asyncio.create_task(beat(client, groups, ["p"]))
            await until(lambda: "U" in state.members.consumers["g0"].subscriptions)
            left = await client.call(
                RequestCode.UNREGISTER_CLIENT, {"clientID": "c", "consumerGroup": "g99"}
            )
            assert left.code == 0
            assert (await work).code == 0
            assert "g99" not in state.members.consumers
            assert len(state.members.consumers) == 99

    run_on("uvloop", run())


def test_a_client_that_goes_leaves_its_groups_in_slices(
    tmp_path: Path, counted: type[Counted]
) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            state = client.broker.state
            async with another(client) as gone:
                groups = [group(f"g{at}") for at in range(200)]
                assert (await beat(gone, groups, [f"p{at}" for at in range(50)])).code == 0
                counted.all_of_them.clear()
            await until(lambda: not state.members.consumers and not state.members.producers)
            assert len(counted.all_of_them) >= 250
            assert not state.members._links
            assert not state.members._seen_ms

    run_on("uvloop", run())


def test_members_are_notified_of_changes_in_slices(tmp_path: Path, counted: type[Counted]) -> None:
    async def run() -> None:
        async with live(tmp_path) as client, another(client) as other:
            groups = [group(f"g{at}") for at in range(50)]
            assert (await beat(client, groups)).code == 0
            await until(lambda: len(client.broker_requests) >= 50)
            client.broker_requests.clear()
            counted.all_of_them.clear()
            assert (await beat(other, groups)).code == 0
            await until(
                lambda: len(client.broker_requests) == 50 and len(other.broker_requests) == 50
            )
            names = sorted(each.ext["consumerGroup"] for each in client.broker_requests)
            assert names == sorted(f"g{at}" for at in range(50))

    run_on("uvloop", run())


def test_a_heartbeat_that_is_too_long_to_be_read_at_once_is_read_the_same(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            data = group("g", [f"topic-{at:060}" for at in range(1_000)])
            assert len(json.dumps(data)) > clients._BODY_BYTES_AT_ONCE
            assert (await beat(client, [data], ["p"])).code == 0
            found = client.broker.state.members.consumers["g"]
            assert len(found.subscriptions) == 1_000
            bad = await client.call(RequestCode.HEART_BEAT, {}, b"[" * 100_000)
            assert bad.code == 1
            connection = await client.json(
                RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"}
            )
            assert len(connection["subscriptionTable"]) == 1_000

    run_on("uvloop", run())


def test_the_whole_table_is_answered_as_before(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            await client.create("T", 3)
            assert (await beat(client, [group("g")])).code == 0
            table = parse_object((await client.call(RequestCode.GET_ALL_TOPIC_CONFIG)).body)
            assert table["topicConfigTable"]["T"]["readQueueNums"] == 3
            code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
            table = parse_object((await client.call(code)).body)
            assert table == json.loads(json.dumps(client.broker.state.groups.to_json()))

    run_on("uvloop", run())
