"""Directories of official brokers, served by ours: topics, offsets and messages are all there."""

from pathlib import Path

import pytest

from golden_stores import GOLDEN_CONFIG, V49_CLEAN, V49_KILLED, V53_CLEAN, V55_CLEAN, GoldenStore
from live_broker import live
from loops import run_on
from mqcore.broker.app import Broker
from mqcore.cli.program import ProgramOptions
from mqcore.native import decode_records
from mqcore.remoting import Client, RequestCode


@pytest.mark.parametrize("golden", [V49_CLEAN, V53_CLEAN, V55_CLEAN], ids=lambda s: s.name)
def test_the_first_start_takes_the_sizes_of_the_files(golden: GoldenStore, tmp_path: Path) -> None:
    root = golden.unpack(tmp_path)
    keyed = next(each for each in golden.messages() if each["topic"] == "GoldenPlain")
    flags = {"--data": str(root), "--port": "0"}
    # As a broker.conf of theirs may have it: no sizes, but for the longest message.
    settings = ProgramOptions(flags=flags, assignments=("maxMessageSize=65536",)).broker()

    async def run() -> None:
        broker = Broker(settings)
        address = str(await broker.start())
        try:
            async with Client() as client:
                ext = {"topic": "GoldenPlain", "key": keyed["uniq_key"], "maxNum": "32"}
                times = {"beginTimestamp": "0", "endTimestamp": str(2**63 - 1)}
                code = RequestCode.QUERY_MESSAGE
                unique = {"_UNIQUE_KEY_QUERY": "true"}
                found = await client.call(address, code, ext | times | unique)
                assert found.code == 0, found.remark
                (message,) = decode_records(found.body)
                assert message.physical_offset == keyed["physical_offset"]
        finally:
            await broker.stop()

    run_on("uvloop", run())


@pytest.mark.parametrize(
    "golden", [V49_CLEAN, V49_KILLED, V53_CLEAN, V55_CLEAN], ids=lambda s: s.name
)
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
