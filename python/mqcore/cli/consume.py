"""`mqcore consume`: prints messages, of chosen queues without a group, or as a member of one."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from mqcore.cli.cluster import Cluster, cluster_options, no_queue_text, queue_of
from mqcore.cli.message_lines import FORMATS, Printer
from mqcore.cli.times import END, START, WHEN
from mqcore.client.message import ReceivedMessage
from mqcore.client.pull_consumer import PullConsumer
from mqcore.client.results import QueueRef
from mqcore.client.starting_offset import ConsumeFrom
from mqcore.client.subscribing import Expression, Sql, Tags, is_like_sql
from mqcore.errors import UsageError
from mqcore.model.subscriptions import SubscriptionData

# Without a group nothing is committed; this one is built in, and no group is made of it.
_NO_GROUP = "TOOLS_CONSUMER"
# How often a consumer looks whether it is at the end, while nothing comes.
_LOOK_S = 0.2
_POLL_MAX = 1_000
_MS_PER_S = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be printed.

    Attributes:
        topic: The topic.
        group: The group to join, None for none.
        expression: Tags or SQL.
        begin: `start`, `end` or Unix ms.
        queue: Only this queue.
        offset: From this offset of it.
        ends: Whether to end behind what is there now.
        count: End after so many, None for never.
    """

    topic: str
    group: str | None
    expression: Expression
    begin: str | int
    queue: QueueRef | None
    offset: int | None
    ends: bool
    count: int | None


class _Reading:
    """One run: where it ends, and how many more are wanted."""

    def __init__(self, wanted: Wanted, printer: Printer) -> None:
        self._wanted = wanted
        self._printer = printer
        self._ends: dict[QueueRef, int] = {}
        self._left = wanted.count
        self._is_rebalanced = False

    def rebalanced(self, _topic: str, _ours: Sequence[QueueRef], _all: Sequence[QueueRef]) -> None:
        """Notes that the queues of the group were divided."""
        self._is_rebalanced = True

    async def alone(self, consumer: PullConsumer) -> None:
        """Reads chosen queues without a group."""
        wanted = self._wanted
        queues = await consumer.topic_queues(wanted.topic)
        if wanted.queue is not None:
            if wanted.queue not in queues:
                named = (wanted.queue.broker_name, wanted.queue.queue_id)
                there = ((each.broker_name, each.queue_id) for each in queues)
                raise UsageError(no_queue_text(wanted.topic, named, there))
            queues = [wanted.queue]
        await self._note_ends(consumer, queues)
        await consumer.assign(queues)
        for queue in queues:
            if wanted.offset is not None:
                consumer.seek(queue, wanted.offset)
            elif wanted.begin == START:
                await consumer.seek_begin(queue)
            elif wanted.begin == END:
                await consumer.seek_end(queue)
            else:
                await consumer.seek_time(queue, int(wanted.begin) / _MS_PER_S)
        self._is_rebalanced = True
        await self._read(consumer)

    async def as_member(self, consumer: PullConsumer) -> None:
        """Reads as a member of a group, and commits what was printed."""
        await self._note_ends(consumer, await consumer.topic_queues(self._wanted.topic))
        try:
            await self._read(consumer)
        finally:
            await consumer.commit()

    async def _note_ends(self, consumer: PullConsumer, queues: Sequence[QueueRef]) -> None:
        if self._wanted.ends:
            bounds = await asyncio.gather(*(consumer.bounds(queue) for queue in queues))
            self._ends = {queue: high for queue, (_, high) in zip(queues, bounds, strict=True)}

    async def _read(self, consumer: PullConsumer) -> None:
        while self._left != 0 and not self._is_at_end(consumer):
            count = _POLL_MAX if self._left is None else min(_POLL_MAX, self._left)
            batch = await consumer.poll(_LOOK_S, max_count=count)
            batch = [message for message in batch if self._is_wanted(message)]
            self._printer.show(batch)
            if self._left is not None:
                self._left -= len(batch)

    def _is_at_end(self, consumer: PullConsumer) -> bool:
        """Whether everything is printed that our queues had at the start."""
        if not self._wanted.ends or not self._is_rebalanced:
            return False
        positions = {queue: consumer.position(queue) for queue in consumer.queues}
        return all(
            at is not None and at >= self._ends.get(queue, 0) for queue, at in positions.items()
        )

    def _is_wanted(self, message: ReceivedMessage) -> bool:
        """Whether it is to be printed: brokers filter for groups only."""
        expression = self._wanted.expression
        if self._wanted.group is not None or isinstance(expression, Sql):
            return True
        text = expression.text if isinstance(expression, Tags) else expression
        tags = SubscriptionData.of_expression(self._wanted.topic, text).tags
        return not tags or message.tags in tags


