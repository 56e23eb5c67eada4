"""Archives without Spark: what is taken, in which rounds, and what a run that was killed leaves."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from golden_stores import GOLDEN_STORES, GoldenStore
from mqcore import Store
from mqcore.cli.main import commands
from mqcore.clock import wall_ms
from mqcore.model.topics import SYSTEM_PREFIX, UNSENDABLE_TOPICS
from mqcore.spark.pipelines.archive_directory import ArchiveDirectory
from mqcore.spark.pipelines.archive_run import Archived, Round, in_threads, run_rounds
from mqcore.spark.pipelines.archive_tasks import ArchiveTask, StorePlan, plan_store
from mqcore.spark.pipelines.errors import ArchiveError, PipelineError, PipelineSettingError
from mqcore.spark.pipelines.manifest import PartFile
from small_store import SEGMENT_LEN_BYTES, SMALL, body_of, filled

SPLIT_BYTES = 300_000


def planned(store: Path, target: Path, topics: Sequence[str] = ()) -> StorePlan:
    manifest = ArchiveDirectory(target).manifest()
    return plan_store(str(store), manifest, topics=topics, split_bytes=SPLIT_BYTES)


def archived(store: Path, target: Path, topics: Sequence[str] = ()) -> Archived:
    plan = planned(store, target, topics)
    with in_threads(str(target), 2) as execute:
        return run_rounds(
            ArchiveDirectory(target), plan.tasks, execute, tasks_per_round=3, lost=plan.lost
        )


def bodies(target: Path) -> list[bytes]:
    """Returns the bodies of an archive by the place of their records."""
    found: list[tuple[int, bytes]] = []
    for part in ArchiveDirectory(target).manifest().files():
        table = pq.read_table(target / part.path, columns=["physicalOffset", "body"])
        found += zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True)
    return [body for _, body in sorted(found)]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with Store(tmp_path / "store", config=SMALL) as opened:
        filled(opened, 3_000, queues=4)
    return tmp_path / "store"


def test_a_closed_store_is_archived_whole(store: Path, tmp_path: Path) -> None:
    done = archived(store, tmp_path / "a")
    assert bodies(tmp_path / "a") == [body_of(number) for number in range(3_000)]
    assert (done.rows, done.body_bytes, done.exit_code) == (3_000, 3_000_000, 0)
    assert done.commits > 1


def test_what_is_archived_is_not_archived_again(store: Path, tmp_path: Path) -> None:
    archived(store, tmp_path / "a")
    assert archived(store, tmp_path / "a").lines() == [
        f"file://{tmp_path / 'a'} has everything already"
    ]


def test_a_store_that_grew_is_taken_from_where_it_was(store: Path, tmp_path: Path) -> None:
    archived(store, tmp_path / "a")
    with Store(store, config=SMALL) as opened:
        for number in range(3_000, 5_000):
            opened.append("topic", body_of(number))
    done = archived(store, tmp_path / "a")
    assert done.rows == 2_000
    assert bodies(tmp_path / "a") == [body_of(number) for number in range(5_000)]


def test_of_an_open_store_only_full_and_flushed_files_are_taken(tmp_path: Path) -> None:
    with Store(tmp_path / "store", config=SMALL) as opened:
        appended = filled(opened, 3_000)
        opened.flush()
        plan = planned(tmp_path / "store", tmp_path / "a")
        assert all(task.segment.len_bytes == SEGMENT_LEN_BYTES for task in plan.tasks)
        assert plan.end <= appended[-1].end - appended[-1].end % SEGMENT_LEN_BYTES
    assert planned(tmp_path / "store", tmp_path / "a").end == appended[-1].end


def test_an_open_file_is_named_and_its_flushed_part_is_taken_on_request(tmp_path: Path) -> None:
    target = tmp_path / "a"
    first, later = 50, 100

    def run(*options: str) -> list[str]:
        arguments = ["store", "archive", str(tmp_path / "store"), str(target), *options]
        result = CliRunner().invoke(commands, arguments)
        assert result.exit_code == 0, result.output
        return result.output.splitlines()

    with Store(tmp_path / "store", config=SMALL) as opened:
        filled(opened, first)
        now_ms = wall_ms()
        while wall_ms() == now_ms:
            pass
        # With the time of this one the checkpoint proves that those before it are flushed.
        opened.append("topic", body_of(first))
        opened.flush()
    with Store(tmp_path / "store", config=SMALL) as opened:
        for number in range(first + 1, later):
            opened.append("topic", body_of(number))
        (refused,) = run()
        assert refused.startswith("nothing was taken: the store is open, or was killed: 0000000000")
        assert "--flushed" in refused
        left_out, *_ = run("--flushed")
        assert left_out.startswith("left out: what the log has from ")
        taken = bodies(target)
        assert first <= len(taken) < later
        assert taken == [body_of(number) for number in range(len(taken))]
        (again,) = run("--flushed")
        assert again.startswith("nothing was taken: what the log has from ")
    run()
    assert bodies(target) == [body_of(number) for number in range(later)]
    assert run() == [f"file://{target} has everything already"]


def test_a_round_that_fails_is_not_committed_and_the_next_run_goes_on(
    store: Path, tmp_path: Path
) -> None:
    target = tmp_path / "a"
    plan = planned(store, target)
    rounds = []

    def failing(execute: Round) -> Round:
        def run(tasks: Sequence[ArchiveTask]) -> list[list[PartFile]]:
            made = execute(tasks)
            rounds.append(len(tasks))
            if len(rounds) == 3:
                raise ZeroDivisionError
            return made

        return run

    with pytest.raises(ZeroDivisionError), in_threads(str(target), 2) as execute:
        run_rounds(ArchiveDirectory(target), plan.tasks, failing(execute), tasks_per_round=2)
    assert len(ArchiveDirectory(target).manifest().commits) == 2
    # Files of the third round are there, and nobody reads them.
    written = len(list(target.rglob("*.parquet")))
    assert written > len(ArchiveDirectory(target).manifest().files())
    archived(store, target)
    assert bodies(target) == [body_of(number) for number in range(3_000)]
    # Tried again, tasks wrote the same names: nothing is left over.
    assert len(list(target.rglob("*.parquet"))) == len(ArchiveDirectory(target).manifest().files())


def test_what_retention_took_before_it_was_archived_is_reported(
    store: Path, tmp_path: Path
) -> None:
    plan = planned(store, tmp_path / "a")
    first = [task for task in plan.tasks if task.segment.base == 0]
    with in_threads(str(tmp_path / "a"), 2) as execute:
        run_rounds(ArchiveDirectory(tmp_path / "a"), first, execute, tasks_per_round=9)
    gone = sorted((store / "commitlog").iterdir())[:2]
    for segment in gone:
        segment.unlink()
    done = archived(store, tmp_path / "a")
    (lost,) = done.lost
    assert (lost.begin, lost.end) == (SEGMENT_LEN_BYTES, 2 * SEGMENT_LEN_BYTES)
    assert done.exit_code == 1
    assert done.lines()[0].startswith("gone before it was archived: store:store from 1048576")


def test_a_file_that_vanishes_meanwhile_ends_the_run(store: Path, tmp_path: Path) -> None:
    plan = planned(store, tmp_path / "a")
    sorted((store / "commitlog").iterdir())[0].unlink()
    with (
        pytest.raises(ArchiveError, match="removed by retention"),
        in_threads(str(tmp_path / "a"), 1) as execute,
    ):
        run_rounds(ArchiveDirectory(tmp_path / "a"), plan.tasks, execute, tasks_per_round=3)
    assert ArchiveDirectory(tmp_path / "a").manifest().commits == []


def test_damage_does_not_get_into_an_archive(store: Path, tmp_path: Path) -> None:
    segment = min((store / "commitlog").iterdir())
    content = bytearray(segment.read_bytes())
    content[500_000] ^= 0xFF
    segment.write_bytes(content)
    with pytest.raises(PipelineError, match=r"of the log: .*nothing of this part"):
        archived(store, tmp_path / "a")


def test_another_choice_of_topics_needs_another_archive(store: Path, tmp_path: Path) -> None:
    with Store(store, config=SMALL) as opened:
        filled(opened, 10, topic="other")
    assert archived(store, tmp_path / "a", ["other"]).rows == 10
    with pytest.raises(PipelineSettingError, match="another choice of topics"):
        planned(store, tmp_path / "a")


@pytest.mark.parametrize("golden", GOLDEN_STORES, ids=lambda golden: str(golden.name))
def test_stores_of_official_brokers_are_archived_as_in_their_manifests(
    golden: GoldenStore, tmp_path: Path
) -> None:
    root = golden.unpack(tmp_path)
    # A killed store is archived only after a recovery; here its files do not change.
    (root / "abort").unlink(missing_ok=True)
    archived(root, tmp_path / "a")
    found = {}
    for part in ArchiveDirectory(tmp_path / "a").manifest().files():
        for row in pq.read_table(tmp_path / "a" / part.path).to_pylist():
            found[row["physicalOffset"]] = (
                part.topic,
                row["queueId"],
                row["queueOffset"],
                len(row["body"]),
                row["tags"],
            )
    expected = {
        one["physical_offset"]: (
            one["topic"],
            one["queue_id"],
            one["queue_offset"],
            one["body_length"],
            one["tags"],
        )
        for one in golden.messages()
        if one["physical_offset"] in found
    }
    assert found == expected
    hidden = [one for one in golden.messages() if one["physical_offset"] not in found]
    own = UNSENDABLE_TOPICS | {
        one["topic"] for one in hidden if one["topic"].startswith(SYSTEM_PREFIX)
    }
    assert {one["topic"] for one in hidden} <= own
    assert found


def test_none_of_it_imports_spark() -> None:
    check = "import sys, mqcore.spark.pipelines.archive_run; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
