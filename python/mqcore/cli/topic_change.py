"""`mqcore topic create`: a topic made, or changed; what fewer queues hide is asked about first."""

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from mqcore.cli.cluster import Cluster, cluster_options, confirmed
from mqcore.model.topics import QUEUES_MAX, TopicConfig, perm_text

if TYPE_CHECKING:
    from mqcore.admin import Admin

__all__ = ["create"]

_PERMISSIONS = {"rw": 6, "r": 4, "w": 2, "none": 0}
_READABLE = 4
# Of a new topic: the official default of `mqadmin updateTopic`.
_QUEUES = 8
_CHANGE = re.compile(r"\+[^=]+=.*|-[^=]+")


@dataclass(frozen=True, slots=True)
class _Change:
    """What becomes of a topic on one broker.

    Attributes:
        address: The broker.
        before: The topic as it is there, None where it is new.
        after: The topic as it is to be.
        unreadable: Messages that can be read now, and not afterwards.
    """

    address: str
    before: TopicConfig | None
    after: TopicConfig
    unreadable: int = 0

    @property
    def is_smaller(self) -> bool:
        """Whether the topic gets fewer queues, or what it has can no longer be read."""
        if self.before is None:
            return False
        return (
            self.after.read_queues < self.before.read_queues
            or self.after.write_queues < self.before.write_queues
            or self.unreadable > 0
        )

    @property
    def text(self) -> str:
        """What changes, for people; empty where nothing does, or the topic is new."""
        if self.before is None:
            return ""
        before, after = self.before, self.after
        queues = _arrow(_queues_text(before), _queues_text(after), " queues")
        perm = _arrow(perm_text(before.perm), perm_text(after.perm), "")
        return ", ".join(filter(None, (queues, perm)))

    def to_json(self) -> dict[str, Any]:
        """Returns it as one JSON object."""
        return {
            "broker": self.address,
            "before": None if self.before is None else _shape(self.before),
            "after": _shape(self.after),
            "unreadable_messages": self.unreadable,
        }


def _arrow(before: str, after: str, noun: str) -> str:
    return "" if before == after else f"{before} -> {after}{noun}"


def _queues_text(config: TopicConfig) -> str:
    if config.read_queues == config.write_queues:
        return str(config.read_queues)
    return f"{config.read_queues} read and {config.write_queues} write"


def _shape(config: TopicConfig) -> dict[str, Any]:
    return {
        "read_queues": config.read_queues,
        "write_queues": config.write_queues,
        "perm": perm_text(config.perm),
        "is_ordered": config.order,
    }


def _attribute_changes(
    _ctx: click.Context, _param: click.Parameter, changes: tuple[str, ...]
) -> tuple[str, ...]:
    for each in changes:
        if not _CHANGE.fullmatch(each):
            raise click.BadParameter(f"{each!r}: +KEY=VALUE or -KEY expected")
    return changes


@click.command()
@click.argument("name")
@click.option(
    "-q",
    "--queues",
    type=click.IntRange(1, QUEUES_MAX),
    help=f"Queues on each broker; {_QUEUES} for a new topic.",
)
@click.option(
    "--read-queues",
    type=click.IntRange(0, QUEUES_MAX),
    help="Where it differs from --queues; 0: nothing is read.",
)
@click.option(
    "--write-queues",
    type=click.IntRange(0, QUEUES_MAX),
    help="Where it differs from --queues; 0: nothing is sent.",
)
@click.option("--perm", type=click.Choice(list(_PERMISSIONS)), help="Allowed; rw for a new topic.")
@click.option("--ordered/--unordered", "is_ordered", default=None, help="It promises order.")
@click.option(
    "-a",
    "--attribute",
    "changes",
    metavar="+KEY=VALUE|-KEY",
    multiple=True,
    callback=_attribute_changes,
    help="Sets an attribute, or takes it away; a new topic only gets some.",
)
@click.option("-c", "--cluster", "cluster_name", metavar="NAME", help="Only in this cluster.")
@click.option(
    "-b", "--broker", "brokers", metavar="ADDR", multiple=True, help="Only at these addresses."
)
@click.option("-y", "--yes", "is_sure", is_flag=True, help="Do not ask.")
@cluster_options
def create(
    cluster: Cluster,
    name: str,
    changes: tuple[str, ...],
    cluster_name: str | None,
    brokers: tuple[str, ...],
    is_sure: bool,
    **wanted: Any,
) -> None:
    """Create the topic NAME, or change it: what is not given stays as it is.

    When it returns, producers and consumers find it. Before a topic gets fewer queues than it has
    it asks: messages in queues that are no longer read reach no consumer, until it has them again.
    """
    planned = cluster.ask(
        lambda admin: _planned(admin, name, wanted, brokers=brokers, cluster=cluster_name)
    )
    smaller = [each for each in planned if each.is_smaller]
    if smaller:
        confirmed(f"Topic {name}: {_asked(smaller)}. Go on?", is_sure=is_sure)

    async def work(admin: "Admin") -> None:
        for each in planned:
            await admin.topics.put(each.after, changes=changes, brokers=[each.address])

    cluster.ask(work)
    _print_made(cluster, name, planned)


