"""Starting and ending: the order, and that a start which fails leaves nothing behind."""

import asyncio
import socket
from contextlib import AbstractContextManager
from pathlib import Path
from unittest.mock import patch

import pytest

from live_broker import SMALL, live
from loops import run_on
from mqcore.broker.app import Broker
from mqcore.broker.registration import Registrar
from mqcore.broker.rounds import Rounds
from mqcore.config import settings_of_pairs
from mqcore.errors import AddressError
from mqcore.namesrv import NameServer
from mqcore.native import Store
from mqcore.remoting import Server
from mqcore.remoting.observatory import Observatory
from mqcore.standalone import Standalone, namesrv_settings_of


def broker_on(directory: Path, **keys: str) -> Broker:
    return Broker(settings_of_pairs(SMALL | {"storePathRootDir": str(directory)} | keys))


def noted(steps: list[str], kind: type, name: str, what: str) -> AbstractContextManager[object]:
    """Notes each call of a method."""
    method = getattr(kind, name)

    async def wrapped(*args: object, **kwargs: object) -> object:
        steps.append(what)
        return await method(*args, **kwargs)

    return patch.object(kind, name, wrapped)


def test_a_start_after_a_kill_logs_what_it_recovered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="mqcore.broker")

    async def run() -> None:
        for ends in (Broker.abandon, Broker.stop, Broker.stop):
            caplog.clear()
            broker = broker_on(tmp_path)
            await broker.start()
            seen.append("the store was not closed cleanly, and is recovered: " in caplog.text)
            await ends(broker)

    seen: list[bool] = []
    asyncio.run(run())
    assert seen == [False, True, False]


@pytest.mark.parametrize("failing", [Observatory, Rounds, Registrar, Server])
def test_a_start_that_fails_ends_what_was_started(tmp_path: Path, failing: type) -> None:
    name = "listen" if failing is Server else "start"

    async def run() -> None:
        broker = broker_on(tmp_path, metricsPromExporterPort="0", metricsExporterType="PROM")
        with (
            patch.object(failing, name, side_effect=RuntimeError("planted")),
            pytest.raises(RuntimeError, match="planted"),
        ):
            await broker.start()
        assert broker.state.store.is_closed
        assert broker.registered == frozenset()
        with pytest.raises(RuntimeError, match="does not serve"):
            broker.rounds  # noqa: B018 - that it raises is the test
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others
        await broker.stop()
        async with live(tmp_path) as client:
            await client.create("T")

    run_on("asyncio", run())


def test_a_stop_goes_in_the_reverse_order_of_the_start(tmp_path: Path) -> None:
    steps: list[str] = []

    async def run() -> None:
        broker = broker_on(tmp_path)
        with (
            noted(steps, Registrar, "stop", "name servers"),
            noted(steps, Rounds, "stop", "rounds"),
            noted(steps, Server, "close", "connections"),
            noted(steps, Broker, "_save", "files"),
            noted(steps, Broker, "_close_store", "store"),
        ):
            await broker.start()
            assert steps == []
            await broker.stop()
            await broker.stop()

    run_on("asyncio", run())
    assert steps == ["name servers", "rounds", "connections", "files", "store"]


def test_what_fails_at_a_stop_does_not_keep_the_others_from_it(tmp_path: Path) -> None:
    async def run() -> None:
        broker = broker_on(tmp_path)
        with patch.object(Registrar, "stop", side_effect=RuntimeError("planted")):
            await broker.start()
        with pytest.raises(RuntimeError, match="planted"):
            await broker.stop()
        assert broker.state.store.is_closed

    run_on("asyncio", run())
    with Store(tmp_path) as store:
        assert store.open_report().was_clean


def test_a_broker_that_cannot_start_takes_its_name_server_along(tmp_path: Path) -> None:
    async def run() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            keys = {"listenPort": str(taken.getsockname()[1]), "bindAddress": "127.0.0.1"}
            settings = broker_on(tmp_path, **keys).settings
            both = Standalone(settings, namesrv_settings_of(settings, 0))
            with pytest.raises(AddressError):
                await both.start()
        assert both.namesrv.server is None
        port = both.namesrv.ports["namesrv"]
        again = NameServer(namesrv_settings_of(settings, port))
        await again.start()
        await again.stop()

    run_on("asyncio", run())
