"""The exception tree of mqcore on one page: `MQError`, and what stands below it.

Everything raised on purpose descends from `MQError`. Catch `StoreError` for what the store
refuses or fails to do, `RecordError` for a message that cannot be stored, `FrameError` for bytes
of a peer that are no command, `RemotingError` for what else goes wrong between two processes.
"""

from mqcore.native.errors import (
    BadBatchError,
    BadMagicError,
    BadOffsetIdError,
    BadTextError,
    BlankTooShortError,
    BodyTooLargeError,
    CompressionError,
    CrcMismatchError,
    CrcPropertyMissingError,
    DamagedError,
    FileSizeError,
    ForeignFileError,
    ForkedError,
    IllegalPropertyError,
    LengthMismatchError,
    LimitError,
    MQError,
    NegativeLengthError,
    NoRecordError,
    NoSegmentError,
    NotWritableError,
    PageCacheBusyError,
    PoisonedError,
    PropertiesTooLongError,
    RecordError,
    RecordTooLargeError,
    SettingError,
    StoreClosedError,
    StoreError,
    StoreIOError,
    StoreLockedError,
    StoreTimeoutError,
    TopicEmptyError,
    TopicIllegalError,
    TopicTooLongError,
    TruncatedRecordError,
)
from mqcore.native.wire_errors import (
    BinaryHeaderError,
    CodeTooLargeError,
    CommandTooLongError,
    FrameError,
    FrameLengthError,
    FrameTooLargeError,
    HeaderLengthError,
    HeaderTextError,
    JsonHeaderError,
    JsonTextError,
    TooManyFieldsError,
    UnknownSerializationError,
)

__all__ = [
    "AddressError",
    "BadBatchError",
    "BadJsonError",
    "BadMagicError",
    "BadOffsetIdError",
    "BadTextError",
    "BinaryHeaderError",
    "BlankTooShortError",
    "BodyTooLargeError",
    "CallTimeoutError",
    "CodeTooLargeError",
    "CommandTooLongError",
    "CompressionError",
    "ConfigFileError",
    "ConfigurationError",
    "ConnectError",
    "ConnectionLostError",
    "CrcMismatchError",
    "CrcPropertyMissingError",
    "DamagedError",
    "FileSizeError",
    "ForeignFileError",
    "ForkedError",
    "FrameError",
    "FrameLengthError",
    "FrameTooLargeError",
    "HeaderLengthError",
    "HeaderTextError",
    "IllegalPropertyError",
    "JsonHeaderError",
    "JsonTextError",
    "LengthMismatchError",
    "LimitError",
    "MQError",
    "NegativeLengthError",
    "NoRecordError",
    "NoSegmentError",
    "NotWritableError",
    "PageCacheBusyError",
    "PoisonedError",
    "PropertiesTooLongError",
    "RecordError",
    "RecordTooLargeError",
    "RefusedError",
    "RemotingError",
    "ResponseError",
    "SettingError",
    "StateFileError",
    "StoreClosedError",
    "StoreError",
    "StoreIOError",
    "StoreLockedError",
    "StoreTimeoutError",
    "TlsError",
    "TooBusyError",
    "TooManyFieldsError",
    "TopicEmptyError",
    "TopicIllegalError",
    "TopicTooLongError",
    "TruncatedRecordError",
    "UnknownSerializationError",
]


class BadJsonError(MQError):
    """A text is no JSON, not even in the dialect of RocketMQ's programs."""


class StateFileError(MQError):
    """Neither generation of a small state file can be read.

    Attributes:
        path: The file.
        why: What is wrong.
    """

    path: str
    why: str


class ConfigFileError(MQError):
    """A configuration file cannot be read.

    Attributes:
        path: The file.
        line: Number of the bad line, from 1; 0 when it is not about a line.
        why: What is wrong.
    """

    path: str
    line: int
    why: str


class RemotingError(MQError):
    """Something between two processes failed, or a peer said no.

    Attributes:
        address: The other side.
    """

    address: str = ""


class AddressError(RemotingError):
    """A text is not an address, or one that cannot be listened on."""


class TlsError(RemotingError):
    """Certificates or keys cannot be used as configured."""


class ConnectError(RemotingError):
    """No connection could be made."""


class ConnectionLostError(RemotingError):
    """The connection ended before the answer came: whether the request was done is not known."""


class CallTimeoutError(RemotingError):
    """No answer within the deadline: whether the request was done is not known.

    Attributes:
        code: What was asked.
        timeout_s: How long was waited.
    """

    code: int
    timeout_s: float


class TooBusyError(RemotingError):
    """A bound of this process is reached: nothing was sent.

    Attributes:
        limit: The bound.
    """

    limit: int


class ResponseError(RemotingError):
    """The peer answered, and not with success.

    Attributes:
        code: The answer's code.
        remark: The answer's remark, empty where it had none.
    """

    code: int
    remark: str


class RefusedError(MQError):
    """A handler refuses a request: the peer gets this code and the message as remark.

    Attributes:
        code: The answer's code.
    """

    code: int


class ConfigurationError(MQError):
    """Settings cannot work, or promise what is not there.

    Attributes:
        faults: Everything that is wrong, one sentence each.
    """

    faults: tuple[str, ...]
