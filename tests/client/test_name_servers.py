"""Which name servers are asked: given, of the environment, or the usual address."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mqcore
from broker.test_replication import name_server
from client.serving import Cluster
from client.test_reports import NOBODY
from live_broker import live
from loops import run_on
from mqcore import aio
from mqcore.admin import Admin
from mqcore.client.instance import Instance
from mqcore.client.name_servers import NameServers, addresses_of
from mqcore.errors import AddressError
from mqcore.model.name_servers import NamedServers, name_servers_of
from mqcore.native import Command
from mqcore.remoting import Client, RequestCode, ResponseCode


@pytest.mark.parametrize(
    ("environ", "text", "source"),
    [
        ({}, "127.0.0.1:9876", "default"),
        ({"NAMESRV_ADDR": "a:1;b:2"}, "a:1;b:2", "NAMESRV_ADDR"),
        ({"NAMESRV_ADDR": "a:1", "MQCORE_NAMESRV": "c:3"}, "c:3", "MQCORE_NAMESRV"),
        ({"NAMESRV_ADDR": "a:1", "MQCORE_NAMESRV": " "}, "a:1", "NAMESRV_ADDR"),
    ],
)
def test_the_first_variable_that_has_some_wins(
    environ: dict[str, str], text: str, source: str
) -> None:
    assert name_servers_of(environ) == NamedServers(text, source)
    assert addresses_of(None, environ) == tuple(text.split(";"))
    # What is given is stronger.
    assert addresses_of("x:9", environ) == ("x:9",)


def test_an_address_that_is_none_names_its_variable() -> None:
    with pytest.raises(AddressError, match="MQCORE_NAMESRV: "):
        addresses_of(None, {"MQCORE_NAMESRV": "nonsense"})
    with pytest.raises(AddressError, match="no address is given"):
        addresses_of("", {"MQCORE_NAMESRV": "a:1"})


def _servers(instance: Instance) -> tuple[str, ...]:
    return instance.name_servers.addresses


@pytest.mark.parametrize(
    "servers",
    [
        lambda: _servers(mqcore.Producer(group="g").core.instance),
        lambda: _servers(mqcore.TransactionProducer(group="g").core.instance),
        lambda: _servers(mqcore.Client().instance),
        lambda: _servers(aio.Producer(group="g").instance),
        lambda: _servers(aio.TransactionProducer(group="g").instance),
        lambda: _servers(aio.Client().instance),
        lambda: _servers(Instance()),
        lambda: _servers(mqcore.PushConsumer(group="g", handler=print)._core._instance),
        lambda: _servers(mqcore.PullConsumer(group="g")._core._instance),
        lambda: _servers(aio.PushConsumer(group="g", handler=print)._instance),
        lambda: _servers(aio.PullConsumer(group="g")._instance),
        lambda: Admin().topics._transport._name_servers.addresses,
    ],
)
def test_every_client_asks_those_of_the_environment(
    servers: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:2")
    monkeypatch.setenv("MQCORE_NAMESRV", "127.0.0.1:3;127.0.0.1:4")
    assert servers() == ("127.0.0.1:3", "127.0.0.1:4")
    monkeypatch.delenv("MQCORE_NAMESRV")
    assert servers() == ("127.0.0.1:2",)
    monkeypatch.delenv("NAMESRV_ADDR")
    assert servers() == ("127.0.0.1:9876",)


@pytest.mark.parametrize("is_empty_first", [True, False])
def test_a_name_server_without_the_route_is_passed_over(
    is_empty_first: bool, tmp_path: Path
) -> None:
    async def route(servers: NameServers, topic: str) -> Command:
        code = RequestCode.GET_ROUTEINFO_BY_TOPIC
        return await servers.call(code, {"topic": topic}, timeout_s=10.0)

    async def run() -> None:
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
        async with (
            name_server(tmp_path / "a") as knowing,
            name_server(tmp_path / "b") as empty,
            live(tmp_path / "store", namesrvAddr=knowing) as broker,
            Client() as client,
        ):
            await broker.create("T")
            servers = NameServers(client, [empty, knowing])
            servers._at = 0 if is_empty_first else 1
            assert (await route(servers, "T")).code == ResponseCode.SUCCESS
            # Who knew it is asked first from now on, also where nobody knows another topic.
            assert (await route(servers, "unknown")).code == ResponseCode.TOPIC_NOT_EXIST
            assert servers._at == 1
            # One that does not answer hides nothing.
            alone = NameServers(client, [NOBODY, empty])
            assert (await route(alone, "T")).code == ResponseCode.TOPIC_NOT_EXIST

    run_on("asyncio", run())


def test_client_and_command_line_follow_one_rule(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQCORE_NAMESRV", cluster.namesrv)
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")
    with mqcore.Producer(group="g") as producer:
        assert producer.send(mqcore.Message("by-environment", b"x")).is_ok
    ended = subprocess.run(
        [sys.executable, "-m", "mqcore.cli.main", "topic", "list", "--json"],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "by-environment" in json.dumps(ended.stdout)
