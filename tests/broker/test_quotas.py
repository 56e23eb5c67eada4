"""Quotas of a broker over its socket: set while it runs, held back, refused in words, shown."""

import asyncio
import json
import time
from pathlib import Path

import pytest

from live_broker import Live, another, live
from mqcore.admin import Admin
from mqcore.broker.observation import snapshot
from mqcore.config import settings_of_pairs
from mqcore.config.checks import check_broker
from mqcore.errors import ConfigurationError
from mqcore.metrics.text import exposition
from mqcore.remoting import OwnRequestCode, RequestCode, expect

KEY = "mqcoreQuotas"


async def set_quotas(client: Live, text: str) -> None:
    body = f"{KEY}={text}\n".encode()
    expect(await client.call(RequestCode.UPDATE_BROKER_CONFIG, body=body), client.address)


@pytest.mark.parametrize("reactors", ["0", "2"])
def test_sends_are_slower_and_all_are_stored(tmp_path: Path, reactors: str) -> None:
    async def work() -> None:
        async with live(tmp_path, mqcoreReactors=reactors) as client:
            await client.create("t")
            await set_quotas(client, "topic:t=producer_message_rate:40")
            began = time.monotonic()
            answers = await asyncio.gather(*(client.send("t", b"x") for _ in range(50)))
            took_s = time.monotonic() - began
            assert {answer.code for answer in answers} == {0}
            offsets = sorted(int(answer.ext["queueOffset"]) for answer in answers)
            assert offsets == list(range(50))
            # Forty at once, the others 25 ms after each other.
            assert took_s >= 0.24
            limits = await client.json(OwnRequestCode.LIMITS)
            (quota,) = limits["quotas"]
            assert quota["rule"] == "topic:t"
            assert quota["limits"] == {"producer_message_rate": 40}
            assert (quota["held"], quota["waiting"], quota["refused"]) == (10, 0, 0)
            assert quota["heldMs"] >= 10

    asyncio.run(work())


def test_what_would_wait_too_long_is_refused_with_the_rule(tmp_path: Path) -> None:
    async def work() -> None:
        async with live(tmp_path, mqcoreQuotas="group:*=producer_message_rate:1") as client:
            await client.create("t")
            assert (await client.send("t", b"x")).code == 0
            began = time.monotonic()
            refused = await client.send("t", b"x")
            assert time.monotonic() - began >= 0.45
            assert refused.code == 2
            assert refused.remark is not None
            assert refused.remark.startswith("[QUOTA]group:* has used up producer_message_rate:1")
            await set_quotas(client, "")
            answers = [await client.send("t", b"x") for _ in range(5)]
            assert [answer.code for answer in answers] == [0] * 5
            assert (await client.json(OwnRequestCode.LIMITS))["quotas"] == []

    asyncio.run(work())


def test_an_administrator_gets_values(tmp_path: Path) -> None:
    async def work() -> None:
        async with live(tmp_path, mqcoreQuotas="topic:t=producer_message_rate:1000") as client:
            await client.create("t")
            expect(await client.send("t", b"x"), client.address)
            async with Admin("127.0.0.1:1") as admin:
                limits = await admin.brokers.limits(client.address)
            (quota,) = limits.quotas
            assert (quota.rule, quota.held, quota.waiting) == ("topic:t", 0, 0)
            assert quota.limits == {"producer_message_rate": 1000}
            assert limits.connections_per_address == 1000

    asyncio.run(work())


def test_a_pull_waits_while_its_group_owes_and_loses_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with live(tmp_path, mqcoreQuotas="group:g=consumer_message_rate:20") as client:
            await client.create("t")
            for _ in range(33):
                expect(await client.send("t", b"x"), client.address)
            await client.settled()
            began = time.monotonic()
            first = await client.pull("t", 0, wait_ms=20_000)
            assert first.ext["nextBeginOffset"] == "32"
            # 32 of 20 a second: 0.6 s are owed.
            second = await client.pull("t", 32, wait_ms=20_000)
            assert time.monotonic() - began >= 0.55
            assert (second.code, second.ext["nextBeginOffset"]) == (0, "33")

    asyncio.run(work())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("topic:t=producer_bytes:1", "is none of producer_message_rate"),
        ("queue:t=producer_byte_rate:1", "neither user:, topic: nor group:"),
        ("topic:t=producer_byte_rate:0", "no number from 1"),
    ],
)
def test_a_bad_rule_is_refused_and_nothing_changes(tmp_path: Path, text: str, why: str) -> None:
    async def work() -> None:
        async with live(tmp_path, mqcoreQuotas="topic:u=producer_byte_rate:7") as client:
            body = f"{KEY}={text}\n".encode()
            refused = await client.call(RequestCode.UPDATE_BROKER_CONFIG, body=body)
            assert refused.code == 1
            assert refused.remark is not None
            assert why in refused.remark
            limits = await client.json(OwnRequestCode.LIMITS)
            assert [each["rule"] for each in limits["quotas"]] == ["topic:u"]

    asyncio.run(work())


