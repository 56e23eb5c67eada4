"""Official clients while our name server and broker stop, are killed and come back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.cases import Case, bodies, name_of
from interop.driver import Driver
from interop.patience import eventually
from interop.servers import Servers, Software, serving

pytestmark = pytest.mark.java

FLOOD = 400


@pytest.fixture
def alone(sample_software: Software, tmp_path: Path) -> Iterator[Servers]:
    """Returns servers that nobody else uses, with synchronous flush."""
    with serving(sample_software, tmp_path, {"flushDiskType": "SYNC_FLUSH"}) as servers:
        yield servers


@pytest.fixture
def case(driver_53: Driver, alone: Servers, request: pytest.FixtureRequest) -> Iterator[Case]:
    case = Case(driver_53, alone, name_of(request, request.node.originalname))
    yield case
    case.close()


def test_offsets_outlive_a_restart_of_the_broker(case: Case, alone: Servers) -> None:
    case.create()
    producer = case.producer()
    consumer = case.push()
    before = case.send(producer, how="selector", count=40)
    assert bodies(case.driver.got(consumer, 40)) == bodies(before)
    case.close(consumer)
    alone.broker.stop()
    alone.broker.start()
    after = case.send_through(producer, 40, body="after", how="selector")
    again = case.push()
    got = case.driver.got(again, 40)
    assert bodies(got) == bodies(after)


def test_a_consumer_goes_on_when_the_broker_is_back(case: Case, alone: Servers) -> None:
    case.create()
    producer = case.producer()
    consumer = case.push()
    before = case.send(producer, count=20)
    case.driver.got(consumer, 20)
    alone.broker.kill()
    alone.broker.start()
    after = case.send_through(producer, 20, body="after")
    got = case.driver.got(consumer, 40)
    # What was not committed when the broker was killed may come twice; nothing is lost.
    assert set(bodies(got)) == set(bodies(before)) | set(bodies(after))


def test_every_acknowledged_message_outlives_kills_under_load(case: Case, alone: Servers) -> None:
    case.create()
    producer = case.producer(retries=0, timeout_ms=2000)
    consumer = case.push()
    case.driver.call("flood", producer, topic=case.topic, body="f", threads=4)
    for times in (1, 2):
        case.driver.call("acknowledged", producer, count=times * FLOOD, timeout=90_000)
        alone.broker.kill()
        alone.broker.start()
    case.driver.call("acknowledged", producer, count=3 * FLOOD, timeout=90_000)
    acknowledged = {item["body"] for item in case.driver.call("flooded", producer)}
    assert len(acknowledged) >= 3 * FLOOD
    got = eventually(
        lambda: set(bodies(case.driver.call("got", consumer, count=0))), acknowledged.issubset
    )
    assert acknowledged - got == set()
    assert acknowledged <= set(bodies(case.pull()))


def test_clients_live_on_without_a_name_server(case: Case, alone: Servers) -> None:
    case.create()
    producer = case.producer()
    consumer = case.push()
    first = case.send(producer, count=10)
    case.driver.got(consumer, 10)
    alone.namesrv.stop()
    second = case.send(producer, body="without", count=10)
    assert bodies(case.driver.got(consumer, 20)) == bodies(first + second)
    alone.namesrv.start()
    # It starts empty: the broker registers its topics again.
    case.until_routed()
    third = case.send(case.producer(), body="again", count=10)
    assert bodies(case.driver.got(consumer, 30)) == bodies(first + second + third)
