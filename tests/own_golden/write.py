"""Writes the directories of `tests/golden/mqcore-0.1` anew, with what is in them.

    cd tests && python -m own_golden.write DIR          # all but the stream, which needs Spark
    cd tests && python -m own_golden.write_stream DIR

Writes into DIR and never into `tests/golden`: golden directories are not replaced, a version that
writes another format gets a directory of its own beside them (`tests/golden/ORIGIN.md`).
"""

import asyncio
import json
import lzma
import os
import signal
import struct
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Final

from damage_cases import flip, log_end, overwrite, used_log_files
from loops import run_on, until
from mqcore import Store
from mqcore.broker.damage_reports import acknowledge
from mqcore.client.offset_stores import LocalOffsets, local_offsets_path
from mqcore.clock import wall_ms
from mqcore.model.queues import MessageQueue
from mqcore.namesrv.kv import KvTable
from mqcore.spark.pipelines.archive_directory import ArchiveDirectory
from mqcore.spark.pipelines.archive_run import in_threads, run_rounds
from mqcore.spark.pipelines.archive_tasks import plan_store
from mqcore.state_files import StateFile
from own_golden.cases import ARCHIVE, CLEAN, CONFIG, CUT, KILLED, actual_files
from own_golden.observed import (
    command,
    config_keys,
    copied,
    dump_of,
    opened,
    served,
    verification_of,
)
from own_golden.serving import STORE_KEYS, serving
from own_golden.workload import Sent, Workload

TESTS: Final = Path(__file__).resolve().parents[1]
# Sources of the archive: so many bytes of the log per task; of these tasks so many were done.
SPLIT_BYTES: Final = 50_000
ARCHIVED_TASKS: Final = 4
TASKS_PER_ROUND: Final = 2
# Messages of second sessions: their log is so long that a start does not walk all of it.
LATER_COUNT: Final = 240
# A record in the middle of the log of KILLED gets a wrong bit, the last one loses its end.
DAMAGED_RECORD: Final = 30
TORN_BYTES: Final = 100
_BODY_AT: Final = 88


def write_clean(root: Path) -> dict[str, Any]:
    """Runs a broker twice; the second stop leaves the generations before beside the files."""

    async def run() -> dict[str, Any]:
        async with serving(root, wall_ms()) as running:
            work = Workload(running)
            await work.everything()
        async with serving(root, wall_ms()) as running:
            again = Workload(running)
            await again.plain(first=1_000, count=LATER_COUNT)
            await again.batches("second")
            await again.ask_to_save()
        return {
            "sent": work.sent + again.sent,
            "half": work.waiting_half,
            "open_pops": [pop.body for pop in work.open_pops],
        }

    return run_on("uvloop", run())


def write_killed(root: Path) -> dict[str, Any]:
    """Has a broker killed by SIGKILL, in a process of its own."""
    facts = root.with_suffix(".facts")
    words = [sys.executable, "-m", "own_golden.write", "--be-killed", str(root), str(facts)]
    done = subprocess.run(words, cwd=TESTS, check=False)
    assert done.returncode == -signal.SIGKILL, done.returncode
    found: dict[str, Any] = json.loads(facts.read_text())
    facts.unlink()
    return found


def be_killed(root: Path, facts: Path) -> None:
    """Works on a store that was stopped cleanly once, and ends by SIGKILL."""

    def die(sent: list[Sent]) -> None:
        facts.write_text(json.dumps({"sent": sent}))
        os.kill(os.getpid(), signal.SIGKILL)

    async def run() -> None:
        async with serving(root, wall_ms()) as running:
            first = Workload(running)
            await first.tables()
            await first.plain(count=40)
            await first.send("Pop", b"only in the first session")
        async with serving(root, wall_ms()) as running:
            work = Workload(running)
            await work.plain(first=500, count=LATER_COUNT)
            await work.transactions()
            await work.groups()
            await work.later()
            await work.ask_to_save()
            # Units are written a little later; those of what follows get lost with the process.
            store = running.broker.state.store
            await until(lambda: store.stats().queue_pending_bytes == 0)
            # The start walks from there: queues of the first session are known from beside alone.
            store.flush()
            newest = store.message_at(work.sent[LATER_COUNT]["physical_offset"])
            await until(lambda: _checkpoint_ms(root) >= newest.store_timestamp_ms)
            await work.plain(first=900, count=8)
            die(first.sent + work.sent)

    run_on("uvloop", run())


def _checkpoint_ms(root: Path) -> int:
    """Returns until when log and queues were synced."""
    log_ms, queues_ms = struct.unpack_from(">qq", (root / "checkpoint").read_bytes())
    return int(min(log_ms, queues_ms))


