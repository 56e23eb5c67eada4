"""Partners that cannot be: each is refused in words that name a repair, and writes nothing."""

import asyncio
import logging
import struct
from pathlib import Path

import pytest

from broker.scripted_slave import ScriptedSlave
from broker.test_replication import SLAVE, fill, ha_address, log_bytes, name_server
from broker.test_sync_master import end_of, port_of
from live_broker import Live, live
from loops import run_on, until
from mqcore import Store
from mqcore.broker.rivals import holder_of
from mqcore.model.relaxed_json import parse_object
from mqcore.model.shown_settings import settings_in
from mqcore.native import (
    ReplicationEpochs,
    ReplicationMaster,
    ReplicationMembership,
    ReplicationPace,
)
from mqcore.native.errors import NotWritableError
from mqcore.remoting import RequestCode, expect
from small_store import SMALL


async def holder(asked: Live, names: str, broker_id: str) -> str:
    """Returns whom a name server has for an id of the broker name."""
    code = RequestCode.GET_BROKER_CLUSTER_INFO
    answer = expect(await asked.client.call(names, code), names)
    return holder_of(parse_object(answer.body), "b", broker_id)


@pytest.mark.parametrize(
    ("keys", "broker_id", "words"),
    [
        ({}, "0", "two masters are named b"),
        ({**SLAVE, "haMasterAddress": "127.0.0.1:1"}, "1", "have the id 1"),
    ],
)
def test_who_comes_second_with_a_name_and_an_id_does_not_register(
    tmp_path: Path,
    keys: dict[str, str],
    broker_id: str,
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        async with (
            name_server(tmp_path) as names,
            live(tmp_path / "one", **keys, namesrvAddr=names) as first,
        ):
            assert await first.broker.until_registered(names, timeout_s=20)
            # As slow programs start: the second one sees what the first has registered.
            async with live(tmp_path / "two", **keys, namesrvAddr=names) as second:
                await until(lambda: words in caplog.text)
                assert not second.broker.registered
                assert await holder(first, names, broker_id) == first.address
                await first.broker.stop()
                assert await second.broker.until_registered(names, timeout_s=20)
                assert await holder(second, names, broker_id) == second.address

    with caplog.at_level(logging.WARNING, logger="mqcore.broker"):
        run_on("asyncio", run())


def test_the_settings_of_a_broker_are_read_however_they_are_written() -> None:
    assert (
        settings_in(b"# c\nbrokerName=a\n brokerId = 1 \nno sign\n\xff=\xfe\n")["brokerId"] == "1"
    )
    assert holder_of(parse_object(b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"h:1"}}}}'), "b", "0")
    assert holder_of({"brokerAddrTable": 7}, "b", "0") == ""


def test_a_slave_in_controller_mode_is_refused_by_a_master_in_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with live(tmp_path / "m") as master:
            await master.create("T")
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(master))
            writer.write(struct.pack(">ihhq", 1, 0, 0, 2))
            assert await reader.read() == b""
            writer.close()
            await until(lambda: "introduces itself" in caplog.text)

    with caplog.at_level(logging.WARNING, logger="mqcore.broker"):
        run_on("asyncio", run())
    assert "set enableControllerMode on both, or on neither" in caplog.text


def test_a_slave_of_another_cluster_is_refused_and_nothing_of_it_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with live(tmp_path / "m1") as master:
            await master.create("T", 2)
            await fill(master, "T", 300)
            async with live(tmp_path / "s", haMasterAddress=ha_address(master), **SLAVE) as slave:
                await until(lambda: end_of(slave) == end_of(master))
                end = end_of(slave)
        before = log_bytes(tmp_path / "s", end)
        async with live(tmp_path / "m2") as other:
            await other.create("T", 2)
            await fill(other, "T", 400)
            keys = {**SLAVE, "haMasterAddress": ha_address(other)}
            async with live(tmp_path / "s", **keys) as slave:
                await until(lambda: "no copies of each other" in caplog.text)
                assert end_of(slave) == end
        assert log_bytes(tmp_path / "s", end) == before

    with caplog.at_level(logging.WARNING, logger="mqcore.broker"):
        run_on("asyncio", run())
    assert "empty the store of the one that is to be filled anew" in caplog.text


@pytest.mark.parametrize("begin", [-1, 1 << 62])
def test_a_slave_that_asks_for_an_offset_in_no_log_is_cut_and_gets_nothing(
    tmp_path: Path, begin: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with live(tmp_path / "m") as master:
            await master.create("T")
            slave = await ScriptedSlave.of(port_of(master), begin)
            await slave.until_cut()
            assert slave.end == 0
            await until(lambda: "no longer served" in caplog.text)

    with caplog.at_level(logging.WARNING, logger="mqcore.broker"):
        run_on("asyncio", run())


def test_a_controller_cannot_have_a_log_led_for_a_set_or_an_epoch_that_is_not_its(
    tmp_path: Path,
) -> None:
    with Store(tmp_path / "s", config=SMALL, is_member=True) as store:
        epochs = ReplicationEpochs(store, str(tmp_path / "epochs"))
        master = ReplicationMaster(
            store,
            heartbeat_ms=5_000,
            silence_max_ms=20_000,
            pace=ReplicationPace(batch_bytes=32_768),
            membership=ReplicationMembership(controller_id=1),
            epochs=epochs,
        )
        with pytest.raises(NotWritableError, match=r"1 is not in the set \[2, 3\]"):
            master.lead(1, [2, 3], 1)
        assert epochs.entries() == []
        master.lead(3, [1], 1)
        with pytest.raises(NotWritableError, match="the log has epoch 3"):
            master.lead(2, [1], 2)
        assert [each.epoch for each in epochs.entries()] == [3]
        master.stop()