def test_a_change_is_kept_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("", encoding="utf-8")

    async def work() -> None:
        async with live(tmp_path / "store", path) as client:
            await set_quotas(client, "topic:t=producer_byte_rate:1024")

    asyncio.run(work())
    assert path.read_text(encoding="utf-8") == f"{KEY}=topic:t=producer_byte_rate:1024\n"


def test_what_rules_hold_back_is_in_the_metrics(tmp_path: Path) -> None:
    async def work() -> str:
        async with live(tmp_path, mqcoreQuotas="topic:t=producer_message_rate:20") as client:
            await client.create("t")
            codes = await asyncio.gather(*(client.send("t", b"x") for _ in range(22)))
            assert {each.code for each in codes} == {0}
            return exposition(await snapshot(client.broker.state)).decode()

    text = asyncio.run(work())
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    of_rule = {name: float(n) for name, n in lines.items() if 'who="topic:t"' in name}
    counts = {name.partition("{")[0]: number for name, number in of_rule.items()}
    assert counts["mqcore_throttled_total"] == 2
    assert counts["mqcore_throttled"] == counts["mqcore_quota_refused_total"] == 0
    assert counts["mqcore_throttled_seconds_total"] >= 0.1


def test_a_start_with_a_bad_rule_ends_with_the_reason(tmp_path: Path) -> None:
    settings = settings_of_pairs({"storePathRootDir": str(tmp_path), KEY: "topic:t=1"})
    with pytest.raises(ConfigurationError, match="mqcoreQuotas: the rule"):
        check_broker(settings)


def test_what_tools_look_up_counts_and_waits(tmp_path: Path) -> None:
    async def work() -> None:
        async with live(tmp_path, mqcoreQuotas="topic:t=consumer_message_rate:4") as client:
            await client.create("t")
            sent = expect(await client.send("t", b"x", KEYS="k"), client.address)
            await client.settled()
            offset = {"offset": int(sent.ext["msgId"][16:], 16)}
            view = RequestCode.VIEW_MESSAGE_BY_ID
            for _ in range(4):
                assert (await client.call(view, offset)).code == 0
            # The second's worth is used up: the next one owes, and the one behind it waits.
            assert (await client.call(view, offset)).code == 0
            began = time.monotonic()
            query = {"topic": "t", "key": "k", "maxNum": 8, "beginTimestamp": 0}
            found = await client.call(RequestCode.QUERY_MESSAGE, query | {"endTimestamp": 1 << 62})
            assert found.code == 0
            assert time.monotonic() - began >= 0.2
            (quota,) = (await client.json(OwnRequestCode.LIMITS))["quotas"]
            assert quota["held"] >= 1
            await set_quotas(client, "topic:t=consumer_byte_rate:1")
            assert (await client.call(view, offset)).code == 0
            refused = await client.call(view, offset)
            assert refused.code == 2
            assert "[QUOTA]topic:t has used up consumer_byte_rate:1" in (refused.remark or "")

    asyncio.run(work())


def test_replies_count_as_sends_of_their_group(tmp_path: Path) -> None:
    async def work() -> None:
        quota = "group:repliers=producer_byte_rate:1000"
        async with live(tmp_path, mqcoreQuotas=quota) as asking, another(asking) as replying:
            asking.client.hub.dispatcher.on(
                RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, lambda request: request.answer()
            )
            beat = {"clientID": "A", "producerDataSet": [{"groupName": "g"}]}
            code = RequestCode.HEART_BEAT
            expect(await asking.call(code, body=json.dumps(beat).encode()), asking.address)
            ext = {"a": "repliers", "b": "c_REPLY_TOPIC", "e": 0}
            ext["i"] = "REPLY_TO_CLIENT\x01A\x02"
            reply = RequestCode.SEND_REPLY_MESSAGE_V2
            assert (await replying.call(reply, ext, bytes(900))).code == 0
            began = time.monotonic()
            assert (await replying.call(reply, ext, bytes(300))).code == 0
            assert time.monotonic() - began >= 0.2
            refused = await replying.call(reply, ext, bytes(2_000))
            assert refused.code == 2
            assert (refused.remark or "").startswith("[QUOTA]group:repliers has used up")
            # Others are not held back.
            assert (await replying.call(reply, ext | {"a": "others"}, bytes(9_000))).code == 0

    asyncio.run(work())
