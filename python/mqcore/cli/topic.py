"""`mqcore topic`: topics listed, created, described, deleted."""

from typing import TYPE_CHECKING, Any

import click

from mqcore.cli.cluster import Cluster, cluster_options, confirmed, some_at_once
from mqcore.cli.lags import group_lag, lag_cell
from mqcore.cli.topic_change import create
from mqcore.cli.topic_moving import move, queues
from mqcore.model.groups import SYSTEM_GROUP_PREFIX
from mqcore.model.topics import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_PREFIX, TopicConfig, perm_text

if TYPE_CHECKING:
    from mqcore.admin import Admin, TopicStats


@click.group()
def topic() -> None:
    """List, create, describe, move and delete topics."""


topic.add_command(create)
topic.add_command(queues)
topic.add_command(move)


def is_inner(name: str, of_system: set[str]) -> bool:
    """Whether a topic is the servers' own, or belongs to a group."""
    return name in of_system or name.startswith(
        (RETRY_PREFIX, DLQ_PREFIX, SYSTEM_PREFIX, SYSTEM_GROUP_PREFIX)
    )


@topic.command("list")
@click.option("-a", "--all", "shows_all", is_flag=True, help="Topics of servers and groups too.")
@click.option("-l", "--long", "is_long", is_flag=True, help="Messages and rates too.")
@click.option("-c", "--cluster", "cluster_name", metavar="NAME", help="Only of this cluster.")
@cluster_options
def list_(cluster: Cluster, shows_all: bool, is_long: bool, cluster_name: str | None) -> None:
    """List topics with their queues and brokers."""
    from mqcore.cli.tables import print_json, print_table

    async def work(admin: "Admin") -> list[dict[str, Any]]:
        found = await admin.topics.all_configs(cluster=cluster_name)
        inner = set() if shows_all else await admin.topics.of_system()
        names = [name for name in found if shows_all or not is_inner(name, inner)]
        rows = [_row(name, found[name]) for name in names]
        if is_long:
            stats = await some_at_once(names, admin.topics.stats)
            for row, each in zip(rows, stats, strict=True):
                row["messages"] = sum(queue.count for queue in each.queues)
                row["put_per_s"] = each.put_per_s
        return rows

    rows = cluster.ask(work)
    if cluster.as_json:
        print_json(rows)
        return
    heads = ["topic", "read queues", "write queues", "perm", "brokers"]
    cells = [
        [row["topic"], row["read_queues"], row["write_queues"], row["perm"], _joined(row)]
        + ([row["messages"], row["put_per_s"]] if is_long else [])
        for row in rows
    ]
    hint = "no topic yet; create one with: mqcore topic create NAME"
    print_table([*heads, *(["messages", "in/s"] if is_long else [])], cells, empty=hint)


def _row(name: str, configs: dict[str, TopicConfig]) -> dict[str, Any]:
    return {
        "topic": name,
        "read_queues": sum(config.read_queues for config in configs.values()),
        "write_queues": sum(config.write_queues for config in configs.values()),
        "perm": perm_text(next(iter(configs.values())).perm),
        "is_ordered": any(config.order for config in configs.values()),
        "brokers": sorted(configs),
    }


def _joined(row: dict[str, Any]) -> str:
    return ", ".join(row["brokers"])


@topic.command()
@click.argument("name")
@cluster_options
def describe(cluster: Cluster, name: str) -> None:
    """Show the queues of the topic NAME, and who reads it.

    Exit code 2 when there is no such topic.
    """
    from mqcore.cli.tables import print_json, print_pairs, print_table, time_text

    async def work(
        admin: "Admin",
    ) -> tuple["TopicStats", dict[str, TopicConfig], dict[str, int | None]]:
        stats, configs = await admin.topics.stats(name), await admin.topics.configs(name)
        groups = await admin.topics.groups(name)
        found = await some_at_once(groups, lambda each: group_lag(admin, each))
        return stats, configs, {each.group: each.of_topic(name) for each in found}

    stats, configs, lags = cluster.ask(work)
    queues = [
        {
            "broker": row.queue.broker_name,
            "queue": row.queue.queue_id,
            "min_offset": row.min_offset,
            "max_offset": row.max_offset,
            "messages": row.count,
            "last_update_ms": row.last_update_ms,
        }
        for row in stats.queues
    ]
    attributes = {key: text for each in configs.values() for key, text in each.attributes.items()}
    head = _row(name, configs) | {"attributes": attributes, "put_per_s": stats.put_per_s}
    if cluster.as_json:
        print_json(head | {"queues": queues, "groups": lags})
        return
    print_pairs(
        {
            "topic": name,
            "brokers": _joined(head),
            "queues": f"{head['read_queues']} to read, {head['write_queues']} to write",
            "allowed": head["perm"],
            "ordered": head["is_ordered"],
            "in/s": stats.put_per_s,
        }
        | attributes
    )
    print_table(
        ["broker", "queue", "first", "next", "messages", "last message"],
        [[*list(row.values())[:-1], time_text(int(str(row["last_update_ms"])))] for row in queues],
    )
    print_table(
        ["group", "lag"],
        [[each, lag_cell(lags[each])] for each in sorted(lags)],
        empty="no group has read it",
    )


@topic.command()
@click.argument("name")
@click.option("-c", "--cluster", "cluster_name", metavar="NAME", help="Only in this cluster.")
@click.option("-y", "--yes", "is_sure", is_flag=True, help="Do not ask.")
@cluster_options
def delete(cluster: Cluster, name: str, cluster_name: str | None, is_sure: bool) -> None:
    """Delete the topic NAME, its messages, and how far groups have read it."""
    from mqcore.cli.tables import print_json

    confirmed(f"Delete topic {name} with all its messages?", is_sure=is_sure)

    async def work(admin: "Admin") -> list[str]:
        # A name that was mistyped is an error, not deleted in vain.
        await admin.topics.route(name)
        return await admin.topics.delete(name, cluster=cluster_name)

    brokers = cluster.ask(work)
    if cluster.as_json:
        print_json({"topic": name, "brokers": brokers})
    else:
        click.echo(f"topic {name} was deleted from {', '.join(brokers)}")
