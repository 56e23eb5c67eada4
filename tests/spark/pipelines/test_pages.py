"""Charts and pages: marks where the numbers are, texts escaped, nothing outside of the page."""

import dataclasses
import re
import sys
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from mqcore.spark.pipelines.charts import Series, bars, heat_map, lines, stacked_bars, ticks_to
from mqcore.spark.pipelines.errors import PipelineError
from mqcore.spark.pipelines.page import page
from mqcore.spark.pipelines.pictures import PALETTE
from mqcore.spark.pipelines.scales import bytes_text, count_text, duration_text
from mqcore.spark.pipelines.traffic import (
    GroupLag,
    QueueTraffic,
    SizeClass,
    TimeSlice,
    Traffic,
    bucket_for,
    grouped,
)
from mqcore.spark.pipelines.traffic_page import traffic_page

SVG = "{http://www.w3.org/2000/svg}"
HOUR_MS = 3_600_000
BEGIN_MS = 1_795_312_800_000 // HOUR_MS * HOUR_MS


def parsed(chart: str) -> ElementTree.Element:
    return ElementTree.fromstring(chart[: chart.index("</svg>") + 6])


def sliced(topic: str, hour: int, messages: int) -> TimeSlice:
    return TimeSlice(
        topic=topic,
        begin_ms=BEGIN_MS + hour * HOUR_MS,
        messages=messages,
        body_bytes=messages * 100,
        median_ms=2.0,
        p99_ms=30.0,
        max_ms=400.0,
    )


def traffic(topics: int = 2) -> Traffic:
    names = [f"topic-{number}" for number in range(topics)]
    return Traffic(
        bucket_ms=HOUR_MS,
        slices=[sliced(name, hour, 60) for name in names for hour in (0, 2)],
        queues=[
            QueueTraffic(
                topic=name,
                host="h:1",
                queue_id=queue_id,
                messages=40 + 40 * queue_id,
                body_bytes=4_000,
                first_offset=0,
                last_offset=99,
            )
            for name in names
            for queue_id in (0, 1)
        ],
        sizes=[SizeClass(topic=name, bound_bytes=128, messages=120) for name in names],
        lags=[GroupLag(group="<billing>", topic=names[0], queues=2, lag=7, worst_queue=5)],
    )


@pytest.mark.parametrize("maximum", [0.3, 1, 7, 99, 100, 101, 12_345, 5e9])
@pytest.mark.parametrize("is_binary", [False, True])
def test_ticks_are_even_and_reach_the_maximum(maximum: float, is_binary: bool) -> None:
    ticks = ticks_to(maximum, is_binary=is_binary)
    steps = {round(after - before, 6) for before, after in pairwise(ticks)}
    assert (ticks[0], len(steps)) == (0, 1)
    assert ticks[-1] >= maximum
    assert len(ticks) <= 7
    assert ticks_to(0) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (count_text(950), "950"),
        (count_text(9_999), "9,999"),
        (count_text(12_345), "12.3 k"),
        (count_text(1.5), "1.5"),
        (bytes_text(1_536), "1.5 KiB"),
        (bytes_text(0), "0 B"),
        (duration_text(0.25), "0.25 ms"),
        (duration_text(1_500), "1.5 s"),
        (duration_text(7_200_000), "2 h"),
    ],
)
def test_numbers_read_as_people_read_them(shown: str, expected: str) -> None:
    assert shown == expected


def titled(chart: ElementTree.Element) -> dict[str, ElementTree.Element]:
    """The marks of a chart by their titles."""
    marks = [(mark.find(f"{SVG}title"), mark) for mark in chart.iter() if mark.get("class")]
    return {title.text or "": mark for title, mark in marks if title is not None}


def heights(mark: ElementTree.Element) -> tuple[float, float]:
    """The top and the bottom of a bar's outline, downwards."""
    numbers = [float(text) for text in re.findall(r"-?[\d.]+", mark.get("d", ""))]
    return min(numbers[1::2]), max(numbers[1::2])


def test_bars_are_stacked_and_are_as_high_as_they_count() -> None:
    chart = stacked_bars(["a", "b"], [Series("x", [1, 2]), Series("y", [3, None])])
    marks = titled(parsed(chart))
    assert marks.keys() == {"x, a: 1", "x, b: 2", "y, a: 3"}
    high = {title: heights(mark)[1] - heights(mark)[0] for title, mark in marks.items()}
    assert high["x, b: 2"] == pytest.approx(2 * high["x, a: 1"], abs=0.2)
    assert heights(marks["y, a: 3"])[1] == pytest.approx(heights(marks["x, a: 1"])[0], abs=0.2)


