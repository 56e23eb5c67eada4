"""The rule book of streams: where they begin, how far they come, what is lost. Without sockets."""

import json
import logging
from typing import Any

import pytest

from mqcore.spark.errors import SparkError
from mqcore.spark.options import OptionError
from mqcore.spark.topic_source.data_loss import DataLossError
from mqcore.spark.topic_source.options import read_options
from mqcore.spark.topic_source.queue_json import key_of
from mqcore.spark.topic_source.stream_course import StreamCourse
from mqcore.spark.topic_source.stream_offsets import StreamOffset
from spark.topic_source.fake_cluster import FakeCluster, as_any, q

BASE = {"namesrv": "h:1", "subscribe": "t"}


def course(cluster: FakeCluster, now_ms: Any = lambda: 0, **options: str) -> StreamCourse:
    given = {"namesrv": "h:1"} | ({} if "subscribePattern" in options else {"subscribe": "t"})
    return StreamCourse(read_options(given | options, is_stream=True), as_any(cluster), now_ms)


def batch(
    run: StreamCourse, start: StreamOffset
) -> tuple[dict[str, tuple[int, int]], StreamOffset]:
    """Plans one batch; returns its ranges and its end, both through JSON."""
    end = StreamOffset.of_json(json.loads(json.dumps(run.latest(start, is_limited=True).to_json())))
    begun, ends = run.between(start, end)
    return {f"{k.topic}{k.queue_id}": (begun[k], ends[k]) for k in ends if begun[k] < ends[k]}, end


def test_the_first_batch_keeps_where_the_query_began() -> None:
    cluster = FakeCluster(t0=(0, 100))
    first = course(cluster)
    start = first.initial()
    cluster.put("t0", 0, 105)
    ranges, end = batch(first, start)
    assert ranges == {"t0": (100, 105)}
    assert end.init == {q("t0"): 100}
    # The driver ends before the batch is done; a new one is asked anew where the query begins.
    again = course(cluster)
    moved = again.initial()
    assert moved.next == {q("t0"): 105}
    begun, ends = again.between(moved, end)
    assert (begun[q("t0")], ends[q("t0")]) == (100, 105)


def test_nothing_new_is_the_same_offset_as_text() -> None:
    run = course(FakeCluster(t0=(0, 10)), startingOffsets="earliest")
    _, end = batch(run, run.initial())
    assert end.init
    assert json.dumps(run.latest(end, is_limited=True).to_json()) == json.dumps(end.to_json())


def test_a_new_queue_begins_at_its_oldest_message() -> None:
    cluster = FakeCluster(t0=(0, 10))
    run = course(cluster)
    _, end = batch(run, run.initial())
    cluster.put("t1", 3, 8)
    ranges, after = batch(run, end)
    assert ranges == {"t1": (3, 8)}
    assert after.init == {q("t1"): 3}, "fixed, should retention move on before it is read"
    cluster.put("t1", 5, 9)
    begun, _ = course(cluster, failOnDataLoss="false").between(end, after)
    assert begun[q("t1")] == 5
    with pytest.raises(DataLossError, match="offsets 3 to 4 are gone"):
        course(cluster).between(end, after)


def test_a_pattern_takes_new_topics_and_leaves_the_servers_own() -> None:
    cluster = FakeCluster(t0=(0, 1), SELF_MADE0=(0, 9))
    cluster.held[q("%RETRY%g0")] = cluster.held[q("t0")]
    run = course(cluster, subscribePattern=".*", startingOffsets="earliest")
    ranges, end = batch(run, run.initial())
    assert ranges == {"t0": (0, 1)}
    cluster.put("u0", 0, 4)
    assert batch(run, end)[0] == {"u0": (0, 4)}


