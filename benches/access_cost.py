"""What access control costs: our broker with it beside ours without, in one run and in turns.

Three brokers: one that checks nothing, one that checks signatures, one that checks signatures and
rights. The generator signs each request; a send that is sent again and again it signs once, so
that what is measured is the broker. Prints the table and writes
`target/mqcore-benches/access_cost.json`. `MQCORE_BENCH=quick` loads for shorter.

Knows no official broker.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from peer_brokers import IS_QUICK, MACHINE, TARGET, ours
from peer_rows import Report, Row, measured, processor_us, rate
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from peer_brokers import Peer

OUT = TARGET / "mqcore-benches" / "access_cost.json"
USER, SECRET = "load", "load-secret"
SIGNED = ("--access-key", USER, "--secret-key", SECRET)
# Pairs of which the middle ratio is a row.
ROUNDS = 3 if IS_QUICK else 7
# What a round of pulls reads, by each of eight connections.
PULLED = 100_000 if IS_QUICK else 400_000
# Connections, and requests in flight on each; the throughput that is to be left.
SENDS = ((64, 1, 0.95), (8, 32, 0.85))
# What is to be left of it when rights are checked beside signatures.
DECISIONS_LEAST = 0.98


@dataclass(frozen=True)
class Guarded:
    """The three brokers.

    Attributes:
        plain: Checks nothing.
        authenticated: Checks signatures.
        authorized: Checks signatures and rights.
    """

    plain: Peer
    authenticated: Peer
    authorized: Peer

    def in_turns(
        self, load: Callable[[Peer, tuple[str, ...]], Report]
    ) -> tuple[list[Report], list[Report], list[Report]]:
        """Loads all, round by round, each in another order; nothing dirty is left in between."""
        found: dict[str, list[Report]] = {"plain": [], "authenticated": [], "authorized": []}
        for number in range(ROUNDS):
            names = list(found)
            for name in names[number % 3 :] + names[: number % 3]:
                os.sync()
                # The plain one is sent the same bytes: it reads a signature, and checks none.
                found[name].append(load(getattr(self, name), SIGNED))
        return found["plain"], found["authenticated"], found["authorized"]


def middle(name: str, ours_: list[Report], other: list[Report], goal: float) -> Row:
    """The pair whose ratio is the middle one, as a row."""
    pairs = sorted(zip(ours_, other, strict=True), key=lambda pair: rate(pair[0]) / rate(pair[1]))
    one, beside = pairs[len(pairs) // 2]
    return Row(f"{name}: messages/s", rate(one), rate(beside), f">= {goal}", goal)


def rows_of(
    name: str, reports: tuple[list[Report], list[Report], list[Report]], goal: float
) -> Iterator[Row]:
    """What signatures and rights leave of a throughput; what rights alone leave; CPU of both."""
    plain, authenticated, authorized = reports
    yield middle(f"{name}, signatures and rights beside none", authorized, plain, goal)
    yield middle(f"{name}, rights beside signatures", authorized, authenticated, DECISIONS_LEAST)
    used = [median(map(processor_us, each)) for each in (authorized, plain)]
    yield Row(f"{name}: broker us/message", used[0], used[1], "shown", float("inf"), is_upper=True)


def sent(connections: int, outstanding: int) -> Callable[[Peer, tuple[str, ...]], Report]:
    """Sends of 1 KB."""

    def load(peer: Peer, signed: tuple[str, ...]) -> Report:
        return peer.produce("sent", "-c", connections, "-w", outstanding, *signed)

    return load


def pulled(peer: Peer, signed: tuple[str, ...]) -> Report:
    """Eight readers of what is in memory, with a pull in flight for each of 32 queues."""
    topic = ("--queues", 32)
    if "pulled" not in peer.topics:
        made = ("-c", 8, "-w", 32, "--size", 128, "--count", PULLED, *signed)
        peer.load("produce", "pulled", *topic, *made)
    load = ("-c", 8, "--until-end", "--seconds", 60, *signed)
    return peer.load("consume", "pulled", *topic, *load)


def rows(scratch: Path) -> Iterator[Row]:
    """Every row as it is measured."""
    both = {"authenticationEnabled": "true", "authorizationEnabled": "true"}
    with ExitStack() as stack:

        def started(name: str, more: dict[str, object]) -> Peer:
            home = scratch / name
            running = ours(home, "ASYNC_FLUSH", more=more, before=lambda: with_user(home))
            return stack.enter_context(running)

        guarded = Guarded(
            started("plain", {}),
            started("authenticated", {"authenticationEnabled": "true"}),
            started("authorized", dict(both)),
        )
        for connections, outstanding, goal in SENDS:
            reports = guarded.in_turns(sent(connections, outstanding))
            yield from rows_of(f"{connections} x {outstanding}, 1 KB", reports, goal)
        reports = guarded.in_turns(pulled)
        yield from rows_of("pulls, 8 x 32, 128 B", reports, SENDS[1][2])


def with_user(home: Path) -> None:
    """Writes the files of a user that may do what the generator does, and no more."""
    folder = home / "store" / "config"
    folder.mkdir(parents=True)
    user = {"username": USER, "password": SECRET, "userType": "Normal", "userStatus": "enable"}
    entries = [
        {"resource": resource, "actions": actions, "decision": "Allow"}
        for resource, actions in (
            ("Topic:*", ["Pub", "Sub", "Get", "Create"]),
            ("Group:*", ["Sub", "Get"]),
        )
    ]
    policies = [{"policyType": "Custom", "entries": entries}]
    acl = {"subject": f"User:{USER}", "policies": policies}
    for name, key, row in (("users.json", "users", user), ("acls.json", "acls", acl)):
        path = folder / name
        path.write_text(json.dumps({key: [row]}), encoding="utf-8")
        path.chmod(0o600)


def main() -> None:
    """Measures, prints, writes."""
    found = measured(rows, OUT)
    table = Table(title=f"access control on beside off, {MACHINE}")
    for column in ("what", "reached", "beside", "ratio", "goal", ""):
        table.add_column(column, justify="left" if column in ("what", "goal") else "right")
    for row in found:
        figures = (f"{row.ours:,.1f}", f"{row.other:,.1f}", f"{row.ratio:.3f}")
        table.add_row(row.name, *figures, row.goal, "missed" if row.is_missed else "")
    Console(width=None if sys.stdout.isatty() else 150).print(table)


if __name__ == "__main__":
    main()
