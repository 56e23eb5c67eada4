"""A copy of a broker's directory started beside it: two brokers with one id, under a controller."""

import shutil
from pathlib import Path

import pytest

from interop.elected import SAFE, Broker, group
from interop.patience import eventually
from interop.processes import free_port
from interop.replicated import log_of
from interop.servers import BROKER_NAME, OURS, Program, Software, official_software

# All messages of this test are in it; an empty file that was made ahead is not kept by a start.
FIRST = f"{0:020}"


def a_copy(of: Broker, home: Path) -> tuple[Program, Path]:
    """Returns a broker over a copy of the directory of one that runs, at ports of its own."""
    store = home / "store"
    shutil.copytree(of.store, store, ignore=shutil.ignore_patterns("lock"))
    settings = {
        **of.program.settings,
        "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
    }
    return Program(OURS, "broker", home, free_port(), settings), store


@pytest.mark.parametrize("whose", ["ours", "5.3.3"])
@pytest.mark.parametrize("is_master", [True, False])
def test_a_copy_beside_the_original_is_refused_with_the_command_that_repairs(
    whose: str, is_master: bool, tmp_path: Path
) -> None:
    controller: Software = OURS if whose == "ours" else official_software(whose)
    with group([OURS, OURS], tmp_path, SAFE, controller=controller) as them:
        master = them.master()
        them.wait_for_in_sync(2)
        assert them.send(master, 200) == 200
        original = next(each for each in them.brokers if (each is master) is is_master)
        copy, store = a_copy(original, tmp_path / "copy")
        own_id = (store / "brokerIdentity").read_text().rpartition("#")[2]
        kept = log_of(store)
        before = them.replicas()
        copy.start()
        try:
            printed = eventually(copy.printed, lambda text: "has the id" in text)
            words = f"{original.address} has the id {own_id} of {BROKER_NAME} already"
            assert words in printed, printed
            assert f"rm {store / 'brokerIdentity'}" in printed
            # The original goes on, and the copy is nowhere.
            assert them.send(master, 50) == 50
            after = them.replicas()
            assert after["masterAddress"] == before["masterAddress"]
            assert copy.address not in str(after)
            assert log_of(store)[FIRST] == kept[FIRST], "nothing was written"
            # The command that it names repairs it.
            copy.stop()
            (store / "brokerIdentity").unlink()
            copy.start()
            them.wait_for_in_sync(3)
        finally:
            copy.kill()