@pytest.mark.parametrize(
    ("low", "high", "expected", "goes_on"),
    [
        (7, 20, "offsets 5 to 6 are gone (the oldest is 7)", {"t0": (7, 20)}),
        (0, 3, "offset 5 was reached before, and the queue ends at 3", {}),
    ],
)
def test_what_is_lost_ends_the_query_or_is_skipped(
    low: int, high: int, expected: str, goes_on: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    cluster = FakeCluster(t0=(low, high))
    start = StreamOffset({q("t0"): 5})
    with pytest.raises(DataLossError) as caught:
        batch(course(cluster), start)
    assert expected in str(caught.value)
    assert "failOnDataLoss" in str(caught.value)
    lenient = course(cluster, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        ranges, end = batch(lenient, start)
    assert ranges == goes_on
    if not goes_on:
        end = StreamOffset({q("t0"): high})
        cluster.put("t0", 0, 9)
        assert batch(lenient, end)[0] == {"t0": (3, 9)}
    else:
        assert expected in caplog.text


def test_a_queue_that_is_gone_is_loss_and_keeps_its_offset(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = FakeCluster(t0=(0, 9), t1=(0, 9))
    start = StreamOffset({q("t0"): 5, q("t1"): 6})
    cluster.drop("t1")
    with pytest.raises(DataLossError, match="queue 1: the queue is gone; it was read up to"):
        batch(course(cluster), start)
    lenient = course(cluster, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        ranges, end = batch(lenient, start)
        assert ranges == {"t0": (5, 9)}
        batch(lenient, end)
    assert caplog.text.count("the queue is gone") == 1
    cluster.put("t1", 0, 8)
    assert batch(lenient, end)[0] == {"t1": (6, 8)}


def test_a_checkpoint_from_before_a_restored_broker_is_loss() -> None:
    cluster = FakeCluster(t0=(0, 10))
    run = course(cluster)
    with pytest.raises(DataLossError, match="offset 12 was reached before"):
        run.between(StreamOffset({q("t0"): 8}), StreamOffset({q("t0"): 12}))


def test_limits_are_shared_and_everything_comes() -> None:
    cluster = FakeCluster(t0=(0, 1000), t1=(0, 10))
    run = course(cluster, startingOffsets="earliest", maxOffsetsPerTrigger="101")
    at, seen, sizes = run.initial(), {"t0": 0, "t1": 0}, []
    while True:
        ranges, end = batch(run, at)
        if not ranges:
            break
        for name, (low, high) in ranges.items():
            assert low == seen[name]
            seen[name] = high
        sizes.append(sum(high - low for low, high in ranges.values()))
        at = end
    assert seen == {"t0": 1000, "t1": 10}
    assert max(sizes) <= 102


def test_few_rows_wait_until_the_delay_is_over() -> None:
    now = [0]
    cluster = FakeCluster(t0=(0, 5))
    run = course(
        cluster,
        lambda: now[0],
        startingOffsets="earliest",
        minOffsetsPerTrigger="10",
        maxTriggerDelay="1m",
    )
    ranges, end = batch(run, run.initial())
    assert ranges == {"t0": (0, 5)}, "the first one does not wait"
    cluster.put("t0", 0, 9)
    assert batch(run, end)[0] == {}
    now[0] = 59_999
    assert batch(run, end)[0] == {}
    now[0] = 60_000
    assert batch(run, end)[0] == {"t0": (5, 9)}
    cluster.put("t0", 0, 30)
    now[0] = 60_001
    assert batch(run, StreamOffset({q("t0"): 9}))[0] == {"t0": (9, 30)}


def test_available_now_ends_at_what_was_there() -> None:
    cluster = FakeCluster(t0=(0, 10))
    run = course(cluster, startingOffsets="earliest", maxOffsetsPerTrigger="6")
    at = run.initial()
    run.aim()
    cluster.put("t0", 0, 99)
    cluster.put("t1", 0, 5)
    found = []
    for _ in range(3):
        ranges, at = batch(run, at)
        found.append(ranges)
    assert found == [{"t0": (0, 6)}, {"t0": (6, 10)}, {}]


def test_an_ending_time_ends_a_stream() -> None:
    cluster = FakeCluster(t0=(0, 50))
    run = course(cluster, startingOffsets="earliest", endingTimestamp="21")
    ranges, end = batch(run, run.initial())
    assert ranges == {"t0": (0, 20)}
    assert batch(run, end)[0] == {}


@pytest.mark.parametrize(
    ("options", "begins"),
    [
        ({}, 10),
        ({"startingOffsets": "earliest"}, 2),
        ({"startingOffsets": json.dumps({key_of(q("t0")): 4})}, 4),
        ({"startingOffsets": json.dumps({key_of(q("t0")): -2})}, 2),
        ({"startingOffsets": json.dumps({key_of(q("t0")): -1})}, 10),
        ({"startingTimestamp": "7", "startingOffsets": "earliest"}, 6),
        ({"startingOffsetsByTimestamp": json.dumps({key_of(q("t0")): 8})}, 7),
        ({"startingTimestamp": "99", "startingOffsetsByTimestampStrategy": "latest"}, 10),
        ({"startingOffsets": "group", "group": "g"}, 3),
        ({"startingOffsets": "group", "group": "never seen"}, 2),
    ],
)
def test_where_a_query_begins(options: dict[str, str], begins: int) -> None:
    cluster = FakeCluster(t0=(2, 10))
    cluster.groups["g", q("t0")] = 3
    assert course(cluster, **options).initial().next == {q("t0"): begins}


def test_a_time_that_nothing_is_as_new_as_is_an_error() -> None:
    with pytest.raises(SparkError, match="startingOffsetsByTimestampStrategy"):
        course(FakeCluster(t0=(2, 10)), startingTimestamp="99").initial()


@pytest.mark.parametrize("named", ["t@b:0", "t@b:2"])
def test_json_names_every_queue_and_no_other(named: str) -> None:
    cluster = FakeCluster(t0=(0, 1), t1=(0, 1))
    given = json.dumps({key_of(q("t0")): 0, named: 0} | ({"t@b:1": 0} if named != "t@b:0" else {}))
    with pytest.raises(OptionError, match=r"t@b:[12]"):
        course(cluster, startingOffsets=given).initial()


def test_offsets_are_committed_to_the_group_and_never_moved_back() -> None:
    cluster = FakeCluster(t0=(0, 10))
    cluster.groups["g", q("t0")] = 4
    run = course(cluster, startingOffsets="earliest", group="g")
    run.commit_to_group(StreamOffset({q("t0"): 3}))
    assert cluster.committed == []
    run.commit_to_group(StreamOffset({q("t0"): 6}))
    run.commit_to_group(StreamOffset({q("t0"): 5}))
    assert cluster.committed == [(q("t0"), 6)]


def test_what_a_restarted_query_goes_on_from_is_committed() -> None:
    cluster = FakeCluster(t0=(0, 10))
    run = course(cluster, group="g")
    run.between(StreamOffset({q("t0"): 7}), StreamOffset({q("t0"): 9}))
    assert cluster.committed == [(q("t0"), 7)]
    silent = FakeCluster(t0=(0, 10))
    course(silent, group="g", commitToGroup="false").between(
        StreamOffset({q("t0"): 7}), StreamOffset({q("t0"): 9})
    )
    assert silent.committed == []


def test_offsets_of_others_are_refused() -> None:
    foreign: list[Any] = [{}, {"v": 2, "q": {}}, {"v": 1, "q": {"x": 1}}, {"v": 1}, []]
    for value in foreign:
        with pytest.raises(SparkError, match="checkpoint"):
            StreamOffset.of_json(value)
