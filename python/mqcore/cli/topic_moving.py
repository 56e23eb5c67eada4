"""`mqcore topic queues` and `mqcore topic move`: queues of a topic go when everybody has read them.

Each step follows from what brokers have now, so that a command that was interrupted is just given
again. Nothing that could still be read is hidden or deleted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from mqcore.cli.cluster import Cluster, cluster_options, confirmed
from mqcore.clock import monotonic_ms
from mqcore.model.topics import PERM_READ, PERM_WRITE, QUEUES_MAX, SCHEDULE_TOPIC, TopicConfig

if TYPE_CHECKING:
    from mqcore.admin import Admin
    from mqcore.model.queues import MessageQueue

__all__ = ["move", "queues"]

_LOOK_S: Final = 0.5
# Official producers ask for routes every 30 s: one may send to a queue for so long that is no
# longer written.
_QUIET_S: Final = 40.0
_MS_PER_S: Final = 1_000
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class _Left:
    """What is in the way of queues that are to go.

    Attributes:
        lags: Messages that groups have not consumed, by group.
        timed: Messages of the topic with a time of their own.
        delivered: How far delayed messages of any topic are delivered, by broker and level.
        scheduled: Where those end.
        messages: Messages that are in the queues at all.
        ends: Where the queues end.
    """

    lags: dict[str, int]
    timed: int
    delivered: dict[tuple[str, int], int]
    scheduled: dict[tuple[str, int], int]
    messages: int
    ends: dict["MessageQueue", int]

    def delayed(self, ends: dict[tuple[str, int], int]) -> int:
        """Returns how many delayed messages before some ends are not delivered."""
        return sum(max(0, end - self.delivered.get(at, 0)) for at, end in ends.items())

    def text(self, ends: dict[tuple[str, int], int]) -> str:
        """Returns what is waited for, for people; empty for nothing."""
        parts = [f"{group}: {lag:,}" for group, lag in self.lags.items() if lag]
        if later := self.timed + self.delayed(ends):
            parts.append(f"delayed: {later:,}")
        return ", ".join(parts)


def _waiting_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("-y", "--yes", "is_sure", is_flag=True, help="Do not ask."),
        click.option("--dry-run", is_flag=True, help="Only show what is to be done."),
        click.option(
            "--quiet-s",
            type=click.FloatRange(0),
            default=_QUIET_S,
            show_default=True,
            help="For so long no message may have come: as long as producers keep routes.",
        ),
        click.option(
            "--without-group",
            "ignored",
            metavar="GROUP",
            multiple=True,
            help="Do not wait for this group: what it has not consumed is lost for it.",
        ),
    ):
        command = option(command)
    return command


@click.command("queues")
@click.argument("name")
@click.argument("count", type=click.IntRange(1, QUEUES_MAX))
@click.option("-b", "--broker", "brokers", metavar="NAME", multiple=True, help="Only on these.")
@_waiting_options
@cluster_options
def queues(
    cluster: Cluster,
    name: str,
    count: int,
    brokers: tuple[str, ...],
    **waiting: Any,
) -> None:
    """Give the topic NAME so many queues on each broker, and strand no message.

    More queues are made at once. Of those that go, producers are turned away first; when every
    group has consumed them, and no message has come for a while, they are read no more. How far
    members of a broadcast are brokers do not know. Give the command again where it was interrupted.
    """

    async def plan(admin: "Admin") -> dict[str, TopicConfig]:
        configs = await _configs(admin, name)
        _need_brokers(name, configs, brokers)
        return {each: configs[each] for each in brokers or sorted(configs)}

    configs = cluster.ask(plan)
    lines = [f"{broker}: {_counts(config)} -> {count}" for broker, config in configs.items()]
    going = {broker: range(count, config.read_queues) for broker, config in configs.items()}

    async def take_writes(admin: "Admin") -> None:
        for broker, config in configs.items():
            wanted = replace(config, write_queues=count, read_queues=max(count, config.read_queues))
            await _put(admin, broker, wanted, config)

    async def take_reads(admin: "Admin") -> None:
        for broker, config in configs.items():
            wanted = replace(config, write_queues=count, read_queues=count)
            now = (await _configs(admin, name))[broker]
            await _put(admin, broker, wanted, now)

    _run(cluster, name, lines, going, (take_writes, take_reads), **waiting)


@click.command("move")
@click.argument("name")
@click.option(
    "--from", "source", metavar="BROKER", required=True, help="The broker that it leaves."
)
@click.option("--to", "target", metavar="BROKER", required=True, help="The broker that gets it.")
@_waiting_options
@cluster_options
def move(cluster: Cluster, name: str, source: str, target: str, **waiting: Any) -> None:
    """Move the topic NAME from one broker to another, and strand no message.

    It is made at the new broker, and producers go there; at the old one groups consume what is
    left, and when no message has come for a while it is deleted there. Offsets at the new broker
    begin at 0. Give the command again where it was interrupted.
    """
    if source == target:
        raise click.UsageError("--from and --to name the same broker")

    async def plan(admin: "Admin") -> dict[str, TopicConfig]:
        configs = await _configs(admin, name)
        if (await admin.topics.route(name)).broker(source) is None or not configs:
            _need_brokers(name, configs, (source,))
        masters = (await admin.brokers.cluster()).masters(None)
        if target not in masters:
            raise click.ClickException(f"no master of {target} is registered")
        return configs

    configs = cluster.ask(plan)
    # Where it was deleted already, and name servers have not heard of it.
    before = configs.get(source) or next(iter(configs.values()))
    is_new = target not in configs
    lines = [
        f"{target}: {_counts(before) if is_new else 'has it already'}",
        f"{source}: no sends, and deleted when it is consumed",
    ]

    async def take_writes(admin: "Admin") -> None:
        if is_new:
            await _put(admin, target, replace(before, perm=before.perm | PERM_WRITE), None)
        if source in configs:
            closed = replace(before, perm=before.perm & ~PERM_WRITE | PERM_READ)
            await _put(admin, source, closed, before)

    async def delete(admin: "Admin") -> None:
        await admin.topics.delete_at(name, source)

    going = {source: range(before.queues if source in configs else 0)}
    _run(cluster, name, lines, going, (take_writes, delete), **waiting)


_Step = Callable[["Admin"], Any]


def _run(
    cluster: Cluster,
    name: str,
    lines: list[str],
    going: dict[str, range],
    steps: tuple[_Step, _Step],
    *,
    ignored: tuple[str, ...],
    quiet_s: float,
    dry_run: bool,
    is_sure: bool,
) -> None:
    """Shows what is to be done, asks, and does it: no writes, then waits, then no reads."""
    from mqcore.cli.tables import print_json

    left = cluster.ask(lambda admin: _left(admin, name, going, ignored))
    plan = "; ".join(lines)
    if any(map(len, going.values())):
        plan += f"; to be waited for: {left.text(left.scheduled) or 'nothing'}"
    if dry_run:
        if cluster.as_json:
            print_json({"topic": name, "plan": lines, "lags": left.lags, "timed": left.timed})
        else:
            click.echo(f"topic {name}: {plan}")
        return
    if left.messages and not left.lags:
        plan += f"; no group has read its {left.messages:,} messages: they are lost then"
    confirmed(f"Topic {name}: {plan}. Go on?", is_sure=is_sure)

    async def work(admin: "Admin") -> None:
        await steps[0](admin)
        if any(map(len, going.values())):
            await _until_consumed(admin, name, going, ignored, quiet_s, shows=not cluster.as_json)
        await steps[1](admin)

    cluster.ask(work)
    if cluster.as_json:
        print_json({"topic": name, "plan": lines})
    else:
        click.echo(f"topic {name}: done")


async def _until_consumed(
    admin: "Admin",
    name: str,
    going: dict[str, range],
    ignored: tuple[str, ...],
    quiet_s: float,
    *,
    shows: bool,
) -> None:
    """Returns when groups have consumed some queues, and none has had a message for a while.

    Delayed messages that were there after that while, of whatever topic, are waited for.
    """
    began_ms = since_ms = monotonic_ms()
    shown, ends = "", dict["MessageQueue", int]()
    scheduled: dict[tuple[str, int], int] | None = None
    while True:
        left = await _left(admin, name, going, ignored)
        now_ms, quiet_ms = monotonic_ms(), int(quiet_s * _MS_PER_S)
        if left.ends != ends:
            ends, since_ms = left.ends, now_ms
        if scheduled is None and now_ms - began_ms >= quiet_ms:
            scheduled = left.scheduled
        text = left.text(scheduled or {})
        if scheduled is not None and not text and now_ms - since_ms >= quiet_ms:
            return
        text = text or "late messages"
        if shows and text != shown:
            click.echo(f"topic {name}: waiting for {text}", err=True)
            shown = text
        await asyncio.sleep(_LOOK_S)


async def _left(
    admin: "Admin", name: str, going: dict[str, range], ignored: Iterable[str]
) -> _Left:
    """Returns what is in the way of queues that are to go."""
    if not any(map(len, going.values())):
        return _Left({}, 0, {}, {}, 0, {})
    stats = await admin.topics.stats(name)
    rows = {
        row.queue: row
        for row in stats.queues
        if row.queue.queue_id in going.get(row.queue.broker_name, ())
    }
    lags = {}
    for group in await admin.topics.groups(name):
        # Brokers of 5.3 make up a group of the topic's name.
        is_made_up = group == name and group not in await admin.groups.configs()
        if group in ignored or is_made_up:
            continue
        progress = await admin.groups.progress(group, topic=name, must_exist=False)
        offsets = {row.queue: row.group_offset for row in progress.queues}
        lags[group] = sum(
            max(0, row.max_offset - max(row.min_offset, offsets.get(queue, 0)))
            for queue, row in rows.items()
        )
    masters = (await admin.brokers.cluster()).masters(None)
    concerned = [masters[broker] for broker, gone in going.items() if len(gone)]
    delivered: dict[tuple[str, int], int] = {}
    scheduled: dict[tuple[str, int], int] = {}
    timed = 0
    for address in concerned:
        levels = await _none_if_refused(admin.brokers.delay_offsets(address)) or {}
        delivered |= {(address, level): offset for level, offset in levels.items()}
        waiting = await _none_if_refused(admin.topics.stats_at(address, SCHEDULE_TOPIC))
        for row in waiting.queues if waiting is not None else ():
            scheduled[(address, row.queue.queue_id + 1)] = row.max_offset
        timed += (await _none_if_refused(admin.brokers.timers(address)) or {}).get(name, 0)
    ends = {queue: row.max_offset for queue, row in rows.items()}
    messages = sum(row.count for row in rows.values())
    return _Left(lags, timed, delivered, scheduled, messages, ends)


async def _none_if_refused(asked: Awaitable[_Answer]) -> _Answer | None:
    """Returns an answer; None of a broker that has no such thing, or does not know it."""
    from mqcore.errors import ResponseError

    try:
        return await asked
    except ResponseError:
        return None


async def _configs(admin: "Admin", name: str) -> dict[str, TopicConfig]:
    """Returns an ordinary topic by broker name."""
    route = await admin.topics.route(name)
    if route.static:
        raise click.ClickException(
            f"{name} is a static topic: `mqcore admin remappingStaticTopic` moves its queues"
        )
    return await admin.topics.configs(name)


def _need_brokers(name: str, configs: dict[str, TopicConfig], brokers: Iterable[str]) -> None:
    missing = [each for each in brokers if each not in configs]
    if missing:
        known = ", ".join(sorted(configs))
        raise click.ClickException(f"topic {name} is not on {', '.join(missing)}: it is on {known}")


def _counts(config: TopicConfig) -> str:
    if config.read_queues == config.write_queues:
        return f"{config.read_queues} queues"
    return f"{config.read_queues} read and {config.write_queues} write queues"


async def _put(
    admin: "Admin", broker: str, wanted: TopicConfig, before: TopicConfig | None
) -> None:
    """Sets a topic at a broker, where that changes it; of a new one with its attributes."""
    if before == wanted:
        return
    changes = [] if before is not None else [f"+{k}={v}" for k, v in wanted.attributes.items()]
    address = (await admin.brokers.cluster()).masters(None)[broker]
    await admin.topics.put(wanted, changes=changes, brokers=[address])
