"""The settings of a producer, with the official defaults, and the reasons of those that differ."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from mqcore.errors import UsageError
from mqcore.native import Compression

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["BODY_BYTES_MAX", "ProducerSettings", "changed"]

# `maxMessageSize` of client and broker.
BODY_BYTES_MAX = 4 << 20
_LOWEST = {
    "timeout_s": 0,
    "try_timeout_s": 0,
    "retries": 0,
    "body_bytes_max": 1,
    "compress_above_bytes": 0,
    "linger_s": 0,
    "batch_bytes": 1,
    "batches_in_flight": 1,
    "buffered_bytes_max": 1,
}
_MAY_BE_NONE = ("try_timeout_s", "compress_above_bytes")
_ABOVE_ZERO = ("timeout_s", "try_timeout_s")


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

    timeout_s: float = 3.0
    try_timeout_s: float | None = None
    retries: int = 2
    official_retries: bool = False
    retries_other_status: bool = False
    body_bytes_max: int = BODY_BYTES_MAX
    compress_above_bytes: int | None = 4096
    compression: Compression = Compression.ZLIB
    compression_level: int = 5
    linger_s: float = 0.0
    batch_bytes: int = 64 << 10
    batches_in_flight: int = 4
    buffered_bytes_max: int = 64 << 20
    batching: bool = False
    batch_keys: bool = False

    def __post_init__(self) -> None:
        """Checks what would fail late.

        Raises:
            UsageError: A value cannot work.
        """
        for name, lowest in _LOWEST.items():
            value = getattr(self, name)
            if value is None and name in _MAY_BE_NONE:
                continue
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise UsageError(f"{name}: a number is expected, not {value!r}")
            if value < lowest or (lowest == 0 and name in _ABOVE_ZERO and value == 0):
                raise UsageError(f"{name}: {value!r} is too little")


_S = TypeVar("_S", bound="DataclassInstance")


def changed(settings: _S, changes: Mapping[str, Any], who: str) -> _S:
    """Returns settings with some that differ.

    Args:
        settings: A frozen dataclass.
        changes: Values by name.
        who: Whose settings they are, for the error.

    Raises:
        UsageError: There is no such setting, or a value cannot work.
    """
    try:
        return replace(settings, **changes)
    except TypeError as error:
        raise UsageError(f"{who} has no such setting: {error}") from error
