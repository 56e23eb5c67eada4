"""`mqcore broker slow`: the slowest requests of brokers with the time that each stage took."""

import asyncio
import contextlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from mqcore.cli.cluster import Cluster, cluster_options, some_at_once
from mqcore.errors import MQError

if TYPE_CHECKING:
    from mqcore.admin import Admin, SlowRequest, SlowRequests

_US_PER_MS = 1_000
_FOLLOW_S = 2.0
_COLUMNS = ("time", "ms", "request", "stages, ms", "topic", "queue", "group", "bytes", "client")
_STAGE_COLUMNS = ("kind", "stage", "count", "p50 ms", "p99 ms", "p99.9 ms", "max ms")


@click.command()
@click.option(
    "-b", "--broker", "address", metavar="HOST:PORT", help="This broker; otherwise all of them."
)
@click.option(
    "-c",
    "--count",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="Requests of each broker at the most.",
)
@click.option("-f", "--follow", is_flag=True, help="Go on with those that come; Ctrl-C ends it.")
@click.option("--stages", "shows_stages", is_flag=True, help="How long stages take, of all.")
@cluster_options
def slow(
    cluster: Cluster, address: str | None, count: int, follow: bool, shows_stages: bool
) -> None:
    """Show the slowest requests of the last 16 minutes, and where their time went.

    Of each minute 64 are kept. The time for which a pull is held is not counted. With --json one
    object per broker, and one per request with --follow.
    """
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_shown(cluster, address, count, follow=follow, shows_stages=shows_stages))


async def _shown(
    cluster: Cluster, address: str | None, count: int, *, follow: bool, shows_stages: bool
) -> None:
    from mqcore.cli.tables import console, print_json, table_of

    async with cluster.admin() as admin:
        asked = [("", address)] if address else await _brokers(admin)
        found = await _asked(admin, asked, count)
        if cluster.as_json and not follow:
            for (name, at), answer in found:
                print_json({"broker": name, "address": at, **asdict(answer)})
            return
        out = console()
        for (name, at), answer in found:
            if cluster.as_json:
                continue
            title = f"{name} {at}".strip()
            if not answer.is_timed:
                title += ": requests are not timed (requestTimesEnable=false)"
            if shows_stages:
                out.print(table_of(_STAGE_COLUMNS, _stage_rows(answer), title=title))
            else:
                rows = [_row(each) for each in answer.requests]
                out.print(table_of(_COLUMNS, rows, title=title))
        if follow:
            await _follow(admin, cluster, {who: answer.mark for who, answer in found}, count)


async def _brokers(admin: "Admin") -> list[tuple[str, str]]:
    known = await admin.brokers.cluster()
    return [(name, at) for name, all_ in known.brokers.items() for at in all_.values()]


async def _asked(
    admin: "Admin", brokers: list[tuple[str, str]], count: int
) -> "list[tuple[tuple[str, str], SlowRequests]]":
    async def one(who: tuple[str, str]) -> "SlowRequests | None":
        try:
            return await admin.brokers.slow_requests(who[1], limit=count)
        except MQError:
            # A broker of RocketMQ does not know the request.
            if len(brokers) == 1:
                raise
            return None

    found = zip(brokers, await some_at_once(brokers, one), strict=True)
    return [(who, answer) for who, answer in found if answer is not None]


async def _follow(
    admin: "Admin", cluster: Cluster, marks: dict[tuple[str, str], int], count: int
) -> None:
    from mqcore.cli.tables import print_json

    while True:
        await asyncio.sleep(_FOLLOW_S)
        for who, after in list(marks.items()):
            try:
                answer = await admin.brokers.slow_requests(who[1], after=after, limit=count)
            except MQError:
                # A broker that is restarted is seen again; its clock begins anew.
                marks[who] = 0
                continue
            marks[who] = answer.mark
            for each in sorted(answer.requests, key=lambda each: each.mark):
                if cluster.as_json:
                    print_json({"broker": who[0], "address": who[1], **asdict(each)})
                else:
                    click.echo("  ".join(str(cell) for cell in (who[0], *_row(each)) if cell))


def _row(each: "SlowRequest") -> list[Any]:
    from mqcore.cli.tables import time_text

    stages = ", ".join(f"{name} {us / _US_PER_MS:.2f}" for name, us in each.stages.items())
    return [
        time_text(each.at_ms),
        round(each.total_us / _US_PER_MS, 2),
        each.request if not each.response else f"{each.request} -> {each.response}",
        stages,
        each.topic,
        "" if each.queue_id < 0 else f"{each.queue_id}:{each.queue_offset}",
        each.group,
        each.bytes,
        each.peer,
    ]


def _stage_rows(answer: "SlowRequests") -> list[list[Any]]:
    return [
        [
            each.kind,
            each.stage,
            each.count,
            *(us / _US_PER_MS for us in (each.p50_us, each.p99_us, each.p999_us, each.max_us)),
        ]
        for each in answer.stages
    ]
