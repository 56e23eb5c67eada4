"""Tables, cards and JSON: what commands print, for a person or for a pipe.

Knows nothing of what the cells mean. Without a terminal there are no colours, and lines are as long
as they have to be.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = [
    "console",
    "print_json",
    "print_pairs",
    "print_table",
    "size_text",
    "table_of",
    "time_text",
]

# A pipe has no width: nothing is cut or wrapped.
_PIPE_COLUMNS = 10_000
_MS_PER_S = 1_000
_KIB = 1_024


def console(*, stderr: bool = False) -> Console:
    """Returns a console that prints what it is given: no markup, no guessing of colours."""
    made = Console(stderr=stderr, markup=False, highlight=False, soft_wrap=False)
    if not made.is_terminal:
        made.width = _PIPE_COLUMNS
    return made


def print_json(value: Any) -> None:
    """Prints a value as one line of JSON."""
    click.echo(json.dumps(value, ensure_ascii=False))


def table_of(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None
) -> Table:
    """Returns a table; numbers are at the right.

    Args:
        columns: The heads.
        rows: The cells.
        title: Printed above it.
    """
    shown = [list(row) for row in rows]
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for at, name in enumerate(columns):
        is_number = bool(shown) and all(isinstance(row[at], int | float) for row in shown)
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in shown:
        table.add_row(*(_cell(value) for value in row))
    return table


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    empty: str = "nothing",
) -> None:
    """Prints a table; one line of words where there is no row.

    Args:
        columns: The heads.
        rows: The cells.
        title: Printed above it.
        empty: What to print instead of an empty table.
    """
    shown = list(rows)
    if not shown:
        console().print(f"{title}: {empty}" if title else empty)
        return
    console().print(table_of(columns, shown, title=title))


def print_pairs(pairs: Mapping[str, object]) -> None:
    """Prints names and values, one pair per line."""
    width = max(map(len, pairs), default=0)
    out = console()
    for name, value in pairs.items():
        out.print(Text.assemble((f"{name:<{width}}  ", "dim"), _cell(value)))


def time_text(time_ms: int) -> str:
    """Returns a time for people: UTC to the millisecond; a dash for none."""
    if time_ms <= 0:
        return "-"
    at = datetime.fromtimestamp(time_ms / _MS_PER_S, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{time_ms % _MS_PER_S:03d}Z"


def size_text(len_bytes: int) -> str:
    """Returns a number of bytes for people: 950 B, 1.5 KiB, 64.0 MiB."""
    size = float(len_bytes)
    for unit in ("B", "KiB", "MiB"):
        if size < _KIB:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= _KIB
    return f"{size:.1f} GiB"


def _cell(value: object) -> Text:
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, float):
        return Text(f"{value:,.1f}")
    if isinstance(value, int):
        return Text(f"{value:,}")
    return Text(str(value))
