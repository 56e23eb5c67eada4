"""SQL92 filters of a broker in this process: registered by heartbeats, used by pulls, kept."""

import asyncio
from pathlib import Path

import pytest

from live_broker import Live, another, live
from loops import run_on, until
from mqcore.model.heartbeats import ConsumerData, HeartbeatData
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.model.subscriptions import SubscriptionData
from mqcore.native import Command
from mqcore.remoting import RequestCode, ResponseCode
from request_fields import SUBSCRIPTION, SUSPEND

ON = {"enablePropertyFilter": "true"}
OFF_REMARK = "The broker does not support consumer to filter message by SQL92"


async def beat(client: Live, text: str, version: int = 1, name: str = "A") -> None:
    wanted = (SubscriptionData("T", text, version=version, kind="SQL92"),)
    data = ConsumerData(
        "g", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", wanted, False
    )
    body = HeartbeatData(name, (), (data,)).encode()
    assert (await client.call(RequestCode.HEART_BEAT, body=body)).code == 0


async def pull(
    client: Live, offset: int, text: str | None = None, *, version: int = 1, wait_ms: int = 0
) -> Command:
    flags = (SUBSCRIPTION if text is not None else 0) | (SUSPEND if wait_ms else 0)
    ext = {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": 0,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": flags,
        "commitOffset": 0,
        "suspendTimeoutMillis": wait_ms,
        "subscription": text or "",
        "subVersion": version,
        "expressionType": "SQL92",
    }
    return await client.call(RequestCode.PULL_MESSAGE, ext)


async def check(client: Live, text: str, kind: str = "SQL92") -> Command:
    wanted = SubscriptionData("T", text, kind=kind).to_json()
    body = compact({"clientId": "A", "group": "g", "subscriptionData": wanted})
    return await client.call(RequestCode.CHECK_CLIENT_CONFIG, body=body)


async def fill(client: Live, count: int) -> None:
    await client.create("T")
    for number in range(count):
        await client.send("T", b"m%d" % number, n=number)
    await client.settled()


def test_a_group_gets_what_its_heartbeat_asked_for(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path, **ON) as client:
            await fill(client, 10)
            await beat(client, "n > 7", 5)
            found = await pull(client, 0, version=5)
            assert (found.code, found.ext["nextBeginOffset"]) == (0, "10")
            assert (b"m8" in found.body, b"m9" in found.body, b"m7" in found.body) == (
                True,
                True,
                False,
            )
            late = await pull(client, 0, version=6)
            assert late.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
            await beat(client, "n > 100", 6)
            assert (await pull(client, 0, version=6)).code == ResponseCode.PULL_RETRY_IMMEDIATELY
            await beat(client, "n >", 7)
            wrong = await pull(client, 0, version=7)
            assert wrong.code == ResponseCode.FILTER_DATA_NOT_EXIST
            assert "Your expression may be wrong" in (wrong.remark or "")

    run_on("uvloop", run())


def test_without_the_switch_every_way_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            await fill(client, 1)
            await beat(client, "n > 7")
            answers = [
                await pull(client, 0),
                await pull(client, 0, "n > 7"),
                await check(client, "n > 7"),
            ]
            refusals = [(answer.code, answer.remark) for answer in answers]
            assert refusals == [(ResponseCode.SYSTEM_ERROR, OFF_REMARK)] * 3
            change = b"enablePropertyFilter=true\n"
            assert (await client.call(RequestCode.UPDATE_BROKER_CONFIG, body=change)).code == 0
            found = await pull(client, 0)
            assert found.code == ResponseCode.PULL_RETRY_IMMEDIATELY, found.remark

    run_on("uvloop", run())


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("a = 1 AND\nb >> 2", 'not ">" at line 2, column 4'),
        ("", "the text ends at line 1, column 1"),
        ("(" * 10_000 + "a" + ")" * 10_000, "brackets in one another at line 1, column 129"),
        ("x" * 200_000, "200000 bytes of text"),
    ],
    ids=["word", "empty", "nested", "long"],
)
def test_what_is_wrong_with_an_expression_is_answered_with_its_position(
    text: str, remark: str, tmp_path: Path
) -> None:
    async def run() -> None:
        async with live(tmp_path, **ON) as client:
            await fill(client, 1)
            assert (await check(client, "a = 1")).code == 0
            assert (await check(client, "a || b", "TAG")).code == 0
            checked = await check(client, text)
            assert checked.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
            assert checked.remark is not None
            assert checked.remark.startswith("Invalid MessageSelector. ")
            assert remark in checked.remark
            if text:
                pulled = await pull(client, 0, text)
                assert pulled.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
                assert remark in (pulled.remark or "")
            other = await check(client, "a = 1", "XPATH")
            assert other.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED

    run_on("uvloop", run())


def test_a_held_pull_is_woken_by_a_message_that_matches(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path, **ON) as client, another(client) as reader:
            await fill(client, 1)
            await beat(reader, "n > 5")
            held = asyncio.ensure_future(pull(reader, 1, wait_ms=15_000))
            stats = client.broker.state.fast_path.stats
            await until(lambda: stats()["held"] == 1)
            await client.send("T", b"no", n=1)
            await client.settled()
            assert stats()["held"] == 1
            await client.send("T", b"yes", n=6)
            found = await held
            assert (found.code, found.ext["nextBeginOffset"]) == (0, "3")
            assert b"yes" in found.body

    run_on("uvloop", run())


def test_what_is_registered_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "config" / "consumerFilter.json"

    async def run() -> None:
        async with live(tmp_path, **ON) as client:
            await fill(client, 1)
            await beat(client, "n > 5", 3)
        kept = parse_object(path.read_bytes())["filterDataByTopic"]["T"]["groupFilterData"]["g"]
        assert (kept["expression"], kept["clientVersion"]) == ("n > 5", 3)
        async with live(tmp_path, **ON) as client:
            found = client.broker.state.filters.find("T", "g")
            assert found is not None
            assert (found.is_dead, found.expression) == (True, "n > 5")
            await beat(client, "n > 5", 3)
            assert not found.is_dead

    run_on("uvloop", run())


def test_members_that_want_different_messages_are_seen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with live(tmp_path, **ON) as client, another(client) as other:
            await fill(client, 1)
            asked = {"consumerGroup": "g"}
            await beat(client, "n > 5", 1, "A")
            found = await client.json(RequestCode.GET_CONSUMER_CONNECTION_LIST, asked)
            assert "inconsistentSubscriptions" not in found
            for _ in range(2):
                await beat(other, "n > 6", 2, "B")
            found = await client.json(RequestCode.GET_CONSUMER_CONNECTION_LIST, asked)
            assert found["inconsistentSubscriptions"] == {
                "A": {"T": "n > 5"},
                "B": {"T": "n > 6"},
            }
            state = client.broker.state
            members = state.members.consumers["g"]
            assert (state.conflicts, members.subscription_check.count) == (1, 2)
            await beat(client, "n > 6", 3, "A")
            found = await client.json(RequestCode.GET_CONSUMER_CONNECTION_LIST, asked)
            assert "inconsistentSubscriptions" not in found

    run_on("uvloop", run())
    warnings = [each.message for each in caplog.records if "want different" in each.message]
    assert len(warnings) == 1
    assert "n > 5" in warnings[0]
    assert "n > 6" in warnings[0]
