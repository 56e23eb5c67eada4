"""The exceptions of mqcore that users can act on: `MQError`, and what derives from it.

Everything raised on purpose descends from `MQError`. Catch `RemotingError` for what goes wrong
between two processes, `SendError` for a message that was not acknowledged, `MessageError` for one
that cannot be sent, `UsageError` for a client used wrongly, `StoreError` for what a store refuses
or fails to do. Where one class has several causes its `reason` is one of them. All are listed in
`docs/errors.md`.

The finer classes of what the extension raises (`mqcore.native.errors`, `mqcore.native.wire_errors`)
are for mqcore's own programs; each is a `StoreError`, a `RecordError` or a `FrameError`.
"""

from enum import StrEnum

from mqcore.native.errors import DamagedError, MQError, RecordError, StoreError, StoreReason

# Within mqcore: raised and caught by its own programs, no user meets it.
from mqcore.native.refused import ANSWERED_LATE as ANSWERED_LATE
from mqcore.native.refused import ANSWERED_NEVER as ANSWERED_NEVER
from mqcore.native.refused import ANSWERED_NOW as ANSWERED_NOW
from mqcore.native.refused import RefusedError as RefusedError
from mqcore.native.wire_errors import FrameError

__all__ = [
    "AddressError",
    "AddressReason",
    "CallTimeoutError",
    "ClosedError",
    "ConfigFileError",
    "ConfigurationError",
    "ConnectError",
    "ConnectionLostError",
    "DamagedError",
    "FrameError",
    "MQError",
    "MessageError",
    "MessageReason",
    "MountError",
    "NameServerError",
    "NoRouteError",
    "RecordError",
    "RemotingError",
    "ReplyTimeoutError",
    "ResponseError",
    "ResponseReason",
    "SendError",
    "SendReason",
    "StateFileError",
    "StoreError",
    "StoreReason",
    "TlsError",
    "TooBusyError",
    "UnsupportedError",
    "UsageError",
    "UsageReason",
]


class UsageReason(StrEnum):
    """Why a `UsageError` was raised."""

    # An argument or a setting cannot work, or a call does not fit what was called before.
    ARGUMENT = "argument"
    # It was not started: call `start()`, or use `with`.
    NOT_STARTED = "not_started"
    CLOSED = "closed"
    # A group's name is illegal, or this client has a member of it already.
    GROUP = "group"
    # A forked child uses what its parent connected: make clients after forking.
    FORKED = "forked"
    # A blocking call would stop the event loop that runs in this thread: use `mqcore.aio`.
    RUNNING_LOOP = "running_loop"


class MessageReason(StrEnum):
    """Why a `MessageError` was raised."""

    ILLEGAL = "illegal"
    TOO_LARGE = "too_large"


class SendReason(StrEnum):
    """Why a `SendError` was raised."""

    # The deadline over all tries passed, or the last try had no answer in time.
    TIMEOUT = "timeout"
    # The last broker that was tried refused: its answer is the last of `attempts`.
    REFUSED = "refused"
    # The last broker that was tried could not be reached, or its connection ended.
    UNREACHABLE = "unreachable"
    # No queue of the topic may be written now.
    NO_QUEUE = "no_queue"
    # The broker stored the message, and its answer cannot be read.
    BAD_ANSWER = "bad_answer"
    # The client or its event loop ended before there was an answer.
    STOPPED = "stopped"


class AddressReason(StrEnum):
    """Why an `AddressError` was raised."""

    ILLEGAL = "illegal"
    CANNOT_LISTEN = "cannot_listen"


class ResponseReason(StrEnum):
    """What the code of an answer means to who asked."""

    # The same request may succeed later.
    BUSY = "busy"
    # Permission, credentials, or the state of a topic or group forbid it.
    FORBIDDEN = "forbidden"
    # The topic, group, message or offset is not there.
    MISSING = "missing"
    # The peer has no such request, or not in this version.
    UNSUPPORTED = "unsupported"
    # What was asked is illegal: the same request will be refused again.
    ILLEGAL = "illegal"
    # The peer failed; its remark has the cause.
    FAILED = "failed"


