"""The types of `**options` of producers and consumers, for type checkers and editors.

Made from the dataclasses that declare them by `python -m mqcore.client.option_sources`; a test
keeps it current. At run time the types of their values are not imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mqcore.client.client_options import ClientOptions, IdentityOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path
    from typing import Literal

    from mqcore.client.consume_hooks import ConsumeHook
    from mqcore.client.faults import FaultStrategy
    from mqcore.client.hooks import SendHook
    from mqcore.client.instance import Instance
    from mqcore.client.member import RebalanceListener
    from mqcore.client.starting_offset import ConsumeFrom
    from mqcore.model.allocation import Strategy
    from mqcore.native import Compression

__all__ = ["KINDS", "ProducerOptions", "PullConsumerOptions", "PushConsumerOptions"]


class _Joining(IdentityOptions, total=False):
    """Producers and consumers alike."""

    instance: Instance | None
    """The client that it belongs to; one of its own when not given. Default: None."""
    trace: bool
    """Whether sends, or deliveries, are noted in the message trace. Default: False."""
    spans: bool
    """Whether each is a span of OpenTelemetry, whose context goes with the message; needs
    `mqcore[otel]`. Default: False.
    """


class _ProducerJoining(_Joining, total=False):
    """Producers, beside settings."""

    hooks: Sequence[SendHook]
    """Hear of every try. Default: ()."""
    faults: FaultStrategy | None
    """Leaves slow and failing brokers alone for a while; off when not given. Default: None."""


class ProducerOptions(_ProducerJoining, total=False):
    """The options of a producer."""

    timeout_s: float
    """The deadline of a send over all its tries (`sendMsgTimeout`), the search for the topic's
    route included. Default: 3.0.
    """
    try_timeout_s: float | None
    """The deadline of one try (`sendMsgMaxTimeoutPerRequest`); None lets one try take all that is
    left. Default: None.
    """
    retries: int
    """Further tries after the first (`retryTimesWhenSendFailed`), at other brokers where there are
    any. Where one broker alone has the topic, a failure that may pass is tried again until
    `timeout_s`, with a pause that doubles. 0: one try in any case. Default: 2.
    """
    official_retries: bool
    """Tries as the official client does: `retries` further ones and no more, at once, and one only
    of what must go to one queue, or has no route yet. Default: False.
    """
    retries_other_status: bool
    """Whether a status other than SEND_OK is tried again elsewhere
    (`retryAnotherBrokerWhenNotStoreOK`). Default: False.
    """
    body_bytes_max: int
    """The longest body, before compression (`maxMessageSize`). Default: 4194304."""
    compress_above_bytes: int | None
    """Bodies of at least so many bytes are compressed (`compressMsgBodyOverHowmuch`); None never
    compresses. Default: 4096.
    """
    compression: Compression | Literal["zlib", "lz4", "zstd"]
    """How. Only zlib is read by every client; LZ4 and ZSTD by Java from 4.9.4 on. Default:
    Compression.ZLIB.
    """
    compression_level: int
    """0 to 9 for zlib, 1 to 22 for zstd. Default: 5."""
    linger_s: float
    """For how long a message of `send_soon` waits for others though its batch could leave. Without
    it a batch leaves at once while few are unanswered, and grows otherwise. Default: 0.0.
    """
    batch_bytes: int
    """Bytes at which a batch is sent without waiting longer. Default: 65536."""
    batches_in_flight: int
    """Batches of one queue that may wait for their answer; the next one waits and grows meanwhile.
    Default: 4.
    """
    buffered_bytes_max: int
    """Bytes that `send_soon` may hold; beyond them it refuses. Default: 67108864."""
    batching: bool
    """Whether `send` goes by batches too. Default: False."""
    batch_keys: bool
    """Whether batches have a unique id of their own too, as the official client's have from 5.0 on:
    a topic of batch queues then keeps each as one record. Off, since official brokers up to 5.3.3
    give it to every message of a batch in all other topics, so that consumers see one id for all.
    Default: False.
    """


class _ConsumerJoining(_Joining, total=False):
    """Consumers, beside settings."""

    hooks: Sequence[ConsumeHook]
    """Hear of every call of the handler, or of every poll. Default: ()."""
    on_rebalance: RebalanceListener | None
    """Called when our queues of a topic change: topic, our queues, all queues. Default: None."""
    now_ms: Callable[[], int]
    """A monotonic time; the machine's when not given. Default: mqcore.clock.monotonic_ms."""


