"""`mqcore broker memory`: what a running broker and its store occupy, and what holds its memory.

Of a process or a directory of this machine the kernel is asked, also beside a broker that no longer
answers; of an address or a broker's name the broker itself, which also knows what holds its memory.
"""

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mqcore.cli.cluster import Cluster, cluster_options

if TYPE_CHECKING:
    from mqcore.admin import Admin, FilePart, Held, Occupied

__all__ = ["memory"]

_BAR: Final = 24
# A blank, and blocks of one eighth to eight.
_SHADES: Final = " " + "".join(map(chr, range(0x2581, 0x2589)))
_PER_CENT: Final = 100
# Fits `about 1023.9 MiB`.
_HELD_WIDTH: Final = 18
# Log files that are printed one by one, the newest.
_FILES_SHOWN: Final = 16
_CLEAR: Final = "\x1b[2J\x1b[H"


@click.command()
@click.argument("target", default="~/store")
@click.option(
    "--watch",
    "watch_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    help="Again every so many seconds, until Ctrl-C.",
)
@cluster_options
def memory(cluster: Cluster, target: str, watch_s: float | None) -> None:
    """Print what a running broker and its store occupy.

    TARGET is the broker's process number, the directory of its store, its address (HOST:PORT) or
    its name: of the last two the broker itself is asked, over the network, and also what holds its
    memory is printed.
    """
    try:
        while True:
            found = _found(cluster, target)
            if cluster.as_json:
                click.echo(json.dumps(found.to_json()))
            else:
                is_screen = watch_s is not None and sys.stdout.isatty()
                text = "\n".join(text_lines(found))
                click.echo(_CLEAR + text if is_screen else text)
            if watch_s is None:
                return
            threading.Event().wait(watch_s)
    except KeyboardInterrupt:
        return


def _found(cluster: Cluster, target: str) -> "Occupied":
    """Returns what the target occupies.

    Raises:
        MQError: There is no such process, store or broker, or it does not answer.
    """
    from mqcore.occupancy import holder_of, occupied, store_of

    if target.isdecimal():
        pid = int(target)
        return occupied(pid, store_of(pid))
    store = Path(target).expanduser()
    if "/" in target or target.startswith("~") or store.is_dir():
        store = store.resolve()
        return occupied(holder_of(store), store)

    async def work(admin: "Admin") -> "Occupied":
        return await admin.brokers.memory(await _address(admin, target))

    return cluster.ask(work)


async def _address(admin: "Admin", target: str) -> str:
    """Returns the address that a target is, or that of the master of its name.

    Raises:
        UsageError: Name servers know no such name.
    """
    if ":" in target:
        return target
    known = (await admin.brokers.cluster()).brokers
    by_id = known.get(target, {})
    if not by_id:
        names = ", ".join(sorted(known)) or "none"
        raise click.UsageError(f"name servers know no broker {target}; they know: {names}")
    return by_id.get(0) or next(iter(by_id.values()))


def text_lines(facts: "Occupied") -> Iterator[str]:
    """Yields the facts as lines for people."""
    yield (
        f"process {facts.pid}, {facts.threads} threads, {facts.descriptors} descriptors, "
        f"store {facts.store or 'none'}"
    )
    top = facts.process.get("VmRSS", 0)
    yield from (
        _bar_row(name, size, top if name.startswith(("Rss", "VmRSS")) else 0)
        for name, size in facts.process.items()
    )
    if facts.faults:
        minor, major = facts.faults["minor"], facts.faults["major"]
        yield f"  page faults    {minor:,} without a read, {major:,} with one"
    if facts.limit:
        bound = facts.limit.get("max", 0)
        bound_text = _size(bound) if bound else "no limit"
        yield f"  control group  {_size(facts.limit['current'])} of {bound_text}"
    if facts.held:
        yield from _held_lines(facts)
    yield _row("memory of the process", "maps", "mapped", "resident", "locked", "swapped")
    for each in (*facts.heap, facts.libraries, *facts.store_files):
        sizes = [each.mapped, each.resident, each.locked, each.swapped]
        yield _row(each.name, str(each.maps), *map(_size, sizes))
    if facts.large:
        large = ", ".join(_size(each.mapped) for each in facts.large)
        yield f"  anonymous maps of 64 MiB and more (locked ones are the pool's): {large}"
    if facts.page_cache:
        yield from _file_lines(facts.page_cache)
    yield "machine"
    whole = facts.machine.get("MemTotal", 0)
    yield from (_bar_row(name, size, whole) for name, size in facts.machine.items())


def _held_lines(facts: "Occupied") -> Iterator[str]:
    """Yields what holds the anonymous memory; what holds nothing is left out."""
    anonymous = facts.process.get("RssAnon", 0)
    yield _held_row("what holds RssAnon", "count", "bytes")
    for each in facts.held:
        if each.bytes and not each.part_of:
            yield from _owner_lines(each, facts.held, anonymous)
    for name, size in (("accounted", facts.accounted_bytes), ("rest", facts.rest_bytes)):
        yield _held_row(name, "", _size(size), bar=_bar(size, anonymous))


def _owner_lines(owner: "Held", all_held: "Sequence[Held]", whole: int) -> Iterator[str]:
    about = "" if owner.is_measured else "about "
    count = "" if owner.count is None else f"{owner.count:,}"
    yield _held_row(
        owner.owner, count, f"{about}{_size(owner.bytes)}", bar=_bar(owner.bytes, whole)
    )
    for each in all_held:
        if each.part_of == owner.owner and each.count:
            yield _held_row(
                f"  of them {each.owner}", f"{each.count:,}", f"about {_size(each.bytes)}"
            )


def _file_lines(parts: "Sequence[FilePart]") -> Iterator[str]:
    yield _row("page cache of the store", "files", "length", "resident", "on disk")
    logs = [each for each in parts if each.strip]
    hidden = set(map(id, logs[:-_FILES_SHOWN]))
    if hidden:
        yield f"  {len(hidden)} older log files are in --json"
    for part in parts:
        if id(part) not in hidden:
            sizes = [part.length, part.resident, part.on_disk]
            strip = f"  [{''.join(map(_shade, part.strip))}]" if part.strip else ""
            yield _row(part.part, str(part.files), *map(_size, sizes), bar=strip)


def _shade(per_cent: int) -> str:
    """Returns a sign for how much of a part is in memory: a blank for nothing."""
    return _SHADES[-(-per_cent * (len(_SHADES) - 1) // _PER_CENT)]


def _bar(size: int, whole: int) -> str:
    """Returns a bar for a part of a whole; nothing without one."""
    if not whole:
        return ""
    filled = min(_BAR, round(size * _BAR / whole))
    return "  " + "\N{FULL BLOCK}" * filled + "\N{LIGHT SHADE}" * (_BAR - filled)


def _bar_row(name: str, size: int, whole: int) -> str:
    return f"  {name:<14}{_size(size):>12}{_bar(size, whole)}"


def _row(name: str, *cells: str, bar: str = "", width: int = 12) -> str:
    return f"  {name:<42}" + "".join(f"{cell:>{width}}" for cell in cells) + bar


def _held_row(name: str, *cells: str, bar: str = "") -> str:
    return _row(name, *cells, bar=bar, width=_HELD_WIDTH)


def _size(len_bytes: int) -> str:
    from mqcore.cli.tables import size_text

    return size_text(len_bytes)
