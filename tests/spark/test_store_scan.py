"""Rows of a store's log: those of the official brokers to the last byte, however they are split."""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden_stores import GOLDEN_STORES, TINY, V49_CLEAN, V49_KILLED, V53_CLEAN, GoldenStore
from mqcore import Store
from mqcore.spark.directories import PathError
from mqcore.spark.schema import READ_COLUMNS, SchemaError
from mqcore.spark.store_source.reading import is_hidden
from small_store import SMALL, body_of, filled
from spark.store_engine import plan, rows

Unpacked = Callable[[GoldenStore], Path]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ms(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


def as_manifest(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row in the manifest's words."""
    properties = dict(row["properties"])
    return {
        "topic": row["topic"],
        "queue_id": row["queueId"],
        "queue_offset": row["queueOffset"],
        "physical_offset": row["physicalOffset"],
        "sys_flag": row["sysFlag"],
        "flag": row["flag"],
        "born_timestamp": ms(row["bornTimestamp"]),
        "store_timestamp": ms(row["storeTimestamp"]),
        "born_host": row["bornHost"],
        "store_host": row["storeHost"],
        "reconsume_times": row["reconsumeTimes"],
        "stored_body_length": row["bodyLength"],
        "body_length": len(row["body"]),
        "body_sha256": hashlib.sha256(row["body"]).hexdigest(),
        "tags": row["tags"],
        "keys": row["keys"],
        "properties": properties,
        "id": row["msgId"],
    }


def expected(line: dict[str, Any]) -> dict[str, Any]:
    kept = {name: line[name] for name in as_manifest_names() if name != "id"}
    return {**kept, "id": line["uniq_key"] or line["msg_id"]}


def as_manifest_names() -> tuple[str, ...]:
    return (
        *("topic", "queue_id", "queue_offset", "physical_offset", "sys_flag", "flag"),
        *("born_timestamp", "store_timestamp", "born_host", "store_host", "reconsume_times"),
        *("stored_body_length", "body_length", "body_sha256", "tags", "keys", "properties"),
    )


@pytest.mark.parametrize("store", GOLDEN_STORES, ids=lambda store: store.name)
@pytest.mark.parametrize("split", ["128m", "100001"])
def test_rows_of_an_official_broker_are_those_of_its_manifest(
    store: GoldenStore, split: str, unpacked: Unpacked
) -> None:
    found = rows(
        unpacked(store),
        includeUncommitted=True,
        includeProperties=True,
        verify="crc",
        splitBytes=split,
    )
    assert [as_manifest(row) for row in found] == [expected(line) for line in store.messages()]


def test_system_topics_are_left_out_unless_asked_for(unpacked: Unpacked) -> None:
    root = unpacked(V53_CLEAN)
    lines = V53_CLEAN.messages()
    plain = [line["physical_offset"] for line in lines if not is_hidden(line["topic"])]
    ddl = "physicalOffset bigint"
    assert 0 < len(plain) < len(lines)
    assert [row["physicalOffset"] for row in rows(root, ddl)] == plain
    half = [
        line["physical_offset"] for line in lines if line["topic"] == "RMQ_SYS_TRANS_HALF_TOPIC"
    ]
    found = rows(root, ddl, topics="RMQ_SYS_TRANS_HALF_TOPIC")
    assert [row["physicalOffset"] for row in found] == half != []


def test_only_the_columns_asked_for_come_in_the_order_and_case_asked_for(
    unpacked: Unpacked,
) -> None:
    found = rows(unpacked(TINY), "Tags string, queueOffset bigint not", topics="GoldenTiny")
    lines = [line for line in TINY.messages() if line["topic"] == "GoldenTiny"]
    assert found == [{"Tags": x["tags"], "queueOffset": x["queue_offset"]} for x in lines]


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("tpic string", "did you mean topic"),
        ("topic string, Topic string", "twice"),
        ("body string", "body is binary"),
        ("tags string not", "NOT NULL"),
    ],
)
def test_a_schema_that_cannot_be_is_refused_in_words(
    ddl: str, why: str, unpacked: Unpacked
) -> None:
    with pytest.raises(SchemaError, match=why):
        rows(unpacked(TINY), ddl)


