"""The settings of a producer, with the official defaults, and the reasons of those that differ."""

from dataclasses import dataclass
from typing import Final, Literal

from mqcore.client.option import check, option
from mqcore.errors import UsageError
from mqcore.native import Compression

__all__ = ["BODY_BYTES_MAX", "ProducerSettings"]

# `maxMessageSize` of client and broker.
BODY_BYTES_MAX = 4 << 20
_COMPRESSIONS: Final = {
    "zlib": Compression.ZLIB,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
_ZLIB_LEVEL_MAX: Final = 9
_ZSTD_LEVEL_MAX: Final = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How a producer sends.

    Attributes:
        timeout_s: The deadline of a send over all its tries (`sendMsgTimeout`), the search for the
            topic's route included.
        try_timeout_s: The deadline of one try (`sendMsgMaxTimeoutPerRequest`); None lets one try
            take all that is left.
        retries: Further tries after the first (`retryTimesWhenSendFailed`), at other brokers where
            there are any. Where one broker alone has the topic, a failure that may pass is tried
            again until `timeout_s`, with a pause that doubles. 0: one try in any case.
        official_retries: Tries as the official client does: `retries` further ones and no more, at
            once, and one only of what must go to one queue, or has no route yet.
        retries_other_status: Whether a status other than SEND_OK is tried again elsewhere
            (`retryAnotherBrokerWhenNotStoreOK`).
        body_bytes_max: The longest body, before compression (`maxMessageSize`).
        compress_above_bytes: Bodies of at least so many bytes are compressed
            (`compressMsgBodyOverHowmuch`); None never compresses.
        compression: How. Only zlib is read by every client; LZ4 and ZSTD by Java from 4.9.4 on.
        compression_level: 0 to 9 for zlib, 1 to 22 for zstd.
        linger_s: For how long a message of `send_soon` waits for others though its batch could
            leave. Without it a batch leaves at once while few are unanswered, and grows otherwise.
        batch_bytes: Bytes at which a batch is sent without waiting longer.
        batches_in_flight: Batches of one queue that may wait for their answer; the next one waits
            and grows meanwhile.
        buffered_bytes_max: Bytes that `send_soon` may hold; beyond them it refuses.
        batching: Whether `send` goes by batches too.
        batch_keys: Whether batches have a unique id of their own too, as the official client's
            have from 5.0 on: a topic of batch queues then keeps each as one record. Off, since
            official brokers up to 5.3.3 give it to every message of a batch in all other topics,
            so that consumers see one id for all.
    """

    timeout_s: float = option(
        3.0, unit="s", above=0, change="a caller cannot wait so long, or brokers are far away"
    )
    try_timeout_s: float | None = option(
        None, unit="s", above=0, change="one slow broker must not use up the time of all tries"
    )
    retries: int = option(2, unit="tries", low=0, change="0 where you try again yourself")
    official_retries: bool = option(
        False, change="tries must be as many and as fast as those of the official client"
    )
    retries_other_status: bool = option(
        False, change="a message must be on a disk or a replica, and may come twice for it"
    )
    body_bytes_max: int = option(
        BODY_BYTES_MAX, unit="bytes", low=1, change="brokers have another `maxMessageSize`"
    )
    compress_above_bytes: int | None = option(
        4096, unit="bytes", low=0, change="bodies are compressed already: None"
    )
    compression: Compression | Literal["zlib", "lz4", "zstd"] = option(
        Compression.ZLIB,
        words=_COMPRESSIONS,
        change="all consumers read LZ4 or ZSTD",
        shown="Compression.ZLIB",
    )
    compression_level: int = option(
        5, low=0, high=_ZSTD_LEVEL_MAX, change="processor time matters more than bytes, or less"
    )
    linger_s: float = option(
        0.0, unit="s", low=0, change="larger batches are worth the wait, with `send_soon`"
    )
    batch_bytes: int = option(64 << 10, unit="bytes", low=1, change="messages are large")
    batches_in_flight: int = option(
        4, unit="batches", low=1, change="brokers are far away: more at once"
    )
    buffered_bytes_max: int = option(
        64 << 20, unit="bytes", low=1, change="memory is short, or bursts are long"
    )
    batching: bool = option(False, change="many tasks send at once with `mqcore.aio`")
    batch_keys: bool = option(False, change="the topic has batch queues (`BatchCQ`)")

    def __post_init__(self) -> None:
        """Checks what would fail late.

        Raises:
            UsageError: A value cannot work.
        """
        check(self)
        if self.algorithm is Compression.ZLIB and self.compression_level > _ZLIB_LEVEL_MAX:
            raise UsageError(
                f"compression_level: {self.compression_level} is not within 0 to "
                f"{_ZLIB_LEVEL_MAX}, as zlib has it"
            )

    @property
    def algorithm(self) -> Compression:
        """How bodies are compressed: the value of `compression`, where that is a word too."""
        found = self.compression
        return _COMPRESSIONS[found] if isinstance(found, str) else found
