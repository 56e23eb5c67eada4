"""Queues that the broker assigns: the pure division, and the requests over its socket."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.test_registration import name_server
from broker.test_serving import heartbeat
from golden_stores import V53_CLEAN
from live_broker import Live, another, live
from loops import run_on
from mqcore.broker.assignment import ANY_QUEUE, assigned
from mqcore.broker.request_modes import RequestModeTable
from mqcore.broker.topic_queues import queues_of_route
from mqcore.errors import BadJsonError
from mqcore.model.queues import MessageQueue
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.model.request_modes import POP, PULL, RequestMode
from mqcore.remoting import RequestCode, ResponseCode

NAMES = ("AVG", "AVG_BY_CIRCLE")
counts = st.integers(1, 12)


def queues_of(count: int) -> list[MessageQueue]:
    return [MessageQueue("T", "ab"[number % 2], number // 2) for number in range(count)]


def divided(
    name: str, mode: str, share: int, queues: int, members: int
) -> list[frozenset[MessageQueue]]:
    """Returns what each member is given."""
    clients = [f"c{number:02}" for number in range(members)]
    wanted = RequestMode("T", "g", mode, share)
    found = [assigned(wanted, name, each, queues_of(queues), clients) for each in clients]
    return [each for each in found if each is not None]


@given(name=st.sampled_from(NAMES), queues=counts, members=counts)
def test_every_pulled_queue_is_one_members(name: str, queues: int, members: int) -> None:
    shares = divided(name, PULL, 0, queues, members)
    assert len(shares) == members
    assert Counter(queue for share in shares for queue in share) == Counter(queues_of(queues))
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


@given(name=st.sampled_from(NAMES), share=st.integers(-2, 12), queues=counts, members=counts)
def test_every_queue_is_popped_and_no_member_is_idle(
    name: str, share: int, queues: int, members: int
) -> None:
    shares = divided(name, POP, share, queues, members)
    assert len(shares) == members
    assert all(shares)
    popped = {queue for each in shares for queue in each}
    if share <= 0 or share >= members - 1:
        assert popped == {MessageQueue("T", name, ANY_QUEUE) for name in "ab"[: min(2, queues)]}
        assert all(each == popped for each in shares)
        return
    assert popped == set(queues_of(queues))
    if members <= queues:
        own = divided(name, PULL, 0, queues, members)
        for number, each in enumerate(shares):
            nearby = [own[(number + step) % members] for step in range(share + 1)]
            assert each == frozenset[MessageQueue]().union(*nearby)
    else:
        assert all(len(each) == 1 for each in shares)


def test_nothing_is_assigned_where_nothing_is_known() -> None:
    wanted, some = RequestMode("T", "g"), queues_of(2)
    assert assigned(wanted, "CONSISTENT_HASH", "c", some, ["c"]) is None
    assert assigned(wanted, "AVG", "c", [], ["c"]) is None
    assert assigned(wanted, "AVG", "c", some, []) is None
    assert assigned(wanted, "AVG", " ", some, [" "]) is None
    # Its heartbeat has not come: it gives up what it may have.
    assert assigned(wanted, "AVG", "late", some, ["c"]) == frozenset()
    popped = RequestMode("T", "g", POP, 1)
    assert assigned(popped, "AVG", "late", some, ["c", "d", "e"]) == frozenset()


def test_the_modes_of_an_official_directory_load(tmp_path: Path) -> None:
    text = (V53_CLEAN.unpack(tmp_path) / "config" / "messageRequestMode.json").read_bytes()
    modes = RequestModeTable()
    modes.load(text)
    found = modes.to_json()["messageRequestModeMap"]
    assert found == parse_object(text)["messageRequestModeMap"]
    assert found
    assert modes.text()() == text


def test_modes_that_cannot_be_read() -> None:
    modes = RequestModeTable()
    modes.put(RequestMode("T", "g", POP))
    with pytest.raises(BadJsonError):
        modes.load(b'{"messageRequestModeMap": 3}')
    assert modes.find("T", "g") is not None
    modes.load(b'{"messageRequestModeMap": {"T": {"g": 7, "h": {"mode": "PUSH"}}, "U": 8}}')
    assert modes.find("T", "g") == RequestMode("T", "g", PULL)
    assert modes.find("T", "h") is None


def test_retries_are_pulled_whatever_the_default() -> None:
    modes = RequestModeTable()
    effective = partial(modes.effective, group="g", default=POP, default_share_queues=3)
    assert effective("T") == RequestMode("T", "g", POP, 3)
    assert effective("%RETRY%g").mode == PULL
    modes.put(RequestMode("T", "g", PULL))
    assert effective("T").mode == PULL


def test_queues_of_a_route() -> None:
    body = compact(
        {
            "queueDatas": [
                {"brokerName": "a", "readQueueNums": 2, "writeQueueNums": 1, "perm": 6},
                {"brokerName": "b", "readQueueNums": 2, "writeQueueNums": 2, "perm": 2},
                {"brokerName": "", "readQueueNums": 2, "perm": 6},
                7,
            ]
        }
    )
    assert queues_of_route("T", body) == {MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)}


async def ask(client: Live, member: str, **fields: str) -> list[dict[str, Any]] | None:
    body = {
        **{"topic": "T", "consumerGroup": "g", "clientId": member, "strategyName": "AVG"},
        **{"messageModel": "CLUSTERING", **fields},
    }
    answer = await client.call(RequestCode.QUERY_ASSIGNMENT, body=compact(body))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    rows: list[dict[str, Any]] | None = parse_object(answer.body).get("messageQueueAssignments")
    return rows


async def set_mode(client: Live, **fields: object) -> int:
    wanted = {"topic": "T", "consumerGroup": "g", "mode": POP, "popShareQueueNum": 0, **fields}
    answer = await client.call(RequestCode.SET_MESSAGE_REQUEST_MODE, body=compact(wanted))
    return answer.code


def ids(rows: list[dict[str, Any]] | None) -> list[int]:
    return [row["messageQueue"]["queueId"] for row in rows or []]


def test_members_are_given_their_queues(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client, another(client) as other:
            await client.create("T", 3)
            assert await ask(client, "A") is None
            await heartbeat(client, "A", "g", "T")
            assert ids(await ask(client, "A")) == [0, 1, 2]
            await heartbeat(other, "B", "g", "T")
            assert ids(await ask(client, "A")) == [0, 1]
            assert ids(await ask(other, "B")) == [2]
            assert ids(await ask(other, "B", strategyName="AVG_BY_CIRCLE")) == [1]
            assert ids(await ask(other, "B", messageModel="BROADCASTING")) == [0, 1, 2]
            assert await ask(other, "B", strategyName="MACHINE_ROOM") is None
            assert await ask(other, "B", topic="Nowhere") is None
            assert await ask(other, "nobody") == []

    run_on("uvloop", run())


def test_who_asks_for_less_than_is_needed_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            bodies = (b"", b"{}", b"[", compact({"topic": "T", "consumerGroup": "g"}))
            for code in (RequestCode.QUERY_ASSIGNMENT, RequestCode.SET_MESSAGE_REQUEST_MODE):
                for body in (*bodies, compact({"topic": "T", "mode": "POP"})):
                    answer = await client.call(code, body=body)
                    assert answer.code != ResponseCode.SUCCESS, body

    run_on("uvloop", run())


def test_modes_are_kept(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            assert await set_mode(client) == ResponseCode.TOPIC_NOT_EXIST
            assert await set_mode(client, topic="%RETRY%g") == ResponseCode.NO_PERMISSION
            await client.create("T", 3)
            assert await set_mode(client) == ResponseCode.SUCCESS
        async with live(tmp_path, autoCreateSubscriptionGroup="false") as client:
            await heartbeat(client, "A", "g", "T")
            (row,) = await ask(client, "A") or []
            assert row == {
                "messageQueue": {"brokerName": "b", "queueId": ANY_QUEUE, "topic": "T"},
                "mode": POP,
            }
            modes = await client.json(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
            assert modes["messageRequestModeMap"]["T"]["g"]["mode"] == POP
            unknown = await set_mode(client, consumerGroup="stranger")
            assert unknown == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            assert await set_mode(client, mode=PULL) == ResponseCode.SUCCESS
            assert ids(await ask(client, "A")) == [0, 1, 2]

    run_on("uvloop", run())


def test_the_broker_need_not_divide(tmp_path: Path) -> None:
    async def run() -> None:
        keys = {"serverLoadBalancerEnable": "false", "defaultMessageRequestMode": "POP"}
        async with live(tmp_path, **keys) as client:
            await client.create("T", 2)
            rows = await ask(client, "A")
            assert ids(rows) == [0, 1]
            assert {row["mode"] for row in rows or []} == {POP}

    run_on("uvloop", run())


def test_queues_of_other_brokers_are_divided_too(tmp_path: Path) -> None:
    async def run() -> None:
        async with name_server(tmp_path) as address:
            keys = {"namesrvAddr": address, "loadBalancePollNameServerInterval": "100"}
            async with (
                live(tmp_path / "a", brokerName="a", **keys) as client,
                live(tmp_path / "b", brokerName="b", **keys) as other,
            ):
                for each in (client, other):
                    assert await each.broker.until_registered(address, timeout_s=20.0)
                await client.create("T", 1)
                await heartbeat(client, "A", "g", "T")
                assert ids(await ask(client, "A")) == [0]
                # Asked again in time: a broker that joined is found.
                await other.create("T", 2)
                queues = client.broker._topic_queues
                assert queues is not None
                await queues.refresh()
                rows = await ask(client, "A") or []
                names = [row["messageQueue"]["brokerName"] for row in rows]
                assert names == ["a", "b", "b"]
                assert await ask(client, "A", topic="Nowhere") is None

    run_on("uvloop", run())
