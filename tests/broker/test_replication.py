"""Masters and slaves of ours: copies that are equal, tables that follow, ends of either."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from interop.processes import free_port
from live_broker import SMALL, Live, live
from loops import run_on, until
from mqcore import Inspection, standalone
from mqcore.broker.processors.replication import ha_status
from mqcore.broker.registration import register_header
from mqcore.config import Layer, Program, namesrv_settings, resolved
from mqcore.config.checks import check_broker
from mqcore.config.settings import settings_of_pairs
from mqcore.errors import AddressError, BadJsonError, ConfigurationError
from mqcore.namesrv import NameServer
from mqcore.remoting import RequestCode, ResponseCode, TcpAddress, expect
from mqcore.testing import embedded

SLAVE = {"brokerRole": "SLAVE", "brokerId": "1", "slaveReadEnable": "true"}


@contextlib.asynccontextmanager
async def name_server(directory: Path, **keys: str) -> AsyncIterator[str]:
    pairs = {"listenPort": "0", "kvConfigPath": str(directory / "kv.json"), **keys}
    server = NameServer(namesrv_settings(resolved(Program.NAMESRV, [Layer("test", pairs)])))
    address = await server.start()
    assert isinstance(address, TcpAddress)
    try:
        yield f"127.0.0.1:{address.port}"
    finally:
        await server.stop()


def taken(port: int) -> socket.socket:
    """Returns a socket that listens at a port."""
    return socket.create_server(("127.0.0.1", port))


def end_of(broker: Live) -> int:
    """Returns the end of a broker's log."""
    return broker.broker.state.store.stats().appended


async def fill(master: Live, topic: str, count: int) -> None:
    """Sends messages of many lengths."""
    for number in range(count):
        body = b"%06d" % number + b"x" * (number * 37 % 3_000)
        answer = await master.send(topic, body, number % 2)
        while answer.code == ResponseCode.SYSTEM_BUSY:
            # The next log file is late: a busy disk.
            answer = await master.send(topic, body, number % 2)
        expect(answer, master.address)


async def equal(master: Live, slave: Live) -> None:
    """Returns when the slave's log ends where the master's does."""
    await until(lambda: end_of(slave) == end_of(master))


def ha_address(master: Live) -> str:
    """Returns where a master ships its log."""
    return f"127.0.0.1:{master.broker.state.replicas.port}"


def log_bytes(store_dir: Path, end: int) -> bytes:
    """Returns the log of a store below its end."""
    files = sorted((store_dir / "commitlog").iterdir())
    return b"".join(file.read_bytes() for file in files)[:end]


def test_a_slave_has_the_log_and_the_tables_of_its_master(tmp_path: Path) -> None:
    async def run() -> int:
        async with (
            name_server(tmp_path) as names,
            live(tmp_path / "m", namesrvAddr=names) as master,
            live(tmp_path / "s", namesrvAddr=names, **SLAVE) as slave,
        ):
            await until(lambda: _acknowledged(master) == [0])
            await master.create("T", 2)
            group = b'{"groupName":"readers","retryQueueNums":1}'
            code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            expect(await master.call(code, body=group), master.address)
            await fill(master, "T", 900)
            offset = {"consumerGroup": "readers", "topic": "T", "queueId": 1, "commitOffset": 77}
            expect(await master.call(RequestCode.UPDATE_CONSUMER_OFFSET, offset), master.address)
            await equal(master, slave)
            state = slave.broker.state
            await until(lambda: state.topics.find("T") is not None)
            await until(lambda: state.groups.find("readers") is not None)
            await until(lambda: state.fast_path.offsets.find("readers", "T", 1) == 77)
            assert state.topics.version == master.broker.state.topics.version
            await slave.settled()
            # A table is written before it is served from.
            while (await slave.pull("T", 1)).code == ResponseCode.TOPIC_NOT_EXIST:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            for queue_id in (0, 1):
                theirs = await master.pull("T", 100, queue_id=queue_id)
                ours = await slave.pull("T", 100, queue_id=queue_id)
                assert (ours.code, ours.body) == (theirs.code, theirs.body)
            shown = await slave.json(RequestCode.GET_BROKER_HA_STATUS)
            assert shown["master"] is False
            assert shown["haClientRuntimeInfo"]["maxOffset"] == end_of(master)
            assert shown["haClientRuntimeInfo"]["activated"] is True
            await until(lambda: _acknowledged(master) == [end_of(master)])
            shown = await master.json(RequestCode.GET_BROKER_HA_STATUS)
            assert shown["inSyncSlaveNums"] == 1
            assert shown["haConnectionInfo"][0]["diff"] == 0
            return end_of(master)

    end = run_on("asyncio", run())
    assert log_bytes(tmp_path / "s", end) == log_bytes(tmp_path / "m", end)
    assert end > 1 << 20, "more than one file"
    assert Inspection(tmp_path / "s").verify().problems == []


