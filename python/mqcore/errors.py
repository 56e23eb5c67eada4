"""The exception tree of mqcore on one page: `MQError`, and what is below it.

Everything raised on purpose descends from `MQError`. Catch `StoreError` for what the store
refuses or fails to do, `RecordError` for a message that cannot be stored, `FrameError` for bytes
of a peer that are no command, `RemotingError` for what else goes wrong between two processes,
`SendError` for a message that was not acknowledged, `UsageError` for a client used wrongly.
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
    RowError,
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
    "ClosedError",
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
    "GroupError",
    "HeaderLengthError",
    "HeaderTextError",
    "IllegalPropertyError",
    "JsonHeaderError",
    "JsonTextError",
    "LengthMismatchError",
    "LimitError",
    "MQError",
    "MessageError",
    "MessageTooLargeError",
    "MountError",
    "NameServerError",
    "NegativeLengthError",
    "NoRecordError",
    "NoRouteError",
    "NoSegmentError",
    "NotStartedError",
    "NotWritableError",
    "PageCacheBusyError",
    "PoisonedError",
    "ProcessForkedError",
    "PropertiesTooLongError",
    "RecordError",
    "RecordTooLargeError",
    "RefusedError",
    "RemotingError",
    "ReplyTimeoutError",
    "ResponseError",
    "RowError",
    "RunningLoopError",
    "SendError",
    "SendTimeoutError",
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
    "UnsupportedError",
    "UsageError",
]


class BadJsonError(MQError):
    """A text is no JSON, not even in the dialect of RocketMQ's programs."""


class MountError(MQError):
    """A store cannot be served without being changed: it is none, or there is no space for it."""


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
    """Something between two processes failed, or a peer refused.

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


class UsageError(MQError):
    """A client is used in a way that cannot work; nothing was sent."""


class NotStartedError(UsageError):
    """It was not started: call `start()`, or use `with`."""


class ClosedError(UsageError):
    """It was closed before."""


class ProcessForkedError(UsageError):
    """A forked child uses what its parent connected.

    Attributes:
        opener: Process id of the opener.
    """

    opener: int


class RunningLoopError(UsageError):
    """A blocking call would stop the event loop that runs in this thread; use `mqcore.aio`."""


class GroupError(UsageError):
    """A group's name is illegal, or the group is taken already.

    Attributes:
        group: The name.
    """

    group: str


class MessageError(MQError):
    """A message cannot be sent as it is; nothing was sent."""


class MessageTooLargeError(MessageError):
    """A body, or the properties, have more bytes than may be.

    Attributes:
        size_bytes: How many there are.
        limit_bytes: How many there may be.
    """

    size_bytes: int
    limit_bytes: int


class NameServerError(RemotingError):
    """No name server gave an answer.

    Attributes:
        causes: What went wrong, by address.
    """

    causes: dict[str, MQError]


class NoRouteError(RemotingError):
    """No broker that can be reached has the topic.

    Attributes:
        topic: The topic.
        name_servers: Who was asked.
        brokers: The brokers that they know, by name.
    """

    topic: str
    name_servers: tuple[str, ...]
    brokers: dict[str, str]


class SendError(MQError):
    """A message was not acknowledged. Where a try timed out it may be stored all the same.

    Attributes:
        topic: The topic.
        attempts: What each try ended with, in order: broker name and error.
        may_be_stored: Whether a try may have been done though no answer came.
    """

    topic: str
    attempts: tuple[tuple[str, MQError], ...]
    may_be_stored: bool


class SendTimeoutError(SendError):
    """The deadline over all tries passed."""


class UnsupportedError(RemotingError):
    """The broker has no such part: what was asked would be done wrong, or not at all."""


class ReplyTimeoutError(MQError):
    """A request was sent, and no consumer replied in time.

    Attributes:
        topic: The request's topic.
        message_id: The request's id.
    """

    topic: str
    message_id: str
