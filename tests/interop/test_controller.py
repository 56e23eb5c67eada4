"""Official brokers under our controller; what is expected is what the official one does."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.controlled import NAME, Group, group
from interop.driver import Driver
from interop.patience import eventually
from interop.replicated import pulled
from interop.servers import CLUSTER, OURS, official_software

pytestmark = [pytest.mark.java, pytest.mark.slow]

BATCH = 100
# From kill -9 of a master until another one is elected: the end of its connection is noticed at
# once, and a heartbeat's time-out and a scan are not waited for.
ELECTED_WITHIN_S = 8.0
WHOSE = [
    pytest.param(("ours", "5.3.3"), id="ours"),
    pytest.param(("ours in the name server", "5.3.3"), id="in-namesrv", marks=pytest.mark.matrix),
    pytest.param(("ours", "5.5.0"), id="ours-5.5.0", marks=pytest.mark.matrix),
    # What the tests expect is what the official controller does.
    pytest.param(("official", "5.3.3"), id="official", marks=pytest.mark.matrix),
]


@pytest.fixture
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Group]:
    """Returns a controller without brokers; its parameters are whose, and of which release."""
    whose, version = request.param
    software = official_software("5.3.3") if whose == "official" else OURS
    is_inside = "name server" in whose
    with group(software, official_software(version), tmp_path, in_namesrv=is_inside) as found:
        yield found


def epochs(state: dict[str, object]) -> tuple[object, object, object]:
    return state["masterBrokerId"], state["masterEpoch"], state["syncStateSetEpoch"]


@pytest.mark.parametrize("brokers", WHOSE, indirect=True)
def test_official_brokers_register_elect_fail_over_and_come_back(brokers: Group) -> None:
    brokers.start(1)
    assert epochs(brokers.until_in_sync({1})) == (1, 1, 1)
    brokers.send(BATCH)
    brokers.start(2)
    assert epochs(brokers.until_in_sync({1, 2})) == (1, 1, 2)
    brokers.send(BATCH)

    began_s = time.monotonic()
    brokers.kill(1)
    assert epochs(brokers.until_master(2)) == (2, 2, 3)
    assert time.monotonic() - began_s < ELECTED_WITHIN_S
    brokers.send(BATCH)

    # The old master comes back as a slave, and takes over in its turn with everything.
    brokers.start(1)
    assert epochs(brokers.until_in_sync({1, 2})) == (2, 2, 4)
    brokers.send(BATCH)
    brokers.kill(2)
    assert epochs(brokers.until_master(1)) == (1, 3, 5)
    address = brokers.brokers[1].address
    found = eventually(lambda: set(pulled(address)), lambda seen: seen == set(brokers.sent))
    assert found == set(brokers.sent)


class Admin:
    """The official mqadmin, at the controller of a group."""

    def __init__(self, driver: Driver, brokers: Group) -> None:
        """Takes who runs it and whom it asks."""
        self._driver = driver
        self._brokers = brokers

    def printed(self, command: str, *arguments: str) -> list[str]:
        """Returns the lines that a command prints, with names in the place of addresses."""
        output = self._driver.mqadmin(command, "-a", self._brokers.address, *arguments)
        for number, broker in self._brokers.brokers.items():
            output = output.replace(broker.address, f"<broker {number}>")
        output = output.replace(self._brokers.address, "<controller>")
        lines = [line.rstrip() for line in output.splitlines()]
        # The first command in a JVM sets up its logging, and prints that.
        return [line for line in lines if line and not re.match(r"\d\d:\d\d:\d\d,\d+ \|-", line)]

    def refusal(self, command: str, *arguments: str) -> int:
        """Returns the code with which a command is refused."""
        output = "\n".join(self.printed(command, *arguments))
        code = re.search(r"CODE: (\d+)", output)
        assert code is not None, output
        return int(code[1])


def replica(number: int, *, is_alive: bool = True) -> str:
    """Returns a broker as getSyncStateSet prints it."""
    return (
        f"ReplicaIdentity{{brokerName='{NAME}', brokerId={number}, "
        f"brokerAddress='<broker {number}>', alive={str(is_alive).lower()}}}"
    )


@pytest.mark.parametrize("brokers", WHOSE, indirect=True)
def test_mqadmin_shows_sets_elects_and_cleans(brokers: Group, driver_53: Driver) -> None:
    admin = Admin(driver_53, brokers)
    brokers.start(1)
    brokers.start(2)
    brokers.until_in_sync({1, 2})
    shown = [
        f"#brokerName\t{NAME}",
        "#MasterBrokerId\t1",
        "#MasterAddr\t<broker 1>",
        "#MasterEpoch\t1",
        "#SyncStateSetEpoch\t2",
        "#SyncStateSetNums\t2",
        f"InSyncReplica:\t{replica(1)}",
        f"InSyncReplica:\t{replica(2)}",
    ]
    assert admin.printed("getSyncStateSet", "-b", NAME) == shown
    by_cluster = ("-c", CLUSTER, "-n", brokers.namesrv.address)
    assert admin.printed("getSyncStateSet", *by_cluster) == shown

    elect = ("electMaster", "-bn", NAME, "-c", CLUSTER)
    assert admin.refusal(*elect, "-b", "1") == 2011
    assert admin.refusal(*elect, "-b", "7") == 2012
    assert admin.printed(*elect, "-b", "2") == [
        f"#ClusterName\t{CLUSTER}",
        f"#BrokerName\t{NAME}",
        "#BrokerMasterAddr\t<broker 2>",
        "#MasterEpoch\t2",
        "#SyncStateSetEpoch\t3",
    ]
    brokers.until_in_sync({1, 2})

    clean = ("cleanBrokerMetadata", "-bn", NAME)
    assert admin.refusal(*clean, "-c", CLUSTER) == 2009
    assert admin.refusal(*clean, "-c", CLUSTER, "-b", "1") == 2009
    brokers.kill(1)
    brokers.until_in_sync({2})
    assert eventually(brokers.living, lambda found: found == {2}) == {2}
    assert admin.printed("getSyncStateSet", "-b", NAME)[-2:] == [
        f"InSyncReplica:\t{replica(2)}",
        f"NotInSyncReplica:\t{replica(1, is_alive=False)}",
    ]
    assert admin.printed(*clean, "-c", CLUSTER, "-b", "1") == [
        f"clear broker {NAME} metadata from controller success!"
    ]
    assert admin.printed("getSyncStateSet", "-b", NAME)[-1] == f"InSyncReplica:\t{replica(2)}"


@pytest.mark.parametrize("brokers", WHOSE, indirect=True)
def test_mqadmin_shows_the_leader_and_changes_settings(brokers: Group, driver_53: Driver) -> None:
    admin = Admin(driver_53, brokers)
    assert admin.printed("getControllerMetaData") == [
        "#ControllerGroup\tgroup1",
        "#ControllerLeaderId\tn0",
        "#ControllerLeaderAddress\t<controller>",
        "#Peer:\tn0:<controller>",
    ]
    update = ("updateControllerConfig", "-k")
    assert admin.printed(*update, "enableElectUncleanMaster", "-v", "true") == [
        "update controller config success![<controller>]",
        "enableElectUncleanMaster : true",
    ]
    assert admin.refusal(*update, "configStorePath", "-v", "/x") == 16
    config = admin.printed("getControllerConfig")
    found = dict(re.split(r"\s+=\s+", line, maxsplit=1) for line in config if " = " in line)
    assert found["enableElectUncleanMaster"] == "true"
    assert found["controllerDLegerPeers"] == "n0-<controller>"
    assert found["scanNotActiveBrokerInterval"] == "5000"


@pytest.mark.matrix
def test_official_brokers_go_on_under_three_controllers_of_which_one_is_killed(
    tmp_path: Path,
) -> None:
    with group(OURS, official_software("5.3.3"), tmp_path, count=3) as brokers:
        brokers.start(1)
        brokers.start(2)
        brokers.until_in_sync({1, 2})
        brokers.send(BATCH)
        leader = brokers.address
        brokers.controllers.pop(leader).kill()
        assert brokers.address != leader
        # Brokers find the new leader, which waits before it takes anybody for dead.
        assert eventually(brokers.living, lambda found: found == {1, 2}) == {1, 2}
        brokers.send(BATCH)
        brokers.kill(1)
        brokers.until_master(2)
        brokers.send(BATCH)
        address = brokers.brokers[2].address
        found = eventually(lambda: set(pulled(address)), lambda seen: seen == set(brokers.sent))
        assert found == set(brokers.sent)
