"""`mqcore group`: consumer groups listed, described, and moved to other offsets."""

from typing import TYPE_CHECKING, Any

import click

from mqcore.cli.cluster import Cluster, cluster_options, confirmed, queue_of, some_at_once
from mqcore.cli.dead_letters import dead_letters
from mqcore.cli.group_settings import create, mode, settings, update
from mqcore.cli.times import TIME
from mqcore.errors import MQError
from mqcore.model.groups import BUILTIN_GROUPS, SYSTEM_GROUP_PREFIX
from mqcore.model.queues import MessageQueue
from mqcore.model.topics import RETRY_PREFIX
from mqcore.model.versions import version_name

if TYPE_CHECKING:
    from mqcore.admin import Admin, GroupConnections, GroupProgress

# Before the first message of any queue.
_EARLIEST_MS = 0


@click.group()
def group() -> None:
    """List, describe, create, change and reset consumer groups."""


for _command in (create, update, settings, mode, dead_letters):
    group.add_command(_command)


@group.command("list")
@click.option("-a", "--all", "shows_all", is_flag=True, help="The groups of servers too.")
@click.option("-c", "--cluster", "cluster_name", metavar="NAME", help="Only of this cluster.")
@cluster_options
def list_(cluster: Cluster, shows_all: bool, cluster_name: str | None) -> None:
    """List groups with their members and their lag."""
    from mqcore.cli.tables import print_json, print_table

    async def work(admin: "Admin") -> list[dict[str, Any]]:
        found = await admin.groups.configs(cluster=cluster_name)
        names = [name for name in found if shows_all or not _is_inner(name)]

        async def row(name: str) -> dict[str, Any]:
            online = await admin.groups.connections(name, cluster=cluster_name)
            progress = await admin.groups.progress(name, cluster=cluster_name)
            return {
                "group": name,
                "members": len(online.clients) if online else 0,
                "model": online.message_model if online else "",
                "topics": _topics(progress),
                "lag": progress.lag,
                "get_per_s": progress.get_per_s,
            }

        return await some_at_once(names, row)

    rows = cluster.ask(work)
    if cluster.as_json:
        print_json(rows)
        return
    print_table(
        ["group", "members", "model", "topics", "lag", "out/s"],
        [
            [
                row["group"],
                row["members"],
                row["model"],
                ", ".join(row["topics"]),
                row["lag"],
                row["get_per_s"],
            ]
            for row in rows
        ],
        empty="no group yet; a group is made when its first consumer comes",
    )


def _is_inner(name: str) -> bool:
    return name in BUILTIN_GROUPS or name.startswith(SYSTEM_GROUP_PREFIX)


def _topics(progress: "GroupProgress") -> list[str]:
    """Returns the topics that a group reads, but for its own retry topic."""
    topics = {row.queue.topic for row in progress.queues}
    return sorted(name for name in topics if not name.startswith(RETRY_PREFIX))


@group.command()
@click.argument("name")
@cluster_options
def describe(cluster: Cluster, name: str) -> None:
    """Show the members of the group NAME, what they want, and how far they have read.

    Exit code 2 when there is no such group.
    """
    from mqcore.cli.tables import print_json

    async def work(admin: "Admin") -> tuple["GroupConnections | None", "GroupProgress"]:
        online = await admin.groups.connections(name)
        progress = await admin.groups.progress(name)
        if online is None and not progress.queues and name not in await admin.groups.configs():
            raise MQError(f"there is no group {name}: see `mqcore group list`")
        return online, progress

    online, progress = cluster.ask(work)
    if cluster.as_json:
        print_json(_described(name, online, progress))
    else:
        _print_described(name, online, progress)


def _described(
    name: str, online: "GroupConnections | None", progress: "GroupProgress"
) -> dict[str, Any]:
    """Returns a group as one JSON object."""
    members = online.clients if online else ()
    wanted = online.subscriptions if online else {}
    return {
        "group": name,
        "lag": progress.lag,
        "get_per_s": progress.get_per_s,
        "model": online.message_model if online else None,
        "type": online.consume_type if online else None,
        "members": [
            {
                "client_id": each.client_id,
                "address": each.address,
                "language": each.language,
                "version": version_name(each.version),
            }
            for each in members
        ],
        "subscriptions": {topic: each.expression for topic, each in wanted.items()},
        "inconsistent": {each: dict(online.differences[each]) for each in online.differences}
        if online
        else {},
        "queues": [
            _queue_row(row.queue)
            | {
                "next": row.group_offset,
                "end": row.broker_offset,
                "lag": row.lag,
                "last_ms": row.last_ms,
            }
            for row in progress.queues
        ],
    }


def _queue_row(queue: MessageQueue) -> dict[str, Any]:
    return {"topic": queue.topic, "broker": queue.broker_name, "queue": queue.queue_id}


def _print_described(
    name: str, online: "GroupConnections | None", progress: "GroupProgress"
) -> None:
    """Prints a group for people."""
    from mqcore.cli.tables import print_pairs, print_table, time_text

    described = _described(name, online, progress)
    heads = {"group": name, "lag": progress.lag, "out/s": progress.get_per_s}
    if online is not None:
        heads |= {"model": online.message_model, "type": online.consume_type}
    print_pairs(heads)
    print_table(
        ["member", "address", "language", "version"],
        [list(row.values()) for row in described["members"]],
        empty="nobody is online",
    )
    if described["subscriptions"]:
        print_table(["subscribed topic", "expression"], described["subscriptions"].items())
    _print_differences(described["inconsistent"])
    print_table(
        ["topic", "broker", "queue", "next", "end", "lag", "read up to"],
        [[*list(row.values())[:-1], time_text(row["last_ms"])] for row in described["queues"]],
        empty="it has committed no offset yet",
    )


