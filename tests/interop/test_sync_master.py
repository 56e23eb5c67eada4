"""Synchronous masters and slaves, ours and official: what was acknowledged, a slave has."""

from pathlib import Path

import pytest

from interop.patience import eventually
from interop.replicated import Pair, pair
from interop.servers import OURS, Software, official_software
from interop.test_replication import read_all
from mqcore.errors import MQError, ResponseError
from mqcore.remoting import ResponseCode

COUNT = 400
SYNC = {"brokerRole": "SYNC_MASTER"}
# 5.3 waits for nobody with its default of 1, and 4.9 does not know the key.
TWO_COPIES = {**SYNC, "inSyncReplicas": "2", "totalReplicas": "2"}


def softwares(version: str, master: str) -> tuple[Software, Software]:
    """Returns whose master and whose slave."""
    if version == "ours":
        return OURS, OURS
    official = official_software(version)
    return (official, OURS) if master == "official" else (OURS, official)


def code_of_send(both: Pair) -> int:
    """Returns the code that a send is answered with."""
    try:
        both.send(1)
    except ResponseError as error:
        return error.code
    return ResponseCode.SUCCESS


def wait_until_in_sync(both: Pair) -> None:
    """Returns when a send is acknowledged: then a slave is there, and reports."""

    def is_acknowledged() -> bool:
        try:
            both.send(1)
        except MQError:
            return False
        return True

    assert eventually(is_acknowledged, bool), "no slave acknowledges anything"


@pytest.mark.sampled(count=2)
@pytest.mark.parametrize(
    ("version", "master", "flush"),
    [
        pytest.param("ours", "ours", "ASYNC_FLUSH", id="ours-ours", marks=pytest.mark.slow),
        pytest.param("ours", "ours", "SYNC_FLUSH", id="ours-ours-sync", marks=pytest.mark.slow),
        pytest.param("5.3.3", "ours", "ASYNC_FLUSH", id="ours-5.3.3", marks=pytest.mark.java),
        pytest.param("5.3.3", "official", "ASYNC_FLUSH", id="5.3.3-ours", marks=pytest.mark.java),
        pytest.param(
            "4.9.7",
            "ours",
            "ASYNC_FLUSH",
            id="ours-4.9.7",
            marks=[pytest.mark.java, pytest.mark.matrix],
        ),
        pytest.param(
            "4.9.7",
            "official",
            "ASYNC_FLUSH",
            id="4.9.7-ours",
            marks=[pytest.mark.java, pytest.mark.matrix],
        ),
    ],
)
def test_what_a_killed_master_acknowledged_its_slave_has(
    version: str, master: str, flush: str, tmp_path: Path
) -> None:
    keys = {**(TWO_COPIES if master == "official" else SYNC), "flushDiskType": flush}
    with pair(*softwares(version, master), tmp_path, keys, names_master=True) as both:
        for _ in range(2):
            wait_until_in_sync(both)
            both.send(COUNT)
            both.master.broker.kill()
            both.slave.kill()
            assert set(both.sent) <= read_all(both)
            both.master.broker.start()
            both.slave.start()
        assert len(both.sent) >= 2 * COUNT
        wait_until_in_sync(both)
        both.wait_until_equal()


@pytest.mark.slow
def test_a_master_whose_slave_is_gone_stores_and_answers_so(tmp_path: Path) -> None:
    with pair(OURS, OURS, tmp_path, SYNC) as both:
        wait_until_in_sync(both)
        both.slave.kill()
        alone = ResponseCode.SLAVE_NOT_AVAILABLE
        assert eventually(lambda: code_of_send(both), lambda code: code == alone) == alone
        both.slave.start()
        wait_until_in_sync(both)
        both.wait_until_equal()
