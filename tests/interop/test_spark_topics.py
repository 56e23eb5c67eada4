"""Topics that the official Java client wrote, read as Spark's tasks read them; from both brokers.

Without Spark itself: what it would call, in a batch and in a stream. The official brokers give 32
messages a pull, so that pulls follow one another in a window.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.types import StructType

from interop.cases import Case, name_of
from interop.driver import Driver
from interop.servers import Servers
from mqcore.spark.topic_source.reading import batch_reader, stream_reader
from spark.topic_source.engine import Engine

pytestmark = pytest.mark.java

COUNT = 400
COLUMNS = StructType.fromJson(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in (
                ("msgId", "string"),
                ("queueId", "integer"),
                ("queueOffset", "long"),
                ("tags", "string"),
                ("keys", "string"),
                ("body", "binary"),
                ("bodyLength", "integer"),
            )
        ],
    }
)


@pytest.fixture(scope="session", params=["reference", "servers"], ids=["official", "ours"])
def written_to(request: pytest.FixtureRequest, driver: Driver) -> Servers:
    """Returns servers of the client's release, and ours."""
    del driver
    servers: Servers = request.getfixturevalue(request.param)
    return servers


@pytest.fixture
def case(driver: Driver, written_to: Servers, request: pytest.FixtureRequest) -> Iterator[Case]:
    # Cases of both clients share our servers.
    name = name_of(request, request.node.originalname[:50], driver.version)
    made = Case(driver, written_to, f"spark_{name}")
    made.create()
    yield made
    made.close()


def rows(case: Case, **options: str) -> list[dict[str, Any]]:
    """Reads a batch, some tasks of it."""
    given = {"namesrv": case.namesrv, "subscribe": case.topic, "maxRowsPerPartition": "60"}
    reader: Any = batch_reader(given | options, COLUMNS)
    return [
        row
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def test_each_message_comes_once_and_whole(case: Case) -> None:
    producer = case.producer(compress_over=4096)
    sent = case.send(producer, count=COUNT, keys="k", tags="a,b")
    sent += case.send(producer, count=3, body="long", size=100_000)
    case.pulled(COUNT + 3)
    found = rows(case)
    offsets = Counter((row["queueId"], row["queueOffset"]) for row in found)
    assert offsets == Counter((item["queue_id"], item["queue_offset"]) for item in sent)
    assert {row["msgId"] for row in found} == {item["msg_id"] for item in sent}
    texts = Counter(row["body"] for row in found if row["keys"])
    assert texts == Counter(b"m-%d" % number for number in range(COUNT))
    long = [row for row in found if row["body"].startswith(b"long")]
    assert [len(row["body"]) for row in long] == [100_000] * 3
    assert all(row["bodyLength"] < 100_000 for row in long), "as it is stored: compressed"


def test_tags_are_filtered_by_the_broker(case: Case) -> None:
    case.send(case.producer(), count=90, tags="a,b,c")
    case.pulled(90)
    found = rows(case, filter="a || c")
    assert Counter(row["tags"] for row in found) == {"a": 30, "c": 30}


def test_a_stream_follows_and_its_group_is_seen_by_official_tools(case: Case) -> None:
    producer = case.producer()
    case.send(producer, count=100)
    case.pulled(100)
    given = {
        "namesrv": case.namesrv,
        "subscribe": case.topic,
        "startingOffsets": "earliest",
        "group": case.group,
        "maxOffsetsPerTrigger": "60",
    }
    query = Engine(lambda: stream_reader(given, COLUMNS))
    query.available_now()
    case.send(producer, count=50, body="more")
    case.pulled(150)
    query.restart()
    query.available_now()
    assert Counter(row["body"][:1] for row in query.rows) == {b"m": 150}
    assert len({(row["queueId"], row["queueOffset"]) for row in query.rows}) == 150
    query.reader.commit(query.reader.reportLatestOffset())
    shown = case.driver.mqadmin("consumerProgress", "-n", case.namesrv, "-g", case.group)
    diff = [line for line in shown.splitlines() if "Diff Total" in line]
    assert [line.split(":")[-1].strip() for line in diff] == ["0"], shown
