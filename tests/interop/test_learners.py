"""Learners, ours and official: they have the log, and no set and no send counts them."""

from pathlib import Path

import pytest

from interop.elected import Group, prepared_group
from interop.patience import eventually
from interop.replicated import Pair, pair
from interop.servers import OURS, Software, official_software
from mqcore.errors import ResponseError
from mqcore.remoting import ResponseCode

OFFICIAL = "5.3.3"
COUNT = 300


def run_group(them: Group) -> None:
    """Starts everything; the learner is the second broker."""
    them.brokers[1].program.settings["asyncLearner"] = "true"
    them.controller.start()
    them.namesrv.start()
    for each in them.brokers:
        each.program.start()


@pytest.mark.java
@pytest.mark.sampled
@pytest.mark.parametrize(
    ("master", "learner", "controller"),
    [
        pytest.param("official", "ours", "official", id="ours-of-official"),
        pytest.param("ours", "official", "ours", id="official-of-ours"),
        pytest.param("ours", "ours", "ours", id="ours-of-ours"),
    ],
)
def test_a_learner_has_the_log_and_is_never_in_the_set(
    master: str, learner: str, controller: str, tmp_path: Path
) -> None:
    official = official_software(OFFICIAL)
    whose: dict[str, Software] = {"ours": OURS, "official": official}
    # Whoever counted the learner would wait for it, or elect it.
    keys = {"allAckInSyncStateSet": "true", "minInSyncReplicas": "1"}
    them = prepared_group(
        [whose[master], whose[learner]], tmp_path, keys, controller=whose[controller]
    )
    try:
        run_group(them)
        first = them.master()
        assert first is them.brokers[0]
        assert them.send(first, COUNT) == COUNT
        them.wait_until_equal()
        assert them.send(first, 20) == 20
        them.wait_until_equal()
        # As long as a member would take to come in, and more.
        joined = eventually(them.in_sync, lambda count: count > 1, patience_s=6.0)
        assert joined == 1, them.replicas()
        first.program.kill()
        gone = eventually(them.master_address, lambda address: address == "")
        assert gone == ""
        elected = eventually(them.master_address, bool, patience_s=5.0)
        assert elected == "", "a learner was elected"
    finally:
        them.ends()


def code_of_send(both: Pair) -> int:
    """Returns the code that a send is answered with."""
    try:
        both.send(1)
    except ResponseError as error:
        return error.code
    return ResponseCode.SUCCESS


@pytest.mark.java
@pytest.mark.sampled
@pytest.mark.parametrize("master", ["official", "ours"])
def test_without_a_controller_no_send_counts_a_learner(master: str, tmp_path: Path) -> None:
    # An official broker refuses what has waited for 200 ms on a busy machine.
    keys = {"slaveTimeout": "1000", "waitTimeMillsInSendQueue": "20000"}
    software = official_software(OFFICIAL) if master == "official" else OURS
    with pair(software, OURS, tmp_path, keys) as both:
        both.send(COUNT)
        both.slave.stop()
        both.slave.settings["asyncLearner"] = "true"
        both.slave.start()
        both.send(COUNT)
        both.wait_until_equal()
        both.master.broker.stop()
        both.master.broker.settings |= {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}
        both.master.broker.settings |= {"totalReplicas": "2"}
        both.master.broker.start()
        for _send in range(3):
            late = {ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE}
            assert code_of_send(both) in late
        both.wait_until_equal()