def _asked(changes: list[_Change]) -> str:
    """Returns what would change on brokers, and what of it can no longer be read."""
    texts = list(dict.fromkeys(each.text for each in changes))
    return "; ".join([*texts, *_unreadable_lines(changes)])


def _unreadable_lines(changes: list[_Change]) -> list[str]:
    count = sum(each.unreadable for each in changes)
    if not count:
        return []
    noun = "message" if count == 1 else "messages"
    return [f"{count:,} {noun} can no longer be read"]


def _print_made(cluster: Cluster, name: str, changes: list[_Change]) -> None:
    """Prints what was made and changed, broker by broker."""
    from mqcore.cli.tables import print_json

    if cluster.as_json:
        print_json({"topic": name, "brokers": [each.to_json() for each in changes]})
        return
    made = [each.address for each in changes if not each.text]
    if made:
        click.echo(f"topic {name} is on {', '.join(made)}")
    for each in changes:
        if each.text:
            click.echo(f"topic {name} on {each.address}: {each.text}")
    for line in _unreadable_lines(changes):
        click.echo(line)


async def _planned(
    admin: "Admin",
    name: str,
    wanted: dict[str, Any],
    *,
    brokers: tuple[str, ...],
    cluster: str | None,
) -> list[_Change]:
    """Returns what becomes of a topic on each broker that was chosen."""
    masters = {
        address: broker
        for broker, address in (await admin.brokers.cluster()).masters(cluster).items()
    }
    if not brokers and not masters:
        # Raises, with what is known of clusters.
        await admin.topics.all_configs(cluster=cluster)
    planned = []
    for address in brokers or sorted(masters):
        before = await admin.topics.config_at(address, name)
        planned.append(_Change(address, before, _wanted_of(name, before, wanted)))
    if not any(each.is_smaller or _hides(each) for each in planned):
        return planned
    counts = await _counts(admin, name)
    return [
        replace(each, unreadable=_unreadable(each, counts.get(masters.get(each.address, ""), {})))
        for each in planned
    ]


def _wanted_of(name: str, before: TopicConfig | None, wanted: dict[str, Any]) -> TopicConfig:
    base = before or TopicConfig(name, read_queues=_QUEUES, write_queues=_QUEUES)
    queues = wanted["queues"]

    def chosen(own: int | None, now: int) -> int:
        if own is not None:
            return own
        return now if queues is None else int(queues)

    return replace(
        base,
        read_queues=chosen(wanted["read_queues"], base.read_queues),
        write_queues=chosen(wanted["write_queues"], base.write_queues),
        perm=base.perm if wanted["perm"] is None else _PERMISSIONS[wanted["perm"]],
        order=base.order if wanted["is_ordered"] is None else wanted["is_ordered"],
    )


def _hides(change: _Change) -> bool:
    """Whether a topic that could be read no longer can."""
    before = change.before
    return before is not None and bool(before.perm & ~change.after.perm & _READABLE)


async def _counts(admin: "Admin", name: str) -> dict[str, dict[int, int]]:
    """Returns how many messages are in each queue of a topic, by broker name."""
    from mqcore.errors import NoRouteError

    found: dict[str, dict[int, int]] = {}
    try:
        stats = await admin.topics.stats(name)
    except NoRouteError:
        return found
    for row in stats.queues:
        found.setdefault(row.queue.broker_name, {})[row.queue.queue_id] = row.count
    return found


def _unreadable(change: _Change, counts: dict[int, int]) -> int:
    before, after = change.before, change.after
    if before is None or not before.perm & _READABLE:
        return 0
    first = after.read_queues if after.perm & _READABLE else 0
    return sum(counts.get(queue_id, 0) for queue_id in range(first, before.read_queues))
