"""Directories of official brokers, served by ours: topics, offsets and messages are all there."""

from pathlib import Path

import pytest

from golden_stores import GOLDEN_CONFIG, V49_CLEAN, V49_KILLED, V53_CLEAN, GoldenStore
from live_broker import live
from loops import run_on
from mqcore.remoting import RequestCode


@pytest.mark.parametrize("golden", [V49_CLEAN, V49_KILLED, V53_CLEAN], ids=lambda s: s.name)
def test_an_official_directory_is_served(golden: GoldenStore, tmp_path: Path) -> None:
    root = golden.unpack(tmp_path)
    messages = [each for each in golden.messages() if each["topic"] == "GoldenPlain"]

    async def run() -> None:
        async with live(root, **GOLDEN_CONFIG) as client:
            stats = await client.json(RequestCode.GET_ALL_TOPIC_CONFIG)
            assert stats["topicConfigTable"]["GoldenPlain"]["readQueueNums"] == 4
            found = await client.pull("GoldenPlain", 0)
            assert found.code == 0, found.remark
            count = sum(each["queue_id"] == 0 for each in messages)
            queue = {"topic": "GoldenPlain", "queueId": 0}
            newest = await client.call(RequestCode.GET_MAX_OFFSET, queue)
            assert int(newest.ext["offset"]) == count
            if golden is not V49_KILLED:
                queue["consumerGroup"] = "CG_push"
                read = await client.call(RequestCode.QUERY_CONSUMER_OFFSET, queue)
                assert read.ext["offset"] == "600"
        # And once more from what we wrote.
        async with live(root, **GOLDEN_CONFIG) as client:
            again = await client.call(RequestCode.GET_MAX_OFFSET, queue)
            assert again.ext["offset"] == newest.ext["offset"]

    run_on("uvloop", run())
