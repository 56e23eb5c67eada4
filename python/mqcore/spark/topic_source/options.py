"""The options of reading topics, checked: where, from which offset to which, how much at a time.

Names and precedence are those of Spark's Kafka source; the names of the old rocketmq-spark are
aliases. Knows no socket and no Spark.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mqcore.model.queues import MessageQueue
from mqcore.remoting.tls import TlsFiles
from mqcore.spark.options import (
    CONNECTION,
    Option,
    OptionError,
    OptionTable,
    choice,
    contradiction,
    duration_ms,
    name_list,
    number,
    positive,
    regex,
    size_bytes,
    text,
    time_ms,
    truth,
)
from mqcore.spark.topic_source.queue_json import LATEST, assignment, end_of, start_of, times

__all__ = ["READ_TABLE", "ReadOptions", "read_options"]

# A task of some seconds: enough to be worth its start, little enough to be done again.
PARTITION_BYTES: Final = 128 << 20
# One answer of a broker; ours gives no longer ones.
FETCH_BYTES: Final = 4 << 20

READ_TABLE: Final = OptionTable(
    'format("mqcore"), reading,',
    CONNECTION,
    (
        Option("subscribe", "topics", name_list, ("topic", "topics"), "topics, with commas"),
        Option("subscribePattern", "pattern", regex, (), "a regular expression of whole names"),
        Option("assign", "assigned", assignment, (), "queues: JSON topic, broker, list"),
        Option("includeSystemTopics", "has_system_topics", truth, (), "patterns match these too"),
        Option("filter", "tags", text, ("subExpression", "tags"), "tags: a || b; by the broker"),
        Option("filterSql", "sql", text, (), "an SQL92 expression; by the broker"),
        Option(
            "startingOffsets",
            "starting_offsets",
            start_of,
            ("startOffset",),
            "earliest, latest, group, or JSON; streams: latest, batches: earliest",
        ),
        Option("startingTimestamp", "starting_ms", time_ms, (), "one time for all queues"),
        Option("startingOffsetsByTimestamp", "starting_times", times, (), "JSON of times"),
        Option(
            "startingOffsetsByTimestampStrategy",
            "no_match",
            choice("error", "latest"),
            (),
            "what it is to begin where nothing is as new as the time",
        ),
        Option("endingOffsets", "ending_offsets", end_of, ("endOffset",), "latest, or JSON"),
        Option("endingTimestamp", "ending_ms", time_ms, (), "one time for all queues"),
        Option("endingOffsetsByTimestamp", "ending_times", times, (), "JSON of times"),
        Option("maxOffsetsPerTrigger", "rows_per_trigger", positive, (), "rows of one batch"),
        Option("maxBytesPerTrigger", "bytes_per_trigger", size_bytes, (), "bytes, estimated"),
        Option("minOffsetsPerTrigger", "min_rows_per_trigger", positive, (), "wait for so many"),
        Option("maxTriggerDelay", "trigger_delay_ms", duration_ms, (), "but no longer than this"),
        Option("legacyRateLimit", "is_legacy_limited", truth, (), "limits before Spark 4.2"),
        Option("minPartitions", "min_partitions", positive, (), "tasks at the least, about"),
        Option(
            "maxRowsPerPartition",
            "rows_per_partition",
            positive,
            ("maxRecordsPerPartition",),
            "rows of one task",
        ),
        Option("maxBytesPerPartition", "bytes_per_partition", size_bytes, (), "bytes, estimated"),
        Option("failOnDataLoss", "fails_on_data_loss", truth, (), "false: go on behind the gap"),
        Option(
            "group", "group", text, ("consumerGroup", "kafka.group.id"), "who tools see reading"
        ),
        Option("commitToGroup", "commits", truth, (), "tell the group's progress; true"),
        Option("includeProperties", "has_properties", truth, ("includeHeaders",), "a map of all"),
        Option("includeBody", "has_body", truth, (), "false: leave bodies out"),
        Option("fetchMaxBytes", "fetch_bytes", size_bytes, (), "bytes of one answer; 4m"),
        Option(
            "fetchTimeoutMs",
            "fetch_timeout_ms",
            duration_ms,
            ("pullTimeoutMs", "pollTimeoutMs"),
            "deadline of one answer; 30s",
        ),
        Option("retries", "retries", number, ("fetchOffset.numRetries",), "of each question; 5"),
        Option(
            "retryBackoffMs",
            "retry_backoff_ms",
            duration_ms,
            ("fetchOffset.retryIntervalMs",),
            "pause before a retry; 200",
        ),
        Option("pullBatchSize", "pull_rows", positive, (), "messages of one answer at the most"),
        Option("batchRows", "batch_rows", positive, (), "rows of one Arrow batch; 4096"),
        Option("pushdown", "pushes_down", truth, (), "take filters from Spark (4.1 and newer)"),
    ),
)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What is to be read, and how. The notes of `READ_TABLE` explain each."""

    namesrv: str
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assigned: tuple[MessageQueue, ...] | None = None
    has_system_topics: bool = False
    tags: str = "*"
    sql: str | None = None
    starting_offsets: str | dict[MessageQueue, int] | None = None
    starting_ms: int | None = None
    starting_times: dict[MessageQueue, int] | None = None
    no_match: str = "error"
    ending_offsets: str | dict[MessageQueue, int] = "latest"
    ending_ms: int | None = None
    ending_times: dict[MessageQueue, int] | None = None
    rows_per_trigger: int | None = None
    bytes_per_trigger: int | None = None
    min_rows_per_trigger: int | None = None
    trigger_delay_ms: int = 15 * 60_000
    is_legacy_limited: bool = False
    min_partitions: int | None = None
    rows_per_partition: int | None = None
    bytes_per_partition: int = PARTITION_BYTES
    fails_on_data_loss: bool = True
    group: str | None = None
    commits: bool = True
    has_properties: bool = False
    has_body: bool = True
    fetch_bytes: int = FETCH_BYTES
    fetch_timeout_ms: int = 30_000
    retries: int = 5
    retry_backoff_ms: int = 200
    pull_rows: int = 8192
    batch_rows: int = 4096
    pushes_down: bool = False
    request_timeout_ms: int = 5_000
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)
    tls: bool | TlsFiles = False

    @property
    def is_filtered(self) -> bool:
        """Whether the broker leaves messages out, so that missing offsets mean nothing."""
        return self.sql is not None or self.tags != "*"

    @property
    def mirrors_to(self) -> str | None:
        """The group to which the progress of a stream is committed, None for no one."""
        return self.group if self.commits else None


