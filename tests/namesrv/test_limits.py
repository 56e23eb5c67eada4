"""What brokers may bring has limits, and a large change lets others have their turn."""

import asyncio
import struct
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from loops import run_on, until
from mqcore.namesrv import NameServer
from mqcore.namesrv.routes import RouteTable
from mqcore.namesrv.shapes import Queues, Registration
from mqcore.remoting import Client, RequestCode, expect
from namesrv.asking import CLUSTER, Asked, rows, settings_of

FOUR = Queues(4, 4, 6)


def topics(count: int) -> dict[str, Queues]:
    """Returns a table of topics."""
    return {f"topic-{at}": FOUR for at in range(count)}


def registration_of(name: str, table: dict[str, Queues], **facts: Any) -> Registration:
    """Returns a registration of a master."""
    address = f"{name}:10911"
    return Registration(
        cluster=CLUSTER, name=name, address=address, broker_id=0, topics=table, **facts
    )


def compressed(count: int) -> bytes:
    """Returns the compressed body of a registration, as brokers send it."""
    entries = (f"topic-{at} 8 8 6 SINGLE_TAG".encode() for at in range(count))
    table = b"".join(struct.pack(">i", len(entry)) + entry for entry in entries)
    version = b'{"counter":1,"stateVersion":0,"timestamp":7}'
    head = struct.pack(">i", len(version)) + version + struct.pack(">i", count)
    return zlib.compress(head + table + struct.pack(">ii", 0, 0))


@pytest.mark.parametrize(
    ("key", "limit"),
    [("topicsPerRegistrationMax", 9), ("namesrvTopicsMax", 9), ("brokersMax", 1)],
)
def test_what_is_new_is_refused_with_the_setting(tmp_path: Path, key: str, limit: int) -> None:
    asked = Asked(tmp_path, **{key: str(limit)})
    assert asked.register(topics=rows("A", "B")).code == 0
    many = rows(*(f"t{at}" for at in range(10)))
    answer = asked.register("broker-b", "10.0.0.2:10911", topics=many)
    assert answer.code == 1
    assert answer.remark is not None
    assert f"{key}={limit}" in answer.remark
    assert asked.route("t0") is None
    # The broker that is there registers again.
    assert asked.register(topics=rows("A", "B"), counter=2).code == 0


def test_a_registration_of_what_is_known_is_taken_at_the_limit(tmp_path: Path) -> None:
    asked = Asked(tmp_path, namesrvTopicsMax="10")
    assert asked.register(topics=rows(*(f"t{at}" for at in range(10)))).code == 0
    again = rows(*(f"t{at}" for at in range(10)), queues=8)
    assert asked.register(topics=again, counter=2).code == 0
    found = asked.route("t3")
    assert found is not None
    assert found["queueDatas"][0]["readQueueNums"] == 8


def test_a_broker_may_register_as_many_topics_as_its_own_limit_allows(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    answer = asked.register(body=compressed(50_000), compressed="true")
    assert answer.code == 0
    assert asked.route("topic-49999") is not None


def test_a_large_registration_takes_many_steps_each_of_few_topics() -> None:
    changes: list[str] = []
    table = RouteTable(changes.append)
    most, steps = 0, table.registering(registration_of("a", topics(10_000)), "link", 0)
    while True:
        before = len(table.topics)
        try:
            next(steps)
        except StopIteration:
            break
        most = max(most, len(table.topics) - before)
    assert 0 < most <= 128
    assert len(table.topics) == 10_000
    # Leaving takes as many.
    changes.clear()
    counts = [len(changes) for _ in table.closing("link")]
    assert len(counts) >= 10_000 // 128
    assert max(after - before for before, after in pairwise(counts)) <= 128
    assert not table.topics
    assert not table.groups


def test_steps_end_as_the_whole_does() -> None:
    whole, stepped = RouteTable(lambda _topic: None), RouteTable(lambda _topic: None)
    for table in (whole, stepped):
        table.register(registration_of("a", topics(1_000)), "one", 0)
    fresh = registration_of("b", {f"topic-{at}": Queues(8, 8, 6) for at in range(500, 1_500)})
    whole.register(fresh, "two", 1)
    for _ in stepped.registering(fresh, "two", 1):
        # In between each topic has its old or its new queues.
        assert all(found.keys() <= {"a", "b"} for found in stepped.topics.values())
    assert stepped.topics == whole.topics
    assert stepped.live == whole.live
    whole.channel_closed("one")
    for _ in stepped.closing("one"):
        assert "a" not in stepped.groups
    assert stepped.topics == whole.topics


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_routes_are_read_while_a_large_registration_is_entered(loop: str, tmp_path: Path) -> None:
    async def work() -> None:
        server = NameServer(settings_of(tmp_path))
        address = str(await server.start())
        table = server.requests.table
        fields = {
            "brokerName": "large",
            "brokerAddr": "10.0.0.1:10911",
            "clusterName": CLUSTER,
            "haServerAddr": "10.0.0.1:10912",
            "brokerId": "0",
            "compressed": "true",
        }
        seen: set[int] = set()
        # Both ends are in this loop: each turn of it is looked at.
        async with Client() as broker, Client() as client:
            call = broker.call(
                address, RequestCode.REGISTER_BROKER, fields, compressed(60_000), timeout_s=60
            )
            work = asyncio.create_task(call)
            while not work.done():
                code = RequestCode.GET_ROUTEINFO_BY_TOPIC
                ask = {"topic": "topic-59999"}
                answer = await client.call(address, code, ask, timeout_s=60)
                assert answer.code in (0, 17)
                seen.add(len(table.topics))
            expect(await work, address)
            assert len(table.topics) == 60_000
            assert len(seen) > 2
            # It is gone, topic by topic, when its connection is; then it comes again.
            await broker.close()
            await until(lambda: not table.topics)
            assert not table.groups
        await server.stop()

    run_on(loop, work())


def test_who_registers_again_while_it_is_being_forgotten_stays(tmp_path: Path) -> None:
    async def work() -> None:
        server = NameServer(settings_of(tmp_path))
        address = str(await server.start())
        table = server.requests.table
        fields = {
            "brokerName": "large",
            "brokerAddr": "10.0.0.1:10911",
            "clusterName": CLUSTER,
            "haServerAddr": "10.0.0.1:10912",
            "brokerId": "0",
            "compressed": "true",
        }
        code, body = RequestCode.REGISTER_BROKER, compressed(20_000)
        async with Client() as again:
            async with Client() as first:
                expect(await first.call(address, code, fields, body, timeout_s=60), address)
            answer = await again.call(address, code, fields, body, timeout_s=60)
            expect(answer, address)
            await until(lambda: not server.requests._changes.locked())
            assert len(table.topics) == 20_000
            assert set(table.groups) == {"large"}
            left = {name: fields[name] for name in ("brokerName", "brokerAddr", "clusterName")}
            left["brokerId"] = "0"
            gone = await again.call(address, RequestCode.UNREGISTER_BROKER, left, timeout_s=60)
            expect(gone, address)
            assert not table.topics
        await server.stop()

    run_on("uvloop", work())
