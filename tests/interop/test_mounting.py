"""Stores of official brokers, mounted by ours: the official clients read them as any broker's."""

import hashlib
from pathlib import Path

import pytest

from golden_stores import GOLDEN_CONFIG, V49_CLEAN, V53_CLEAN, V55_CLEAN, GoldenStore
from interop.cases import Case
from interop.driver import Driver
from interop.install import OfficialError
from interop.patience import eventually
from interop.servers import OURS, serving

pytestmark = pytest.mark.java

TOPIC = "GoldenPlain"


def sums(root: Path) -> dict[str, tuple[str, int]]:
    """Returns content and time of every file."""
    return {
        str(file.relative_to(root)): (
            hashlib.sha256(file.read_bytes()).hexdigest(),
            file.stat().st_mtime_ns,
        )
        for file in sorted(root.rglob("*"))
        if file.is_file()
    }


@pytest.mark.sampled
@pytest.mark.parametrize("golden", [V49_CLEAN, V53_CLEAN, V55_CLEAN], ids=lambda store: store.name)
def test_official_clients_read_a_mounted_store(
    golden: GoldenStore, driver: Driver, tmp_path: Path
) -> None:
    root = golden.unpack(tmp_path / "archive")
    before = sums(root)
    wanted = {
        (each["queue_id"], each["queue_offset"])
        for each in golden.messages()
        if each["topic"] == TOPIC
    }
    mounted = {"mountedStoreDir": str(root), "storePathCommitLog": str(root / "commitlog")}
    with serving(OURS, tmp_path / "ours", GOLDEN_CONFIG | mounted) as servers:
        case = Case(driver, servers, "mounted")
        consumer = case.push(topic=TOPIC)
        # By queue offset: bodies are there more than once.
        offsets = eventually(
            lambda: {
                (each["queue_id"], each["queue_offset"])
                for each in case.driver.call("got", consumer, count=0)
            },
            lambda seen: len(seen) >= len(wanted),
        )
        assert offsets == wanted
        status = case.driver.mqadmin("topicStatus", "-n", case.namesrv, "-t", TOPIC)
        assert status.count("broker-a") == 4
        with pytest.raises(OfficialError):
            case.send(case.producer(), topic=TOPIC)
        case.close()
    assert sums(root) == before
