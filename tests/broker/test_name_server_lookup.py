"""Name servers that are looked up: by DNS, at an address server; they come and go."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from live_broker import SMALL, live
from loops import run_on
from mqcore.broker.name_servers import addresses_in, lookup_url
from mqcore.config import Layer, Program, namesrv_settings, resolved, settings_of_pairs
from mqcore.model.relaxed_json import parse_object
from mqcore.namesrv import NameServer
from mqcore.remoting import Client, RequestCode, TcpAddress


@contextlib.asynccontextmanager
async def name_server(directory: Path) -> AsyncIterator[str]:
    pairs = {"listenPort": "0", "kvConfigPath": str(directory / "kv.json")}
    server = NameServer(namesrv_settings(resolved(Program.NAMESRV, [Layer("test", pairs)])))
    address = await server.start()
    assert isinstance(address, TcpAddress)
    try:
        yield f"127.0.0.1:{address.port}"
    finally:
        await server.stop()


async def brokers(address: str) -> set[str]:
    """Returns the names of the brokers that a name server knows."""
    async with Client() as client:
        answer = await client.call(address, RequestCode.GET_BROKER_CLUSTER_INFO)
        return set(parse_object(answer.body)["brokerAddrTable"])


@contextlib.asynccontextmanager
async def address_server(answers: list[bytes]) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serves the first of some answers; its address, and what it was asked."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(
            answers[0]
        )
        writer.write(head + answers[0])
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


def test_an_address_server_names_the_name_servers_that_come_and_go(tmp_path: Path) -> None:
    async def run() -> None:
        async with name_server(tmp_path) as one, name_server(tmp_path) as two:
            answers = [f"{one}; nonsense;\n".encode()]
            async with address_server(answers) as (at, asked):
                keys = {
                    "fetchNamesrvAddrByAddressServer": "true",
                    "rocketmq.namesrv.domain": at,
                    "rocketmq.namesrv.domain.subgroup": "blue",
                    "fetchNamesrvAddrInterval": "1000",
                }
                async with live(tmp_path / "store", **keys) as client:
                    assert await client.broker.until_registered(one, timeout_s=20.0)
                    assert asked[0].startswith(b"GET /rocketmq/blue ")
                    assert await brokers(one) == {"b"}
                    answers[0] = f"{two}".encode()
                    assert await client.broker.until_registered(two, timeout_s=20.0)
                    assert await brokers(one) == set()
                    # A bad answer changes nothing.
                    answers[0] = b"<html>gone</html>"
                    count = len(asked)
                    while len(asked) < count + 2:  # noqa: ASYNC110 - the broker asks
                        await asyncio.sleep(0)
                    assert client.broker.state.name_servers == (two,)
                assert await brokers(two) == set()

    run_on("asyncio", run())


def test_every_address_of_a_host_is_a_name_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with name_server(tmp_path) as one:
            port = int(one.rpartition(":")[2])
            loop = asyncio.get_running_loop()
            known = loop.getaddrinfo

            async def found(host: Any, *rest: Any, **named: Any) -> Any:
                if host != "names.test":
                    return await known(host, *rest, **named)
                family, kind = socket.AF_INET, socket.SOCK_STREAM
                hosts = ("127.0.0.1", "127.0.0.2", "127.0.0.1")
                return [(family, kind, 6, "", (each, port)) for each in hosts]

            monkeypatch.setattr(loop, "getaddrinfo", found)
            names = f"names.test:{port}"
            keys = {"namesrvAddr": names, "fetchNameSrvAddrByDnsLookup": "true"}
            async with live(tmp_path / "store", **keys) as client:
                assert await client.broker.until_registered(one, timeout_s=20.0)
                expected = (f"127.0.0.1:{port}", f"127.0.0.2:{port}")
                assert client.broker.state.name_servers == expected

    run_on("asyncio", run())


def test_what_is_no_address_is_left_out() -> None:
    assert addresses_in("") == ()
    assert addresses_in("a:1;b;:2;c:x; a:1 ;[::1]:3\n") == ("a:1", "[::1]:3")
    assert len(addresses_in(";".join(f"h:{port}" for port in range(1_000)))) == 64
    settings = settings_of_pairs(SMALL)
    assert lookup_url(settings) == "http://jmenv.tbsite.net:8080/rocketmq/nsaddr"
