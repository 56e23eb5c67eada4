"""Pops at our broker and at the official ones of 5.3 and 5.5.

The answers are the same, and directories change hands with messages popped and not acknowledged.
Requests are made by hand, so that those that no client sends are tested too; the official clients
in the mode of pops have tests of their own.
"""

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from interop.official import NEWEST
from interop.servers import OURS, Servers, Software, official_software, serving
from mqcore.clock import wall_ms
from mqcore.remoting import Client, RequestCode
from popping import NOTIFICATION, POLLING_TIMEOUT, Popped, Popper

pytestmark = pytest.mark.java
matrix = pytest.mark.matrix

OFFICIAL = "5.3.3"
INVISIBLE_MS = 6_000
# The official broker looks at check points every second or three, each two seconds behind its time,
# and a loaded machine is slow.
PATIENCE_S = 90.0
CONFIG = {"enablePopBufferMerge": "true", "popCkStayBufferTime": "2000"}
SOFTWARE = [
    pytest.param(OURS, id="ours"),
    pytest.param(OFFICIAL, id="official", marks=matrix),
    pytest.param(NEWEST, id="newest", marks=matrix),
]
BODIES = [f"m{at}" for at in range(12)]


def whose(software: Software | str) -> Software:
    """Returns the programs; an official release is named by its version."""
    return official_software(software) if isinstance(software, str) else software


async def made(client: Client, address: str, topic: str, bodies: list[str]) -> Popper:
    """Makes a topic of four queues and sends messages; returns who pops them."""
    ext = {
        **{"topic": topic, "defaultTopic": "TBW102", "perm": "6", "order": "false"},
        **{"readQueueNums": "4", "writeQueueNums": "4", "topicSysFlag": "0"},
        "topicFilterType": "SINGLE_TAG",
    }
    code = RequestCode.UPDATE_AND_CREATE_TOPIC
    assert (await client.call(address, code, ext, timeout_s=20.0)).code == 0
    for at, body in enumerate(bodies):
        ext = {
            **{"a": "pg", "b": topic, "c": "TBW102", "d": "4", "e": str(at % 4), "f": "0"},
            **{"g": "1700000000000", "h": "0", "j": "0", "k": "false", "m": "false"},
            "i": "TAGS\x01a\x02",
        }
        code = RequestCode.SEND_MESSAGE_V2
        assert (await client.call(address, code, ext, body.encode(), timeout_s=20.0)).code == 0
    return Popper(client, address, topic)


async def popped(group: Popper, count: int, **fields: object) -> list[Popped]:
    """Pops until there is so much, within the patience of a loaded machine."""
    found: list[Popped] = []
    ends_at = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < ends_at:
        found += await group.pop(pollTime=2_000, **fields)
    return found


def counted(messages: list[Popped]) -> Counter[str]:
    """Returns how often each body is there."""
    return Counter(each.body for each in messages)