@pytest.fixture(scope="module")
def clean_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a golden store that all examples of a property read."""
    return V49_CLEAN.unpack(tmp_path_factory.mktemp("clean"))


@settings(max_examples=15)
@given(data=st.data())
def test_any_split_gives_the_rows_of_one_scan(data: st.DataObject, clean_root: Path) -> None:
    lines = [line["physical_offset"] for line in V49_CLEAN.messages()]
    cuts = data.draw(st.lists(st.integers(0, V49_CLEAN.max_physical_offset), max_size=4))
    bounds = [0, *sorted(set(cuts)), V49_CLEAN.max_physical_offset + 1]
    found: list[int] = []
    for start, end in pairwise(bounds):
        part = rows(
            clean_root,
            "physicalOffset bigint",
            startPhysical=start,
            endPhysical=end,
            includeUncommitted=True,
            splitBytes=data.draw(st.integers(40_000, 2_000_000)),
        )
        found.extend(row["physicalOffset"] for row in part)
    assert found == lines


def test_a_log_is_found_from_its_store_its_directory_a_file_and_a_pattern(
    unpacked: Unpacked,
) -> None:
    root = unpacked(V49_CLEAN)
    ddl = "physicalOffset bigint"
    whole = rows(root, ddl)
    assert rows(root / "commitlog", ddl) == whole
    assert rows(root / "commitlog" / "0*", ddl) == whole
    assert rows(f"file://{root}", ddl) == whole
    files = sorted(path for path in (root / "commitlog").iterdir())
    listed = "[" + ",".join(f'"{path}"' for path in files) + "]"
    assert rows(listed, ddl) == whole
    second = rows(files[1], ddl)
    inside = range(1 << 20, 2 << 20)
    assert second == [row for row in whole if row["physicalOffset"] in inside]


def test_tags_and_times_choose_rows_and_files(unpacked: Unpacked) -> None:
    root = unpacked(V49_KILLED)
    lines = [line for line in V49_KILLED.messages() if not is_hidden(line["topic"])]
    ddl = "physicalOffset bigint"

    def offsets(**options: object) -> list[int]:
        return [row["physicalOffset"] for row in rows(root, ddl, **options)]

    tag = next(line["tags"] for line in lines if line["tags"])
    tagged = [line["physical_offset"] for line in lines if line["tags"] == tag]
    assert offsets(tags=f"{tag} || never") == tagged
    middle = lines[len(lines) // 2]["store_timestamp"]
    before = [x["physical_offset"] for x in lines if x["store_timestamp"] < middle]
    behind = [x["physical_offset"] for x in lines if x["store_timestamp"] >= middle]
    assert offsets(endTimestamp=middle) == before
    assert offsets(startTimestamp=middle) == behind
    text = datetime.fromtimestamp(middle / 1000, UTC).isoformat()
    assert offsets(startTimestamp=text) == behind
    # Far from everything no file is read at all.
    assert plan(root, ddl, startTimestamp="2020-01-01", endTimestamp="2020-01-02")[1] == [None]


def test_rows_of_a_store_of_ours_while_it_is_open_and_after(tmp_path: Path) -> None:
    count = 3_000
    with Store(tmp_path, config=SMALL) as store:
        filled(store, count, queues=3)
        store.flush()
        live = rows(tmp_path, splitBytes="300k")
    closed = rows(tmp_path)
    assert live == closed
    assert [row["body"] for row in live] == [body_of(number) for number in range(count)]
    assert [row["keys"] for row in live] == [f"k-{number}" for number in range(count)]
    assert {row["brokerName"] for row in live} == {None}
    named = rows(tmp_path, "brokerName string", brokerName="b-1")
    assert {row["brokerName"] for row in named} == {"b-1"}


def test_what_was_written_after_planning_is_not_read(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        filled(store, 10)
        reader, partitions, _schema, _left = plan(tmp_path, "queueOffset bigint")
        filled(store, 10)
        found = sum(batch.num_rows for part in partitions for batch in reader.read(part))
    assert found == 10


def test_flushed_only_stops_before_what_the_checkpoint_does_not_promise(
    unpacked: Unpacked,
) -> None:
    root = unpacked(V49_KILLED)
    flushed_ms = int.from_bytes((root / "checkpoint").read_bytes()[:8], "big")
    lines = V49_KILLED.messages()
    flushed = [
        x["physical_offset"]
        for x in lines
        if x["store_timestamp"] < flushed_ms and not is_hidden(x["topic"])
    ]
    found = rows(root, "physicalOffset bigint", flushedOnly=True)
    assert 0 < len(found) < len(lines)
    assert [row["physicalOffset"] for row in found] == flushed
    # A store that was closed is flushed.
    clean = unpacked(V49_CLEAN)
    assert rows(clean, flushedOnly=True) == rows(clean)


def test_an_empty_store_has_no_rows(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL):
        pass
    assert rows(tmp_path) == []
    (tmp_path / "none" / "commitlog").mkdir(parents=True)
    assert rows(tmp_path / "none") == []


def test_a_path_that_is_no_store_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing", encoding="utf-8")
    for path, why in (
        (tmp_path / "absent", "is not there"),
        (tmp_path, "is no store"),
        (tmp_path / "notes.txt", "is no file of a log"),
        (tmp_path / "*.log", "nothing is at"),
    ):
        with pytest.raises(PathError, match=why):
            rows(path)


def test_large_bodies_cut_batches_by_bytes(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        filled(store, 100)
    reader, partitions, _schema, _left = plan(
        tmp_path, "body binary", batchBytes="10k", batchRows=50
    )
    sizes = [batch.num_rows for part in partitions for batch in reader.read(part)]
    assert sum(sizes) == 100
    assert max(sizes) == 11


def test_every_column_has_a_name_that_the_extension_knows(unpacked: Unpacked) -> None:
    ddl = ", ".join(f"{column.name} {column.ddl}" for column in READ_COLUMNS)
    found = rows(unpacked(TINY), ddl)
    assert [set(row) for row in found] == [{column.name for column in READ_COLUMNS}] * len(found)
