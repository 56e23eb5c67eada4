"""/healthz and /readyz of broker, name server and controller: reasons as JSON, 503 with one."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from broker.test_controlled import members
from broker.test_replication import SLAVE, name_server
from live_broker import live
from loops import run_on, until
from mqcore.broker.health import live_checks, ready_checks
from mqcore.config import Layer, Program, controller_settings, namesrv_settings, resolved
from mqcore.controller import Controller
from mqcore.errors import AddressError
from mqcore.namesrv import NameServer

HEALTH = {"mqcoreHealthAddress": "127.0.0.1:0"}


async def page(port: int, path: str) -> tuple[int, dict[str, str]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert b"application/json" in head
    tree: dict[str, Any] = json.loads(body)
    checks: dict[str, str] = tree["checks"]
    status = int(head.split()[1])
    assert (status == 200) == (tree["status"] == "ok")
    return status, checks


async def until_well(port: int, check: str) -> None:
    """Returns when a check of readiness is well; the deadline of the test ends it otherwise."""
    while (await page(port, "/readyz"))[1][check] != "ok":  # noqa: ASYNC110 - asked over HTTP
        await asyncio.sleep(0.02)


def test_a_broker_is_ready_while_a_name_server_knows_it(tmp_path: Path) -> None:
    async def go() -> None:
        async with (
            name_server(tmp_path) as names,
            live(tmp_path / "m", namesrvAddr=names, **HEALTH) as broker,
        ):
            port = broker.broker.ports["health"]
            await until(lambda: bool(broker.broker.registered))
            assert await page(port, "/healthz") == (200, {"store": "ok"})
            status, checks = await page(port, "/readyz")
            assert (status, checks["nameServers"], checks["role"]) == (200, "ok", "ok")
        async with live(tmp_path / "m", namesrvAddr="127.0.0.1:1", **HEALTH) as broker:
            port = broker.broker.ports["health"]
            assert (await page(port, "/healthz"))[0] == 200
            status, checks = await page(port, "/readyz")
            assert (status, checks["nameServers"]) == (503, "registered with none of 127.0.0.1:1")

    run_on("asyncio", go())


def test_a_full_disk_ends_readiness_and_not_the_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> None:
        async with live(tmp_path, **HEALTH) as broker:
            state = broker.broker.state
            stats = state.store.stats()

            class Full:
                poisoned = None
                refused = ("the disk is 91 % full",)

            assert stats.poisoned is None
            monkeypatch.setattr(type(state.store), "stats", lambda _: Full)
            assert await live_checks(state)() == {"store": ""}
            found = await ready_checks(state, frozenset)()
            assert found["disk"] == "the disk is 91 % full"
            Full.poisoned = "fdatasync failed"  # type: ignore[assignment]
            assert await page(broker.broker.ports["health"], "/healthz") == (
                503,
                {"store": "fdatasync failed"},
            )
            monkeypatch.undo()

    run_on("asyncio", go())


def test_a_slave_is_ready_while_it_follows(tmp_path: Path) -> None:
    async def go() -> None:
        async with (
            name_server(tmp_path) as names,
            live(tmp_path / "s", namesrvAddr=names, **SLAVE, **HEALTH) as slave,
        ):
            port = slave.broker.ports["health"]
            status, checks = await page(port, "/readyz")
            assert (status, "not connected" in checks["replication"]) == (503, True)
            async with live(tmp_path / "m", namesrvAddr=names) as master:
                await master.create("T")
                await until_well(port, "replication")

    run_on("asyncio", go())


def test_a_name_server_and_a_controller_have_them_too(tmp_path: Path) -> None:
    async def go() -> None:
        pairs = {"listenPort": "0", "kvConfigPath": str(tmp_path / "kv.json"), **HEALTH}
        server = NameServer(namesrv_settings(resolved(Program.NAMESRV, [Layer("test", pairs)])))
        await server.start()
        assert (await page(server.ports["health"], "/readyz"))[0] == 200
        await server.stop()
        pairs = {"listenPort": "0", "controllerStorePath": str(tmp_path / "c"), **HEALTH}
        layers = [Layer("test", pairs)]
        controller = Controller(controller_settings(resolved(Program.CONTROLLER, layers)))
        await controller.start()
        found = await page(controller.ports["health"], "/readyz")
        assert found == (200, {"log": "ok", "leader": "ok"})
        await controller.stop()

    run_on("asyncio", go())


@pytest.mark.parametrize("text", ["8080", "host:", "host:port", "h:70000"])
def test_an_address_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    async def go() -> None:
        with pytest.raises(AddressError, match="HOST:PORT expected"):
            async with live(tmp_path, mqcoreHealthAddress=text):
                pass

    run_on("asyncio", go())


def test_a_member_is_ready_once_it_has_a_role(tmp_path: Path) -> None:
    async def go() -> None:
        async with members(tmp_path) as them:
            them.controller.leader = ""
            first = await them.begin(1, **HEALTH)
            status, checks = await page(first.ports["health"], "/readyz")
            assert (status, checks["role"]) == (503, "the controller has not named a master yet")
            them.controller.leader = them.at
            await them.until_master(1)
            # Its store may have been opened anew, at another port.
            await until_well(first.ports["health"], "nameServers")
            await until_well(first.ports["health"], "replication")
            assert (await page(first.ports["health"], "/readyz"))[1]["role"] == "ok"
            second = await them.begin(2, **HEALTH)
            await them.until_slave(2)
            await until_well(second.ports["health"], "replication")

    run_on("asyncio", go())