class _Consuming(_ConsumerJoining, total=False):
    """Both kinds of consumer."""

    consume_from: ConsumeFrom | Literal["earliest", "latest", "timestamp"]
    """Where a new group begins: a `ConsumeFrom`, or its word. Brokers begin at the first message
    whatever is asked for where a queue still has it in memory. Default: ConsumeFrom.LAST_OFFSET.
    """
    consume_timestamp: float | datetime | None
    """The time, for `ConsumeFrom.TIMESTAMP`: seconds since 1970 or a `datetime`; half an hour ago
    when not given. Default: None.
    """
    strategy: Strategy | Literal["averagely", "averagely_by_circle", "consistent_hash", "sticky"]
    """Divides queues among the members, an object or a word; all must use the same. Default:
    Averagely().
    """
    broadcast: bool
    """Receive everything, whoever else there is; offsets are kept in a file. Default: False."""
    count_max: int
    """Messages of one queue that may wait (`pullThresholdForQueue`). Default: 1000."""
    bytes_max: int
    """Bytes of their bodies (`pullThresholdSizeForQueue`). Default: 104857600."""
    persist_interval_s: float
    """How often offsets are saved. Default: 5.0."""
    rebalance_interval_s: float
    """How often queues are divided anew at the latest. Default: 20.0."""
    hand_over_s: float
    """How long a queue that may have been another member's is left alone first, so that its offset
    arrives; the official client waits as long, but asks before. Default: 0.5.
    """
    drain_s: float
    """How long closing waits for handlers that run. Default: 10.0."""
    offsets_directory: Path | str
    """Where a broadcast consumer keeps its offsets. Default: ~/.rocketmq_offsets."""


class PushConsumerOptions(_Consuming, total=False):
    """The options of a push consumer."""

    orderly: bool
    """Consume each queue's messages one after the other, under a lock of the broker. Default:
    False.
    """
    concurrency: int
    """Calls of the handler that run at once (`consumeThreadMax`). Default: 20."""
    pull_count: int | None
    """Messages of one pull; official brokers give 32 at the most unless they are set otherwise.
    Default: None.
    """
    span_max: int
    """Queue offsets from the oldest unsettled message to the newest. Default: 2000."""
    consume_timeout_s: float
    """After so long a call is given up: its messages are given back, and a coroutine is cancelled.
    Orderly consumers wait for ever, as order demands. Default: 900.0.
    """
    reconsume_max: int | None
    """Deliveries after the first one, then the dead-letter queue; 16 when not given, orderly
    without end. Default: None.
    """
    suspend_s: float
    """How long an orderly queue waits after a failure. Default: 1.0."""
    pull_interval_s: float
    """A pause between two pulls of a queue that brought messages. Default: 0.0."""


class PullConsumerOptions(_Consuming, total=False):
    """The options of a pull consumer."""

    auto_commit: bool
    """Commit by itself, every `persist_interval_s`, what was polled before the last poll: what a
    poll gave counts as consumed when the next one is asked for. Default: True.
    """
    poll_count: int
    """Messages of one poll at the most. Default: 1000."""
    pull_count: int
    """Messages of one pull. Default: 32."""


_CONSUMER: Final = ("namesrv", "group", "topics", "settings")
# Whose options they are, as errors name it, with the names of all parameters.
KINDS: Final = {
    "a client": ("namesrv", *ClientOptions.__annotations__),
    "a producer": ("namesrv", "group", "settings", *ProducerOptions.__annotations__),
    "a push consumer": (
        *_CONSUMER,
        "handler",
        "batch",
        *PushConsumerOptions.__annotations__,
    ),
    "a pull consumer": (*_CONSUMER, *PullConsumerOptions.__annotations__),
}
