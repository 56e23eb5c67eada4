"""Official brokers take the files in which ours keeps states of its progress."""

from pathlib import Path

import pytest

from golden_stores import GOLDEN_CONFIG, V49_CLEAN, V53_CLEAN, V55_CLEAN
from interop.official import Official
from mqcore.broker.progress_history import KEY
from mqcore.model.relaxed_json import parse_object, pretty

pytestmark = pytest.mark.java

_STATES = [{"epoch": 3, "end": 7_000, "state": {"T@CID_RMQ_SYS_TRANS": {"0": 1}}}]
_GOLDEN = {each.broker_version: each for each in (V49_CLEAN, V53_CLEAN, V55_CLEAN)}
_TABLES = ("consumerOffset.json", "delayOffset.json")


def _of_users(table: dict[str, object]) -> dict[str, object]:
    """Returns what no broker moves by itself."""
    return {key: offset for key, offset in table.items() if "CID_RMQ_SYS_" not in key}


def test_an_official_broker_reads_past_the_states(release: Official, tmp_path: Path) -> None:
    store = _GOLDEN[release.version].unpack(tmp_path)
    config = store / "config"
    before = {}
    for name in _TABLES:
        table = parse_object((config / name).read_bytes())
        before[name] = table["offsetTable"]
        (config / name).write_bytes(pretty(table | {KEY: _STATES}))
    with release.serve(store, GOLDEN_CONFIG):
        pass
    after = {name: parse_object((config / name).read_bytes()) for name in _TABLES}
    assert all(KEY not in each for each in after.values())
    consumers, delays = (after[name]["offsetTable"] for name in _TABLES)
    assert _of_users(consumers) == _of_users(before["consumerOffset.json"])
    assert all(delays[level] >= at for level, at in before["delayOffset.json"].items())
