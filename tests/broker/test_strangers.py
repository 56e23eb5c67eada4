"""Who acknowledges at the port for slaves: members of the group, by the host they come from."""

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.scripted_slave import ScriptedSlave
from broker.test_replication import name_server
from broker.test_sync_master import PATIENT, codes, end_of, port_of, sent, slave_of
from live_broker import Live, live
from loops import run_on, until
from mqcore.broker.processors.replication import ha_status
from mqcore.broker.replication import admission
from mqcore.broker.replication.member_hosts import members_in, plain, second_host
from mqcore.config.checks import check_broker
from mqcore.config.settings import settings_of_pairs
from mqcore.errors import ConfigurationError
from mqcore.model.relaxed_json import parse_object
from mqcore.native import SlaveState
from mqcore.remoting import Client, RequestCode, expect

# Another address of this machine: whoever comes from it is no member by that.
FAR = "127.0.0.2"
OK, SLAVE_TIMEOUT, NO_SLAVE = 0, 12, 11


def slaves(master: Live) -> list[SlaveState]:
    """Returns who is connected at the port for slaves."""
    shipping = master.broker.state.replicas.master
    assert shipping is not None
    return shipping.slaves()


async def far_slave(master: Live, *, reports_at_once: bool = False) -> ScriptedSlave:
    """Connects a slave from another host, which has everything; returns when the master knows."""
    known = len(slaves(master))
    opened = await asyncio.open_connection("127.0.0.1", port_of(master), local_addr=(FAR, 0))
    slave = ScriptedSlave(*opened)
    slave.reports_at_once = reports_at_once
    slave.report(end_of(master))
    await until(lambda: sum(one.requested is not None for one in slaves(master)) > known)
    return slave


async def register(client: Client, names: str, address: str, name: str = "b") -> None:
    """Registers a slave with a name server, as a broker does."""
    ext = {
        "brokerName": name,
        "brokerAddr": address,
        "clusterName": "c",
        "brokerId": "1",
        "haServerAddr": "127.0.0.1:0",
        "compressed": "false",
        "bodyCrc32": "0",
    }
    expect(await client.call(names, RequestCode.REGISTER_BROKER, ext), names)


@contextlib.asynccontextmanager
async def known_master(tmp_path: Path, **keys: str) -> AsyncIterator[tuple[Live, str]]:
    """A master that a name server knows, and the name server's address."""
    async with (
        name_server(tmp_path) as names,
        live(tmp_path / "m", **PATIENT | {"namesrvAddr": names} | keys) as master,
    ):
        assert await master.broker.until_registered(names, timeout_s=20)
        await master.create("T")
        yield master, names


def test_a_stranger_gets_the_log_and_acknowledges_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with known_master(tmp_path) as (master, _):
            stranger = await far_slave(master, reports_at_once=True)
            assert [one.counts for one in slaves(master)] == [False]
            assert (await master.send("T", b"alone")).code == NO_SLAVE
            await stranger.until(end_of(master))
            slave = await slave_of(master)
            tasks = await sent(master, 1)
            await stranger.until(end_of(master))
            await until(lambda: slaves(master)[0].lag_bytes == 0)
            assert not tasks[0].done()
            await slave.until(end_of(master))
            slave.report(end_of(master))
            assert await codes(tasks) == [OK]
            shown = ha_status(master.broker.state)
            assert shown["inSyncSlaveNums"] == 1
            for each in (stranger, slave):
                each.close()

    with caplog.at_level(logging.WARNING, logger="mqcore.broker"):
        run_on("asyncio", run())
    assert "is no slave: it gets the log, and nothing that it reports counts" in caplog.text
    assert "haMemberHosts" in caplog.text


def test_a_slave_that_is_registered_counts_by_its_host(tmp_path: Path) -> None:
    async def run() -> None:
        async with known_master(tmp_path) as (master, names):
            await register(master.client, names, f"{FAR}:1")
            slave = await far_slave(master, reports_at_once=True)
            assert [one.counts for one in slaves(master)] == [True]
            assert (await master.send("T", b"two copies")).code == OK
            slave.close()

    run_on("asyncio", run())


def test_a_stranger_that_registers_counts_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "_ASK_AGAIN_S", 0.05)

    async def run() -> None:
        async with known_master(tmp_path) as (master, names):
            slave = await far_slave(master)
            tasks = await sent(master, 1) if slaves(master)[0].counts else []
            assert not tasks
            await register(master.client, names, f"{FAR}:1")
            await until(lambda: slaves(master)[0].counts)
            tasks = await sent(master, 1)
            await slave.until(end_of(master))
            slave.report(end_of(master))
            assert await codes(tasks) == [OK]
            slave.close()

    run_on("asyncio", run())


