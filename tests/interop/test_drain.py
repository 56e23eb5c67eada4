"""`mqcore broker drain` over official name servers and brokers, and back."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from interop.patience import eventually
from interop.servers import BROKER_NAME, Servers, official_software, serving
from loops import run_on
from mqcore import Message, Producer, PushConsumer
from mqcore.admin import Admin
from mqcore.admin.draining import Draining, DrainState
from mqcore.cli import broker_drain
from mqcore.cli.main import commands
from mqcore.model.topics import TopicConfig

pytestmark = [pytest.mark.java, pytest.mark.slow]


def looked(servers: Servers) -> DrainState:
    async def look() -> DrainState:
        async with Admin(servers.namesrv.address) as admin:
            return await Draining(admin, BROKER_NAME).look()

    return run_on("asyncio", look())


def permission(servers: Servers, topic: str) -> int:
    async def ask() -> int:
        async with Admin(servers.namesrv.address) as admin:
            server = servers.namesrv.address
            return await admin.name_servers.permission_at(server, topic, BROKER_NAME)

    return run_on("asyncio", ask())


def make(servers: Servers) -> None:
    async def create() -> None:
        async with Admin(servers.namesrv.address) as admin:
            await admin.topics.put(TopicConfig("orders", 2, 2))
            await admin.topics.put(TopicConfig("read-only", 1, 1, perm=4))

    run_on("asyncio", create())


@pytest.mark.parametrize("version", ["5.3.3", pytest.param("4.9.7", marks=pytest.mark.matrix)])
def test_an_official_broker_is_drained_and_taken_back(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_drain, "_LOOK_S", 0.5)
    monkeypatch.setattr(broker_drain, "_QUIET_S", 1.0)
    with serving(official_software(version), tmp_path) as servers:
        make(servers)
        names = servers.namesrv.address

        def run(*words: str) -> Any:
            return CliRunner().invoke(commands, ["broker", *words, "-n", names])

        eventually(lambda: permission(servers, "orders"), lambda perm: perm == 6)
        taken: list[bytes] = []
        with PushConsumer(
            names, group="g", handler=lambda message: taken.append(message.body)
        ) as consumer:
            consumer.subscribe("orders")
            with Producer(names, group="p") as producer:
                for number in range(20):
                    producer.send(Message("orders", f"{number}".encode()))
            done = run("drain", BROKER_NAME, "--yes", "--timeout-minutes", "2")
        assert done.exit_code == 0, done.output
        assert len(taken) == 20
        state = looked(servers)
        assert (state.is_empty, state.permission) == (True, 4)
        assert (permission(servers, "orders"), permission(servers, "read-only")) == (4, 4)
        back = run("undrain", BROKER_NAME, "--json")
        assert back.exit_code == 0, back.output
        assert json.loads(back.stdout)["allTopicsWritableAt"] == []
        assert (permission(servers, "orders"), permission(servers, "read-only")) == (6, 4)
        with Producer(names, group="p") as producer:
            producer.send(Message("orders", b"again"))
