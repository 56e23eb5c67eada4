"""Attributes of topics through the requests of tools, and across a restart."""

import asyncio
from pathlib import Path

from live_broker import Live, live
from mqcore.native import Command
from mqcore.remoting import RequestCode


async def update(running: Live, attributes: str, topic: str = "t") -> Command:
    ext = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": 1,
        "writeQueueNums": 1,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "attributes": attributes,
    }
    return await running.call(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)


async def attributes_of(running: Live, topic: str = "t") -> object:
    return (await running.json(RequestCode.GET_TOPIC_CONFIG, {"topic": topic}))["attributes"]


def test_attributes_are_changed_by_the_official_rules_and_kept(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as running:
            answer = await update(running, "+message.type=FIFO,+queue.type=SimpleCQ")
            assert answer.code == 0
            refused = await update(running, "+queue.type=SimpleCQ")
            assert refused.code == 1
            assert "unchangeable attribute. key: queue.type" in (refused.remark or "")
            assert (await update(running, "-message.type,+reserve.time=7")).code == 0
            assert (await update(running, "")).code == 0, "a change of something else"
        async with live(tmp_path) as running:
            kept = await attributes_of(running)
            assert kept == {"queue.type": "SimpleCQ", "reserve.time": "7"}

    asyncio.run(run())


def test_what_the_broker_would_not_do_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as running:
            for attributes, why in (
                ("+cleanup.policy=COMPACTION", "does not compact"),
                ("+message.type=MIXED", "MIXED message type is not supported."),
                ("+colour=red", "unsupported key: colour"),
            ):
                refused = await update(running, attributes, "new")
                assert refused.code == 1
                assert why in (refused.remark or "")
            table = await running.json(RequestCode.GET_ALL_TOPIC_CONFIG)
            assert "new" not in table["topicConfigTable"]
        async with live(tmp_path, enableMixedMessageType="true") as running:
            assert (await update(running, "+message.type=MIXED", "new")).code == 0

    asyncio.run(run())
