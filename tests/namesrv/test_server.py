"""A running name server behind a real socket, and the command that runs one."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from loops import FACTORIES, run_on, until
from mqcore.errors import ConnectionLostError
from mqcore.namesrv import NameServer
from mqcore.native import Command
from mqcore.remoting import (
    Client,
    Dispatcher,
    Request,
    RequestCode,
    Server,
    TcpAddress,
    TlsFiles,
    client_context,
    expect,
)
from mqcore.remoting.certificates import ends_in
from namesrv.asking import CLUSTER, registration_body, rows, settings_of
from page_reading import page_text
from tls_papers import Papers

pytestmark = pytest.mark.parametrize("loop", sorted(FACTORIES))


async def register(client: Client, server: str, broker: str, **ext: str) -> Command:
    """Registers a master with two topics."""
    fields = {
        "brokerName": "broker-a",
        "brokerAddr": broker,
        "clusterName": CLUSTER,
        "haServerAddr": broker,
        "brokerId": "0",
        **ext,
    }
    body = registration_body(rows("T", "U"))
    answer = await client.call(server, RequestCode.REGISTER_BROKER, fields, body, timeout_s=30)
    return expect(answer, server)


async def has_route(client: Client, server: str, topic: str = "T") -> bool:
    """Returns whether a name server knows a topic."""
    code = RequestCode.GET_ROUTEINFO_BY_TOPIC
    answer = await client.call(server, code, {"topic": topic}, timeout_s=30)
    assert answer.code in (0, 17)
    return answer.code == 0


def test_name_servers_know_nothing_of_each_other(loop: str, tmp_path: Path) -> None:
    async def work() -> None:
        servers = [NameServer(settings_of(tmp_path / str(i))) for i in range(2)]
        first, second = [str(await server.start()) for server in servers]
        async with Client() as broker, Client() as client:
            await register(broker, first, "10.0.0.1:10911")
            assert await has_route(client, first)
            assert not await has_route(client, second)
            await register(broker, second, "10.0.0.1:10911")
            await servers[0].stop()
            assert await has_route(client, second)
            # It comes back at the same port, empty, and brokers register again.
            port = int(first.rpartition(":")[2])
            again = NameServer(settings_of(tmp_path / "0", listenPort=str(port)))
            assert str(await again.start()) == first
            assert not await has_route(client, first)
            await register(broker, first, "10.0.0.1:10911")
            assert await has_route(client, first)
            await again.stop()
            await servers[1].stop()

    run_on(loop, work())


def test_a_broker_that_dies_is_forgotten_with_its_connection(loop: str, tmp_path: Path) -> None:
    async def work() -> None:
        server = NameServer(settings_of(tmp_path))
        address = str(await server.start())
        async with Client() as client:
            broker = Client()
            await register(broker, address, "10.0.0.1:10911")
            assert await has_route(client, address)
            await broker.close()
            await until(lambda: not server.requests.table.live)
            assert not await has_route(client, address)
        await server.stop()

    run_on(loop, work())


def test_a_silent_broker_is_forgotten_and_its_connection_closed(loop: str, tmp_path: Path) -> None:
    async def work() -> None:
        now_ms = 0
        server = NameServer(settings_of(tmp_path), clock=lambda: now_ms)
        address = str(await server.start())
        async with Client() as broker, Client() as client:
            await register(broker, address, "10.0.0.1:10911")
            link = await broker.link(address)
            now_ms = 120_000
            server.look()
            assert await has_route(client, address)
            now_ms = 120_001
            server.look()
            assert not await has_route(client, address)
            await until(lambda: not link.is_open)
        await server.stop()

    run_on(loop, work())


def test_the_broker_whose_connection_ends_is_named(
    loop: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="mqcore.namesrv")

    async def work() -> None:
        server = NameServer(settings_of(tmp_path))
        address = str(await server.start())
        async with Client() as client:
            async with Client() as broker:
                await register(broker, address, "10.0.0.1:10911")
            await until(lambda: "is gone" in caplog.text)
            assert not await has_route(client, address)
        await server.stop()

    run_on(loop, work())
    assert "broker broker-a (10.0.0.1:10911) is gone: its connection 127.0.0.1:" in caplog.text


def test_brokers_are_notified_of_a_new_smallest_id(loop: str, tmp_path: Path) -> None:
    async def work() -> None:
        notified: list[Request] = []
        slave = Server(Dispatcher({RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: notified.append}))
        slave_address = str(await slave.listen(TcpAddress("127.0.0.1", 0)))
        server = NameServer(settings_of(tmp_path, notifyMinBrokerIdChanged="true"))
        address = str(await server.start())
        async with Client() as broker:
            acting = {"enableActingMaster": "true"}
            await register(broker, address, slave_address, brokerId="1", **acting)
            await register(broker, address, "127.0.0.1:1", **acting)
            await until(lambda: len(notified) == 1)
            assert notified[0].command.is_oneway
            assert notified[0].ext == {
                "minBrokerId": "0",
                "minBrokerAddr": "127.0.0.1:1",
                "brokerName": "broker-a",
                "haBrokerAddr": "127.0.0.1:1",
            }
        await server.stop()
        await slave.close()

    run_on(loop, work())


def test_a_stop_ends_every_connection(loop: str, tmp_path: Path) -> None:
    async def work() -> None:
        server = NameServer(settings_of(tmp_path))
        address = str(await server.start())
        async with Client() as client:
            link = await client.link(address)
            await has_route(client, address)
            await server.stop()
            await until(lambda: not link.is_open)
            with pytest.raises(ConnectionLostError):
                await link.call(RequestCode.GET_BROKER_CLUSTER_INFO, timeout_s=30)

    run_on(loop, work())


def test_settings_define_where_and_how_it_listens(loop: str, tmp_path: Path) -> None:
    async def work() -> None:
        authority = trustme.CA()
        papers, trusted = tmp_path / "server.pem", tmp_path / "ca.pem"
        issued = authority.issue_cert("127.0.0.1")
        issued.private_key_and_cert_chain_pem.write_to_path(str(papers))
        authority.cert_pem.write_to_path(str(trusted))
        given = {
            "tls.server.mode": "enforcing",
            "tls.server.certPath": str(papers),
            "serverSocketRcvBufSize": "65536",
            "serverSocketSndBufSize": "65536",
        }
        server = NameServer(settings_of(tmp_path, **given))
        address = str(await server.start())
        async with (
            Client(tls=client_context(TlsFiles(trusted=trusted))) as safe,
            Client() as plain,
        ):
            assert not await has_route(safe, address)
            with pytest.raises(ConnectionLostError):
                await has_route(plain, address)
        await server.stop()
        local = NameServer(settings_of(tmp_path, bindAddress=f"unix:{tmp_path / 's'}"))
        address = str(await local.start())
        assert address == f"unix:{tmp_path / 's'}"
        async with Client() as client:
            assert not await has_route(client, address)
        await local.stop()

    run_on(loop, work())


def test_the_command_runs_one_and_ends_cleanly(loop: str, tmp_path: Path) -> None:
    port_file = tmp_path / "ports.json"
    conf = tmp_path / "namesrv.conf"
    conf.write_text(f"kvConfigPath={tmp_path / 'kv.json'}\n", encoding="utf-8")
    command = [sys.executable, "-m", "mqcore.cli.main", "namesrv", "-c", str(conf)]
    command += ["--port", "0", "--port-file", str(port_file), "--log-format", "json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("mqcore namesrv ready on 127.0.0.1:")
        assert ready.rstrip().endswith(
            f" ms: routes in memory, KV configuration in {tmp_path / 'kv.json'}"
        )
        port = json.loads(port_file.read_text(encoding="utf-8"))["namesrv"]
        assert f":{port} " in ready

        async def work() -> None:
            async with Client() as client:
                assert not await has_route(client, f"127.0.0.1:{port}")

        try:
            run_on(loop, work())
        finally:
            process.send_signal(signal.SIGTERM)
            _, logged = process.communicate(timeout=60)
        assert process.returncode == 0
        lines = [json.loads(line) for line in logged.splitlines()]
        assert any("stopped after" in line["message"] for line in lines)
        assert not port_file.exists()


def test_a_port_that_is_taken_is_reported_in_one_line(loop: str, tmp_path: Path) -> None:
    async def work() -> None:
        server = NameServer(settings_of(tmp_path))
        address = str(await server.start())
        command = [sys.executable, "-m", "mqcore.cli.main", "namesrv"]
        command += ["--port", address.rpartition(":")[2], "--log-level", "error"]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        printed, complained = await process.communicate()
        assert (process.returncode, printed) == (2, b"")
        assert complained.decode().startswith(f"mqcore: cannot listen on {address}: ")
        assert complained.count(b"\n") == 1
        await server.stop()

    run_on(loop, work())


def test_the_end_of_its_certificate_is_at_the_port_of_health(loop: str, tmp_path: Path) -> None:
    papers = Papers(tmp_path / "papers")
    keys = {"mqcoreHealthAddress": "127.0.0.1:0", **papers.keys("n")}

    async def work() -> str:
        server = NameServer(settings_of(tmp_path, **keys))
        address = str(await server.start())
        async with Client(tls=papers.context()) as broker:
            await register(broker, address, "10.0.0.1:10911")
            text = await page_text(server.ports["health"], "/metrics")
        await server.stop()
        return text

    lines = run_on(loop, work()).splitlines()
    (wanted,) = ends_in(Path(keys["tls.server.certPath"]))
    shown = {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"
    }
    kind = 'mqcore_tls_certificate_not_after_seconds{node_type="namesrv",kind="server"}'
    assert shown[kind] == wanted
    assert shown['mqcore_namesrv_topics{node_type="namesrv"}'] == 2
    assert shown['mqcore_namesrv_brokers{node_type="namesrv"}'] == 1