def test_a_line_is_broken_where_nothing_is_known() -> None:
    chart = parsed(lines(["a", "b", "c", "d"], [Series("x", [1, None, 2, 3])]))
    outlines = [path.get("d", "") for path in chart.iter(f"{SVG}path") if not path.get("class")]
    broken = [re.sub(r"[-\d.\s]+", "", outline) for outline in outlines]
    assert "MML" in broken
    assert titled(chart).keys() == {"x, a: 1", "x, c: 2", "x, d: 3"}


def test_names_are_escaped_and_shortened() -> None:
    chart = bars(["<script>", "x" * 200], [1.0, 2.0])
    assert "<script>" not in chart
    texts = [text.text or "" for text in parsed(chart).findall(f".//{SVG}text")]
    assert any(text.endswith("…") and len(text) < 60 for text in texts)


def test_cells_are_stronger_where_values_are_larger() -> None:
    cells = titled(parsed(heat_map(["a"], ["1", "2", "3"], [[1.0, 10.0, None]])))
    assert cells.keys() == {"a, 1: 1", "a, 2: 10"}

    def opacity(title: str) -> float:
        found = re.search(r"fill-opacity: ([\d.]+)", cells[title].get("style", ""))
        return float(found[1]) if found is not None else 1.0

    assert opacity("a, 1: 1") < opacity("a, 2: 10")


def test_charts_have_the_colours_of_the_page_alone() -> None:
    series = [Series(f"s{number}", [1, 2]) for number in range(12)]
    for chart in (
        stacked_bars(["a", "b"], series),
        lines(["a", "b"], series),
        bars(["a"], [1.0]),
        heat_map(["a"], ["1"], [[-2.0]]),
    ):
        assert not re.search(r"#[0-9a-fA-F]{3,6}\b(?!\))", re.sub(r'"#\w+"|url\(#\w+\)', "", chart))
        assert "var(--" in chart
        assert "font-family" not in chart
    assert set(PALETTE) <= set(re.findall(r"--([\w-]+):", page("t", "", [], [])))


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(PipelineError, match=r"pip install 'mqcore\[report\]'"):
        bars(["a"], [1.0])


def test_figures_follow_from_what_was_counted() -> None:
    found = traffic()
    assert (found.messages, found.body_bytes) == (240, 16_000)
    assert found.times_ms == [BEGIN_MS, BEGIN_MS + HOUR_MS, BEGIN_MS + 2 * HOUR_MS]
    assert found.peak_per_s == pytest.approx(120 / 3_600)
    assert found.skew("topic-0") == pytest.approx(80 * 2 / 120)
    assert bucket_for(0, 90_000) == 1_000
    assert bucket_for(0, 90 * HOUR_MS) == HOUR_MS
    assert bucket_for(0, 10**15) == 86_400_000
    assert grouped("abc", 3) == (["a", "b", "c"], [])
    assert grouped("abcd", 3) == (["a", "b"], ["c", "d"])


def test_numbers_of_tiles_and_tables_are_alike() -> None:
    found = traffic(1)
    slices = [dataclasses.replace(one, messages=one.messages * 10**7) for one in found.slices]
    queues = [dataclasses.replace(one, messages=one.messages * 10**7) for one in found.queues]
    lags = [dataclasses.replace(one, lag=12_345_678) for one in found.lags]
    large = dataclasses.replace(found, slices=slices, queues=queues, lags=lags)
    html = traffic_page(large, title="t", source="store:/s", made_ms=BEGIN_MS)
    cells = re.findall(r"<(?:b|td)[^>]*>([^<]+)</", html)
    # In a tile and in a table each.
    for shown in ("1,200,000,000", "166,666.7", "12,345,678"):
        assert cells.count(shown) == 2, shown
    assert not [cell for cell in cells if re.search(r"\d [kMGT]$", cell)]


@pytest.mark.parametrize("topics", [1, 2, 30])
def test_a_page_needs_nothing_from_outside(topics: int) -> None:
    found = traffic(topics)
    html = traffic_page(found, title="A & B", source="store:/s", made_ms=BEGIN_MS)
    assert "A &amp; B" in html
    assert "&lt;billing&gt;" in html
    assert not re.search(r'(src|href)="(?!#)', html)
    for chart in re.findall(r"<svg.*?</svg>", html, re.DOTALL):
        ElementTree.fromstring(chart)
    if topics > 9:
        assert "22 more" in html