@pytest.mark.parametrize("hosts", [FAR, "10.1.2.3;127.0.0.0/8"])
def test_a_slave_that_the_settings_name_counts(tmp_path: Path, hosts: str) -> None:
    async def run() -> None:
        async with known_master(tmp_path, haMemberHosts=hosts) as (master, _):
            slave = await far_slave(master, reports_at_once=True)
            assert (await master.send("T", b"two copies")).code == OK
            slave.close()

    run_on("asyncio", run())


def test_strangers_are_refused_where_that_is_set(tmp_path: Path) -> None:
    async def run() -> None:
        async with known_master(tmp_path, haStrangers="refuse") as (master, _):
            opened = await asyncio.open_connection(
                "127.0.0.1", port_of(master), local_addr=(FAR, 0)
            )
            stranger = ScriptedSlave(*opened)
            stranger.report(0)
            await stranger.until_cut()
            assert stranger.end == 0
            assert not slaves(master)

    run_on("asyncio", run())


@pytest.mark.parametrize("keys", [{"haStrangers": "count"}, {"namesrvAddr": ""}])
def test_where_nobody_knows_who_is_a_member_everybody_counts_as_officially(
    tmp_path: Path, keys: dict[str, str]
) -> None:
    async def run() -> None:
        async with live(tmp_path / "m", **PATIENT | keys) as master:
            await master.create("T")
            slave = await far_slave(master, reports_at_once=True)
            assert (await master.send("T", b"two copies")).code == OK
            slave.close()

    run_on("asyncio", run())


def test_the_first_eight_bytes_of_anybody_acknowledge_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path / "m", **PATIENT) as master:
            await master.create("T")
            slave = await slave_of(master)
            tasks = await sent(master, 1)
            probe = await ScriptedSlave.of(port_of(master), end_of(master))
            await until(lambda: len(slaves(master)) == 2)
            await until(lambda: slaves(master)[1].requested == end_of(master))
            assert not tasks[0].done()
            await slave.until(end_of(master))
            slave.report(end_of(master))
            assert await codes(tasks) == [OK]
            for each in (probe, slave):
                each.close()

    run_on("asyncio", run())


@pytest.mark.slow
def test_ten_thousand_connects_of_a_scanner_leave_nothing_and_keep_no_slave_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def descriptors() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    async def scan(master: Live, count: int) -> None:
        for number in range(count):
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(
                    "127.0.0.1", port_of(master), local_addr=(FAR, 0)
                )
                if number % 2:
                    writer.write(b"GET / HTTP/1.0\r\n\r\n")
                writer.close()

    async def run() -> None:
        async with known_master(tmp_path) as (master, _):
            slave = await slave_of(master, reports_at_once=True)
            await scan(master, 100)
            await until(lambda: len(slaves(master)) == 1)
            before = descriptors()
            await asyncio.gather(*(scan(master, 1_250) for _ in range(8)))
            assert (await master.send("T", b"meanwhile")).code == OK
            await until(lambda: len(slaves(master)) == 1)
            shipping = master.broker.state.replicas.master
            assert shipping is not None
            await until(lambda: shipping.open_links() == 1)
            gc.collect()
            await until(lambda: descriptors() <= before + 2)
            slave.close()

    with caplog.at_level(logging.INFO, logger="mqcore.broker"):
        run_on("asyncio", run())
    assert sum(FAR in line for line in caplog.text.splitlines()) < 100


def test_members_are_read_from_what_name_servers_controllers_and_brokers_answer() -> None:
    cluster = parse_object(
        b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"10.0.0.1:10911",1:"h:1"}},'
        b'"c":{"brokerAddrs":{0:"10.0.0.9:10911"}}}}'
    )
    assert members_in(cluster, "b") == {"10.0.0.1:10911", "h:1"}
    sets = parse_object(
        b'{"replicasInfoTable":{"b":{"inSyncReplicas":[{"brokerAddress":"10.0.0.1:1"}],'
        b'"notInSyncReplicas":[{"brokerAddress":"[::1]:2"},{"brokerAddress":""}]}}}'
    )
    assert members_in(sets, "b") == {"10.0.0.1:1", "[::1]:2"}
    assert members_in({"brokerAddrTable": [1]}, "b") == set()
    assert second_host(b"brokerIP1=10.0.0.2\nbrokerIP2=192.168.0.2\n") == "192.168.0.2"
    assert second_host(b"\xff\xfe") == ""
    assert [plain(each) for each in ("::ffff:10.0.0.1", "fe80::1%eth0", "10.0.0.1", "h")] == [
        "10.0.0.1",
        "fe80::1",
        "10.0.0.1",
        "h",
    ]


def test_a_network_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"haMemberHosts=10\.0\.0\.0/99: a network"):
        check_broker(settings_of_pairs({"haMemberHosts": "slave-1;10.0.0.0/99"}))
