"""What brokers report of themselves: ours and the official one of 5.3, after the same load."""

import asyncio
import re
from functools import partial
from typing import Any

import pytest

from broker.test_serving import beat
from interop.cases import name_of
from interop.driver import Driver
from interop.mqadmin import create_topic
from interop.patience import eventually
from interop.replicated import asked
from interop.servers import BROKER_NAME, Servers
from mqcore.config.keys import Program, keys_of
from mqcore.model.relaxed_json import parse_object
from mqcore.remoting import Client, RequestCode

pytestmark = pytest.mark.java

BOTH = ("ours", "official")
SENT = 40


def body_of(servers: Servers, code: RequestCode, ext: dict[str, str] | None = None) -> Any:
    """Returns the body of an answer; empty where it was refused."""
    answer = asked(servers.broker.address, code, ext or {})
    return parse_object(answer.body) if answer.code == 0 else {}


def end_of_queue(servers: Servers, topic: str) -> int:
    """Returns the end of the only queue of a topic."""
    queue = {"topic": topic, "queueId": "0"}
    answer = asked(servers.broker.address, RequestCode.GET_MAX_OFFSET, queue)
    return int(answer.ext["offset"])


def table_of(servers: Servers) -> dict[str, str]:
    # The official broker refuses until it has taken its first sample.
    found = eventually(lambda: body_of(servers, RequestCode.GET_BROKER_RUNTIME_INFO), bool)
    table: dict[str, str] = found["table"]
    return table


def names_of(servers: Servers) -> set[str]:
    return {name.replace(str(servers.store), "STORE") for name in table_of(servers)}


def test_the_runtime_table_has_every_official_key(side_by_side: dict[str, Servers]) -> None:
    ours, official = (names_of(side_by_side[name]) for name in BOTH)
    assert len(official) > 50
    assert official - ours == set()


def test_a_load_shows_soon_after(
    driver_53: Driver, side_by_side: dict[str, Servers], request: pytest.FixtureRequest
) -> None:
    topic = name_of(request, "counted")
    stat = {"statsName": "TOPIC_PUT_NUMS", "statsKey": topic}
    found = {}
    for name in BOTH:
        servers = side_by_side[name]
        create_topic(driver_53, servers.namesrv.address, topic, 1)
        before = int(table_of(servers)["msgPutTotalTodayNow"])
        producer = name_of(request, "counting", name)
        driver_53.call("producer", producer, group=f"PG_{topic}", namesrv=servers.namesrv.address)
        driver_53.call("send", producer, topic=topic, body="m", count=SENT)
        # A client that has no answer in time sends again: the queue has the count.
        sent = eventually(partial(end_of_queue, servers, topic), lambda end: end >= SENT)
        # Within the ten seconds of a sample, and never as nothing.
        stats = eventually(
            partial(body_of, servers, RequestCode.VIEW_BROKER_STATS_DATA, stat),
            lambda body: bool(body) and body["statsMinute"]["sum"] >= SENT,
        )
        table = eventually(
            partial(table_of, servers),
            lambda table: float((table["putTps"].split() or ["0"])[0]) > 0,
        )
        lines = driver_53.mqadmin("clusterList", "-n", servers.namesrv.address).splitlines()
        (line,) = (line for line in lines if BROKER_NAME in line)
        assert float(re.search(r"([\d.]+)\(", line)[1]) > 0, line  # type: ignore[index]
        stored = int(table["msgPutTotalTodayNow"]) - before
        counted = stats["statsMinute"]["sum"]
        found[name] = (counted - sent, stored - sent, table["msgPutTotalTodayMorning"])
        driver_53.close(producer)
    assert found["ours"] == found["official"] == (0, 0, "0")


def test_producers_are_reported_with_their_ports(side_by_side: dict[str, Servers]) -> None:
    async def seen(servers: Servers) -> str:
        async with Client() as client:
            address = servers.broker.address
            body = beat("producing", "CG_producing", "none")
            await client.call(address, RequestCode.HEART_BEAT, body=body, timeout_s=20.0)
            answer = await client.call(address, RequestCode.GET_ALL_PRODUCER_INFO, timeout_s=20.0)
            groups = parse_object(answer.body)["data"]
            ip: str = groups["pg"][0]["remoteIP"]
            return ip

    addresses = [asyncio.run(seen(side_by_side[name])) for name in BOTH]
    assert [re.sub(r"\d+$", "PORT", each) for each in addresses] == ["/127.0.0.1:PORT"] * 2


def test_defaults_of_5_3_are_those_of_the_official_broker(
    side_by_side: dict[str, Servers],
) -> None:
    async def ask(servers: Servers) -> dict[str, str]:
        async with Client() as client:
            code = RequestCode.GET_BROKER_CONFIG
            answer = await client.call(servers.broker.address, code, timeout_s=20.0)
            lines = answer.body.decode().splitlines()
            return dict(line.split("=", 1) for line in lines if "=" in line)

    official = asyncio.run(ask(side_by_side["official"]))
    keys = keys_of(Program.BROKER)
    for name in ("transactionCheckInterval", "enablePopBufferMerge"):
        assert keys[name].default_5 == official[name], name
        assert keys[name].default != keys[name].default_5, name
