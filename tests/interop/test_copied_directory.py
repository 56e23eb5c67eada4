"""A copy of a broker's directory started beside it: two brokers with one id, under a controller."""

import shutil
from pathlib import Path

import pytest

from interop.controlled import NAME, Group, group
from interop.patience import eventually
from interop.processes import free_port
from interop.replicated import log_of
from interop.servers import OURS, Program, Software, official_software


def a_copy(them: Group, number: int) -> tuple[Program, Path]:
    """Returns a broker over a copy of the directory of one that runs, at ports of its own."""
    home = them.root / f"copy-of-{number}"
    store = home / "store"
    running = them.brokers[number]
    source = Path(running.settings["storePathRootDir"])
    shutil.copytree(source, store, ignore=shutil.ignore_patterns("lock"))
    port = free_port()
    settings = {
        **running.settings,
        "haListenPort": str(port + 1),
        "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
    }
    return Program(OURS, "broker", home, port, settings), store


@pytest.mark.parametrize("version", ["ours", "5.3.3"])
@pytest.mark.parametrize("number", [1, 2])
def test_a_copy_beside_the_original_is_refused_with_the_command_that_repairs(
    version: str, number: int, tmp_path: Path
) -> None:
    software: Software = OURS if version == "ours" else official_software(version)
    with group(software, OURS, tmp_path) as them:
        for each in (1, 2):
            them.start(each)
        them.until_in_sync({1, 2})
        them.send(200)
        before = them.state()
        copy, store = a_copy(them, number)
        kept = log_of(store)
        copy.start()
        try:
            told = eventually(copy.printed, lambda text: "has the id" in text)
            address = them.brokers[number].address
            assert f"{address} has the id {number} of {NAME} already" in told, told
            assert f"rm {store / 'brokerIdentity'}" in told
            # The original goes on, and the copy is nowhere.
            them.send(50)
            state = them.state()
            assert state["masterBrokerId"] == before["masterBrokerId"]
            assert copy.address not in str(state)
            them.until_in_sync({1, 2})
            now = log_of(store)
            assert {name: now[name] for name in kept} == kept, "nothing was written"
            # The command that it names repairs it.
            copy.stop()
            (store / "brokerIdentity").unlink()
            copy.start()
            them.until_in_sync({1, 2, 3})
        finally:
            copy.kill()