@pytest.mark.parametrize("software", SOFTWARE)
def test_the_answers_are_those_of_the_official_broker(
    software: Software | str, tmp_path: Path
) -> None:
    async def run(servers: Servers) -> None:
        async with Client() as client:
            group = await made(client, servers.broker.address, "pops", BODIES)
            first = await popped(group, len(BODIES), invisibleTime=INVISIBLE_MS)
            assert counted(first) == Counter(BODIES)
            answer = await group.request()
            assert (answer.code, answer.remark) == (POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE")
            fields = {name: answer.ext[name] for name in ("restNum", "startOffsetInfo")}
            assert fields == {"restNum": "0", "startOffsetInfo": ""}
            acked, left = first[:6], first[6:]
            assert [await group.ack(each) for each in acked] == [0] * 6
            assert await group.ack(acked[0]) == 0, "twice"
            changed = await group.change(left[0], INVISIBLE_MS * 3)
            assert changed.code == 0
            assert set(changed.ext) == {"popTime", "invisibleTime", "reviveQid"}
            await refused(group, first[0])
            again = await popped(group, 5)
            assert counted(again) == counted(left[1:])
            assert {(each.topic, each.times) for each in again} == {("%RETRY%g_pops", 1)}
            late = await popped(group, 1)
            assert counted(late) == counted(left[:1])
            assert [await group.ack(each) for each in again + late] == [0] * 6
            ext = {"consumerGroup": "g", "topic": "pops", "queueId": "-1", "pollTime": "0"}
            ext |= {"bornTime": "0"}
            noticed = await client.call(group.address, NOTIFICATION, ext, timeout_s=20.0)
            assert (noticed.code, noticed.ext["hasMsg"]) == (0, "false")

    with serving(whose(software), tmp_path, CONFIG) as servers:
        asyncio.run(run(servers))


async def refused(group: Popper, message: Popped) -> None:
    """Asks what is answered with a refusal."""
    for fields, code in (
        ({"maxMsgNums": 33}, 29),
        ({"queueId": 4}, 29),
        ({"topic": "none"}, 17),
        ({"exp": "||"}, 23),
        ({"bornTime": 1}, POLLING_TIMEOUT),
    ):
        answer = await group.request(**fields)
        assert answer.code == code, (fields, answer.code, answer.remark)
    usual = group.fields(message)
    for name, value, code in (
        ("topic", "none", 17),
        ("queueId", "4", 13),
        ("queueId", "-1", 13),
        ("offset", "99", 208),
        ("offset", "-1", 208),
        ("extraInfo", "1 2 3", 1),
        ("extraInfo", "0 1 2 0 0 broker-a 0 0", 0),
    ):
        answer = await group.client.call(
            group.address, 200_051, usual | {name: value}, timeout_s=20.0
        )
        assert answer.code == code, (name, value, answer.code, answer.remark)
    for body, code in ((b"", 208), (b'{"acks":[]}', 208)):
        answer = await group.client.call(group.address, 200_151, {}, body, timeout_s=20.0)
        assert answer.code == code, body


@pytest.mark.parametrize("software", SOFTWARE)
def test_messages_of_an_ordered_pop_come_in_order(software: Software | str, tmp_path: Path) -> None:
    async def run(servers: Servers) -> None:
        async with Client() as client:
            group = await made(client, servers.broker.address, "ordered", BODIES)
            order = {"order": "true", "queueId": 1, "maxMsgNums": 2, "invisibleTime": 3_000}
            first = await popped(group, 2, **order)
            assert [each.body for each in first] == ["m1", "m5"]
            assert await group.pop(**order) == []
            again = await group.request(**order, pollTime=10_000)
            assert counted(group.popped(again)) == counted(first), "their time is over"
            counts = dict(part.rsplit(" ", 1) for part in again.ext["orderCountInfo"].split(";"))
            assert counts == {"0 qo1%0": "1", "0 qo1%1": "1", "0 1": "1"}
            for each in group.popped(again):
                assert await group.ack(each) == 0
            assert [each.body for each in await popped(group, 1, **order)] == ["m9"]

    with serving(whose(software), tmp_path, CONFIG) as servers:
        asyncio.run(run(servers))


@matrix
@pytest.mark.parametrize("has_buffer", ["true", "false"])
@pytest.mark.parametrize("is_ours_first", [True, False], ids=["ours-first", "theirs-first"])
@pytest.mark.parametrize("version", [OFFICIAL, NEWEST])
def test_open_pops_change_hands(
    version: str, is_ours_first: bool, has_buffer: str, tmp_path: Path
) -> None:
    """Each broker leaves some popped and not acknowledged; the next one gives them again."""
    turns = [OURS, official_software(version)]
    first, second = turns if is_ours_first else turns[::-1]

    async def leave(servers: Servers) -> tuple[list[Popped], set[str]]:
        async with Client() as client:
            group = await made(client, servers.broker.address, "hands", BODIES)
            found = await popped(group, len(BODIES), invisibleTime=30_000)
            assert [await group.ack(each) for each in found[:4]] == [0] * 4
            return found[4:], {each.body for each in found[:4]}

    async def go_on(servers: Servers, open_: list[Popped]) -> tuple[list[Popped], list[Popped]]:
        """Acknowledges two with their handles of before, and pops what is left.

        What is acknowledged when its time is over may come again: a broker may take long to start.
        """
        async with Client() as client:
            group = Popper(client, servers.broker.address, "hands")
            assert [await group.ack(each) for each in open_[:2]] == [0] * 2
            is_late = wall_ms() >= min(due_ms(each) for each in open_[:2])
            acked, left = ([], open_) if is_late else (open_[:2], open_[2:])
            found = await popped(group, len(left), invisibleTime=30_000)
            return acked, found

    with serving(first, tmp_path, CONFIG | {"enablePopBufferMerge": has_buffer}) as servers:
        open_, done = asyncio.run(leave(servers))
        hand_over(servers, second)
        acked, again = asyncio.run(go_on(servers, open_))
        sure = counted(open_[2:])
        found = counted(again)
        assert found - counted(open_) == Counter(), f"acknowledged at the first: {sorted(done)}"
        assert sure - found == Counter()
        assert not set(found) & set(counted(acked))
        assert {each.times for each in again} == {1}
        # And back: two more are acknowledged, the others come a second time.
        hand_over(servers, first)
        acked, last = asyncio.run(go_on(servers, again))
        found = counted(last)
        assert found - counted(again) == Counter()
        assert counted(again[2:]) - found == Counter()
        assert not set(found) & set(counted(acked))
        assert {each.times for each in last} == {2}


def due_ms(message: Popped) -> int:
    """Returns until when a message is its holder's alone, by its handle."""
    _start, popped_ms, invisible_ms, *_ = message.handle.split(" ")
    return int(popped_ms) + int(invisible_ms)


def hand_over(servers: Servers, software: Software) -> None:
    """Stops the broker, and starts another's on its directory."""
    servers.broker.stop()
    servers.broker.become(software)
    servers.broker.start()