def _print_differences(inconsistent: dict[str, dict[str, str]]) -> None:
    """Prints what members want where they do not all want the same."""
    from mqcore.cli.tables import print_table

    if not inconsistent:
        return
    click.echo(
        "Its members want different messages, and each loses what only it wants: "
        "give all of them the same subscriptions, or groups of their own."
    )
    print_table(
        ["member", "topic", "wants"],
        [
            [client_id, topic, text or "(not subscribed)"]
            for client_id, wanted in inconsistent.items()
            for topic, text in wanted.items()
        ],
    )


@group.command()
@click.argument("name")
@click.argument("topic")
@click.option("--to-time", "time_ms", type=TIME, help="To a time: 10m (ago), 2024-05-01T10:00.")
@click.option("--to-earliest", is_flag=True, help="Before the first message.")
@click.option("--to-latest", is_flag=True, help="Behind the last message.")
@click.option("--to-offset", type=click.IntRange(0), help="To this offset of --queue.")
@click.option("--by", "steps", type=int, help="By so many messages in each queue; -N: back.")
@click.option("--queue", metavar="BROKER:ID", help="Only this queue; with --to-offset or --by.")
@click.option("--dry-run", is_flag=True, help="Show where it would go, and change nothing.")
@click.option("-y", "--yes", "is_sure", is_flag=True, help="Do not ask.")
@cluster_options
def reset(
    cluster: Cluster,
    name: str,
    topic: str,
    time_ms: int | None,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    steps: int | None,
    queue: str | None,
    dry_run: bool,
    is_sure: bool,
) -> None:
    """Move the group NAME to other offsets in TOPIC. Its consumers may be online.

    Give exactly one of --to-time, --to-earliest, --to-latest, --to-offset, --by.
    """
    from mqcore.admin import LATEST_MS
    from mqcore.cli.tables import print_json, print_table

    ways = [time_ms is not None, to_earliest, to_latest, to_offset is not None, steps is not None]
    if sum(ways) != 1:
        raise click.UsageError(
            "give exactly one of --to-time, --to-earliest, --to-latest, --to-offset, --by"
        )
    if to_offset is not None and queue is None:
        raise click.UsageError("--to-offset needs --queue BROKER:ID")
    if queue is not None and to_offset is None and steps is None:
        raise click.UsageError("--queue is for --to-offset and --by")
    if not dry_run:
        confirmed(f"Move group {name} in topic {topic}?", is_sure=is_sure)
    when_ms = LATEST_MS if to_latest else _EARLIEST_MS if time_ms is None else time_ms
    only = queue_of(topic, queue) if queue is not None else None

    async def work(admin: "Admin") -> list[dict[str, Any]]:
        before = {
            row.queue: row.group_offset
            for row in (await admin.groups.progress(name, topic=topic)).queues
        }
        wanted = None
        if steps is not None:
            wanted = await _shifted(admin, topic, before, steps, only)
        elif only is not None and to_offset is not None:
            wanted = {only: to_offset}
        if wanted is not None:
            after = wanted
            if not dry_run:
                after = {
                    each: await admin.groups.reset_queue(name, each, wanted[each])
                    for each in wanted
                }
        elif dry_run:
            after = await _targets(admin, topic, when_ms)
        else:
            after = await admin.groups.reset_to_time(name, topic, when_ms)
        return [
            _queue_row(each) | {"from": before.get(each, 0), "to": after[each]} for each in after
        ]

    rows = cluster.ask(work)
    if cluster.as_json:
        print_json({"group": name, "is_dry_run": dry_run, "queues": rows})
        return
    print_table(["topic", "broker", "queue", "from", "to"], [list(row.values()) for row in rows])
    click.echo("nothing was changed" if dry_run else f"group {name} was moved")


async def _targets(admin: "Admin", topic: str, time_ms: int) -> dict[MessageQueue, int]:
    """Returns where a reset to a time would lead."""
    from mqcore.admin import LATEST_MS

    queues = (await admin.topics.stats(topic)).queues
    if time_ms == LATEST_MS:
        return {row.queue: row.max_offset for row in queues}
    found = await some_at_once(
        [row.queue for row in queues], lambda queue: admin.topics.offset_at(queue, time_ms)
    )
    # A queue without a message answers any time with its end.
    ends = zip(queues, found, strict=True)
    return {row.queue: min(max(at, row.min_offset), row.max_offset) for row, at in ends}


async def _shifted(
    admin: "Admin",
    topic: str,
    before: dict[MessageQueue, int],
    steps: int,
    only: MessageQueue | None,
) -> dict[MessageQueue, int]:
    """Returns where a group comes by so many messages from where it is, in each queue it reads."""
    ends = {row.queue: row for row in (await admin.topics.stats(topic)).queues}
    queues = [each for each in before if each in ends and only in (None, each)]
    if not queues:
        where = f"queue {only}" if only else f"topic {topic}"
        raise MQError(
            f"the group has committed no offset in {where}: "
            "there is nothing to count from; use --to-earliest or --to-latest"
        )
    return {
        each: min(max(before[each] + steps, ends[each].min_offset), ends[each].max_offset)
        for each in queues
    }