def write_cut(killed: Path, final: Path) -> dict[str, Any]:
    """Damages a copy of the killed store and recovers it twice: once keeping, once cutting."""
    scratch = final.with_name("cutting")
    root = copied(killed, scratch / "kept")
    log = used_log_files(root)
    content, at = log[0].read_bytes(), 0
    for _ in range(DAMAGED_RECORD):
        at += int.from_bytes(content[at : at + 4], "big")
    flip(log[0], at + _BODY_AT + 3)
    with Store(root, config=STORE_KEYS, on_damage="keep") as store:
        kept = store.open_report()
    acknowledge(root)
    # A directory that is as it was left is not walked: a copy is.
    copied(root, scratch / "cut").rename(final)
    root = final
    last = used_log_files(root)[-1]
    end = log_end(last)
    overwrite(last, end - TORN_BYTES, bytes(TORN_BYTES))
    with Store(root, config=STORE_KEYS, on_damage="cut") as store:
        cut = store.open_report()
    code, text = command("store", "damage", "--all", "--json", root)
    reports = [json.loads(line) | {"path": ""} for line in text.splitlines()]
    return {
        "replaced_at": list(kept.replaced_at),
        "end": cut.end,
        "sent": [],
        "damage": {"exit_code": code, "reports": reports},
    }


def write_config(root: Path) -> dict[str, Any]:
    """Writes what name server, client and broker keep outside of a store, twice each."""
    table = {"ORDER_TOPIC_CONFIG": {"Order": "b:2"}}
    (root / "namesrv").mkdir(parents=True)
    kv = StateFile(root / "namesrv" / "kvConfig.json")
    kv.save(KvTable(table).text()())
    table["NAMESPACE"] = {"key ä": "value\n"}
    kv.save(KvTable(table).text()())
    offsets = {MessageQueue("Plain", "b", 0): 7, MessageQueue("Plain", "b", 3): 2}
    store = LocalOffsets(local_offsets_path(root / "client", "127.0.0.1@DEFAULT", "readers"))

    async def save() -> None:
        await store.save({MessageQueue("Plain", "b", 0): 1})
        await store.save(offsets)

    asyncio.run(save())
    conf = root / "broker.conf"
    conf.write_text("# mine\nbrokerName = b\nmaxMessageSize=65536\n")
    run_on("uvloop", _change_setting(root))
    rows = [[queue.topic, queue.broker_name, queue.queue_id, at] for queue, at in offsets.items()]
    return {"kv": table, "offsets": rows, "conf": conf.read_text()}


async def _change_setting(root: Path) -> None:
    """Lets a broker change its own properties file."""
    store = root.parent / "changing"
    async with serving(store, wall_ms(), config_path=root / "broker.conf") as running:
        await Workload(running).change_setting("transactionTimeOut=7000")


def write_archive(clean: Path, root: Path) -> dict[str, Any]:
    """Archives the first part of a store, in several commits."""
    plan = plan_store(str(clean), ArchiveDirectory(root).manifest(), split_bytes=SPLIT_BYTES)
    chosen = plan.tasks[:ARCHIVED_TASKS]
    assert len(plan.tasks) > len(chosen)
    with in_threads(str(root), 1) as execute:
        done = run_rounds(ArchiveDirectory(root), chosen, execute, tasks_per_round=TASKS_PER_ROUND)
    return {"rows": done.rows, "commits": done.commits}


def store_contents(root: Path, facts: dict[str, Any], scratch: Path) -> dict[str, Any]:
    """Returns what is in a store directory, as today's program reads it."""
    now_ms = max(record["store_timestamp"] for record in dump_of(root) if "blank" not in record)
    return {
        **facts,
        "now_ms": now_ms,
        "dump": dump_of(root),
        "verdict": verification_of(root),
        "opened": opened(copied(root, scratch / "opened")),
        "tables": served(copied(root, scratch / "served"), now_ms),
        "config_keys": config_keys(root),
    }


def pack(root: Path, into: Path, contents: dict[str, Any]) -> None:
    """Writes the archive, the list of files and what is in it."""
    into.mkdir(parents=True, exist_ok=True)

    def nobodys(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        return info

    with tarfile.open(into / f"{root.name}.tar.xz", "w:xz", preset=9) as archive:
        archive.add(root, root.name, filter=nobodys)
    lines = [f"{size} {path}\n" for path, size in sorted(actual_files(root).items())]
    (into / f"{root.name}.files.txt").write_text("".join(lines), encoding="utf-8")
    text = json.dumps(contents, ensure_ascii=False, sort_keys=True, indent=0)
    with lzma.open(into / f"{root.name}.contents.json.xz", "wt", preset=9, encoding="utf-8") as out:
        out.write(text)


def write_all(into: Path, work: Path) -> None:
    """Writes everything but the stream below `work`, and packs it into `into`."""
    roots = {name: work / name for name in (CLEAN, KILLED, CUT, CONFIG, ARCHIVE)}
    facts = {CLEAN: write_clean(roots[CLEAN]), KILLED: write_killed(roots[KILLED])}
    facts[CUT] = write_cut(roots[KILLED], roots[CUT])
    for name in (CLEAN, KILLED, CUT):
        scratch = work / f"scratch-{name}"
        pack(roots[name], into, store_contents(roots[name], facts[name], scratch))
    pack(roots[CONFIG], into, write_config(roots[CONFIG]))
    pack(roots[ARCHIVE], into, write_archive(roots[CLEAN], roots[ARCHIVE]))


if __name__ == "__main__":
    if sys.argv[1] == "--be-killed":
        be_killed(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        import tempfile

        with tempfile.TemporaryDirectory() as directory:
            write_all(Path(sys.argv[1]), Path(directory))
