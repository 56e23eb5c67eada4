"""Clients of 4.9 and 5.3 against a broker of ours that reports a version of 5.x."""

from collections.abc import Iterator

import pytest

from interop.cases import Case, bodies, name_of
from interop.driver import Driver
from interop.servers import OURS, Servers, serving

pytestmark = pytest.mark.java

REPORTED = {"reportedVersion": "V5_3_3"}


@pytest.fixture(scope="module")
def servers_of_5(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Returns servers of ours, the broker with the version of 5.3.3."""
    with serving(OURS, tmp_path_factory.mktemp("servers"), REPORTED) as servers:
        yield servers


@pytest.fixture
def case(driver: Driver, servers_of_5: Servers, request: pytest.FixtureRequest) -> Iterator[Case]:
    case = Case(driver, servers_of_5, name_of(request, request.node.originalname, driver.version))
    yield case
    case.close()


def test_the_version_is_reported(case: Case) -> None:
    assert "V5_3_3" in case.driver.mqadmin("clusterList", "-n", case.namesrv)


def test_clients_produce_and_consume(case: Case) -> None:
    case.create()
    producer = case.producer()
    push, lite = case.push(fail=1), case.lite(group=f"{case.group}_lite")
    sent = case.send(producer, count=10) + case.send(producer, body="s", how="selector", count=10)
    (batch,) = case.send(producer, body="b", how="batch", count=10)
    assert len(batch["offset_msg_id"].split(",")) == 10
    wanted = set(bodies(sent)) | {f"b-{number}" for number in range(10)}
    assert set(bodies(case.driver.got(push, 30))) == wanted
    assert set(bodies(case.driver.got(lite, 30))) == wanted
    assert set(bodies(case.pull())) == wanted
