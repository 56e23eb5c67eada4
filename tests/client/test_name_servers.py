"""Which name servers are asked: given, of the environment, or the usual address."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import mqcore
from client.serving import Cluster
from mqcore import aio
from mqcore.admin import Admin
from mqcore.client.instance import Instance
from mqcore.client.name_servers import addresses_of
from mqcore.errors import AddressError
from mqcore.model.name_servers import NamedServers, name_servers_of


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
