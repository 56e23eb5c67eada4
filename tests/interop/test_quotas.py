"""Quotas and RocketMQ's own clients: what is held back comes later, and all of it."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interop.driver import driving
from interop.mqadmin import create_topic
from interop.servers import OURS, serving

if TYPE_CHECKING:
    from interop.official import Official

pytestmark = pytest.mark.java

TOPIC = "T_quotas"
PER_SECOND = 20
COUNT = 60
# What is counted for a second goes at once.
LEAST_S = COUNT / PER_SECOND - 1


@pytest.mark.parametrize("version", [pytest.param("4.9.7", marks=pytest.mark.matrix), "5.3.3"])
def test_java_clients_are_slower_and_neither_sends_nor_reads_are_lost(
    request: pytest.FixtureRequest, version: str, tmp_path: Path
) -> None:
    fixture = {"4.9.7": "official_49", "5.3.3": "official_53"}[version]
    clients: Official = request.getfixturevalue(fixture)
    rules = (
        f"topic:{TOPIC}=producer_message_rate:{PER_SECOND}",
        f"group:CG_quotas=consumer_message_rate:{PER_SECOND}",
    )
    with (
        serving(OURS, tmp_path / "ours", {"mqcoreQuotas": ";".join(rules)}) as servers,
        driving(clients.version) as driver,
    ):
        namesrv = servers.namesrv.address
        create_topic(driver, namesrv, TOPIC)
        driver.call("producer", "p", group="PG_quotas", namesrv=namesrv)
        began = time.monotonic()
        sent = driver.call("send", "p", topic=TOPIC, body="hello", count=COUNT)
        assert time.monotonic() - began >= LEAST_S
        assert [item["status"] for item in sent] == ["SEND_OK"] * COUNT
        began = time.monotonic()
        driver.call("push", "c", group="CG_quotas", namesrv=namesrv, topic=TOPIC)
        got = driver.got("c", COUNT)
        assert len({(item["queue_id"], item["queue_offset"]) for item in got}) == COUNT
        # A pull that goes may bring 32 messages: what it brought is owed.
        assert time.monotonic() - began >= LEAST_S - 2 * 32 / PER_SECOND + 1
        driver.close("p", "c")
