"""Files outside of stores that mqcore 0.1 wrote: of name server, client, broker, and archives."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from mqcore.client.offset_stores import LocalOffsets, local_offsets_path
from mqcore.config import read_properties
from mqcore.model.queues import MessageQueue
from mqcore.namesrv.kv import read_kv
from mqcore.spark.pipelines.archive_directory import ArchiveDirectory
from mqcore.spark.pipelines.archive_run import Archived, in_threads, run_rounds
from mqcore.spark.pipelines.archive_tasks import plan_store
from own_golden.cases import ARCHIVE, CLEAN, CONFIG, contents
from own_golden.write import SPLIT_BYTES

Roots = Callable[[str], Path]


def test_the_key_value_table_of_a_name_server_is_read(golden_root: Roots) -> None:
    path = golden_root(CONFIG) / "namesrv" / "kvConfig.json"
    expected = contents(CONFIG)["kv"]
    assert read_kv(path)[0].snapshot() == expected
    before = read_kv(path.with_name("kvConfig.json.bak"))[0].snapshot()
    assert before == {"ORDER_TOPIC_CONFIG": expected["ORDER_TOPIC_CONFIG"]}


def test_the_offsets_of_a_consumer_of_broadcasts_are_read(golden_root: Roots) -> None:
    path = local_offsets_path(golden_root(CONFIG) / "client", "127.0.0.1@DEFAULT", "readers")
    store = LocalOffsets(path)
    for topic, broker, queue_id, offset in contents(CONFIG)["offsets"]:
        assert asyncio.run(store.load(MessageQueue(topic, broker, queue_id))) == offset


def test_a_changed_properties_file_is_read(golden_root: Roots) -> None:
    path = golden_root(CONFIG) / "broker.conf"
    assert path.read_text() == contents(CONFIG)["conf"]
    assert read_properties(path) == {
        "brokerName": "b",
        "maxMessageSize": "65536",
        "transactionTimeOut": "7000",
    }


def archived(store: Path, target: Path) -> Archived:
    """Archives what is not archived yet."""
    plan = plan_store(str(store), ArchiveDirectory(target).manifest(), split_bytes=SPLIT_BYTES)
    with in_threads(str(target), 1) as execute:
        return run_rounds(ArchiveDirectory(target), plan.tasks, execute, tasks_per_round=2)


def rows_of(archive: Path) -> dict[int, tuple[object, ...]]:
    """Returns the rows that commits name, by the physical offset of their record."""
    found: dict[int, tuple[object, ...]] = {}
    for part in ArchiveDirectory(archive).required_manifest().files():
        for row in pq.read_table(archive / part.path).to_pylist():
            physical_offset = row["physicalOffset"]
            assert physical_offset not in found or row["queueOffset"] != found[physical_offset][2]
            properties = dict(row["properties"])
            key = (part.topic, row["queueId"], row["queueOffset"], len(row["body"]), row["tags"])
            found[physical_offset] = (*key, properties)
    return found


def expected_rows(*, below: int | None = None) -> dict[int, tuple[object, ...]]:
    """Returns the rows of the store's topics as its dump has them."""
    hidden = ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_", "rmq_sys_", "TRANS_CHECK")
    return {
        each["physical_offset"]: (
            *(each["topic"], each["queue_id"], each["queue_offset"], each["body_length"]),
            *(each["tags"], each["properties"]),
        )
        for each in contents(CLEAN)["dump"]
        if "blank" not in each
        and not each["topic"].startswith(hidden)
        and (below is None or each["physical_offset"] < below)
    }


def test_an_archive_is_read_and_gone_on_with(golden_root: Roots, golden_copy: Roots) -> None:
    target, known = golden_copy(ARCHIVE), contents(ARCHIVE)
    store = golden_root(CLEAN)
    manifest = ArchiveDirectory(target).required_manifest()
    assert len(manifest.commits) == known["commits"] > 1
    [[(_, end)]] = manifest.covered().values()
    assert rows_of(target) == expected_rows(below=end)
    done = archived(store, target)
    assert done.commits >= 1
    assert rows_of(target) == expected_rows()
    assert archived(store, target).commits == 0