def read_options(given: Mapping[str, str], *, is_stream: bool) -> ReadOptions:
    """Returns the options as Spark gives them, checked.

    Args:
        given: By name in any case.
        is_stream: Whether a stream is read, and not a batch.

    Raises:
        OptionError: One is unknown, impossible, missing, or contradicts another.
    """
    values = READ_TABLE.parse(given)
    if "namesrv" not in values:
        raise OptionError(
            "namesrv is missing: where are the name servers, such as 127.0.0.1:9876?",
            option="namesrv",
        )
    if "group" not in values and values.get("commits"):
        raise contradiction("commitToGroup", "commitToGroup needs the option group")
    options = ReadOptions(**values)
    _check_topics(options)
    _check_bounds(options)
    (_check_stream if is_stream else _check_batch)(options, given)
    return options


def _check_topics(options: ReadOptions) -> None:
    ways = (options.topics, options.pattern, options.assigned)
    if sum(way is not None for way in ways) != 1:
        raise contradiction(
            "subscribe",
            "exactly one of the options subscribe, subscribePattern and assign says what is read",
        )
    if options.sql is not None and options.tags != "*":
        raise contradiction("filterSql", "filter and filterSql cannot stand together")
    if (options.access_key is None) != (options.secret_key is None):
        raise contradiction("accessKey", "accessKey and secretKey belong together")
    if options.starting_offsets == "group" and options.group is None:
        raise contradiction("startingOffsets", "startingOffsets=group needs the option group")


def _check_bounds(options: ReadOptions) -> None:
    if (
        options.starting_ms is not None
        and options.ending_ms is not None
        and options.starting_ms > options.ending_ms
    ):
        raise contradiction(
            "startingTimestamp",
            f"startingTimestamp {options.starting_ms} lies behind endingTimestamp "
            f"{options.ending_ms}",
        )
    start, end = options.starting_offsets, options.ending_offsets
    if isinstance(start, dict) and isinstance(end, dict):
        for queue in sorted(start.keys() & end.keys()):
            if start[queue] > end[queue] >= 0:
                raise contradiction(
                    "startingOffsets",
                    f"startingOffsets of {queue.topic}, broker {queue.broker_name}, queue "
                    f"{queue.queue_id} is {start[queue]}, behind its endingOffsets {end[queue]}",
                )
    least, most = options.min_rows_per_trigger, options.rows_per_trigger
    if least is not None and most is not None and least > most:
        raise contradiction(
            "minOffsetsPerTrigger",
            f"minOffsetsPerTrigger {least} is above maxOffsetsPerTrigger {most}",
        )


def _check_stream(options: ReadOptions, _given: Mapping[str, str]) -> None:
    if options.ending_offsets != "latest" or options.ending_times is not None:
        raise contradiction(
            "endingOffsets", "a stream has no endingOffsets; endingTimestamp may end it"
        )
    if options.pushes_down:
        raise contradiction("pushdown", "Spark pushes no filters to streams: leave pushdown out")


def _check_batch(options: ReadOptions, given: Mapping[str, str]) -> None:
    start = options.starting_offsets
    if start == "latest" or (isinstance(start, dict) and LATEST in start.values()):
        raise contradiction(
            "startingOffsets", "a batch that begins at latest has no rows: earliest, group or JSON"
        )
    folded = {name.lower() for name in given}
    for name in ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger"):
        if name.lower() in folded:
            raise contradiction(name, f"{name} is for streams, and this is a batch")
