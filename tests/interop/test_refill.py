"""Whole files for a blank slave: with kill -9 meanwhile, and from a master that gives none."""

import shutil
from pathlib import Path

import pytest

from interop.patience import eventually
from interop.replicated import Pair, end_of, log_of, pair
from interop.servers import OURS, official_software

FILE = 1 << 20
# Slow enough to be met in the middle.
SLOW = {"refillBytesPerSecond": str(2 * FILE)}


def blank(both: Pair) -> None:
    """Ends the slave, and removes its store: its disk is new."""
    both.slave.kill()
    shutil.rmtree(both.slave_store)


def fill(both: Pair, files: int) -> None:
    """Sends until the log has so many whole files."""
    while end_of(both.master.broker) < files * FILE:
        both.send(400)


@pytest.mark.slow
def test_a_blank_slave_that_is_killed_again_and_again_gets_the_whole_log(tmp_path: Path) -> None:
    with pair(OURS, OURS, tmp_path, SLOW) as both:
        fill(both, 8)
        blank(both)
        for number in range(3):
            both.slave.start()
            goal = (number + 1) * FILE

            def has_come(goal: int = goal) -> bool:
                # A master that stores messages gives files slowly.
                both.send(1)
                return end_of(both.slave) >= goal

            assert eventually(has_come, bool), "nothing is copied"
            both.slave.kill()
        both.slave.start()
        both.wait_until_equal()
        assert log_of(both.slave_store).keys() >= {f"{at * FILE:020}" for at in range(8)}


@pytest.mark.slow
def test_a_master_that_is_killed_meanwhile_goes_on_when_it_is_back(tmp_path: Path) -> None:
    with pair(OURS, OURS, tmp_path, SLOW) as both:
        fill(both, 6)
        blank(both)
        both.slave.start()

        def has_come() -> bool:
            both.send(1)
            return end_of(both.slave) >= FILE

        assert eventually(has_come, bool), "nothing is copied"
        both.master.broker.kill()
        both.master.broker.start()
        both.wait_until_equal()
        assert log_of(both.slave_store).keys() >= {f"{at * FILE:020}" for at in range(6)}


@pytest.mark.java
def test_a_blank_slave_of_an_official_master_begins_with_its_last_file(tmp_path: Path) -> None:
    with pair(official_software("5.3.3"), OURS, tmp_path) as both:
        fill(both, 3)
        blank(both)
        both.slave.start()
        end = both.wait_until_equal()
        assert min(log_of(both.slave_store)) == f"{end // FILE * FILE:020}"
