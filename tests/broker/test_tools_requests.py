"""Requests of tools about cold reads, RocksDB and a slave's number, as the official broker answers.

Remarks, bodies and codes are those of `AdminBrokerProcessor` of 5.3.3 and 5.5.0.
"""

from pathlib import Path

import pytest

from live_broker import Live, live
from loops import run_on
from mqcore.remoting import RequestCode, ResponseCode, expect


async def shown(client: Live) -> dict[str, int]:
    info = await client.json(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)
    assert list(info) == [
        "runtimeTable",
        "configTable",
        "cgColdReadThreshold",
        "globalColdReadThreshold",
        "globalAcc",
    ]
    assert (info["cgColdReadThreshold"], info["globalColdReadThreshold"]) == (3145728, 104857600)
    table: dict[str, int] = info["configTable"]
    return table


def test_thresholds_of_cold_reads_are_kept_and_shown(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            update, remove = (
                RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
                RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
            )
            assert await shown(client) == {}
            expect(await client.call(update, body=b"one=10\ntwo=20\n"), "")
            expect(await client.call(update, body=b"one=11\n"), "")
            assert await shown(client) == {"one": 11, "two": 20}
            refused = await client.call(update, body=b"three=3\ntwo=many\n")
            assert refused.code == ResponseCode.SYSTEM_ERROR
            assert "two is no number of bytes" in (refused.remark or "")
            assert await shown(client) == {"one": 11, "two": 20}
            expect(await client.call(remove, body=b"two"), "")
            expect(await client.call(remove, body=b"nobody"), "")
            assert await shown(client) == {"one": 11}

    run_on("uvloop", run())


def test_thresholds_are_as_many_as_groups_at_the_most(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path, groupsMax="20") as client:
            body = "".join(f"g{number}=1\n" for number in range(21)).encode()
            refused = await client.call(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, body=body)
            assert refused.code == ResponseCode.SYSTEM_ERROR
            assert await shown(client) == {}

    run_on("uvloop", run())


@pytest.mark.parametrize(
    ("ext", "code", "remark"),
    [
        ({"READ_AHEAD_MODE": "1"}, 0, "set commitlog readahead mode success, mode: 1"),
        ({"READ_AHEAD_MODE": "0"}, 0, "set commitlog readahead mode success, mode: 0"),
        ({"READ_AHEAD_MODE": "7"}, 1, "set commitlog readahead mode param value error"),
        ({"READ_AHEAD_MODE": "x"}, 1, "set commitlog readahead mode failed"),
        ({}, 1, "set commitlog readahead mode param error"),
    ],
)
def test_the_mode_of_reading_is_set(
    tmp_path: Path, ext: dict[str, str], code: int, remark: str
) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            answer = await client.call(RequestCode.SET_COMMITLOG_READ_MODE, ext)
            assert (answer.code, answer.remark) == (code, remark)

    run_on("uvloop", run())


def test_there_is_nothing_in_rocksdb(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            compared = await client.json(RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, {"topic": ""})
            assert compared == {"checkResult": "no queues in RocksDB", "checkStatus": 0}
            moved = await client.call(RequestCode.POP_ROLLBACK)
            assert (moved.code, moved.remark) == (0, None)
            await client.create("T")
            ext = {"consumerGroup": "g", "topic": "T", "queueId": 0, "commitOffset": 0}
            expect(await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, ext), "")
            ext = {"configType": "topics;consumerOffsets"}
            written = await client.call(RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, ext)
            assert (written.code, written.remark) == (0, "export done.")
            offsets = (tmp_path / "config" / "consumerOffset.json").read_text(encoding="utf-8")
            assert "T@g" in offsets

    run_on("uvloop", run())


def test_a_slave_shows_the_number_it_was_given_and_a_master_keeps_none(tmp_path: Path) -> None:
    async def noted(folder: Path, **keys: str) -> int:
        async with live(folder, **keys) as client:
            ext = {"masterFlushOffset": 7}
            expect(await client.call(RequestCode.RESET_MASTER_FLUSH_OFFSET, ext), "")
            status = await client.json(RequestCode.GET_BROKER_HA_STATUS)
            number: int = status["haClientRuntimeInfo"]["masterFlushOffset"]
            return number

    async def run() -> None:
        assert await noted(tmp_path / "s", brokerRole="SLAVE", brokerId="1") == 7
        assert await noted(tmp_path / "m") == 0

    run_on("uvloop", run())


def test_settings_of_retention_and_reads_change_while_the_broker_runs(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "broker.conf"
        path.write_text("# mine\nfileReservedTime=72\n", encoding="utf-8")
        async with live(tmp_path / "store", path) as client:
            await client.create("T")
            for number in range(8):
                await client.send("T", b"%d" % number)
            await client.settled()
            pairs = ("fileReservedTime=48", "maxTransferCountOnMessageInMemory=3")
            body = "\n".join((*pairs, "flushDiskType=SYNC_FLUSH")).encode()
            answer = await client.call(RequestCode.UPDATE_BROKER_CONFIG, body=body)
            assert (answer.code, answer.remark) == (0, "from the next start on: flushDiskType")
            text = path.read_text(encoding="utf-8")
            assert "# mine\nfileReservedTime=48\n" in text
            assert "flushDiskType=SYNC_FLUSH" in text
            assert (await client.pull("T", 0)).ext["nextBeginOffset"] == "3"
            bad = await client.call(RequestCode.UPDATE_BROKER_CONFIG, body=b"deleteWhen=25")
            assert bad.code == ResponseCode.SYSTEM_ERROR
            assert "deleteWhen" in (bad.remark or "")
            shown = (await client.call(RequestCode.GET_BROKER_CONFIG)).body.decode()
            assert "deleteWhen=04\n" in shown
            assert "fileReservedTime=48\n" in shown

    run_on("uvloop", run())