def _acknowledged(master: Live) -> list[object]:
    shown = ha_status(master.broker.state)["haConnectionInfo"]
    assert isinstance(shown, list)
    return [each["slaveAckOffset"] for each in shown]


@pytest.mark.parametrize("killed", ["master", "slave"])
def test_after_ends_of_either_the_logs_become_equal(tmp_path: Path, killed: str) -> None:
    async def run() -> int:
        end, port = 0, "0"
        for number in range(4):
            async with contextlib.AsyncExitStack() as rest:
                master = await rest.enter_async_context(
                    live(tmp_path / "m", haListenPort=port, deduplicationWindowMinutes="0")
                )
                port = str(master.broker.state.replicas.port)
                slave = await rest.enter_async_context(
                    live(tmp_path / "s", haMasterAddress=ha_address(master), **SLAVE)
                )
                await master.create("T", 2)
                await fill(master, "T", 150)
                if number == 3:
                    await equal(master, slave)
                    end = end_of(master)
                else:
                    await (master if killed == "master" else slave).broker.abandon()
        return end

    end = run_on("asyncio", run())
    assert log_bytes(tmp_path / "s", end) == log_bytes(tmp_path / "m", end)
    assert Inspection(tmp_path / "s").verify().problems == []


def test_a_fresh_slave_begins_at_the_last_file_and_can_become_the_master(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path / "m") as master:
            await master.create("T", 2)
            await fill(master, "T", 1_500)
            async with live(tmp_path / "s", haMasterAddress=ha_address(master), **SLAVE) as slave:
                await equal(master, slave)
                await slave.settled()
                assert slave.broker.state.store.stats().log_start == 2 << 20
                bounds = slave.broker.state.bounds("T", 0)
                assert 0 < bounds[0] < bounds[1] == 750
        async with live(tmp_path / "s") as heir:
            await heir.create("T", 2)
            answer = expect(await heir.send("T", b"next"), heir.address)
            assert answer.ext["queueOffset"] == "750"

    run_on("asyncio", run())


def test_a_slave_takes_no_messages_and_changes_no_tables(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path / "m") as master:
            await master.create("T")
            address = ha_address(master)
            keys = SLAVE | {"haMasterAddress": address, "slaveReadEnable": "false"}
            async with live(tmp_path / "s", **keys, reportedVersion="V5_3_3") as slave:
                refused = await slave.send("T", b"x")
                assert (refused.code, (refused.remark or "")[:15]) == (2, "[REJECTREQUEST]")
                refused = await slave.pull("T", 0)
                assert (refused.code, (refused.remark or "")[:15]) == (2, "[REJECTREQUEST]")
                with pytest.raises(Exception, match="from slave broker"):
                    await slave.create("U")
            async with live(tmp_path / "s4", **keys) as slave:
                refused = await slave.send("T", b"x")
                assert (refused.code, (refused.remark or "")[:21]) == (14, "service not available")
                assert (await slave.pull("T", 0)).code != 2

    run_on("asyncio", run())


def test_a_bad_table_of_the_master_removes_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path / "m") as master:
            await master.create("T", 3)
            state = master.broker.state
            for bad in (
                b"",
                b"{}",
                b'{"topicConfigTable":{}}',
                b'{"topicConfigTable":{"U":',
                b"[]",
            ):
                with pytest.raises(BadJsonError):
                    state.topics.follow(bad)
                with pytest.raises(BadJsonError):
                    state.groups.follow(bad)
            found = state.topics.find("T")
            assert found is not None
            assert found.write_queues == 3
            whole = b'{"dataVersion":{"counter":9},"topicConfigTable":{"U":{"topicName":"U"}}}'
            assert set(state.topics.follow(whole)) == {"T", "U"}
            assert state.topics.find("T") is None
            assert state.topics.find("TBW102") is not None, "topics of the system stay"
            assert state.topics.follow(whole) == ()

    run_on("asyncio", run())


