"""The broker and name servers: several that know nothing of each other, gone and back again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from live_broker import SMALL, Live, live
from loops import run_on, until
from mqcore.broker.registration import ordered_topics, register_body
from mqcore.config import Layer, Program, namesrv_settings, resolved, settings_of_pairs
from mqcore.errors import BadJsonError
from mqcore.model.relaxed_json import parse_object
from mqcore.namesrv import NameServer
from mqcore.native import Command
from mqcore.remoting import Client, RequestCode, ResponseCode, TcpAddress
from mqcore.standalone import DEFAULTS, Standalone, namesrv_settings_of


@contextlib.asynccontextmanager
async def name_server(directory: Path, port: int = 0, **keys: str) -> AsyncIterator[str]:
    pairs = {"listenPort": str(port), "kvConfigPath": str(directory / f"kv-{port}.json")} | keys
    server = NameServer(namesrv_settings(resolved(Program.NAMESRV, [Layer("test", pairs)])))
    address = await server.start()
    assert isinstance(address, TcpAddress)
    try:
        yield f"127.0.0.1:{address.port}"
    finally:
        await server.stop()


async def route(client: Client, address: str, topic: str) -> Command:
    return await client.call(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})


def test_every_name_server_knows_a_topic_when_it_is_made(tmp_path: Path) -> None:
    async def run() -> None:
        async with name_server(tmp_path) as one, name_server(tmp_path) as two:
            async with live(tmp_path / "store", namesrvAddr=f"{one};{two}") as client:
                for address in (one, two):
                    assert await client.broker.until_registered(address, timeout_s=20.0)
                await client.create("T", 3)
                for address in (one, two):
                    found = await route(client.client, address, "T")
                    assert found.code == 0, found.remark
                    body = parse_object(found.body)
                    assert body["queueDatas"][0]["writeQueueNums"] == 3
                    brokers = body["brokerDatas"][0]["brokerAddrs"]
                    assert brokers == {"0": client.address}
                async with Client() as other:
                    assert (await route(other, one, "T")).code == 0
            async with Client() as other:
                # A clean stop takes the broker out at once.
                gone = await route(other, one, "T")
                assert gone.code == ResponseCode.TOPIC_NOT_EXIST

    run_on("uvloop", run())


def test_a_name_server_that_comes_back_empty_is_sent_everything(tmp_path: Path) -> None:
    async def run() -> None:
        async with name_server(tmp_path) as address:
            port = int(address.rpartition(":")[2])
        # Nobody listens there now: the broker starts all the same.
        async with live(tmp_path / "store", namesrvAddr=address) as client:
            await client.create("T")
            assert client.broker.registered == frozenset()
            async with name_server(tmp_path, port) as again:
                assert again == address
                assert await client.broker.until_registered(address, timeout_s=30.0)
                assert (await route(client.client, address, "T")).code == 0

    run_on("uvloop", run())


def test_a_name_server_that_is_restarted_is_registered_with_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with contextlib.AsyncExitStack() as first, contextlib.AsyncExitStack() as rest:
            address = await first.enter_async_context(name_server(tmp_path))
            store_dir = tmp_path / "store"
            client = await rest.enter_async_context(live(store_dir, namesrvAddr=address))
            assert await client.broker.until_registered(address, timeout_s=20.0)
            await first.aclose()
            await until(lambda: address not in client.broker.registered)
            port = int(address.rpartition(":")[2])
            await rest.enter_async_context(name_server(tmp_path, port))
            assert await client.broker.until_registered(address, timeout_s=20.0)
            assert (await route(client.client, address, "TBW102")).code == 0

    run_on("uvloop", run())


def test_a_broker_that_may_not_be_written_has_that_permission_in_routes(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            state = client.broker.state
            await client.create("T")
            state.settings = replace(state.settings, permission=4)
            body = parse_object(register_body(state))["topicConfigSerializeWrapper"]
            assert body["topicConfigTable"]["T"]["perm"] == 4
            assert len(body["topicConfigTable"]) > 2
            one = parse_object(register_body(state, ["T", "deleted"]))
            assert set(one["topicConfigSerializeWrapper"]["topicConfigTable"]) == {"T"}
            assert body["dataVersion"] == state.topics.version.to_json()

    run_on("uvloop", run())


def test_both_in_one_process(tmp_path: Path) -> None:
    async def run() -> None:
        keys = dict(DEFAULTS) | SMALL | {"storePathRootDir": str(tmp_path / "store")}
        settings = settings_of_pairs(keys)
        both = Standalone(settings, namesrv_settings_of(settings, 0))
        shown = await both.start()
        try:
            assert set(both.ports) == {"namesrv", "broker"}
            assert str(both.ports["broker"]) in shown
            async with Client() as client:
                found = await route(client, f"127.0.0.1:{both.ports['namesrv']}", "TBW102")
                assert found.code == 0
        finally:
            await asyncio.wait_for(both.stop(), 30.0)

    run_on("uvloop", run())


def test_a_name_server_returns_which_topics_are_ordered(tmp_path: Path) -> None:
    """`updateOrderConf` writes it there; brokers learn of it with their registrations."""

    async def is_ordered(client: Live, topic: str) -> bool:
        found = await client.json(RequestCode.GET_TOPIC_CONFIG, {"topic": topic})
        return bool(found["order"])

    async def run() -> None:
        async with name_server(tmp_path, returnOrderTopicConfigToBroker="true") as address:
            async with live(tmp_path / "store", namesrvAddr=address) as client:
                assert await client.broker.until_registered(address, timeout_s=20.0)
                await client.create("T", 2)
                entry = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "b:2"}
                put = await client.client.call(address, RequestCode.PUT_KV_CONFIG, entry)
                assert put.code == 0
                assert not await is_ordered(client, "T")
                # A topic is made, and registered.
                await client.create("U", 1)
                assert await is_ordered(client, "T")
                assert not await is_ordered(client, "U")
            async with live(tmp_path / "store", namesrvAddr="") as client:
                assert await is_ordered(client, "T")

    run_on("uvloop", run())


@pytest.mark.parametrize("body", [b"[", b'{"table":3}', b"", b"{}"])
def test_a_name_server_may_answer_anything(body: bytes) -> None:
    if body == b"[":
        with pytest.raises(BadJsonError):
            ordered_topics(body)
    else:
        assert ordered_topics(body) == ()
