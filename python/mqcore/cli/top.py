"""`mqcore top`: topics, groups, slaves and refills with their rates and lag, again and again."""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import click

from mqcore.cli.cluster import Cluster, cluster_options, some_at_once
from mqcore.cli.lags import group_lag, lag_cell
from mqcore.cli.rates import Rates
from mqcore.clock import monotonic_ms
from mqcore.errors import MQError
from mqcore.model.groups import BUILTIN_GROUPS, SYSTEM_GROUP_PREFIX
from mqcore.model.topics import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_PREFIX

if TYPE_CHECKING:
    from rich.console import Group as Shown

    from mqcore.admin import Admin, ReplicationStatus

# Rows of each table on a terminal: what is busiest is on top.
_ROWS_MAX = 20


class _Watch:
    """Looks at a cluster; what it saw before makes the rates."""

    def __init__(self, admin: "Admin") -> None:
        self._admin = admin
        self._put: Rates[str] = Rates()
        self._got: Rates[str] = Rates()

    async def look(self) -> dict[str, Any]:
        """Returns topics, groups and slaves as they are now, the busiest first."""
        topics, groups, found = await asyncio.gather(
            self._topics(), self._groups(), self._replication()
        )
        return {
            "topics": topics,
            "groups": groups,
            "replicas": _replica_rows(found),
            "refills": _refill_rows(found),
        }

    async def _replication(self) -> "list[tuple[str, str, ReplicationStatus]]":
        """Returns name, address and replication of every broker that reports it."""
        cluster = await self._admin.brokers.cluster()
        known = [
            (name, address) for name, all_ in cluster.brokers.items() for address in all_.values()
        ]

        async def one(each: tuple[str, str]) -> "ReplicationStatus | None":
            try:
                return await self._admin.brokers.replication(each[1])
            except MQError:
                # A broker of 4.9 does not know the request; one that is gone is known for a while.
                return None

        found = zip(known, await some_at_once(known, one), strict=True)
        return [(*who, status) for who, status in found if status is not None]

    async def _topics(self) -> list[dict[str, Any]]:
        found = await self._admin.topics.all_configs()
        inner = await self._admin.topics.of_system()
        prefixes = (RETRY_PREFIX, SYSTEM_PREFIX, SYSTEM_GROUP_PREFIX)
        names = [name for name in found if name not in inner and not name.startswith(prefixes)]
        stats = await some_at_once(names, self._admin.topics.stats)
        ends = {each.topic: sum(row.max_offset for row in each.queues) for each in stats}
        rates = self._put.look(ends, monotonic_ms())
        rows = [
            {
                "topic": each.topic,
                "put_per_s": rates[each.topic],
                "messages": sum(row.count for row in each.queues),
                "queues": len(each.queues),
                "is_dead_letters": each.topic.startswith(DLQ_PREFIX),
            }
            for each in stats
        ]
        return sorted(rows, key=lambda row: (-row["put_per_s"], row["topic"]))

    async def _groups(self) -> list[dict[str, Any]]:
        known = await self._admin.groups.configs()
        names = [
            name
            for name in known
            if name not in BUILTIN_GROUPS and not name.startswith(SYSTEM_GROUP_PREFIX)
        ]
        found = await some_at_once(names, lambda name: group_lag(self._admin, name))
        offsets = {
            each.group: sum(row.next_offset or 0 for row in each.queues if row.is_committed)
            for each in found
        }
        rates = self._got.look(offsets, monotonic_ms())
        rows = [
            {
                "group": each.group,
                "get_per_s": rates[each.group],
                "lag": each.lag,
                "members": len(each.online.clients) if each.online else 0,
            }
            for each in found
        ]
        return sorted(rows, key=lambda row: (-(row["lag"] or 0), -row["get_per_s"], row["group"]))


def _replica_rows(found: "list[tuple[str, str, ReplicationStatus]]") -> list[dict[str, Any]]:
    rows = [
        {
            "broker": name,
            "replica": each.address,
            "lag_bytes": each.lag_bytes,
            "lag_ms": each.lag_ms,
            "bytes_per_s": each.bytes_per_second,
        }
        for name, _, status in found
        for each in status.replicas
    ]
    return sorted(rows, key=lambda row: (-row["lag_bytes"], row["broker"], row["replica"]))