def test_strangers_at_the_port_are_closed_and_bounded(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path / "m") as master:
            await master.create("T", 2)
            await fill(master, "T", 10)
            host, port = "127.0.0.1", master.broker.state.replicas.port
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert await reader.read() == b""
            writer.close()
            silent = [await asyncio.open_connection(host, port) for _ in range(16)]
            shipping = master.broker.state.replicas.master
            assert shipping is not None
            await until(lambda: len(shipping.slaves()) == 16)
            reader, writer = await asyncio.open_connection(host, port)
            assert await reader.read() == b""
            for _, each in (*silent, (reader, writer)):
                each.close()
            await until(lambda: not shipping.slaves())

    run_on("asyncio", run())


def test_the_port_is_as_it_is_set(tmp_path: Path) -> None:
    async def run() -> None:
        port = free_port()
        with taken(port + 1):
            with pytest.raises(AddressError, match=f":{port + 1} for slaves.*haListenPort names"):
                async with live(tmp_path / "named", haListenPort=str(port + 1)):
                    pass
            with pytest.raises(AddressError, match=f":{port + 1} for slaves.*haListenEnable=false"):
                async with live(tmp_path / "next", listenPort=str(port)):
                    pass
            keys = {"listenPort": str(port), "haListenEnable": "false"}
            async with live(tmp_path / "alone", **keys) as served:
                assert served.broker.state.replicas.port == 0
                assert register_header(served.broker.state)["haServerAddr"].endswith(":0")
                await served.create("T")
        async with live(tmp_path / "next", listenPort=str(port)) as served:
            assert served.broker.state.replicas.port == port + 1
        async with live(tmp_path / "any") as served:
            state = served.broker.state
            assert state.replicas.port not in (0, served.broker.ports["broker"])
            assert register_header(state)["haServerAddr"].endswith(f":{state.replicas.port}")

    run_on("asyncio", run())


def test_the_second_port_of_official_brokers_is_there_where_it_is_free(tmp_path: Path) -> None:
    async def run() -> None:
        port = free_port()
        keys = {"listenPort": str(port)}
        with taken(port - 2):
            async with live(tmp_path / "taken", **keys) as served:
                await served.create("T")
        async with live(tmp_path / "free", **keys) as served:
            second, code = f"127.0.0.1:{port - 2}", RequestCode.GET_ALL_TOPIC_CONFIG
            expect(await served.client.call(second, code, timeout_s=20.0), second)
        async with live(tmp_path / "alone", **keys, haListenEnable="false"):
            taken(port - 2).close()

    run_on("asyncio", run())


@pytest.mark.parametrize("defaults", [embedded.DEFAULTS, standalone.DEFAULTS])
def test_an_embedded_broker_has_no_port_for_slaves_unless_it_is_asked_for(
    tmp_path: Path, defaults: Mapping[str, str]
) -> None:
    async def port_with(**keys: str) -> int:
        pairs = {**defaults, **SMALL, **keys, "storePathRootDir": str(tmp_path / str(len(keys)))}
        settings = settings_of_pairs(pairs)
        both = standalone.Standalone(settings, standalone.namesrv_settings_of(settings, 0))
        await both.start()
        try:
            assert both.broker is not None
            return both.broker.state.replicas.port
        finally:
            await both.stop()

    assert run_on("asyncio", port_with()) == 0
    assert run_on("asyncio", port_with(haListenEnable="true")) != 0


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ({**SLAVE, "mountedStoreDir": "/nowhere"}, "does not grow"),
        ({"brokerRole": "SLAVE"}, "set brokerId to another number"),
        ({"brokerId": "1"}, "another id than 0"),
        ({**SLAVE, "haMasterAddress": "nowhere"}, "HOST:PORT expected"),
    ],
)
def test_roles_that_cannot_be_are_refused(pairs: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        check_broker(settings_of_pairs(pairs))