def _consumer(cluster: Cluster, wanted: Wanted, reading: _Reading) -> PullConsumer:
    """Returns the consumer of a run."""
    settings: dict[str, Any] = {"auto_commit": wanted.group is not None, "hand_over_s": 0.0}
    if wanted.group is not None:
        settings |= _beginning(wanted.begin)
    return PullConsumer(
        cluster.namesrv,
        group=wanted.group or _NO_GROUP,
        topics={} if wanted.group is None else {wanted.topic: wanted.expression},
        credentials=cluster.credentials,
        tls=cluster.tls,
        on_rebalance=reading.rebalanced,
        **settings,
    )


def _beginning(begin: str | int) -> Mapping[str, Any]:
    """Returns the settings for where a new group begins."""
    if begin == START:
        return {"consume_from": ConsumeFrom.FIRST_OFFSET}
    if begin == END:
        return {"consume_from": ConsumeFrom.LAST_OFFSET}
    return {
        "consume_from": ConsumeFrom.TIMESTAMP,
        "consume_timestamp": int(begin) / _MS_PER_S,
    }


async def _consumed(cluster: Cluster, wanted: Wanted, printer: Printer) -> None:
    reading = _Reading(wanted, printer)
    async with _consumer(cluster, wanted, reading) as consumer:
        if wanted.group is None:
            await reading.alone(consumer)
        else:
            await reading.as_member(consumer)


@click.command()
@click.argument("topic")
@click.option("-g", "--group", metavar="NAME", help="Share the messages with a group, and commit.")
@click.option(
    "--since",
    "begin",
    type=WHEN,
    default=START,
    show_default=True,
    help="Where to begin: start, end, 10m (ago), 2024-05-01T10:00. A group that exists goes on.",
)
@click.option("--queue", metavar="BROKER:ID", help="Only this queue.")
@click.option("--offset", type=click.IntRange(0), help="From this offset of --queue.")
@click.option("-t", "--tags", default="*", metavar="EXPR", help="Only these tags: 'a || b'.")
@click.option("--sql", metavar="EXPR", help="Only what matches; with --group.")
@click.option("-e", "--exit-at-end", "ends", is_flag=True, help="End behind what is there now.")
@click.option("-c", "--count", type=click.IntRange(1), help="End after so many.")
@click.option(
    "-f",
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    help="by default line on a terminal and body in a pipe.",
)
@cluster_options
def consume(
    cluster: Cluster,
    topic: str,
    group: str | None,
    begin: str | int,
    queue: str | None,
    offset: int | None,
    tags: str,
    sql: str | None,
    ends: bool,
    count: int | None,
    form: str | None,
) -> None:
    """Print the messages of TOPIC, and those that come. Ctrl-C ends it with exit code 0.

    Without --group nobody else notices. With it the queues are shared with the group's other
    members, and what was printed counts as consumed.

    Formats: line (time, queue and offset, tags, keys, body), body (one per line), raw (bodies as
    they are, nothing between), json (as --json: one object per line, which `mqcore produce -f
    json` takes), card (everything, for people).
    """
    if offset is not None and queue is None:
        raise click.UsageError("--offset is one of a queue: add --queue BROKER:ID")
    if group is not None and queue is not None:
        raise click.UsageError("a group divides the queues itself: --queue goes without --group")
    if sql is not None and group is None:
        raise click.UsageError("SQL is the broker's work for a group: add --group NAME")
    if sql is None and is_like_sql(tags):
        raise click.UsageError(f"--tags: no message has a tag like {tags!r}: SQL goes with --sql")
    chosen = form or ("line" if sys.stdout.isatty() else "body")
    wanted = Wanted(
        topic=topic,
        group=group,
        expression=Sql(sql) if sql is not None else tags,
        begin=begin,
        queue=queue_of(topic, queue) if queue is not None else None,
        offset=offset,
        ends=ends,
        count=count,
    )
    printer = Printer("json" if cluster.as_json else chosen)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_consumed(cluster, wanted, printer))
    except BrokenPipeError:
        # Who read has enough, as `head` does; what is buffered still has to be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