def _refill_rows(found: "list[tuple[str, str, ReplicationStatus]]") -> list[dict[str, Any]]:
    rows = []
    for name, address, status in found:
        refill = status.refill
        if refill is None:
            continue
        left_bytes = refill.total_bytes - refill.done_bytes
        rows.append(
            {
                "broker": name,
                "address": address,
                "percent": refill.percent,
                "done_bytes": refill.done_bytes,
                "total_bytes": refill.total_bytes,
                "bytes_per_s": refill.bytes_per_second,
                "left_s": left_bytes // max(1, refill.bytes_per_second),
            }
        )
    return sorted(rows, key=lambda row: (row["percent"], row["broker"], row["address"]))


def shown(seen: dict[str, Any], interval_s: float) -> "Shown":
    """Returns what was seen as tables."""
    from rich.console import Group

    from mqcore.cli.tables import table_of

    topics = [
        [row["topic"], row["put_per_s"], row["messages"], row["queues"]]
        for row in seen["topics"][:_ROWS_MAX]
    ]
    groups = [
        [row["group"], row["get_per_s"], lag_cell(row["lag"]), row["members"]]
        for row in seen["groups"][:_ROWS_MAX]
    ]
    hidden = max(0, len(seen["topics"]) - _ROWS_MAX) + max(0, len(seen["groups"]) - _ROWS_MAX)
    replicas = [
        [row["broker"], row["replica"], row["lag_bytes"], row["lag_ms"], row["bytes_per_s"]]
        for row in seen["replicas"][:_ROWS_MAX]
    ]
    tables = [
        table_of(["topic", "in/s", "messages", "queues"], topics, title="Topics"),
        table_of(["group", "out/s", "lag", "members"], groups, title="Groups"),
    ]
    if replicas:
        columns = ["broker", "slave", "lag bytes", "lag ms", "bytes/s"]
        tables.append(table_of(columns, replicas, title="Slaves"))
    refills = [
        [row["broker"], row["address"], f"{row['percent']} %", row["bytes_per_s"], row["left_s"]]
        for row in seen["refills"][:_ROWS_MAX]
    ]
    if refills:
        columns = ["broker", "address", "copied", "bytes/s", "left s"]
        tables.append(table_of(columns, refills, title="Copies of whole files"))
    return Group(
        *tables,
        f"every {interval_s:g} s, Ctrl-C ends"
        + (f"; {hidden} quiet rows hidden" if hidden else ""),
    )


async def _watched(cluster: Cluster, interval_s: float, count: int | None) -> None:
    from rich.live import Live

    from mqcore.cli.tables import console, print_json

    out = console()
    is_live = out.is_terminal and not cluster.as_json
    async with cluster.admin() as admin:
        watch = _Watch(admin)
        seen = await watch.look()
        frame = shown(seen, interval_s)
        rounds = 0
        with (
            Live(frame, console=out, auto_refresh=False)
            if is_live
            else contextlib.nullcontext() as live
        ):
            while count is None or rounds < count:
                await asyncio.sleep(interval_s)
                rounds += 1
                try:
                    seen = await watch.look()
                except MQError as error:
                    if live is None:
                        raise
                    # A broker that is restarted is seen again.
                    live.update(f"{error.message}\n", refresh=True)
                    continue
                if live is not None:
                    live.update(shown(seen, interval_s), refresh=True)
                elif cluster.as_json:
                    print_json(seen)
                else:
                    out.print(shown(seen, interval_s))


@click.command()
@click.option(
    "-i",
    "--interval",
    "interval_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    help="Between two looks.",
)
@click.option("--count", type=click.IntRange(1), help="End after so many looks.")
@cluster_options
def top(cluster: Cluster, interval_s: float, count: int | None) -> None:
    """Watch topics, groups, slaves: rates, messages, lag, refills. Ctrl-C ends it with exit code 0.

    With --json, one object per look and line.
    """
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_watched(cluster, interval_s, count))
