"""`mqcore group`: consumer groups listed and described, with how far they are behind."""

from typing import TYPE_CHECKING, Any

import click

from mqcore.cli.cluster import Cluster, cluster_options, confirmed, some_at_once
from mqcore.cli.group_reset import reset
from mqcore.cli.group_settings import create, mode, settings, update
from mqcore.cli.lags import (
    GroupLag,
    QueueLag,
    group_lag,
    known_lag,
    lag_cell,
    require_group,
    sum_of,
)
from mqcore.model.groups import BUILTIN_GROUPS, SYSTEM_GROUP_PREFIX
from mqcore.model.versions import version_name

if TYPE_CHECKING:
    from mqcore.admin import Admin

_NOT_COMMITTED = "it has committed no offset yet"


@click.group()
def group() -> None:
    """List, describe, create, change, reset and delete consumer groups."""


for _command in (create, update, settings, mode, reset):
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
            found = await group_lag(admin, name, cluster=cluster_name)
            return {
                "group": name,
                "members": len(found.online.clients) if found.online else 0,
                "model": found.online.message_model if found.online else "",
                "topics": found.topics,
                "lag": found.lag,
                "get_per_s": found.get_per_s,
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
                lag_cell(row["lag"]),
                row["get_per_s"],
            ]
            for row in rows
        ],
        empty="no group yet; a group is made when its first consumer comes",
    )


def _is_inner(name: str) -> bool:
    return name in BUILTIN_GROUPS or name.startswith(SYSTEM_GROUP_PREFIX)


@group.command()
@click.argument("name")
@click.option("-l", "--long", "is_long", is_flag=True, help="Every queue, not only topics.")
@cluster_options
def lag(cluster: Cluster, name: str, is_long: bool) -> None:
    """Show how many messages wait for the group NAME, by topic.

    Where the group has committed nothing yet, it is what waits behind the place where its members
    begin; `-` where nobody can know that: no member is online, or it begins at a time of its own.

    Exit code 2 when there is no such group.
    """
    from mqcore.cli.tables import print_json, print_pairs, print_table

    found = cluster.ask(lambda admin: known_lag(admin, name))
    rows = [
        _topic_row(found, topic) for topic in sorted({each.queue.topic for each in found.queues})
    ]
    if cluster.as_json:
        queues = [each.to_json() for each in found.queues]
        print_json({"group": name, "lag": found.lag, "topics": rows, "queues": queues})
        return
    print_pairs({"group": name, "lag": lag_cell(found.lag)})
    if is_long:
        _print_queues(found.queues)
        return
    print_table(
        ["topic", "queues", "lag", "read up to"],
        [
            [row["topic"], row["queues"], lag_cell(row["lag"]), _read_text(row["last_ms"])]
            for row in rows
        ],
        empty=_NOT_COMMITTED,
    )


def _topic_row(found: GroupLag, topic: str) -> dict[str, Any]:
    rows = [each for each in found.queues if each.queue.topic == topic]
    return {
        "topic": topic,
        "queues": len(rows),
        "lag": sum_of(each.lag for each in rows),
        "last_ms": max(each.last_ms for each in rows),
    }


def _read_text(last_ms: int) -> str:
    from mqcore.cli.tables import time_text

    return time_text(last_ms)


def _print_queues(queues: tuple[QueueLag, ...]) -> None:
    """Prints how far a group is behind in each queue."""
    from mqcore.cli.tables import print_table

    print_table(
        ["topic", "broker", "queue", "next", "end", "lag", "read up to"],
        [
            [
                each.queue.topic,
                each.queue.broker_name,
                each.queue.queue_id,
                lag_cell(each.next_offset),
                each.end,
                lag_cell(each.lag),
                _read_text(each.last_ms),
            ]
            for each in queues
        ],
        empty=_NOT_COMMITTED,
    )


@group.command()
@click.argument("name")
@cluster_options
def describe(cluster: Cluster, name: str) -> None:
    """Show the members of the group NAME, what they want, and how far they have read.

    Exit code 2 when there is no such group.
    """
    from mqcore.cli.tables import print_json

    found = cluster.ask(lambda admin: known_lag(admin, name))
    if cluster.as_json:
        print_json(_described(found))
    else:
        _print_described(found)


def _described(found: GroupLag) -> dict[str, Any]:
    """Returns a group as one JSON object."""
    online = found.online
    members = online.clients if online else ()
    wanted = online.subscriptions if online else {}
    return {
        "group": found.group,
        "lag": found.lag,
        "get_per_s": found.get_per_s,
        "model": online.message_model if online else None,
        "type": online.consume_type if online else None,
        "begins": online.from_where if online else None,
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
        "queues": [row.to_json() for row in found.queues],
    }


@group.command()
@click.argument("name")
@click.option("-c", "--cluster", "cluster_name", metavar="NAME", help="Only in this cluster.")
@click.option("-y", "--yes", "is_sure", is_flag=True, help="Do not ask.")
@cluster_options
def delete(cluster: Cluster, name: str, cluster_name: str | None, is_sure: bool) -> None:
    """Delete the group NAME, its offsets, its retries and its dead letters.

    Members that are online make it again, where brokers have autoCreateSubscriptionGroup=true.
    """
    from mqcore.cli.tables import print_json

    confirmed(
        f"Delete group {name} with its offsets, its retries and its dead letters?", is_sure=is_sure
    )

    async def work(admin: "Admin") -> list[str]:
        # A name that was mistyped is an error, not deleted in vain.
        await require_group(admin, name)
        return await admin.groups.delete(name, cluster=cluster_name)

    brokers = cluster.ask(work)
    if cluster.as_json:
        print_json({"group": name, "brokers": brokers})
    else:
        click.echo(f"group {name} was deleted from {', '.join(brokers)}")


def _print_described(found: GroupLag) -> None:
    """Prints a group for people."""
    from mqcore.cli.tables import print_pairs, print_table

    described = _described(found)
    heads = {"group": found.group, "lag": lag_cell(found.lag), "out/s": found.get_per_s}
    if found.online is not None:
        heads |= {"model": found.online.message_model, "type": found.online.consume_type}
    print_pairs(heads)
    print_table(
        ["member", "address", "language", "version"],
        [list(row.values()) for row in described["members"]],
        empty="nobody is online",
    )
    if described["subscriptions"]:
        print_table(["subscribed topic", "expression"], described["subscriptions"].items())
    _print_differences(described["inconsistent"])
    _print_queues(found.queues)


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
