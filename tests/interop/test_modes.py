"""The modes of deployment, started from their files: who serves, and what an end leaves."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from interop.deployed import MODES, Cluster, deployed, files_of
from interop.driver import Driver
from interop.patience import eventually
from interop.replicated import end_of
from interop.servers import OURS
from loops import run_on, until
from mqcore import Inspection, Message, Producer, SendStatus, aio
from mqcore.config import Layer, broker_settings, namesrv_settings, resolved
from mqcore.config import Program as Kind
from mqcore.config.checks import check_broker

TOPIC = "Modes"
COUNT = 200
SENDERS = 8


def send(cluster: Cluster, count: int, begin: int = 0) -> dict[str, set[bytes]]:
    """Sends messages to all masters in turn; returns the acknowledged bodies by broker name."""
    acknowledged: dict[str, set[bytes]] = {}
    with Producer(cluster.namesrv, group="PG_modes", timeout_s=30.0) as producer:
        for number in range(begin, begin + count):
            body = b"%05d" % number + b"x" * (number * 37 % 900)
            result = producer.send(Message(TOPIC, body))
            if result.status is SendStatus.SEND_OK:
                acknowledged.setdefault(result.queue.broker_name, set()).add(body)
    return acknowledged


def stored(cluster: Cluster, name: str) -> set[bytes]:
    """Returns the bodies in a store that nobody has open."""
    messages = Inspection(cluster.store(name)).messages()
    return {each.body for each in messages if each.topic == TOPIC}


def wait_for_slaves(cluster: Cluster) -> None:
    """Returns when each slave has the log of its master."""

    def ends(name: str) -> tuple[int, int]:
        return end_of(cluster.brokers[name]), end_of(cluster.brokers[f"{name}-s"])

    for name in [each for each in cluster.brokers if f"{each}-s" in cluster.brokers]:
        master, slave = eventually(partial(ends, name), lambda both: both[0] == both[1] >= 0)
        assert master == slave, name


@pytest.mark.parametrize("mode", MODES)
def test_the_files_of_a_mode_are_wholly_honoured(mode: str) -> None:
    for name, pairs in files_of(mode, Kind.BROKER).items():
        settings = broker_settings(resolved(Kind.BROKER, [Layer(name, pairs)], is_strict=True))
        assert settings.configuration.warnings == ()
        check_broker(settings)
        assert settings.is_slave == name.endswith("-s")
        assert settings.is_sync_master == (mode == "2m-2s-sync" and not settings.is_slave)
    for name, pairs in files_of(mode, Kind.NAMESRV).items():
        namesrv_settings(resolved(Kind.NAMESRV, [Layer(name, pairs)], is_strict=True))


@pytest.mark.slow
@pytest.mark.sampled(count=2)
@pytest.mark.parametrize("mode", MODES)
def test_a_mode_serves_at_all_its_masters(mode: str, tmp_path: Path) -> None:
    with deployed(mode, OURS, tmp_path) as cluster:
        cluster.wait_until_registered()
        masters = {name for name in cluster.brokers if not name.endswith("-s")}
        names = {cluster.brokers[name].settings["brokerName"] for name in masters}
        acknowledged = eventually(lambda: send(cluster, COUNT), lambda found: set(found) == names)
        assert set(acknowledged) == names
        if mode == "2n-standalone":
            cluster.namesrvs[0].kill()
            assert set(send(cluster, COUNT, COUNT)) == names
            return
        wait_for_slaves(cluster)
        for name in masters:
            cluster.brokers[name].kill()
        for name in masters:
            copy = f"{name}-s" if f"{name}-s" in cluster.brokers else name
            cluster.brokers[copy].kill()
            assert acknowledged[name] <= stored(cluster, copy)


@pytest.mark.slow
def test_what_synchronous_masters_acknowledged_their_slaves_have_after_a_kill(
    tmp_path: Path,
) -> None:
    with deployed("2m-2s-sync", OURS, tmp_path) as cluster:
        cluster.wait_until_registered()
        # From here on each acknowledgement is one of a slave.
        eventually(lambda: send(cluster, 8), lambda found: len(found) == 2)
        acknowledged: dict[str, set[bytes]] = {}
        for begin in (1_000, 2_000):
            for name, bodies in send(cluster, COUNT, begin).items():
                acknowledged.setdefault(name, set()).update(bodies)
        for name in acknowledged:
            cluster.brokers[name].kill()
        for name, bodies in acknowledged.items():
            cluster.brokers[f"{name}-s"].kill()
            assert bodies <= stored(cluster, f"{name}-s")
        assert sum(map(len, acknowledged.values())) == 2 * COUNT


@pytest.mark.slow
def test_no_send_of_ours_fails_when_one_of_two_masters_is_killed_under_load(tmp_path: Path) -> None:
    with deployed("2m-noslave", OURS, tmp_path) as cluster:
        cluster.wait_until_registered()

        async def run() -> dict[str, set[bytes]]:
            acknowledged: dict[str, set[bytes]] = {}
            is_over = asyncio.Event()

            async def pour(producer: aio.Producer, number: int) -> None:
                count = 0
                while not is_over.is_set():
                    body = b"%d-%d" % (number, count)
                    result = await producer.send(Message(TOPIC, body))
                    assert result.status is SendStatus.SEND_OK
                    acknowledged.setdefault(result.queue.broker_name, set()).add(body)
                    count += 1

            async def total(name: str, least: int) -> None:
                await until(lambda: len(acknowledged.get(name, ())) >= least)

            async with aio.Producer(cluster.namesrv, group="PG_modes") as producer:
                pouring = asyncio.gather(*(pour(producer, n) for n in range(SENDERS)))
                await asyncio.gather(total("broker-a", COUNT), total("broker-b", COUNT))
                await asyncio.to_thread(cluster.brokers["broker-a"].kill)
                await total("broker-b", len(acknowledged["broker-b"]) + 2 * COUNT)
                is_over.set()
                await pouring
            return acknowledged

        acknowledged = run_on("asyncio", run())
        cluster.brokers["broker-b"].kill()
        for name, bodies in acknowledged.items():
            assert bodies <= stored(cluster, name)


@pytest.mark.java
def test_no_send_of_the_official_client_fails_when_one_of_two_masters_is_killed_under_load(
    driver_53: Driver, tmp_path: Path
) -> None:
    with deployed("2m-noslave", OURS, tmp_path) as cluster:
        cluster.wait_until_registered()
        driver_53.call("producer", "p2m", group="PG_modes", namesrv=cluster.namesrv)
        try:
            driver_53.call("flood", "p2m", topic=TOPIC, body="f", threads=4)
            driver_53.call("acknowledged", "p2m", count=2 * COUNT, timeout=90_000)
            cluster.brokers["broker-a"].kill()
            at_the_kill = driver_53.call("acknowledged", "p2m", count=0)[0]["count"]
            more = at_the_kill + 4 * COUNT
            driver_53.call("acknowledged", "p2m", count=more, timeout=90_000)
            acknowledged = {item["body"] for item in driver_53.call("flooded", "p2m")}
        finally:
            driver_53.close("p2m")
        by_thread: dict[str, list[int]] = {}
        for body in acknowledged:
            _, thread, number = body.split("-")
            by_thread.setdefault(thread, []).append(int(number))
        # A thread numbers its sends: one that failed would be missing.
        for numbers in by_thread.values():
            assert sorted(numbers) == list(range(len(numbers)))
        cluster.brokers["broker-b"].kill()
        found = stored(cluster, "broker-a") | stored(cluster, "broker-b")
        assert {body.encode() for body in acknowledged} <= found
