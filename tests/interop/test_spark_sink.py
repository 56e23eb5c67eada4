"""What Spark's sink wrote is read by official consumers, from our broker and from theirs."""

from collections import Counter
from collections.abc import Iterator

import pytest

from interop.cases import Case, by_queue, name_of
from interop.driver import Driver
from interop.servers import OURS, Servers, Software, official_software, serving
from spark.sink_task import batch_of, write_rows

pytestmark = pytest.mark.java


@pytest.fixture(scope="module", params=["ours", pytest.param("theirs", marks=pytest.mark.matrix)])
def written(
    request: pytest.FixtureRequest, driver: Driver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """Returns our servers, and with --matrix the official ones of the driver's release too."""
    software: Software = OURS if request.param == "ours" else official_software(driver.version)
    with serving(software, tmp_path_factory.mktemp("written")) as servers:
        yield servers


@pytest.fixture
def case(driver: Driver, written: Servers, request: pytest.FixtureRequest) -> Iterator[Case]:
    case = Case(driver, written, f"spark_{name_of(request, request.node.name[:50])}")
    yield case
    case.close()


def test_rows_come_with_their_labels(case: Case) -> None:
    case.create()
    rows = 300
    batch = batch_of(
        {
            "body": [b"row-%d" % row for row in range(rows)],
            "tags": ["äB"[row % 2] for row in range(rows)],
            "keys": [f"k{row} all" for row in range(rows)],
            "properties": [[("other", "漢字"), ("number", str(row))] for row in range(rows)],
        }
    )
    write_rows(case, [batch], topic=case.topic, batchBytes="4k")
    got = case.pulled(rows)
    assert Counter(item["body"] for item in got) == Counter(f"row-{row}" for row in range(rows))
    (one,) = [item for item in got if item["body"] == "row-7"]
    assert (one["tags"], one["keys"]) == ("B", "k7 all")
    assert one["number"] == "7"
    assert len({item["msg_id"] for item in got}) == rows
    assert {item["body"] for item in case.pulled(rows // 2, expr="ä")} == {
        f"row-{row}" for row in range(0, rows, 2)
    }


@pytest.mark.parametrize("compression", ["zlib", "lz4", "zstd"])
def test_small_bodies_in_batches_are_inflated(case: Case, compression: str) -> None:
    case.topic += f"_{compression}"
    case.create(1)
    bodies = [b"%d" % row * 3_000 for row in range(10, 60)] + [b"short"]
    write_rows(case, [batch_of({"body": bodies})], topic=case.topic, compression=compression)
    got = case.pulled(len(bodies))
    assert Counter(item["body_length"] for item in got) == Counter(map(len, bodies))


def test_an_orderly_consumer_sees_the_order_of_each_group(case: Case) -> None:
    case.create(4)
    consumer = case.push(order=1)
    rows = 200
    batch = batch_of(
        {
            "body": [b"m-%d" % row for row in range(rows)],
            "messageGroup": [f"group-{row % 5}" for row in range(rows)],
        }
    )
    write_rows(case, [batch], topic=case.topic, batchBytes="1k")
    got = case.driver.got(consumer, rows)
    assert all(offsets == sorted(offsets) for offsets in by_queue(got).values())
    of_group: dict[int, list[int]] = {}
    for item in got:
        number = int(item["body"].removeprefix("m-"))
        of_group.setdefault(number % 5, []).append(number)
    assert all(numbers == sorted(numbers) for numbers in of_group.values())


def test_a_delayed_row_comes_later(case: Case) -> None:
    case.create(1)
    batch = batch_of({"body": [b"later", b"now"], "delayLevel": [1, None]})
    write_rows(case, [batch], topic=case.topic)
    got = case.pulled(2)
    assert [item["body"] for item in got] == ["now", "later"]
