"""Whether a change of roles leaves memory behind: three brokers under traffic, elected in turn.

    cd tests && python -m soak.roles --rounds 30 --rate 500

Every round has another master; prints the anonymous memory of each broker after each round, by the
kind of its maps, and what a round adds. Knows `/proc`, and what `run.py` knows.
"""

import argparse
import logging
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from faults.failovers import elect
from faults.rounds import pass_s
from faults.trio import Trio, trio
from soak.ledger import Ledger
from soak.run import APP, KEYS, ROOT, prepare
from soak.samples import occupied
from soak.traffic import NAMES, Traffic

_MIB: Final = 1 << 20
# What a new master and its slaves do at first is over after this.
_SETTLE_S: Final = 4.0
# Rounds in which everybody has each role for the first time.
_FIRST_ROUNDS: Final = 6
# glibc has its arenas in maps that begin at a multiple of this.
_ARENA_BYTES: Final = 64 * _MIB
_MAP: Final = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \S+ *(.*)$")


def kinds_of(smaps: str) -> dict[str, int]:
    """Returns the resident anonymous bytes of a process by the kind of its maps.

    `heap` is the main arena of the allocator, `arenas` the others, `maps` everything else without
    a name: Python's objects, stacks, large buffers. `files` are private pages of mapped files.
    """
    found: dict[str, int] = defaultdict(int)
    kind = ""
    for line in smaps.splitlines():
        if (head := _MAP.match(line)) is not None:
            begin, name = int(head[1], 16), head[3]
            if name == "[heap]":
                kind = "heap"
            elif name.startswith("/"):
                kind = "files"
            else:
                is_arena = begin % _ARENA_BYTES == 0 and not name
                kind = "arenas" if is_arena else "maps"
        elif line.startswith("Anonymous:"):
            found[kind] += int(line.split()[1]) * 1_024
    return dict(found)


def look(all_: Trio) -> dict[str, dict[str, int]]:
    """Returns what each broker occupies."""
    rows = {}
    for name, pid in sorted(all_.pids().items()):
        total = occupied(pid)
        if total is None or not name.startswith("broker"):
            continue
        smaps = Path(f"/proc/{pid}/smaps").read_text(encoding="ascii", errors="replace")
        rows[name] = {"all": int(total["memory"]), **kinds_of(smaps)}
    return rows


def change_roles(
    root: Path, rounds: int, rate: float, keys: Mapping[str, str]
) -> Iterator[tuple[str, dict[str, dict[str, int]]]]:
    """Gives who became master, and what each broker occupies behind it, round by round.

    Args:
        root: A directory of its own.
        rounds: How many elections.
        rate: Messages a second meanwhile.
        keys: Settings of the brokers over those of the soak.
    """
    ledger = Ledger(NAMES, ordered=())
    with trio(root, keys={**KEYS, **keys}, who=ROOT) as all_:
        prepare(all_)
        with Traffic(all_.namesrv_addresses, all_.find_master, APP, ledger, rate) as traffic:
            for number in range(rounds):
                wanted = all_.members[number % len(all_.members)]
                elect(all_, wanted)
                all_.wait_until_in_sync()
                pass_s(_SETTLE_S)
                yield all_.master().name, look(all_)
            traffic.rest()
    ledger.close()


def main() -> None:
    """Runs it, prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--rate", type=float, default=500.0, help="messages a second")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    line = parser.parse_args()
    # Clients log at each election that they look for the master.
    logging.basicConfig(level=logging.CRITICAL)
    keys = dict(each.split("=", 1) for each in line.set)
    series: dict[str, list[int]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="roles-") as directory:
        for number, (master, rows) in enumerate(
            change_roles(Path(directory), line.rounds, line.rate, keys)
        ):
            shown = []
            for name, kinds in rows.items():
                series[name].append(kinds["all"])
                parts = " ".join(f"{kind} {size / _MIB:.1f}" for kind, size in kinds.items())
                shown.append(f"{name}: {parts}")
            print(f"{number:3} {master} | " + " | ".join(shown), flush=True)
    for name, sizes in series.items():
        late = sizes[_FIRST_ROUNDS:]
        if len(late) > 1:
            per_round = np.polyfit(np.arange(len(late)), np.array(late), 1)[0]
            print(f"{name}: {per_round / 1_024:.1f} KiB a round, of {len(late)} rounds")


if __name__ == "__main__":
    main()
