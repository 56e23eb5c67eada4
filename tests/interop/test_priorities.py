"""Messages with priorities (5.5): which queue they go to, and in which order pops get them.

The same requests at our broker and at the official one of 5.5 have the same answers.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from interop.official import NEWEST, Official
from interop.patience import eventually
from interop.servers import OURS, Servers, official_software, serving
from mqcore.remoting import Client, RequestCode
from popping import Popper

pytestmark = pytest.mark.java

QUEUES = 4
PRIORITY = "_SYS_MSG_PRIORITY_"
# Sent in this order, each to queue 0 by its header: properties, and where it goes.
SENT: tuple[tuple[dict[str, str], int], ...] = (
    ({PRIORITY: "0"}, 0),
    ({PRIORITY: "1"}, 1),
    ({PRIORITY: "9"}, 3),
    ({PRIORITY: "2"}, 2),
    ({PRIORITY: "1"}, 1),
    ({PRIORITY: "-1"}, 0),
    # A shard decides before.
    ({PRIORITY: "3", "__SHARDINGKEY": "s"}, 0),
    ({}, 0),
)


@pytest.fixture(scope="module", params=["ours", pytest.param("newest", marks=pytest.mark.matrix)])
def servers(
    request: pytest.FixtureRequest, official_55: Official, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """Returns our servers, then those of 5.5."""
    software = OURS if request.param == "ours" else official_software(official_55.version)
    assert official_55.version == NEWEST
    with serving(software, tmp_path_factory.mktemp("priorities")) as servers:
        yield servers


async def made(client: Client, address: str, topic: str, attributes: str) -> None:
    ext = {
        **{"topic": topic, "defaultTopic": "TBW102", "perm": "6", "order": "false"},
        **{"readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES), "topicSysFlag": "0"},
        **{"topicFilterType": "SINGLE_TAG", "attributes": attributes},
    }
    answer = await client.call(address, RequestCode.UPDATE_AND_CREATE_TOPIC, ext, timeout_s=20.0)
    assert answer.code == 0, answer.remark


async def sent(client: Client, address: str, topic: str) -> list[int]:
    """Sends; returns the queues that the broker names."""
    queues = []
    for at, (properties, _queue) in enumerate(SENT):
        ext = {
            **{"a": "pg", "b": topic, "c": "TBW102", "d": str(QUEUES), "e": "0", "f": "0"},
            **{"g": "1700000000000", "h": "0", "j": "0", "k": "false", "m": "false"},
            "i": "".join(f"{name}\x01{value}\x02" for name, value in properties.items()),
        }
        code, body = RequestCode.SEND_MESSAGE_V2, f"m{at}".encode()
        answer = await client.call(address, code, ext, body, timeout_s=20.0)
        assert answer.code == 0, answer.remark
        queues.append(int(answer.ext["queueId"]))
    return queues


async def popped(popper: Popper) -> list[str]:
    """Pops one message after the other until there is none; returns their bodies."""
    bodies: list[str] = []
    while True:
        found = await popper.pop(maxMsgNums=1, invisibleTime=60_000)
        if not found:
            return bodies
        bodies += [each.body for each in found]


def on(servers: Servers, work: Any) -> Any:
    async def run() -> Any:
        async with Client() as client:
            return await work(client, servers.broker.address)

    return asyncio.run(run())


def test_a_priority_chooses_the_queue(servers: Servers) -> None:
    async def work(client: Client, address: str) -> list[int]:
        await made(client, address, "T_queue", "")
        return await sent(client, address, "T_queue")

    assert on(servers, work) == [queue for _, queue in SENT]


def test_pops_get_the_highest_priority_first(servers: Servers) -> None:
    async def sends(client: Client, address: str) -> None:
        await made(client, address, "T_popped", "+message.type=PRIORITY")
        await sent(client, address, "T_popped")

    async def queued(client: Client, address: str) -> int:
        asked = [{"topic": "T_popped", "queueId": str(at)} for at in range(QUEUES)]
        answers = [await client.call(address, RequestCode.GET_MAX_OFFSET, ext) for ext in asked]
        return sum(int(answer.ext["offset"]) for answer in answers)

    async def pops(client: Client, address: str) -> list[str]:
        return await popped(Popper(client, address, "T_popped", "G_popped"))

    on(servers, sends)
    # Who pops earlier gets the highest priority of those that are in a queue by then.
    eventually(lambda: on(servers, queued), lambda found: found == len(SENT))
    bodies = on(servers, pops)
    by_queue = sorted(enumerate(SENT), key=lambda each: -each[1][1])
    assert bodies[: len(SENT)] == [f"m{at}" for at, _ in by_queue]


def test_without_the_type_of_the_topic_no_queue_comes_first(servers: Servers) -> None:
    async def work(client: Client, address: str) -> set[str]:
        firsts = set()
        await made(client, address, "T_plain", "")
        await sent(client, address, "T_plain")
        for number in range(60):
            popper = Popper(client, address, "T_plain", f"G_plain_{number}")
            firsts |= {each.body for each in await popper.pop(maxMsgNums=1)}
        return firsts

    assert len(on(servers, work)) > 1