# By the numbers of `mqcore.remoting.ResponseCode`; what is not here is FAILED.
_REASONS_OF_CODES = {
    ResponseReason.BUSY: (2, 14, 209, 210, 212, 215, 501, 1500),
    ResponseReason.FORBIDDEN: (16, 204, 205, 604, 3001, 3002),
    ResponseReason.MISSING: (17, 19, 21, 22, 24, 26, 27, 206, 208, 211),
    ResponseReason.UNSUPPORTED: (3, 15),
    ResponseReason.ILLEGAL: (13, 18, 23, 25, 28, 29, 213),
}
_REASON_OF_CODE = {code: reason for reason, codes in _REASONS_OF_CODES.items() for code in codes}


class RemotingError(MQError):
    """Something between two processes failed, or a peer refused.

    Attributes:
        address: The other side.
    """

    address: str = ""


class AddressError(RemotingError):
    """A text is not an address, or one that cannot be listened on.

    Attributes:
        reason: Which of both.
    """

    reason: AddressReason = AddressReason.ILLEGAL


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
        code: The answer's code, a number of `mqcore.remoting.ResponseCode`.
        remark: The answer's remark, empty where it had none.
    """

    code: int
    remark: str

    @property
    def reason(self) -> ResponseReason:
        """What the code means to who asked."""
        return _REASON_OF_CODE.get(self.code, ResponseReason.FAILED)


class UnsupportedError(RemotingError):
    """The broker has no such part: what was asked would be done wrong, or not at all."""


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
        is_made_by_sends: Whether a broker makes the topic at the first send to it.
    """

    topic: str
    name_servers: tuple[str, ...]
    brokers: dict[str, str]
    is_made_by_sends: bool = False


class UsageError(MQError):
    """A client is used in a way that cannot work; nothing was sent.

    Attributes:
        reason: Why.
        group: The group, where `reason` is GROUP.
        opener: Process id of who made the client, where `reason` is FORKED.
    """

    reason: UsageReason = UsageReason.ARGUMENT
    group: str = ""
    opener: int = 0


class ClosedError(UsageError):
    """It was closed before: make another one."""

    reason: UsageReason = UsageReason.CLOSED


class MessageError(MQError):
    """A message cannot be sent as it is; nothing was sent.

    Attributes:
        reason: Why.
        size_bytes: Bytes of the body or of the properties, where they are TOO_LARGE.
        limit_bytes: How many there may be.
    """

    reason: MessageReason = MessageReason.ILLEGAL
    size_bytes: int = 0
    limit_bytes: int = 0


class SendError(MQError):
    """A message was not acknowledged. Where a try timed out it may be stored all the same.

    Attributes:
        reason: Why the last try ended, or why there was none.
        topic: The topic.
        attempts: What each try ended with, in order: broker name and error.
        may_be_stored: Whether a try may have been done though nobody acknowledged it.
    """

    reason: SendReason
    topic: str
    attempts: tuple[tuple[str, MQError], ...]
    may_be_stored: bool


class ReplyTimeoutError(MQError):
    """A request was sent, and no consumer replied in time.

    Attributes:
        topic: The request's topic.
        message_id: The request's id.
    """

    topic: str
    message_id: str


class ConfigurationError(MQError):
    """Settings cannot work, or promise what is not there.

    Attributes:
        faults: Everything that is wrong, one sentence each.
    """

    faults: tuple[str, ...]


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


class StateFileError(MQError):
    """Neither generation of a small state file can be read.

    Attributes:
        path: The file.
        why: What is wrong.
    """

    path: str
    why: str


class MountError(MQError):
    """A store cannot be served without being changed: it is none, or the disk is full."""


# Within mqcore: raised and caught by its own programs, no user meets them.


class BadJsonError(MQError):
    """A text is no JSON, not even in the dialect of RocketMQ's programs."""
