"""Our brokers under an official controller, alone and beside official ones: failovers.

Whatever was acknowledged with `allAckInSyncStateSet` and two replicas in sync is there after each
kill, and the logs of all replicas are equal in the end.
"""

import random
import re
import threading
from functools import partial
from pathlib import Path

import pytest

from interop.driver import Driver
from interop.elected import SAFE, Group, group
from interop.patience import eventually
from interop.registered import brokers
from interop.replicated import ask, pulled
from interop.servers import BROKER_NAME, OURS, Software, official_software
from mqcore.remoting import RequestCode

COUNT = 200
OFFICIAL = "5.3.3"


def softwares(names: str) -> list[Software]:
    """Returns whose brokers: `o` is ours, `x` an official one."""
    official = official_software(OFFICIAL)
    return [OURS if name == "o" else official for name in names]


def fail_over(them: Group) -> None:
    """Kills the master, waits for another one, and lets the old one come back."""
    master = them.master()
    them.wait_for_in_sync(len(them.brokers))
    assert them.send(master, COUNT) == COUNT
    master.program.kill()
    them.send(them.master(master), COUNT)
    master.program.start()
    them.wait_for_in_sync(len(them.brokers))


def check(them: Group) -> None:
    """Checks that all replicas have the same, and what was acknowledged is among it."""
    them.wait_until_equal()
    for each in them.brokers:
        # An official slave removes its topics for a moment whenever it takes its master's.
        missing = eventually(partial(missing_at, them, each.address), lambda found: not found)
        assert not missing, f"{len(missing)} acknowledged messages are not at {each.address}"


def missing_at(them: Group, address: str) -> set[bytes]:
    """Returns what was acknowledged and is not read at a broker."""
    return set(them.sent) - set(pulled(address))


@pytest.mark.java
def test_a_broker_alone_becomes_master_and_takes_sends(tmp_path: Path) -> None:
    with group([OURS], tmp_path, controller=official_software(OFFICIAL)) as them:
        master = them.master()
        assert them.send(master, COUNT) == COUNT
        known = eventually(
            lambda: brokers(them.namesrv.address).get(BROKER_NAME, {}), lambda found: "0" in found
        )
        assert known == {"0": master.address}
        state = them.replicas()
        assert (state["masterEpoch"], state["masterAddress"]) == (1, master.address)
        epochs = ask(master.address, RequestCode.GET_BROKER_EPOCH_CACHE)
        assert epochs["brokerId"] == 0
        assert epochs["epochList"] == [
            {"endOffset": 2**63 - 1, "epoch": 1, "startOffset": 0},
        ]


@pytest.mark.java
@pytest.mark.parametrize(
    ("whose", "rounds"),
    [
        pytest.param("oo", 2, id="two-of-ours"),
        pytest.param("ooo", 4, id="three-of-ours", marks=pytest.mark.matrix),
        pytest.param("ox", 2, id="ours-and-official", marks=pytest.mark.matrix),
        pytest.param("xo", 2, id="official-and-ours", marks=pytest.mark.matrix),
        pytest.param("oxo", 4, id="two-of-ours-and-official", marks=pytest.mark.matrix),
    ],
)
def test_what_was_acknowledged_is_there_after_each_failover(
    whose: str, rounds: int, tmp_path: Path
) -> None:
    # With two replicas nobody is left to be the second while one is away.
    keys = SAFE if len(whose) > 2 else {**SAFE, "minInSyncReplicas": "1"}
    with group(softwares(whose), tmp_path, keys, controller=official_software(OFFICIAL)) as them:
        for _ in range(rounds):
            fail_over(them)
        check(them)
        epoch = them.replicas()["masterEpoch"]
        assert isinstance(epoch, int)
        assert epoch >= rounds + 1


@pytest.mark.java
@pytest.mark.matrix
def test_the_controller_may_be_in_the_name_server(tmp_path: Path) -> None:
    official = official_software(OFFICIAL)
    with group(softwares("oo"), tmp_path, controller=official, is_inside=True) as them:
        fail_over(them)
        check(them)


@pytest.mark.java
@pytest.mark.matrix
@pytest.mark.sampled
@pytest.mark.parametrize("whose", ["ooo", "oox"])
def test_a_master_that_was_paused_acknowledges_nothing_that_is_lost(
    whose: str, tmp_path: Path
) -> None:
    with group(softwares(whose), tmp_path, SAFE, controller=official_software(OFFICIAL)) as them:
        for _ in range(2):
            them.wait_for_in_sync(3)
            master = them.master()
            assert them.send(master, COUNT) == COUNT
            master.program.pause()
            other = them.master(master)
            assert them.send(other, COUNT) == COUNT
            master.program.resume()
            # It does not know yet that it is master no more.
            them.send(master, 20)
            them.send(other, COUNT)
        them.wait_for_in_sync(3)
        check(them)


@pytest.mark.java
@pytest.mark.matrix
@pytest.mark.sampled
@pytest.mark.parametrize("whose", ["ooo", "oxo"])
def test_under_load_no_kill_loses_what_was_acknowledged(whose: str, tmp_path: Path) -> None:
    with group(softwares(whose), tmp_path, SAFE, controller=official_software(OFFICIAL)) as them:
        them.wait_for_in_sync(3)
        dice = random.Random(7)
        for _ in range(4):
            master = them.master()
            kill = threading.Timer(dice.uniform(0.1, 1.5), master.program.kill)
            kill.start()
            while kill.is_alive():
                them.send(master, 64)
            kill.join()
            them.master(master)
            master.program.start()
            them.wait_for_in_sync(3)
        check(them)


def shape_of(printed: str) -> list[str]:
    """Returns the lines of what was printed, without figures, addresses and widths of columns."""
    # The first command of a JVM prints what its logging does.
    known = (line for line in printed.splitlines() if "|-" not in line)
    lines = (" ".join(re.sub(r"-?\d[\d.:]*", "#", line).split()) for line in known)
    return sorted(line for line in lines if line)


@pytest.mark.java
@pytest.mark.matrix
def test_tools_print_of_ours_what_they_print_of_official_brokers(
    driver_53: Driver, tmp_path: Path
) -> None:
    printed: dict[str, dict[str, list[str]]] = {}
    for whose in ("oo", "xx"):
        official = official_software(OFFICIAL)
        with group(softwares(whose), tmp_path / whose, controller=official) as them:
            master = them.master()
            them.wait_for_in_sync(2)
            (slave,) = (each for each in them.brokers if each is not master)
            namesrv = them.namesrv.address
            lines = {
                "getSyncStateSet": f"-a {them.controller.address} -b {BROKER_NAME}",
                "getBrokerEpoch": f"-n {namesrv} -b {BROKER_NAME}",
                "haStatus": f"-n {namesrv} -b {master.address}",
                "haStatus of a slave": f"-n {namesrv} -b {slave.address}",
            }
            printed[whose] = {
                name: shape_of(driver_53.mqadmin(name.split()[0], *line.split()))
                for name, line in lines.items()
            }
            them.send(master, 10)
            elected = driver_53.mqadmin(
                "electMaster",
                *f"-a {them.controller.address} -b 2 -bn {BROKER_NAME} -c DefaultCluster".split(),
            )
            assert "#BrokerMasterAddr" in elected
            assert them.master(master) is slave
            them.wait_for_in_sync(2)
            them.wait_until_equal()
    assert printed["oo"] == printed["xx"]
