"""`mqcore group reset`: a group moved to other offsets of a topic."""

from typing import TYPE_CHECKING, Any

import click

from mqcore.cli.cluster import (
    Cluster,
    cluster_options,
    confirmed,
    queue_of,
    require_queue,
)
from mqcore.cli.lags import require_group
from mqcore.cli.times import END, START, WHEN
from mqcore.model.queues import MessageQueue

if TYPE_CHECKING:
    from mqcore.admin import Admin

__all__ = ["reset"]

# Before the first message of any queue.
_EARLIEST_MS = 0


@click.command()
@click.argument("name")
@click.argument("topic")
@click.option("--to", "when", type=WHEN, help="start, end, 10m (ago), 2024-05-01T10:00.")
@click.option("--offset", type=click.IntRange(0), help="To this offset of --queue.")
@click.option("--by", "steps", type=int, help="By so many messages in each queue; -N: back.")
@click.option("--queue", metavar="BROKER:ID", help="Only this queue; with --offset or --by.")
@click.option("--dry-run", is_flag=True, help="Show where it would go, and change nothing.")
@click.option("-y", "--yes", "is_sure", is_flag=True, help="Do not ask.")
@cluster_options
def reset(
    cluster: Cluster,
    name: str,
    topic: str,
    when: str | int | None,
    offset: int | None,
    steps: int | None,
    queue: str | None,
    dry_run: bool,
    is_sure: bool,
) -> None:
    """Move the group NAME to other offsets in TOPIC. Its consumers may be online.

    Give exactly one of --to, --offset, --by.
    """
    from mqcore.admin.moves import shifted
    from mqcore.cli.tables import print_json, print_table

    if sum(each is not None for each in (when, offset, steps)) != 1:
        raise click.UsageError("give exactly one of --to, --offset, --by")
    if offset is not None and queue is None:
        raise click.UsageError("--offset is one of a queue: add --queue BROKER:ID")
    if queue is not None and when is not None:
        raise click.UsageError("--queue is for --offset and --by")
    if not dry_run:
        confirmed(f"Move group {name} in topic {topic}?", is_sure=is_sure)
    only = queue_of(topic, queue) if queue is not None else None

    async def work(admin: "Admin") -> list[dict[str, Any]]:
        await require_group(admin, name)
        if only is not None:
            await require_queue(admin, only)
        before = {
            row.queue: row.group_offset
            for row in (await admin.groups.progress(name, topic=topic, must_exist=False)).queues
        }
        if when is not None:
            after = await _moved_to(admin, name, topic, _time_ms(when), dry_run=dry_run)
        else:
            after = {only: offset} if only is not None and offset is not None else {}
            if steps is not None:
                after = await shifted(admin, topic, before, steps, only)
            if not dry_run:
                after = {
                    each: await admin.groups.reset_queue(name, each, after[each]) for each in after
                }
        return [
            {"topic": each.topic, "broker": each.broker_name, "queue": each.queue_id}
            | {"from": before.get(each, 0), "to": after[each]}
            for each in after
        ]

    rows = cluster.ask(work)
    if cluster.as_json:
        print_json({"group": name, "is_dry_run": dry_run, "queues": rows})
        return
    print_table(["topic", "broker", "queue", "from", "to"], [list(row.values()) for row in rows])
    click.echo("nothing was changed" if dry_run else f"group {name} was moved")


def _time_ms(when: str | int) -> int:
    from mqcore.admin import LATEST_MS

    if isinstance(when, int):
        return when
    return {START: _EARLIEST_MS, END: LATEST_MS}[when]


async def _moved_to(
    admin: "Admin", name: str, topic: str, time_ms: int, *, dry_run: bool
) -> dict[MessageQueue, int]:
    """Moves a group to a time; returns where it goes on, or would."""
    from mqcore.admin.moves import targets_of_time

    if dry_run:
        return await targets_of_time(admin, topic, time_ms)
    return await admin.groups.reset_to_time(name, topic, time_ms)
