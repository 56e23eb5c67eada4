"""Names of files and directories: readable by others, and only one name for the same rows."""

import pytest

from mqcore.spark.pipelines import layout
from mqcore.spark.pipelines.spans import Span


@pytest.mark.parametrize(
    ("topic", "directory"),
    [
        ("orders", "orders"),
        ("%RETRY%group", "%25RETRY%25group"),
        ("a/b", "a%2Fb"),
        ("a=b", "a%3Db"),
        ("2013", "2013"),
    ],
)
def test_a_topic_is_in_its_directory_and_comes_back(topic: str, directory: str) -> None:
    path = layout.part_path(topic, "2026-11-22", "s", 3)
    assert path == f"topic={directory}/dt=2026-11-22/s-0003.parquet"
    assert layout.unescaped(layout.escaped(topic)) == topic


def test_days_are_those_of_utc() -> None:
    assert layout.date_text(0) == "1970-01-01"
    assert layout.date_text(20_779) == "2026-11-22"


def test_a_stem_names_what_was_read() -> None:
    stem = layout.stem_of([Span("store:a", 5, 1_000)])
    assert stem.startswith("store_a-00000000000000000005-00000000000000001000-")


def test_other_spans_have_another_stem_where_names_are_cleaned_alike() -> None:
    assert layout.stem_of([Span("store:a/b", 0, 9)]) != layout.stem_of([Span("store:a_b", 0, 9)])
    assert layout.stem_of([Span("x" * 300 + "1", 0, 9)]) != layout.stem_of(
        [Span("x" * 300 + "2", 0, 9)]
    )
    assert len(layout.stem_of([Span("x" * 300, 0, 9)])) < 200


def test_commits_are_sorted_by_their_names() -> None:
    names = [layout.commit_path(number) for number in (1, 2, 10, 100)]
    assert names == sorted(names)
