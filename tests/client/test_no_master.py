"""Sends while the brokers of a topic have no master: they wait for the one that takes its place."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from client.serving import Scripted, scripted
from mqcore import Message, Producer, ProducerSettings, aio
from mqcore.errors import SendError
from mqcore.remoting import RequestCode


def asked_for_routes(server: Scripted) -> int:
    """Returns how often a route was asked for."""
    return server.codes().count(RequestCode.GET_ROUTEINFO_BY_TOPIC)


def route_with(server: Scripted, *, broker_id: str, perm: int = 6) -> dict[str, Any]:
    """Returns a route whose one broker has an id, and is written by its master alone."""
    route = server.default_route("t")
    (broker,) = route["brokerDatas"]
    broker["brokerAddrs"] = {broker_id: server.address}
    route["queueDatas"][0]["perm"] = perm
    return route


def without_master_until(server: Scripted, asked: int) -> Callable[[str], dict[str, Any]]:
    """Returns the routes of a broker whose slave is promoted after so many questions."""
    return lambda _: route_with(server, broker_id="0" if asked_for_routes(server) > asked else "1")


@pytest.mark.parametrize("batching", [False, True])
def test_a_send_waits_for_a_master(*, batching: bool) -> None:
    async def work(server: Scripted) -> None:
        settings = ProducerSettings(timeout_s=30.0)
        async with aio.Producer(
            server.address, group="g", settings=settings, batching=batching
        ) as producer:
            result = await producer.send(Message("t", b"x"))
        assert result.attempts == 1

    with scripted() as server:
        server.route = without_master_until(server, 3)
        asyncio.run(work(server))
        assert asked_for_routes(server) >= 4


def test_a_send_whose_broker_lost_its_master_goes_to_the_next_one() -> None:
    async def work(server: Scripted) -> None:
        settings = ProducerSettings(timeout_s=30.0)
        async with aio.Producer(server.address, group="g", settings=settings) as producer:
            await producer.send(Message("t", b"first"))
            before = asked_for_routes(server)
            server.route = without_master_until(server, before + 2)
            refused: list[Any] = []

            def once(request: Any) -> Any:
                if not refused:
                    refused.append(request)
                    return request.answer(14, "service not available now")
                return stored(request)

            stored, server.send = server.send, once
            result = await producer.send(Message("t", b"second"))
        assert result.attempts == 2

    with scripted() as server:
        asyncio.run(work(server))


def test_a_blocking_send_whose_broker_lost_its_master_goes_to_the_next_one() -> None:
    with scripted() as server, Producer(server.address, group="g", timeout_s=30.0) as producer:
        producer.send(Message("t", b"first"))
        server.route = without_master_until(server, asked_for_routes(server) + 3)
        refused: list[Any] = []

        def several(request: Any) -> Any:
            # Until the route without a master has come.
            if len(refused) < 3:
                refused.append(request)
                return request.answer(14, "service not available now")
            return stored(request)

        stored, server.send = server.send, several
        result = producer.send(Message("t", b"second"))
    assert result.is_ok
    assert asked_for_routes(server) >= 4


def test_without_a_master_it_ends_with_its_time() -> None:
    async def work(server: Scripted) -> None:
        settings = ProducerSettings(timeout_s=0.5)
        async with aio.Producer(server.address, group="g", settings=settings) as producer:
            with pytest.raises(SendError, match="have no master now"):
                await producer.send(Message("t", b"x"))

    with scripted() as server:
        server.route = lambda _: route_with(server, broker_id="1")
        asyncio.run(work(server))
        assert asked_for_routes(server) > 2


@pytest.mark.parametrize("official_retries", [False, True])
def test_what_no_master_would_help_is_refused_at_once(*, official_retries: bool) -> None:
    async def work(server: Scripted) -> None:
        settings = ProducerSettings(timeout_s=60.0, official_retries=official_retries)
        async with aio.Producer(server.address, group="g", settings=settings) as producer:
            with pytest.raises(SendError, match="no queue may be written"):
                await producer.send(Message("t", b"x"))

    with scripted() as server:
        broker_id, perm = ("1", 6) if official_retries else ("0", 4)
        server.route = lambda _: route_with(server, broker_id=broker_id, perm=perm)
        asyncio.run(work(server))
        assert asked_for_routes(server) == 1
