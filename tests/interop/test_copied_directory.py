"""Two brokers with one id under a controller: a copied directory, and one that has moved."""

import shutil
import time
from pathlib import Path

import pytest

from faults.trio import start_all
from interop.elected import SAFE, Broker, Group, group
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
            assert eventually(lambda: copy.has_died, bool), "it ends"
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


def is_taken(them: Group, address: str) -> bool:
    """Returns whether the controller has a broker at an address."""
    return address in str(them.replicas())


def test_of_two_copies_that_start_at_the_same_moment_one_is_refused_in_words_and_ends(
    tmp_path: Path,
) -> None:
    with group([OURS, OURS], tmp_path, SAFE, controller=OURS) as them:
        master = them.master()
        them.wait_for_in_sync(2)
        assert them.send(master, 50) == 50
        original = next(each for each in them.brokers if each is not master)
        original.program.kill()
        copies = [a_copy(original, tmp_path / f"copy-{at}")[0] for at in range(2)]
        try:
            start_all(copies)
            # Whichever came first stays; the other one ends by itself.
            ended = eventually(lambda: [each.has_died for each in copies], any)
            assert sorted(ended) == [False, True], [each.printed() for each in copies]
            lost, kept = copies if ended[0] else reversed(copies)
            assert "two brokers with one id would take each other's place" in lost.printed()
            assert kept.address in lost.printed()
            them.wait_for_in_sync(2)
            assert is_taken(them, kept.address)
            assert not is_taken(them, lost.address)
            assert them.send(master, 20) == 20
        finally:
            for each in copies:
                each.kill()


def test_a_directory_that_has_moved_is_taken_before_its_broker_counts_as_dead(
    tmp_path: Path,
) -> None:
    # Nobody is taken for dead within the test.
    keys = SAFE | {"controllerHeartBeatTimeoutMills": "40000", "minInSyncReplicas": "1"}
    with group([OURS, OURS], tmp_path, keys, controller=OURS) as them:
        master = them.master()
        them.wait_for_in_sync(2)
        assert them.send(master, 50) == 50
        original = next(each for each in them.brokers if each is not master)
        # As a machine that has gone: its connections stay, and nothing comes from it.
        original.program.pause()
        moved, _ = a_copy(original, tmp_path / "moved")
        try:
            began_s = time.monotonic()
            moved.start()
            assert eventually(lambda: is_taken(them, moved.address), bool), moved.printed()
            took_s = time.monotonic() - began_s
            assert took_s < 35, "a quarter of the time-out, and a start"
            them.wait_for_in_sync(2)
            # The one that was taken for gone hears that its id is another one's, and ends.
            original.program.resume()
            assert eventually(lambda: original.program.has_died, bool), original.program.printed()
            assert f"belongs to the broker at {moved.address} now" in original.program.printed()
            them.wait_for_in_sync(2)
            assert is_taken(them, moved.address)
        finally:
            original.program.resume()
            moved.kill()
