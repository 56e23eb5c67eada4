"""The settings of consumers, with the official defaults, and the reasons of those that differ."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from mqcore.client.option import check, made, option
from mqcore.client.process_queue import FlowBounds
from mqcore.client.starting_offset import ConsumeFrom
from mqcore.clock import wall_ms
from mqcore.model.allocation import (
    Averagely,
    AveragelyByCircle,
    ConsistentHash,
    Sticky,
    Strategy,
)

__all__ = ["ConsumerSettings", "PullConsumerSettings", "PushConsumerSettings"]

_MIB: Final = 1 << 20
_MS_PER_S: Final = 1000
_HALF_HOUR_MS: Final = 1_800_000
# The official bounds of messages per call and per pull.
_BATCH_MAX: Final = 1024
_PULL_MAX: Final = 1024
_PULL_COUNT: Final = 32
# Deliveries after the first one: of a shared queue, and of an orderly one (Integer.MAX_VALUE).
_RECONSUME_MAX: Final = 16
_ORDERLY_RECONSUME_MAX: Final = (1 << 31) - 1
_STARTS: Final = {
    "earliest": ConsumeFrom.FIRST_OFFSET,
    "latest": ConsumeFrom.LAST_OFFSET,
    "timestamp": ConsumeFrom.TIMESTAMP,
}
_STRATEGIES: Final[Mapping[str, Strategy]] = {
    "averagely": Averagely(),
    "averagely_by_circle": AveragelyByCircle(),
    "consistent_hash": ConsistentHash(),
    "sticky": Sticky(),
}


def _offsets_directory() -> Path:
    return Path.home() / ".rocketmq_offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """What both kinds of consumer know.

    Attributes:
        consume_from: Where a new group begins: a `ConsumeFrom`, or its word. Brokers begin at
            the first message whatever is asked for where a queue still has it in memory.
        consume_timestamp: The time, for `ConsumeFrom.TIMESTAMP`: seconds since 1970 or a
            `datetime`; half an hour ago when not given.
        strategy: Divides queues among the members, an object or a word; all must use the same.
        broadcast: Receive everything, whoever else there is; offsets are kept in a file.
        count_max: Messages of one queue that may wait (`pullThresholdForQueue`).
        bytes_max: Bytes of their bodies (`pullThresholdSizeForQueue`).
        persist_interval_s: How often offsets are saved.
        rebalance_interval_s: How often queues are divided anew at the latest.
        hand_over_s: How long a queue that may have been another member's is left alone first, so
            that its offset arrives; the official client waits as long, but asks before.
        drain_s: How long closing waits for handlers that run.
        offsets_directory: Where a broadcast consumer keeps its offsets.
    """

    consume_from: ConsumeFrom | Literal["earliest", "latest", "timestamp"] = option(
        ConsumeFrom.LAST_OFFSET,
        words=_STARTS,
        change="a new group wants what is there already",
        shown="ConsumeFrom.LAST_OFFSET",
    )
    consume_timestamp: float | datetime | None = option(
        None, unit="s since 1970", change="`consume_from` is `timestamp`"
    )
    strategy: (
        Strategy | Literal["averagely", "averagely_by_circle", "consistent_hash", "sticky"]
    ) = made(
        Averagely,
        words=_STRATEGIES,
        change="queues are to move less, or to be near",
        shown="Averagely()",
    )
    broadcast: bool = option(False, change="every consumer needs everything, such as a cache")
    count_max: int = option(
        1000, unit="messages per queue", above=0, change="messages are large or handlers slow"
    )
    bytes_max: int = option(
        100 * _MIB, unit="bytes per queue", above=0, change="memory is short, or queues are many"
    )
    persist_interval_s: float = option(
        5.0, unit="s", above=0, change="fewer repeats after a crash are worth more requests"
    )
    rebalance_interval_s: float = option(
        20.0, unit="s", above=0, change="queues of members that died are to move sooner"
    )
    hand_over_s: float = option(
        0.5, unit="s", low=0, change="0 in tests, where a group has one member"
    )
    drain_s: float = option(10.0, unit="s", low=0, change="handlers take longer than that")
    offsets_directory: Path | str = made(
        _offsets_directory,
        change="`broadcast`, and the home directory is not kept",
        shown="~/.rocketmq_offsets",
    )

    def __post_init__(self) -> None:
        """Checks what would fail late.

        Raises:
            UsageError: A value cannot work.
        """
        check(self)

    @property
    def start(self) -> ConsumeFrom:
        """Where a new group begins: the value of `consume_from`, where that is a word too."""
        found = self.consume_from
        return _STARTS[found] if isinstance(found, str) else found

    @property
    def division(self) -> Strategy:
        """What divides queues: the value of `strategy`, where that is a word too."""
        found = self.strategy
        return _STRATEGIES[found] if isinstance(found, str) else found

    @property
    def start_timestamp_ms(self) -> int:
        """The time that a new group begins at, in ms since 1970."""
        moment = self.consume_timestamp
        if isinstance(moment, datetime):
            moment = moment.timestamp()
        if moment is None:
            return wall_ms() - _HALF_HOUR_MS
        return round(moment * _MS_PER_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class PushConsumerSettings(ConsumerSettings):
    """How a push consumer consumes.

    Attributes:
        orderly: Consume each queue's messages one after the other, under a lock of the broker.
        batch: Messages of one call: the handler gets a list of so many at the most. None gives it
            single messages.
        concurrency: Calls of the handler that run at once (`consumeThreadMax`).
        pull_count: Messages of one pull; official brokers give 32 at the most unless they are set
            otherwise.
        span_max: Queue offsets from the oldest unsettled message to the newest.
        consume_timeout_s: After so long a call is given up: its messages are given back, and a
            coroutine is cancelled. Orderly consumers wait for ever, as order demands.
        reconsume_max: Deliveries after the first one, then the dead-letter queue; 16 when not
            given, orderly without end.
        suspend_s: How long an orderly queue waits after a failure.
        pull_interval_s: A pause between two pulls of a queue that brought messages.
    """

    orderly: bool = option(False, change="messages of one sharding key must not overtake")
    batch: int | None = option(
        None,
        unit="messages",
        low=1,
        high=_BATCH_MAX,
        change="one call for many messages is cheaper, as rows of a table are",
    )
    concurrency: int = option(
        20, unit="calls", above=0, change="handlers wait for others: more; they compute: fewer"
    )
    pull_count: int | None = option(
        None, unit="messages", low=1, high=_PULL_MAX, change="small messages come fast"
    )
    span_max: int = option(
        2000, unit="offsets", above=0, change="one slow message must not hold up its queue"
    )
    consume_timeout_s: float = option(
        900.0, unit="s", above=0, change="handlers take longer, or must be given up sooner"
    )
    reconsume_max: int | None = option(
        None, unit="deliveries", low=-1, change="poison messages must be put aside sooner, or later"
    )
    suspend_s: float = option(1.0, unit="s", low=0, change="`orderly`, and failures last longer")
    pull_interval_s: float = option(
        0.0, unit="s", low=0, change="brokers are to be spared: it slows the consumer"
    )

    @property
    def pulled(self) -> int:
        """Messages of one pull: enough to fill a batch when not given."""
        return max(_PULL_COUNT, self.batch or 1) if self.pull_count is None else self.pull_count

    @property
    def deliveries_max(self) -> int:
        """Deliveries after the first one."""
        if self.reconsume_max is not None and self.reconsume_max >= 0:
            return self.reconsume_max
        return _ORDERLY_RECONSUME_MAX if self.orderly else _RECONSUME_MAX

    @property
    def bounds(self) -> FlowBounds:
        """How much of one queue may wait."""
        return FlowBounds(self.count_max, self.bytes_max, self.span_max)

    def official(self) -> dict[str, str]:
        """Returns the settings by their official names, for tools."""
        return {
            "PROP_CONSUMEORDERLY": str(self.orderly).lower(),
            "PROP_THREADPOOL_CORE_SIZE": str(self.concurrency),
            "consumeConcurrentlyMaxSpan": str(self.span_max),
            "consumeMessageBatchMaxSize": str(self.batch or 1),
            "consumeThreadMax": str(self.concurrency),
            "consumeThreadMin": str(self.concurrency),
            "consumeTimeout": str(round(self.consume_timeout_s / 60)),
            "maxReconsumeTimes": str(self.deliveries_max),
            "pullBatchSize": str(self.pulled),
            "pullInterval": str(round(self.pull_interval_s * _MS_PER_S)),
            "suspendCurrentQueueTimeMillis": str(round(self.suspend_s * _MS_PER_S)),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PullConsumerSettings(ConsumerSettings):
    """How a pull consumer consumes.

    Attributes:
        auto_commit: Commit by itself, every `persist_interval_s`, what was polled before the last
            poll: what a poll gave counts as consumed when the next one is asked for.
        poll_count: Messages of one poll at the most.
        pull_count: Messages of one pull.
    """

    auto_commit: bool = option(True, change="offsets are saved with your own results, or by hand")
    poll_count: int = option(
        1000, unit="messages", above=0, change="a batch is too much for one transaction of yours"
    )
    pull_count: int = option(
        _PULL_COUNT, unit="messages", low=1, high=_PULL_MAX, change="small messages come fast"
    )

    @property
    def bounds(self) -> FlowBounds:
        """How much of one queue may wait; the span cannot grow beyond the count here."""
        return FlowBounds(self.count_max, self.bytes_max, span_max=1 << 62)

    def official(self) -> dict[str, str]:
        """Returns the settings by their official names, for tools."""
        return {
            "PROP_CONSUMEORDERLY": "false",
            "PROP_THREADPOOL_CORE_SIZE": "0",
            "autoCommit": str(self.auto_commit).lower(),
            "pullBatchSize": str(self.pull_count),
        }
