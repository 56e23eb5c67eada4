"""The fields that 5.x clients send for static topics (`TopicRequestHeader`) change nothing here.

As in the official broker for a topic that is mapped nowhere: broker name, `lo` (the queue id is one
of the mapping), name space and its flag are read past.
"""

from pathlib import Path

from live_broker import Live, live
from loops import run_on
from mqcore.remoting import RequestCode

FIELDS = {"bname": "b", "n": "b", "ns": "space", "nsd": "true", "oway": "false"}
QUEUE = {"topic": "t", "queueId": "0", "consumerGroup": "g"}


async def everything(running: Live, lo: str) -> None:
    fields = FIELDS | {"lo": lo}
    before = int((await running.call(RequestCode.GET_MAX_OFFSET, QUEUE | fields)).ext["offset"])
    send = QUEUE | {
        "producerGroup": "p",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "sysFlag": "0",
        "bornTimestamp": "1700000000000",
        "flag": "0",
        "properties": "",
    }
    sent = await running.call(RequestCode.SEND_MESSAGE, send | fields, b"body")
    assert (sent.code, sent.ext["queueOffset"]) == (0, str(before))
    await running.settled()
    pull = QUEUE | {
        "queueOffset": str(before),
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
    }
    pulled = await running.call(RequestCode.PULL_MESSAGE, pull | fields)
    assert (pulled.code, pulled.ext["nextBeginOffset"]) == (0, str(before + 1))
    commit = QUEUE | {"commitOffset": str(before + 1)}
    assert (await running.call(RequestCode.UPDATE_CONSUMER_OFFSET, commit | fields)).code == 0
    asked = await running.call(RequestCode.QUERY_CONSUMER_OFFSET, QUEUE | fields)
    assert asked.ext["offset"] == str(before + 1)
    least = await running.call(RequestCode.GET_MIN_OFFSET, QUEUE | fields)
    assert least.ext["offset"] == "0"


def test_fields_of_static_topics_are_read_past(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as running:
            await running.create("t")
            for lo in ("true", "false", "nonsense"):
                await everything(running, lo)

    run_on("asyncio", run())
