"""Charts and pages: marks where the numbers are, texts escaped, nothing outside of the page."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from mqcore.spark.pipelines.charts import Series, bars, heat_map, lines, stacked_bars
from mqcore.spark.pipelines.scales import bytes_text, count_text, duration_text, ticks_to
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


def test_bars_are_stacked_and_are_as_high_as_they_count() -> None:
    chart = stacked_bars(["a", "b"], [Series("x", [1, 2]), Series("y", [3, None])])
    rects = parsed(chart).findall(f".//{SVG}rect")
    heights = {rect.find(f"{SVG}title").text: float(rect.get("height", "")) for rect in rects}  # type: ignore[union-attr]
    assert heights.keys() == {"x, a: 1", "x, b: 2", "y, a: 3"}
    assert heights["x, b: 2"] == pytest.approx(2 * heights["x, a: 1"], abs=0.2)
    by_title = {rect.find(f"{SVG}title").text: rect for rect in rects}  # type: ignore[union-attr]
    low, high = by_title["x, a: 1"], by_title["y, a: 3"]
    bottom = float(high.get("y", "")) + float(high.get("height", ""))
    assert bottom == pytest.approx(float(low.get("y", "")), abs=0.2)


def test_a_line_is_broken_where_nothing_is_known() -> None:
    chart = parsed(lines(["a", "b", "c", "d"], [Series("x", [1, None, 2, 3])]))
    (path,) = chart.findall(f".//{SVG}path")
    assert re.sub(r"[\d. ]+", "", path.get("d", "")) == "MML"
    assert len(chart.findall(f".//{SVG}circle")) == 3


def test_names_are_escaped_and_shortened() -> None:
    chart = bars(["<script>", "x" * 200], [1.0, 2.0])
    assert "<script>" not in chart
    texts = [text.text or "" for text in parsed(chart).findall(f".//{SVG}text")]
    assert any(text.endswith("…") and len(text) < 60 for text in texts)


def test_cells_are_stronger_where_values_are_larger() -> None:
    chart = parsed(heat_map(["a"], ["1", "2", "3"], [[1.0, 10.0, None]]))
    cells = [rect for rect in chart.findall(f".//{SVG}rect") if "cell" in rect.get("class", "")]
    assert len(cells) == 2
    assert float(cells[0].get("fill-opacity", "")) < float(cells[1].get("fill-opacity", ""))


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


@pytest.mark.parametrize("topics", [1, 2, 30])
def test_a_page_needs_nothing_from_outside(topics: int) -> None:
    found = traffic(topics)
    html = traffic_page(found, title="A & B", source="store:/s", made_ms=BEGIN_MS)
    assert "A &amp; B" in html
    assert "&lt;billing&gt;" in html
    assert not re.search(r'(src|href)="', html)
    for chart in re.findall(r"<svg.*?</svg>", html, re.DOTALL):
        ElementTree.fromstring(chart)
    if topics > 9:
        assert "22 more" in html
