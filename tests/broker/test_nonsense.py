"""Every request that there is, with fields and bodies that make no sense: each is answered."""

import json
from pathlib import Path

import pytest

from live_broker import live
from loops import run_on
from mqcore.model.relaxed_json import compact
from mqcore.remoting import RequestCode
from request_fields import topic_fields

_NAMES_TEXT = """
topic defaultTopic readQueueNums writeQueueNums perm topicFilterType topicSysFlag order group
groupName consumerGroup producerGroup clientID clientId clientAddr queueId queueOffset offset
index count maxNum maxMsgNums sysFlag commitOffset suspendTimeoutMillis subscription subVersion
expressionType timestamp isForce isOrder key beginTimestamp endTimestamp statsName statsKey
srcGroup destGroup offline compareGroup filterGroups topicList msgId attributes delayLevel
originMsgId originTopic unitMode maxReconsumeTimes properties a b c d e f g h i j k
"""
NAMES = _NAMES_TEXT.split()
BODIES = (b"", b"{", b"[]", b"null", b'{"mqSet":5,"topicConfigList":7}', b"\xff\x00" * 500, b"1")
LONGEST = str(2**63 - 1)


@pytest.mark.parametrize("value", ["", "x", "-1", "0", LONGEST, "9" * 5_000, "../x", "\x01\x02é"])
def test_every_request_is_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, value: str
) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            for code in RequestCode:
                for number, body in enumerate(BODIES):
                    ext = dict.fromkeys(NAMES, value) if number % 2 == 0 else {}
                    answer = await client.call(code, ext, body)
                    assert answer.is_response, (code, body)
            # It still does what it is for.
            await client.create("T")
            assert (await client.send("T", b"x")).code == 0
            assert (await client.call(RequestCode.GET_ALL_TOPIC_CONFIG)).code == 0

    run_on("uvloop", run())
    # Nothing came as a surprise: a surprise is answered too, and logged with its trace.
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def test_numbers_wider_than_javas_are_refused_or_not_kept(tmp_path: Path) -> None:
    """What the fast path cannot take would be in the file, and end every start."""
    wide = 1 << 40

    async def run() -> None:
        async with live(tmp_path) as client:
            for name in ("readQueueNums", "writeQueueNums", "perm", "topicSysFlag"):
                ext = topic_fields("T", **{name: wide})
                answer = await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
                assert (answer.code, name in (answer.remark or "")) == (1, True), name
            row = {"topicName": "U", "topicSysFlag": wide}
            listed = compact({"topicConfigList": [row]})
            code = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
            assert (await client.call(code, {}, listed)).code == 0
            group = compact({"groupName": "g", "retryMaxTimes": wide, "retryQueueNums": -wide})
            code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            assert (await client.call(code, {}, group)).code == 0
            assert (await client.send("U", b"x")).code == 0
        async with live(tmp_path) as client:
            topics = await client.json(RequestCode.GET_ALL_TOPIC_CONFIG)
            assert "T" not in topics["topicConfigTable"]
            assert topics["topicConfigTable"]["U"]["topicSysFlag"] == 0
            groups = await client.json(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
            assert groups["subscriptionGroupTable"]["g"]["retryMaxTimes"] == 16
        for file, table, name in (
            ("topics", "topicConfigTable", "U"),
            ("subscriptionGroup", "subscriptionGroupTable", "g"),
        ):
            path = tmp_path / "config" / f"{file}.json"
            found = json.loads(path.read_text())
            found[table][name] |= {"topicSysFlag": wide, "perm": wide, "retryMaxTimes": wide}
            path.write_text(json.dumps(found))
        async with live(tmp_path) as client:
            assert (await client.send("U", b"x")).code == 0

    run_on("uvloop", run())
