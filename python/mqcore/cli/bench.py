"""`mqcore bench`: how fast a cluster takes messages, and gives them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import click

from mqcore.cli.cluster import Cluster, cluster_options
from mqcore.cli.latencies import Latencies
from mqcore.cli.tables import console, print_json, print_pairs
from mqcore.client.message import Message, ReceivedMessage
from mqcore.client.producer import Producer
from mqcore.client.push_consumer import PushConsumer
from mqcore.client.starting_offset import ConsumeFrom
from mqcore.errors import MQError

_GROUP = "MQCORE_BENCH"
_MIB = 1 << 20
_US_PER_S = 1_000_000
_SHOW_S = 0.5
# As wide as the line that shows how far it is.
_SHOWN = 48
_BATCH = 256


class Bench:
    """One measurement: what was done since when, and how long each took.

    Attributes:
        count: Messages so far.
        latencies: How long each of them took.
    """

    def __init__(self, size_bytes: int, seconds: float, now: Callable[[], float]) -> None:
        """Begins now.

        Args:
            size_bytes: Bytes of a body.
            seconds: How long it is to last.
            now: A time in seconds that never steps back.
        """
        self.count = 0
        self.latencies = Latencies()
        self._size_bytes = size_bytes
        self._now = now
        self._began_s = now()
        self._last_s = self._began_s + seconds
        self._ended_s: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether its time is up."""
        return self._now() >= self._last_s

    def restart(self, seconds: float) -> None:
        """Begins now, with nothing counted yet."""
        self.count = 0
        self._began_s = self._now()
        self._last_s = self._began_s + seconds

    def end(self) -> None:
        """Ends now."""
        self._ended_s = self._now()

    def report(self) -> dict[str, Any]:
        """Returns the figures."""
        ended_s = self._ended_s or self._now()
        seconds = max(1e-9, ended_s - self._began_s)
        report: dict[str, Any] = {
            "messages": self.count,
            "seconds": round(seconds, 3),
            "per_s": round(self.count / seconds, 1),
            "mib_per_s": round(self.count * self._size_bytes / seconds / _MIB, 2),
        }
        if self.latencies.count:
            report |= {f"{name}_us": value for name, value in self.latencies.summary_us().items()}
        return report


async def _shown(bench: Bench, work: Awaitable[None], *, is_shown: bool) -> None:
    """Waits for the work; shows how far it is on a terminal meanwhile."""
    task = asyncio.ensure_future(work)
    out = console(stderr=True)
    while not task.done():
        await asyncio.wait([task], timeout=_SHOW_S)
        if is_shown and out.is_terminal:
            report = bench.report()
            out.print(
                f"{report['messages']:,} messages, {report['per_s']:,.0f}/s".ljust(_SHOWN), end="\r"
            )
    if is_shown and out.is_terminal:
        out.print(" " * _SHOWN, end="\r")
    await task


def _print_report(cluster: Cluster, report: dict[str, Any]) -> None:
    if cluster.as_json:
        print_json(report)
    else:
        print_pairs(report)


@click.group()
def bench() -> None:
    """Measure a cluster with this client."""


_TIME_OPTION = click.option(
    "-d",
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="How long.",
)


@bench.command("produce")
@click.argument("topic")
@_TIME_OPTION
@click.option(
    "-s", "--size", "size_bytes", type=click.IntRange(1), default=1_024, show_default=True,
    help="Bytes of a body.",
)  # fmt: skip
@click.option(
    "-i", "--in-flight", type=click.IntRange(1), default=256, show_default=True,
    help="Messages that wait for their answer.",
)  # fmt: skip
@click.option("--batching", is_flag=True, help="Gather messages into batches.")
@cluster_options
def produce_(
    cluster: Cluster,
    topic: str,
    seconds: float,
    size_bytes: int,
    in_flight: int,
    batching: bool,
) -> None:
    """Send messages to TOPIC for a while; print the rate and the latencies."""

    async def work() -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        body = bytes(size_bytes)
        async with Producer(
            cluster.namesrv,
            group=_GROUP,
            credentials=cluster.credentials,
            tls=cluster.tls,
            timeout_s=cluster.timeout_s,
            batching=batching,
            compress_above_bytes=None,
        ) as producer:
            # Route and connection are not what is measured.
            await producer.send(Message(topic, body))
            measured = Bench(size_bytes, seconds, loop.time)

            async def sender() -> None:
                while not measured.is_over:
                    began_s = loop.time()
                    await producer.send(Message(topic, body))
                    measured.latencies.note((loop.time() - began_s) * _US_PER_S)
                    measured.count += 1

            async def senders() -> None:
                await asyncio.gather(*(sender() for _ in range(in_flight)))

            await _shown(measured, senders(), is_shown=not cluster.as_json)
            measured.end()
        return measured.report()

    _print_report(cluster, asyncio.run(work()))


@bench.command("consume")
@click.argument("topic")
@_TIME_OPTION
@click.option("-g", "--group", default=_GROUP, show_default=True, help="The group to join.")
@cluster_options
def consume_(cluster: Cluster, topic: str, seconds: float, group: str) -> None:
    """Consume TOPIC from its start for a while, from the first message on; print the rate.

    The group commits. Exit code 2 when no message comes.
    """

    async def work() -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        first = asyncio.Event()
        measured = Bench(0, seconds, loop.time)
        total_bytes = 0

        async def handle(messages: list[ReceivedMessage]) -> None:
            nonlocal total_bytes
            if not first.is_set():
                first.set()
                measured.restart(seconds)
            measured.count += len(messages)
            total_bytes += sum(message.record.stored_body_len_bytes for message in messages)

        async with PushConsumer(
            cluster.namesrv,
            group=group,
            topics=topic,
            handler=handle,
            credentials=cluster.credentials,
            tls=cluster.tls,
            batch=_BATCH,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ):
            try:
                async with asyncio.timeout(seconds + cluster.timeout_s):
                    await first.wait()
            except TimeoutError:
                raise MQError(
                    f"topic {topic}: no message came for group {group}; is there one that it has "
                    f"not read? mqcore group describe {group}"
                ) from None
            await _shown(measured, asyncio.sleep(seconds), is_shown=not cluster.as_json)
            measured.end()
        report = measured.report()
        return report | {"mib_per_s": round(total_bytes / report["seconds"] / _MIB, 2)}

    _print_report(cluster, asyncio.run(work()))
