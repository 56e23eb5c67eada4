"""The settings of consumers, with the official defaults, and the reasons of those that differ."""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from mqcore.client.process_queue import FlowBounds
from mqcore.client.starting_offset import ConsumeFrom
from mqcore.clock import wall_ms
from mqcore.errors import UsageError
from mqcore.model.allocation import Averagely, Strategy

__all__ = ["PullConsumerSettings", "PushConsumerSettings"]

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


def _offsets_directory() -> Path:
    return Path.home() / ".rocketmq_offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """What both kinds of consumer know.

    Attributes:
        consume_from: Where a new group begins.
        consume_timestamp: The time, for `ConsumeFrom.TIMESTAMP`: seconds since 1970 or a
            `datetime`; half an hour ago when not given.
        strategy: Divides queues among the members; all must use the same.
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

    consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    consume_timestamp: float | datetime | None = None
    strategy: Strategy = field(default_factory=Averagely)
    broadcast: bool = False
    count_max: int = 1000
    bytes_max: int = 100 * _MIB
    persist_interval_s: float = 5.0
    rebalance_interval_s: float = 20.0
    hand_over_s: float = 0.5
    drain_s: float = 10.0
    offsets_directory: Path = field(default_factory=_offsets_directory)

    @property
    def start_timestamp_ms(self) -> int:
        """The time that a new group begins at, in ms since 1970."""
        moment = self.consume_timestamp
        if isinstance(moment, datetime):
            moment = moment.timestamp()
        if moment is None:
            return wall_ms() - _HALF_HOUR_MS
        return round(moment * _MS_PER_S)

    def _check(self, *positive: str) -> None:
        for name in ("count_max", "bytes_max", "persist_interval_s", "rebalance_interval_s"):
            _above_zero(self, name)
        for name in positive:
            _above_zero(self, name)
        for name in ("hand_over_s", "drain_s"):
            if not getattr(self, name) >= 0:
                raise UsageError(f"{name}: {getattr(self, name)!r} is below 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class PushConsumerSettings(_Shared):
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

    orderly: bool = False
    batch: int | None = None
    concurrency: int = 20
    pull_count: int | None = None
    span_max: int = 2000
    consume_timeout_s: float = 900.0
    reconsume_max: int | None = None
    suspend_s: float = 1.0
    pull_interval_s: float = 0.0

    def __post_init__(self) -> None:
        """Checks what would fail late.

        Raises:
            UsageError: A value cannot work.
        """
        self._check("concurrency", "span_max", "consume_timeout_s")
        if self.batch is not None and not 1 <= self.batch <= _BATCH_MAX:
            raise UsageError(f"batch: {self.batch!r} is not within 1 to {_BATCH_MAX}")
        if not 1 <= self.pulled <= _PULL_MAX:
            raise UsageError(f"pull_count: {self.pull_count!r} is not within 1 to {_PULL_MAX}")

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
class PullConsumerSettings(_Shared):
    """How a pull consumer consumes.

    Attributes:
        auto_commit: Commit by itself, every `persist_interval_s`, what was polled before the last
            poll: what a poll gave counts as consumed when the next one is asked for.
        poll_count: Messages of one poll at the most.
        pull_count: Messages of one pull.
    """

    auto_commit: bool = True
    poll_count: int = 1000
    pull_count: int = _PULL_COUNT

    def __post_init__(self) -> None:
        """Checks what would fail late.

        Raises:
            UsageError: A value cannot work.
        """
        self._check("poll_count")
        if not 1 <= self.pull_count <= _PULL_MAX:
            raise UsageError(f"pull_count: {self.pull_count!r} is not within 1 to {_PULL_MAX}")

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


def _above_zero(settings: object, name: str) -> None:
    if not getattr(settings, name) > 0:
        raise UsageError(f"{name}: {getattr(settings, name)!r} is not above 0")
