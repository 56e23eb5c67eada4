"""The slowest requests of a broker, with their stages, over the request of ours."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from live_broker import Live, live
from mqcore.admin import Admin, SlowRequests
from mqcore.remoting import OwnRequestCode, RequestCode, expect

CODE = OwnRequestCode.SLOW_REQUESTS
# The first send of a store may wait for the first log file.
WAITED = {"waited"}


async def slow(client: Live, **ext: object) -> dict[str, Any]:
    return await client.json(CODE, ext)


def of_kind(answer: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [each for each in answer["requests"] if each["kind"] == kind]


@pytest.mark.parametrize("reactors", ["0", "1"])
def test_sends_and_pulls_are_there_with_their_stages(tmp_path: Path, reactors: str) -> None:
    async def work() -> None:
        async with live(tmp_path, mqcoreReactors=reactors) as client:
            await client.create("t")
            expect(await client.send("t", b"one"), client.address)
            await client.settled()
            expect(await client.pull("t", 0), client.address)
            held = asyncio.create_task(client.pull("t", 1, wait_ms=20_000))
            await asyncio.sleep(0)
            expect(await client.send("t", b"two"), client.address)
            await held
            answer = await slow(client)
            sends, pulls = of_kind(answer, "send"), of_kind(answer, "pull")
            assert {each["topic"] for each in (*sends, *pulls)} == {"t"}
            assert {each["group"] for each in pulls} == {"g"}
            assert sorted(each["queueOffset"] for each in sends) == [0, 1]
            assert all(each["messages"] == 1 for each in sends)
            assert all(each["bytes"] > 3 for each in (*sends, *pulls))
            assert all(set(each["stages"]) - WAITED == {"appended", "answered"} for each in sends)
            assert all({"read", "answered"} <= set(each["stages"]) for each in pulls)
            for each in (*sends, *pulls):
                stages = dict(each["stages"])
                stages.pop("held", None)
                assert sum(stages.values()) == each["totalUs"]
                assert each["peer"].startswith("127.0.0.1:")
                assert abs(each["atMs"] - answer["nowMs"]) < 60_000
            totals = [each["totalUs"] for each in answer["requests"]]
            assert totals == sorted(totals, reverse=True)
            # What came behind a mark, and no more of it than was asked for.
            assert of_kind(await slow(client, afterUs=answer["mark"]), "send") == []
            assert len((await slow(client, limit=1))["requests"]) == 1
            counts = {(each["kind"], each["stage"]): each["count"] for each in answer["stages"]}
            assert counts["send", "appended"] == counts["send", "answered"] == 2
            assert counts["pull", "read"] == 2

    asyncio.run(work())


def test_a_send_that_waits_for_its_sync_has_the_time_of_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with live(tmp_path, flushDiskType="SYNC_FLUSH") as client:
            await client.create("t")
            expect(await client.send("t", b"one"), client.address)
            (send,) = of_kind(await slow(client), "send")
            assert set(send["stages"]) - WAITED == {"appended", "flushed", "answered"}
            assert send["stages"]["flushed"] > 0

    asyncio.run(work())


def test_nothing_is_timed_where_the_setting_forbids_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with live(tmp_path, requestTimesEnable="false") as client:
            await client.create("t")
            expect(await client.send("t", b"one"), client.address)
            answer = await slow(client)
            assert (answer["isTimed"], answer["requests"]) == (False, [])
            body = b"requestTimesEnable=true\n"
            expect(await client.call(RequestCode.UPDATE_BROKER_CONFIG, body=body), client.address)
            expect(await client.send("t", b"two"), client.address)
            answer = await slow(client)
            assert answer["isTimed"]
            assert len(of_kind(answer, "send")) == 1

    asyncio.run(work())


def test_an_administrator_gets_values(tmp_path: Path) -> None:
    async def work() -> SlowRequests:
        async with live(tmp_path) as client, Admin("127.0.0.1:1") as admin:
            await client.create("t")
            expect(await client.send("t", b"one"), client.address)
            return await admin.brokers.slow_requests(client.address, limit=50)

    found = asyncio.run(work())
    (send,) = (each for each in found.requests if each.kind == "send")
    assert (send.request, send.topic, send.queue_id) == ("SEND_MESSAGE_V2", "t", 0)
    assert [stage for stage in send.stages if stage not in WAITED] == ["appended", "answered"]
    assert found.is_timed
    assert {each.stage for each in found.stages} >= {"appended", "answered"}


def test_numbers_that_are_none_are_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with live(tmp_path) as client:
            assert (await client.call(CODE, {"afterUs": "x"})).code == 1
            assert (await client.call(CODE, {"limit": "-5"})).code == 0

    asyncio.run(work())
