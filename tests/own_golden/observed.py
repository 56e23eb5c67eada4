"""What a store directory holds, in numbers and digests: recorded once, compared since.

Works on copies: a directory that is looked at by opening it is no longer what it was.
"""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from loops import run_on, until
from mqcore import Store
from mqcore.cli.main import commands
from own_golden.serving import STORE_KEYS, json_of, queues_of, serving, tables_of

# Keys with which messages were sent, by topic.
QUERIED = (("Keys", "all"), ("Keys", "order-7"), ("Batches", "alone"))


def command(*words: str | Path) -> tuple[int, str]:
    """Runs a command of `mqcore`; returns its exit code and what it printed."""
    done = CliRunner().invoke(commands, [str(word) for word in words])
    return done.exit_code, done.stdout


def dump_of(root: Path) -> list[dict[str, Any]]:
    """Returns every record of the log as `mqcore store dump` prints it."""
    code, text = command("store", "dump", root)
    assert code == 0, text
    return [json.loads(line) for line in text.splitlines()]


def verification_of(root: Path) -> dict[str, Any]:
    """Returns what `mqcore store verify` finds."""
    code, text = command("store", "verify", "--json", root)
    found: dict[str, Any] = json.loads(text)
    return {"exit_code": code, **found}


def opened(root: Path) -> dict[str, Any]:
    """Opens a directory for writing and closes it; returns what can be read of it."""
    with Store(root, config=STORE_KEYS) as store:
        report = store.open_report()
        # The index may lag behind an open.
        run_on("asyncio", until(lambda: not max(store.stats().follower_lag_bytes.values())))
        return {
            "was_clean": report.was_clean,
            "end": store.stats().appended,
            "kept_aside_bytes": report.kept_aside_bytes,
            "queues": queues_of(store),
            "queries": {
                f"{topic} {key}": [each.physical_offset for each in store.query(topic, key)]
                for topic, key in QUERIED
            },
        }


def served(root: Path, now_ms: int) -> dict[str, Any]:
    """Runs a broker on a directory at a moment; returns its tables."""

    async def run() -> dict[str, Any]:
        async with serving(root, now_ms) as running:
            return await tables_of(running)

    return run_on("uvloop", run())


def config_keys(root: Path) -> dict[str, list[str]]:
    """Returns the names of the members of every JSON file, by its path: what a reader relies on.

    Names that are data (topics, groups, queues, offsets) are replaced by `*`.
    """
    found = {}
    for path in sorted((root / "config").rglob("*")):
        if path.suffix not in (".json", ".bak", "") or path.name == "timercheck":
            continue
        text = path.read_bytes()
        if text.strip() and path.suffix != ".bak":
            found[str(path.relative_to(root))] = sorted(_members(json_of(text)))
    return found


# Tables by what was named by somebody: their keys are no part of the form.
_DATA_TABLES = frozenset(
    {
        *("topicConfigTable", "subscriptionGroupTable", "offsetTable", "offsetTable.*"),
        *("groupTopicMap", "filterDataByTopic", "timingCount", "transactionCount", "table"),
        *("table.*", "forbiddenTable", "messageRequestModeMap", "messageRequestModeMap.*"),
        *("filterDataByTopic.*.groupFilterData", "pullOffsetTable", "resetOffsetTable"),
        *("topicConfigTable.*.attributes", "subscriptionGroupTable.*.attributes"),
    }
)


def _members(value: Any, path: str = "") -> set[str]:
    found: set[str] = set()
    if isinstance(value, Mapping):
        for key, inner in value.items():
            name = "*" if path in _DATA_TABLES else str(key)
            inside = f"{path}.{name}" if path else name
            found |= {inside} | _members(inner, inside)
    elif isinstance(value, list):
        for inner in value:
            found |= _members(inner, f"{path}[]")
    return found


def copied(root: Path, into: Path) -> Path:
    """Returns a copy of a directory, with the times of its files."""
    into.mkdir(parents=True, exist_ok=True)
    # Holes stay holes: the wheel of the timers is forty megabytes of them.
    command = ["cp", "--archive", "--sparse=always", str(root), str(into)]
    subprocess.run(command, check=True)
    return into / root.name
