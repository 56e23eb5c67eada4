"""`mqcore audit`: who changed what and who was refused, from files or asked of servers.

What lines are and how they are checked is in `mqcore.audit`; here is what is typed and printed.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mqcore.cli.cluster import Cluster, cluster_options

if TYPE_CHECKING:
    from mqcore.admin import Admin
    from mqcore.audit import AuditReader, Checked, Ending, Wanted

_Command = Callable[..., Any]

_EXIT_FINDING = 1
# Between two looks for new lines.
_FOLLOW_S = 1.0
_FILE_NAME = "audit.log"
_DIRECTORY_NAME = "audit"
_PAGE = 500
_MEMBERS = ("before", "after")

_path = click.argument(
    "path", metavar="[PATH]", required=False, type=click.Path(exists=True, path_type=Path)
)
_server = click.option(
    "-b",
    "--server",
    "servers",
    metavar="HOST:PORT",
    multiple=True,
    help="Ask this broker, name server or controller; all brokers without it and without PATH.",
)


@click.group()
def audit() -> None:
    """Who changed what at servers, and who was refused.

    PATH is the file of an audit, or a directory with it: that of a store will do. Without PATH
    servers are asked, as a Super user where they have access control.
    """


def _filters(command: _Command) -> _Command:
    for name, text in (
        ("until", "Before this time."),
        ("since", "From this time on, UTC: 2026-05-01, or 2026-05-01T10:00."),
        ("event", "The event: change, asked, refused, missed, torn."),
        ("outcome", "done, refused or failed."),
        ("resource", "A part of what it is about, such as Topic:orders."),
        ("request", "The request, by name or number."),
        ("user", "The user, or the name of the certificate."),
        ("text", "A part of the line."),
    ):
        command = click.option(f"--{name}", default="", metavar="TEXT", help=text)(command)
    return command


@audit.command()
@_path
@_server
@click.option(
    "--expect",
    metavar="NUMBER:HASH",
    help="A line that must be there as it was: what an earlier check has printed.",
)
@cluster_options
def verify(
    cluster: Cluster, path: Path | None, servers: tuple[str, ...], expect: str | None
) -> None:
    """Check that no line was taken out or changed.

    The exit code is 0 where every line follows from the one before, 1 where one does not. That the
    end was cut off shows by --expect alone: keep what is printed elsewhere.
    """
    expected = _ending(expect)
    if path is not None:
        found = {str(path): _check_of(_reader(path).check(expected))}
    else:
        found = cluster.ask(lambda admin: _checks(admin, servers, expected))
    is_whole = True
    for where, check in found.items():
        is_whole = is_whole and check["isWhole"]
        if cluster.as_json:
            click.echo(json.dumps({"at": where, **check}))
        else:
            for line in _check_lines(where, check):
                click.echo(line)
    if not is_whole:
        sys.exit(_EXIT_FINDING)


@audit.command()
@_path
@_server
@click.option("-c", "--count", default=20, show_default=True, type=click.IntRange(1, _PAGE))
@click.option("-f", "--follow", is_flag=True, help="Go on with lines that come; ends with Ctrl-C.")
@cluster_options
def tail(
    cluster: Cluster, path: Path | None, servers: tuple[str, ...], count: int, *, follow: bool
) -> None:
    """Print the last lines, the newest last."""
    from mqcore.audit import Wanted

    _print(cluster, path, servers, Wanted(), count, follow=follow)


@audit.command()
@_path
@_server
@click.option("-c", "--count", default=100, show_default=True, type=click.IntRange(1, 100_000))
@_filters
@cluster_options
def search(
    cluster: Cluster, path: Path | None, servers: tuple[str, ...], count: int, **filters: str
) -> None:
    """Print the last lines that match all that is given, the newest last.

    The exit code is 1 where there is none.
    """
    from mqcore.audit import Wanted

    if not _print(cluster, path, servers, Wanted(**filters), count, follow=False):
        sys.exit(_EXIT_FINDING)


def _print(
    cluster: Cluster,
    path: Path | None,
    servers: tuple[str, ...],
    wanted: "Wanted",
    count: int,
    *,
    follow: bool,
) -> int:
    """Prints lines; returns how many."""
    if path is not None:
        reader = _reader(path)
        return asyncio.run(_from_file(cluster, reader, wanted, count, follow=follow))
    return cluster.ask(
        lambda admin: _from_servers(cluster, admin, servers, wanted, count, follow=follow)
    )


async def _from_file(
    cluster: Cluster, reader: "AuditReader", wanted: "Wanted", count: int, *, follow: bool
) -> int:
    rows: list[dict[str, Any]] = []
    before = 0
    while len(rows) < count:
        page = reader.page(wanted, rows_max=count - len(rows), before=before)
        rows += page.rows
        before = page.before
        if not before:
            break
    mark = _shown(cluster, "", reversed(rows), 0)
    while follow:
        await asyncio.sleep(_FOLLOW_S)
        fresh = [row for row in reader.page(wanted, rows_max=_PAGE).rows if _number(row) > mark]
        mark = _shown(cluster, "", reversed(fresh), mark)
    return len(rows)


async def _from_servers(
    cluster: Cluster,
    admin: "Admin",
    servers: tuple[str, ...],
    wanted: "Wanted",
    count: int,
    *,
    follow: bool,
) -> int:
    addresses = servers or tuple(await admin.audits.brokers())
    marks: dict[str, int] = {}
    total = 0
    for address in addresses:
        rows: list[dict[str, Any]] = []
        before = 0
        while len(rows) < count:
            page = await admin.audits.read(
                address, count=min(_PAGE, count - len(rows)), before=before, wanted=wanted
            )
            rows += page.lines
            before = page.before
            if not before:
                break
        total += len(rows)
        marks[address] = _shown(cluster, address, reversed(rows), 0)
    while follow:
        await asyncio.sleep(_FOLLOW_S)
        for address, mark in list(marks.items()):
            page = await admin.audits.read(address, count=_PAGE, wanted=wanted)
            fresh = [row for row in page.lines if _number(row) > mark]
            marks[address] = _shown(cluster, address, reversed(fresh), mark)
    return total


async def _checks(
    admin: "Admin", servers: tuple[str, ...], expected: "Ending | None"
) -> dict[str, dict[str, Any]]:
    addresses = servers or tuple(await admin.audits.brokers())
    if expected is not None and len(addresses) != 1:
        raise click.UsageError("--expect is about one audit: name its server with --server")
    found = {}
    for address in addresses:
        number, line_hash = (expected.number, expected.hash) if expected is not None else (0, "")
        check = asdict(await admin.audits.check(address, number=number, line_hash=line_hash))
        found[address] = {"isWhole": check.pop("is_whole"), **check}
    return found


def _check_of(check: "Checked") -> dict[str, Any]:
    return check.to_json()


def _check_lines(where: str, check: dict[str, Any]) -> Iterator[str]:
    yield f"{where}: {check['lines']} lines, {check['first']} to {check['last']}"
    for fault in check["faults"]:
        yield f"  {fault}"
    if check["missed"]:
        yield f"  {check['missed']} lines could not be written: they are in the server's log"
    if check["torn"]:
        yield f"  {check['torn']} lines were cut short by a crash, as the lines behind them say"
    if check["isWhole"]:
        yield "  every line follows from the one before"
    elif not check["faults"]:
        yield "  the line that was expected is not there as it was"
    if check["last"]:
        yield f"  keep elsewhere: {check['last']}:{check['hash']}"


def _ending(text: str | None) -> "Ending | None":
    if text is None:
        return None
    from mqcore.audit import Ending

    number, separator, line_hash = text.partition(":")
    if not separator or not number.isdecimal() or not line_hash:
        raise click.BadParameter(f"{text!r}: NUMBER:HASH is expected", param_hint="--expect")
    return Ending(int(number), line_hash)


def _reader(path: Path) -> "AuditReader":
    """Returns what reads the audit of a path: a file, its directory, or that of a store."""
    from mqcore.audit import AuditReader

    if path.is_file():
        return AuditReader(path)
    for each in (path / _FILE_NAME, path / _DIRECTORY_NAME / _FILE_NAME):
        if AuditReader(each).files:
            return AuditReader(each)
    raise click.BadParameter(f"{path} has no {_FILE_NAME}", param_hint="PATH")


def _number(row: dict[str, Any]) -> int:
    found = row.get("n")
    return found if isinstance(found, int) else 0


def _shown(cluster: Cluster, at: str, rows: Iterator[dict[str, Any]], mark: int) -> int:
    """Prints lines; returns the number of the last."""
    for row in rows:
        mark = max(mark, _number(row))
        if cluster.as_json:
            click.echo(json.dumps({"at": at, **row} if at else row))
        else:
            click.echo(_line(row))
    return mark


def _line(row: dict[str, Any]) -> str:
    who = row.get("user") or row.get("certificate") or "nobody"
    about = ", ".join(str(each) for each in row.get("resource") or ())
    parts = [
        str(row.get("time", "")),
        str(row.get("server", "")),
        str(row.get("event", "")),
        f"{who} from {row.get('address', '?')}",
        str(row.get("request", "")),
        about,
        str(row.get("outcome", "")),
        str(row.get("remark", "")),
    ]
    changed = [f"{name} {json.dumps(row[name])}" for name in _MEMBERS if row.get(name) is not None]
    return "  ".join(part for part in (*parts, *changed) if part)
