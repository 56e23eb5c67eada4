"""The official releases, their clients and servers as fixtures, for tests marked `java`."""

from collections.abc import Iterator

import pytest

from full_disks import full_disk
from interop.driver import Driver, driving
from interop.install import JavaMissingError
from interop.official import NEWEST, VERSIONS, Official, official_release
from interop.servers import (
    IDLE,
    OURS,
    REFERENCE_CONFIG,
    Servers,
    Software,
    official_software,
    serving,
)


def _released(version: str) -> Iterator[Official]:
    if reason := full_disk():
        pytest.fail(reason, pytrace=False)
    try:
        official = official_release(version)
    except JavaMissingError as missing:
        pytest.fail(str(missing), pytrace=False)
    yield official
    official.close()


@pytest.fixture(scope="session")
def official_49() -> Iterator[Official]:
    """Returns the official release 4.9.7."""
    yield from _released("4.9.7")


@pytest.fixture(scope="session")
def official_53() -> Iterator[Official]:
    """Returns the official release 5.3.3."""
    yield from _released("5.3.3")


@pytest.fixture(scope="session")
def official_55() -> Iterator[Official]:
    """Returns the newest official release, 5.5.0."""
    yield from _released(NEWEST)


@pytest.fixture(scope="session", params=(*VERSIONS, NEWEST))
def release(request: pytest.FixtureRequest) -> Official:
    """Returns each official release in turn, the newest too."""
    name = {"4.9.7": "official_49", "5.3.3": "official_53", NEWEST: "official_55"}[request.param]
    release: Official = request.getfixturevalue(name)
    return release


@pytest.fixture(scope="session", params=VERSIONS)
def official(request: pytest.FixtureRequest) -> Official:
    """Returns each official release but the newest in turn."""
    name = {"4.9.7": "official_49", "5.3.3": "official_53"}[request.param]
    release: Official = request.getfixturevalue(name)
    return release


@pytest.fixture(scope="session")
def driver_49(official_49: Official) -> Iterator[Driver]:
    """Returns the clients of 4.9.7, in one JVM."""
    with driving(official_49.version) as driver:
        yield driver


@pytest.fixture(scope="session")
def driver_53(official_53: Official) -> Iterator[Driver]:
    """Returns the clients of 5.3.3, in one JVM."""
    with driving(official_53.version) as driver:
        yield driver


@pytest.fixture(scope="session")
def driver_55(official_55: Official) -> Iterator[Driver]:
    """Returns the clients of the newest release, in one JVM."""
    with driving(official_55.version) as driver:
        yield driver


@pytest.fixture(scope="session", params=VERSIONS)
def driver(request: pytest.FixtureRequest) -> Driver:
    """Returns the clients of each official release in turn."""
    name = {"4.9.7": "driver_49", "5.3.3": "driver_53"}[request.param]
    driver: Driver = request.getfixturevalue(name)
    return driver


@pytest.fixture(scope="session")
def reference_49(
    official_49: Official, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """Returns the official servers of 4.9.7 that the tests of our clients share."""
    root = tmp_path_factory.mktemp("reference_49")
    with serving(official_software(official_49.version), root, REFERENCE_CONFIG) as servers:
        yield servers


@pytest.fixture(scope="session")
def reference_53(
    official_53: Official, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """Returns the official servers of 5.3.3 that the tests of our clients share."""
    root = tmp_path_factory.mktemp("reference_53")
    with serving(official_software(official_53.version), root, REFERENCE_CONFIG) as servers:
        yield servers


@pytest.fixture(scope="session")
def reference(driver: Driver, request: pytest.FixtureRequest) -> Servers:
    """Returns the official servers of the release whose clients drive."""
    name = {"4.9.7": "reference_49", "5.3.3": "reference_53"}[driver.version]
    servers: Servers = request.getfixturevalue(name)
    return servers


@pytest.fixture(scope="session")
def sample_software(request: pytest.FixtureRequest) -> Software:
    """Returns the software that the cases run against: ours, or that of --official=VERSION."""
    version = request.config.getoption("--official")
    return official_software(version) if version else OURS


@pytest.fixture(scope="session")
def servers(
    sample_software: Software, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """Returns a name server and a broker that all cases share that leave them running."""
    with serving(sample_software, tmp_path_factory.mktemp("servers")) as servers:
        yield servers


@pytest.fixture(scope="session")
def side_by_side(
    official_53: Official, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Servers]]:
    """Returns our servers and the official ones of 5.3, to be asked the same.

    Every message that is read counts as far behind the end of the log, and replicas may be read.
    """
    config = {
        **IDLE,
        "accessMessageInMemoryMaxRatio": "0",
        "slaveReadEnable": "true",
        # A retry comes after a second, not after ten.
        "messageDelayLevel": " ".join(["1s"] * 18),
    }
    root = tmp_path_factory.mktemp("side_by_side")
    official = official_software(official_53.version)
    with (
        serving(OURS, root / "ours", config) as ours,
        serving(official, root / "official", config) as theirs,
    ):
        yield {"ours": ours, "official": theirs}
