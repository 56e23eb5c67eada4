"""The commands over the stores that official brokers wrote: what they print is what is known."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from golden_stores import (
    GOLDEN_STORES,
    TINY,
    V49_CLEAN,
    V49_KILLED,
    V53_CLEAN,
    V55_CLEAN,
    GoldenStore,
)
from mqcore.cli.main import commands

Unpack = Callable[[GoldenStore], Path]
every_store = pytest.mark.parametrize("golden", GOLDEN_STORES, ids=lambda golden: golden.name)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(commands, [str(argument) for argument in arguments])


def lines(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def snapshot(root: Path) -> dict[str, tuple[bytes, int]]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@every_store
def test_a_dump_is_the_manifest(golden: GoldenStore, unpacked: Unpack) -> None:
    assert lines(run("store", "dump", unpacked(golden))) == golden.manifest()


@every_store
def test_looking_changes_nothing(golden: GoldenStore, unpacked: Unpack) -> None:
    root = unpacked(golden)
    before = snapshot(root)
    for command in ("info", "verify", "dump"):
        assert run("store", command, root).exit_code == 0
    assert snapshot(root) == before


def deleted_queues(counts: list[int]) -> list[str]:
    text = "{} records of GoldenDeleted {} have no queue: its files are gone"
    return sorted(text.format(count, queue_id) for queue_id, count in enumerate(counts))


HALF_TOPIC = (
    "queue RMQ_SYS_TRANS_HALF_TOPIC 0: 53 records share their queue offset with a later one, "
    "which the queue names: the queue was deleted and began again"
)
TAGS_OF_55 = "index: 3064 entries are of tags, as 5.5 has them"
# What the golden README lists as surprises, and nothing else.
NOTES = {
    TINY: [],
    V49_CLEAN: deleted_queues([7, 7, 8, 8]),
    V49_KILLED: [*deleted_queues([8, 8, 7, 7]), HALF_TOPIC],
    V53_CLEAN: deleted_queues([7, 8, 8, 7]),
    V55_CLEAN: [*deleted_queues([7, 8, 8, 7]), TAGS_OF_55],
}


@every_store
def test_verify_finds_the_known_surprises_and_no_disagreement(
    golden: GoldenStore, unpacked: Unpack
) -> None:
    found = json.loads(run("store", "verify", "--json", unpacked(golden)).stdout)
    assert found["problems"] == []
    assert found["notes"] == NOTES[golden]
    assert (found["records"], found["blanks"]) == (golden.records, golden.blanks)
    assert found["log_end"] == golden.max_physical_offset
    assert found["index_entries"] > 0


@pytest.mark.parametrize(
    ("golden", "kind"),
    [
        (V49_CLEAN, "official"),
        (V49_KILLED, "after-official-recovery"),
        (V53_CLEAN, "official"),
        (V55_CLEAN, "official"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_info_prints_what_the_official_broker_reports(
    golden: GoldenStore, kind: str, unpacked: Unpack
) -> None:
    facts = json.loads(run("store", "info", "--json", unpacked(golden)).stdout)
    answers = golden.answers(kind)
    status, official = facts["broker_status"], answers["broker_status"]
    assert status["commitLogMinOffset"] == official["commitLogMinOffset"]
    assert status["commitLogMaxOffset"] == str(golden.max_physical_offset)
    assert status["earliestMessageTimeStamp"] == official["earliestMessageTimeStamp"]
    ours = {(row["topic"], row["queue_id"]): row for row in facts["queues"]}
    compared = 0
    for row in answers["queues"]:
        mine = ours.pop((row["topic"], row["queue_id"]), None)
        # Absent: never written, or deleted before the kill (a recovery makes it again).
        if mine is None:
            assert row["max_offset"] == 0 or row["topic"] == "GoldenDeleted"
            continue
        if row["topic"] == "rmq_sys_REVIVE_LOG_DefaultCluster":
            # The official broker appended to it before it answered; see the golden README.
            assert mine["max_offset"] == 4
            continue
        for key in ("min_offset", "max_offset", "earliest_store_timestamp"):
            assert mine.get(key) == row.get(key), row
        compared += 1
    assert ours == {}
    assert compared > 60


def test_info_prints_files_checkpoint_and_ends(unpacked: Unpack) -> None:
    facts = json.loads(run("store", "info", "--json", unpacked(TINY)).stdout)
    assert facts["first_record"]["physical_offset"] == 0
    assert facts["last_record"]["queue_offset"] == 4
    assert facts["has_abort"] is False
    assert facts["checkpoint"]["physic_timestamp"] == facts["last_record"]["store_timestamp"]
    assert facts["settings"] == {
        "mappedFileSizeCommitLog": 1_048_576,
        "mappedFileSizeConsumeQueue": 20_000,
    }
    assert [header["entries"] for header in facts["index"]] == [11]
    assert {file["path"]: file["len_bytes"] for file in facts["files"]} == TINY.files()
    for file in facts["files"]:
        assert 0 <= file["resident_bytes"] <= file["len_bytes"] + 4_095


def test_info_for_people_names_the_same(unpacked: Unpack) -> None:
    shown = run("store", "info", unpacked(TINY)).stdout
    for part in (
        "from 0 to 1,411 (max physical offset)",
        "GoldenTiny",
        "commitlog/00000000000000000000",
    ):
        assert part in shown


def test_filters_of_a_dump(unpacked: Unpack) -> None:
    root = unpacked(V49_CLEAN)
    messages = V49_CLEAN.messages()
    middle = messages[2_000]

    def dumped(*options: str) -> list[dict[str, Any]]:
        return lines(run("store", "dump", root, *options))

    assert dumped("--topic", "GoldenBig") == [m for m in messages if m["topic"] == "GoldenBig"]
    assert dumped("--topic", "GoldenPlain", "--queue", "2") == [
        m for m in messages if (m["topic"], m["queue_id"]) == ("GoldenPlain", 2)
    ]
    stored_ms = middle["store_timestamp"]
    assert dumped("--since", str(stored_ms)) == [
        m for m in messages if m["store_timestamp"] >= stored_ms
    ]
    iso = "2026-11-21T08:25:28.499+00:00"
    assert dumped("--until", iso) == [
        m for m in messages if m["store_timestamp"] < 1_795_249_528_500
    ]
    offset = middle["physical_offset"]
    assert [m for m in dumped("--from-offset", str(offset)) if "blank" not in m] == messages[2_000:]
    assert [m for m in dumped("--to-offset", str(offset)) if "blank" not in m] == messages[:2_000]
    refused = run("store", "dump", root, "--since", "yesterday")
    assert (refused.exit_code, "is no time" in refused.output) == (2, True)


@every_store
def test_recover_ends_where_the_official_broker_did(golden: GoldenStore, unpacked: Unpack) -> None:
    root = unpacked(golden)
    report = json.loads(run("store", "recover", "--json", root).stdout)
    assert report["was_clean"] == (golden is not V49_KILLED)
    assert report["end"] == golden.max_physical_offset
    assert report["kept_aside_bytes"] == 0
    dumped = lines(run("store", "dump", root))
    assert dumped == golden.manifest()
    assert run("store", "verify", root).exit_code == 0


def test_recovery_makes_no_plain_queue_beside_a_batch_queue(unpacked: Unpack) -> None:
    root = unpacked(V53_CLEAN)
    # As if it had been killed before anything was flushed: everything is dispatched again.
    (root / "abort").touch()
    (root / "checkpoint").write_bytes(bytes(4_096))
    assert run("store", "recover", root).exit_code == 0
    assert (root / "batchconsumequeue" / "GoldenBcq").is_dir()
    assert not (root / "consumequeue" / "GoldenBcq").exists()
    assert run("store", "verify", root).exit_code == 0


@every_store
def test_repair_makes_queues_and_index_from_the_log_alone(
    golden: GoldenStore, unpacked: Unpack
) -> None:
    root = unpacked(golden)
    log = snapshot(root / "commitlog")
    before = json.loads(run("store", "info", "--json", root).stdout)["queues"]
    batches = snapshot(root / "batchconsumequeue")
    for part in ("consumequeue", "batchconsumequeue", "index"):
        for path in (root / part).rglob("*"):
            if path.is_file():
                path.write_bytes(b"\xff" * path.stat().st_size)
    assert run("store", "verify", root).exit_code == 1
    repaired = run("store", "repair", root)
    assert repaired.exit_code == 0, repaired.output
    assert snapshot(root / "commitlog") == log
    assert not (root / "rebuilding").exists()
    assert run("store", "verify", root).exit_code == 0
    assert not (root / "consumequeue" / "GoldenBcq").exists()
    made = snapshot(root / "batchconsumequeue")
    assert {path: data for path, (data, _) in made.items()} == {
        path: data for path, (data, _) in batches.items()
    }
    after = {
        (row["topic"], row["queue_id"]): row["max_offset"]
        for row in json.loads(run("store", "info", "--json", root).stdout)["queues"]
    }
    for row in before:
        if row["max_offset"]:
            assert after[row["topic"], row["queue_id"]] == row["max_offset"]
    # The next start finds a store that was closed cleanly, or killed, as it was before.
    assert (root / "abort").exists() == (golden is V49_KILLED)
