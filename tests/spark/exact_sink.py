"""Drives epochs of the sink without Spark: tasks, commits, and the crash of whoever takes part.

A driver is a client with its own memory: another one knows what servers report, as after a crash.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql.pandas.types import from_arrow_schema

from mqcore.errors import ConnectionLostError
from mqcore.remoting.link import Link
from mqcore.spark.topic_sink.columns import check_columns
from mqcore.spark.topic_sink.exactly_once import Epochs, made_client
from mqcore.spark.topic_sink.marks import TaskMark
from mqcore.spark.topic_sink.options import read_options
from mqcore.spark.topic_sink.settling import Settling
from mqcore.spark.topic_sink.task import TaskReport, WriteTask, new_attempt
from mqcore.testing import Broker
from spark.sink_task import batch_of

DECISIONS = "MQCORE_SPARK_DECISIONS"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
# Longer than transactionTimeOut: what is open is asked about.
AGED_MS = 10_000


class Driver:
    """A driver and its tasks, in one process."""

    def __init__(self, broker: Broker, topic: str, query: str = "q", **options: str) -> None:
        """Connects nowhere yet."""
        given = {
            "namesrv": broker.namesrv,
            "topic": topic,
            "delivery": "exactly-once",
            "batchBytes": "4k",
            "retryBackoffMs": "20",
            "retries": "12",
        }
        self._broker = broker
        self._topic = topic
        self._query = query
        self.options = read_options(given | options)
        self.client = made_client(self.options, self.options.client)
        self.epochs = Epochs(self.options, self.client)

    def close(self) -> None:
        """Ends it; what is in flight is left."""
        self.client.close()

    def task(self, batch: int, partition: int, rows: Sequence[str], number: int = 0) -> TaskReport:
        """Runs a task to its end: rows of some 100 bytes each."""
        columns = {
            "body": [row.rjust(100, "0") for row in rows],
            "keys": [f"k{row}" for row in rows],
        }
        made = batch_of(columns)
        mark = TaskMark(self._query, batch, partition, new_attempt(number))
        columns_of = check_columns(from_arrow_schema(made.schema), has_topic=True)
        return WriteTask(self.options, mark, self.client).write([made], columns_of)

    def tasks(self, batch: int, rows: Sequence[str], partitions: int = 2) -> list[TaskReport]:
        """Runs the tasks of an epoch."""
        parts = [rows[at::partitions] for at in range(partitions)]
        return [self.task(batch, at, part) for at, part in enumerate(parts) if part]


@contextmanager
def driver(broker: Broker, topic: str, **options: str) -> Iterator[Driver]:
    """Starts a driver, and ends it."""
    made = Driver(broker, topic, **options)
    try:
        yield made
    finally:
        made.close()


def rows_of(batch: int, count: int = 200) -> list[str]:
    """Returns the rows of an epoch."""
    return [str(batch * 10_000 + row) for row in range(count)]


def read(broker: Broker, topic: str) -> Counter[str]:
    """Returns what every reader of a topic finds."""
    return Counter(message.body.decode().lstrip("0") or "0" for message in broker.messages(topic))


def check(broker: Broker, ahead_ms: int = AGED_MS) -> None:
    """Lets the broker ask about what is open for so long."""
    running = broker._body._running()
    broker._thread.run(running.rounds.check_transactions(ahead_ms=ahead_ms))


def is_all_ended(broker: Broker) -> bool:
    """Whether a round of the check has passed every half message: none of them is open."""
    state = broker._body._running().state
    ends = state.bounds(HALF_TOPIC, 0)[1]
    return state.fast_path.offsets.find("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0) == ends


def until_ended(broker: Broker, *, rounds: int = 20) -> None:
    """Lets the broker ask until nothing is open."""
    for _ in range(rounds):
        check(broker)
        if is_all_ended(broker):
            return
    raise AssertionError("half messages are still open")


def crashing(after: int, do: Callable[[], None]) -> Callable[..., object]:
    """Returns a way to end half messages that does something behind so many of them.

    Args:
        after: How many are ended before.
        do: What happens then, once.
    """
    ask = Settling._ask
    ended = 0

    async def asked(self: Settling, link: Link, fields: dict[str, str]) -> None:
        nonlocal ended
        ended += 1
        if ended == after + 1:
            await asyncio.to_thread(do)
            raise ConnectionLostError("cut off", address=link.peer)
        await ask(self, link, fields)

    return asked
