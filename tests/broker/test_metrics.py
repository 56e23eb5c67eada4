"""Rows by family become text that Prometheus itself reads back, within the bound of series."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mqcore.broker.durations import percentile_us, spans_text
from mqcore.broker.metric_families import FAMILIES
from mqcore.metrics.families import Buckets, Kind, Rows
from mqcore.metrics.text import (
    OTHER,
    SeriesBound,
    Snapshot,
    common_labels,
    exposition,
    parsed_labels,
    read_back,
)

COMMON = {"cluster": "c", "node_type": "broker", "node_id": "b"}
Found = dict[str, list[tuple[dict[str, str], float]]]


def samples(
    rows: dict[str, Rows], bound: SeriesBound | None = None, labels: dict[str, str] | None = None
) -> Found:
    """Returns labels, but for the common ones, and numbers of each metric."""
    found: Found = {}
    text = exposition(Snapshot(FAMILIES, {**COMMON, **(labels or {})}, rows), bound).decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            shown = dict(sample.labels)
            for name, value in COMMON.items():
                assert shown.pop(name) == value
            found.setdefault(sample.name, []).append((shown, sample.value))
    return found


def test_counters_gauges_and_histograms_are_read_back() -> None:
    found = samples(
        {
            "rocketmq_messages_in_total": {("t", "normal", "false"): 7},
            "rocketmq_broker_permission": {(): 6},
            "rocketmq_message_size": {
                ("t", "normal", "false"): Buckets((1, 2, 0, 0, 0, 0, 3), 9_000)
            },
        }
    )
    labels = {"topic": "t", "message_type": "normal", "is_system": "false"}
    assert found["rocketmq_messages_in_total"] == [(labels, 7.0)]
    assert found["rocketmq_broker_permission"] == [({}, 6.0)]
    assert found["rocketmq_message_size_sum"] == [(labels, 9_000.0)]
    assert found["rocketmq_message_size_count"] == [(labels, 6.0)]
    buckets = {row["le"]: number for row, number in found["rocketmq_message_size_bucket"]}
    assert buckets == {
        "1024.0": 1,
        "4096.0": 3,
        "524288.0": 3,
        "1048576.0": 3,
        "2097152.0": 3,
        "4194304.0": 3,
        "+Inf": 6,
    }


def test_a_family_without_rows_of_its_own_is_declared_all_the_same() -> None:
    text = exposition(Snapshot(FAMILIES, COMMON, {"rocketmq_half_messages": {}})).decode()
    assert "# TYPE rocketmq_half_messages gauge\n" in text
    assert "rocketmq_broker_permission" not in text


def test_names_with_anything_in_them_do_not_break_the_text() -> None:
    odd = 'a"b\\c\nd{}=,上海'
    found = samples({"rocketmq_half_messages": {(odd,): 1}})
    assert found["rocketmq_half_messages"][0][0]["topic"] == odd


def test_labels_of_the_settings_are_on_every_metric() -> None:
    labels = parsed_labels("zone:a, rack : 7,broken,:x,cluster:mine,9:no,__name__:no,")
    assert labels == {"zone": "a", "rack": "7", "cluster": "mine"}
    labels = common_labels(COMMON, "zone:a, rack : 7,cluster:mine")
    assert labels == {**COMMON, "zone": "a", "rack": "7"}
    assert common_labels(COMMON, "", in_delta=True) == {**COMMON, "aggregation": "delta"}
    found = samples({"rocketmq_topic_number": {(): 1}}, labels=labels)
    assert found["rocketmq_topic_number"] == [({"zone": "a", "rack": "7"}, 1.0)]


def test_what_is_written_is_read_back() -> None:
    odd = 'a"b\\c\nd{}=,上海'
    rows: dict[str, Rows] = {
        "rocketmq_messages_in_total": {("t", "normal", "false"): 7, (odd, "fifo", "true"): 0},
        "rocketmq_message_size": {
            ("t", "normal", "false"): Buckets([1, 2, 0, 0, 0, 0, 3], 9_000.0),
            (odd, "normal", "false"): Buckets([0, 0, 0, 4, 0, 0, 0], 12.0),
        },
        "rocketmq_broker_permission": {(): 6},
    }
    text = exposition(Snapshot(FAMILIES, COMMON, rows))
    # In pieces as they are cut anywhere.
    for size in (1, 7, len(text)):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        found: dict[str, dict[tuple[str, ...], object]] = {}
        for family, labels, value in read_back(Snapshot(FAMILIES, COMMON, bulk=pieces)):
            found.setdefault(family.name, {})[labels] = value
        assert found == rows


def test_the_table_of_families_is_sound() -> None:
    for family in FAMILIES.values():
        assert (family.kind is Kind.COUNTER) == family.name.endswith("_total"), family.name
        assert (family.kind is Kind.HISTOGRAM) == bool(family.bounds), family.name
        assert list(family.bounds) == sorted(family.bounds), family.name
        if family.unit:
            assert family.name.removesuffix("_total").endswith(family.unit), family.name
        assert len(set(family.labels)) == len(family.labels), family.name
        assert not set(family.labels) & set(COMMON), family.name


def rows_of(numbers: range) -> dict[tuple[str, ...], int]:
    return {(f"t{number}", "normal", "false"): number for number in numbers}


def test_what_is_beyond_the_bound_is_summed_up_and_counted() -> None:
    name, bound = "rocketmq_messages_in_total", SeriesBound(10)
    found = samples({name: rows_of(range(10))}, bound)
    assert len(found[name]) == 10
    assert "mqcore_series_left_out" not in found
    found = samples({name: rows_of(range(100))}, bound)
    topics = {row["topic"]: number for row, number in found[name]}
    # Those that were shown before stay, but for one that gives way to the sum.
    assert len(topics) in (10, 11)
    assert topics[OTHER] + sum(n for t, n in topics.items() if t != OTHER) == sum(range(100))
    left_out = found["mqcore_series_left_out"]
    assert left_out == [({"family": name}, float(100 - (len(topics) - 1)))]
    # In another order the same ones are shown.
    reverse = dict(reversed(rows_of(range(100)).items()))
    again = samples({name: reverse}, bound)
    assert {row["topic"] for row, _ in again[name]} == set(topics)


def test_of_ages_beyond_the_bound_the_greatest_is_shown() -> None:
    name = "rocketmq_consumer_lag_latency_milliseconds"
    rows: Rows = {(f"g{n}", "t", "false", "false"): n for n in range(20)}
    found = samples({name: rows}, SeriesBound(5))
    others = [number for row, number in found[name] if row["topic"] == OTHER]
    assert others == [19.0]


def test_other_threads_may_run_between_the_lines() -> None:
    pauses: list[int] = []
    rows = {"rocketmq_messages_in_total": rows_of(range(5_000))}
    exposition(Snapshot(FAMILIES, COMMON, rows), pause=lambda: pauses.append(1))
    assert len(pauses) == 10


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 2), (0.9, 8), (0.99, 33_000_000), (1.0, 33_000_000)]
)
def test_percentiles_are_bounds_that_so_many_did_not_pass(share: float, expected: int) -> None:
    counts = [0] * 26
    counts[1], counts[3], counts[25] = 50, 40, 10
    assert percentile_us(counts, share, 33_000_000) == expected
    assert percentile_us([0] * 26, share, 0) == 0


def test_durations_are_put_into_the_official_spans() -> None:
    counts = [0] * 26
    counts[0], counts[10], counts[14], counts[25] = 3, 2, 1, 4
    text = spans_text(counts)
    assert text.startswith("[<=0ms]:5 [0~10ms]:1 [10~50ms]:0 ")
    assert text.endswith("[5~10s]:0 [10s~]:4")
    assert len(text.split(" ")) == 13
