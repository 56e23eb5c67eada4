"""What a recorded conversation consists of: steps as data, and the words to write them down.

    Conversation("offsets", [
        step(17, topic("t")),
        good(30, {"topic": "t", "queueId": 0}),
        refused(30, {"topic": "none", "queueId": 0}),
        malformed(30, {"topic": "t", "queueId": "many"}, note="a queue that is no number"),
    ])

Knows no server and no socket.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

__all__ = [
    "BINARY",
    "KINDS",
    "LISTENER",
    "NOW_MS",
    "OWN",
    "Advance",
    "Answered",
    "Close",
    "Conversation",
    "Do",
    "From",
    "Kind",
    "Raw",
    "Request",
    "Restart",
    "Step",
    "Stop",
    "good",
    "malformed",
    "oneway",
    "refused",
    "step",
]

# The wall clock when a conversation begins, Unix ms: 2025-06-15 12:00:00 UTC.
NOW_MS: Final = 1_749_988_800_000
KINDS: Final = ("json", "rocketmq")
# Replaces the loopback address of the process that plays, which is exactly as long.
OWN: Final = "127.own.address"
# Where a conversation that listens is dialled by its server.
LISTENER: Final = f"{OWN}:10978"
BINARY: Final = "rocketmq"

_ONEWAY: Final = 2
# Pulls, pops and notifications.
_HELD: Final = frozenset({11, 361, 200_050, 200_054})

Kind: TypeAlias = Literal["good", "refused", "malformed", "step"]


@dataclass(frozen=True, slots=True)
class From:
    """A value of an earlier answer.

    Attributes:
        step: The name of the step that it answered.
        name: The field of its header.
        is_offset: Whether the value is a message id, and its offset in the log is meant.
    """

    step: str
    name: str
    is_offset: bool = False


# A text, a number, a truth, a `From`, or a tuple of these that are joined by blanks.
Value: TypeAlias = object


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request, and how many frames come until the next step.

    Attributes:
        code: The request code.
        kind: What the request is an example of; `step` for one that only leads on to others.
        ext: The fields of the header.
        body: The body.
        by: The connection that sends it.
        note: What is special about it.
        name: What later steps call its answer.
        frames: How many frames come, by connection; one answer where it is None.
        flag: 2 for a request that wants no answer.
        language: The language of the header.
        version: The version of the header.
        answers: The codes that its own answer may have; empty for any.
    """

    code: int
    kind: Kind = "step"
    ext: Mapping[str, Value] = field(default_factory=dict)
    body: bytes = b""
    by: str = "A"
    note: str = ""
    name: str = ""
    frames: Mapping[str, int] | None = None
    flag: int = 0
    language: str = "JAVA"
    version: int = 475
    answers: tuple[int, ...] = ()

    @property
    def is_held(self) -> bool:
        """Whether it waits at the server: it wants an answer, and none comes yet."""
        is_unanswered = not self.flag & _ONEWAY and self.expected.get(self.by, 0) == 0
        return is_unanswered and self.code in _HELD

    @property
    def expected(self) -> Mapping[str, int]:
        """How many frames come, by connection."""
        return {self.by: 1} if self.frames is None else self.frames


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The answer of a client to the last request with a code that the server sent it.

    Attributes:
        request: The code of the server's request.
        by: The connection that it came by.
        code: The code of the answer.
        ext: The fields of its header.
        body: Its body.
        frames: How many frames come, by connection.
        note: What is special about it.
    """

    request: int
    by: str = "A"
    code: int = 0
    ext: Mapping[str, Value] = field(default_factory=dict)
    body: bytes = b""
    frames: Mapping[str, int] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Advance:
    """Time passes, for the wall clock and for what is held.

    Attributes:
        by_ms: How much.
        frames: How many frames come, by connection.
    """

    by_ms: int
    frames: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Do:
    """Work that the server does on a timetable, done now.

    Attributes:
        work: Its name: see `served.WORKS`.
        frames: How many frames come, by connection.
        closes: The connections that the server closes.
    """

    work: str
    frames: Mapping[str, int] = field(default_factory=dict)
    closes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Close:
    """A connection ends.

    Attributes:
        by: The connection.
        frames: How many frames come, by connection.
    """

    by: str
    frames: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """Bytes that are no frame, or none that can be read: the server closes the connection.

    Attributes:
        data: The bytes.
        by: The connection that sends them.
        frames: How many frames come, by connection.
        note: What is wrong with them.
    """

    data: bytes
    by: str = "A"
    frames: Mapping[str, int] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The server ends, and another one begins in its directory; every connection is lost.

    Attributes:
        settings: Settings beside those of the conversation.
        is_killed: Whether it ends as a kill would, and the next one recovers.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    is_killed: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """The server begins to end; the last steps of a conversation follow.

    Attributes:
        frames: How many frames come, by connection.
    """

    frames: Mapping[str, int] = field(default_factory=dict)


Step: TypeAlias = Request | Answered | Advance | Do | Close | Raw | Restart | Stop


@dataclass(frozen=True, slots=True)
class Conversation:
    """A list of steps with one server of its own.

    Attributes:
        name: Its name, and that of its golden files.
        steps: The steps.
        server: Which server.
        settings: Settings beside the usual ones, by their official keys.
        kinds: The kinds of headers that it is recorded with.
        listens: Whether its server dials `LISTENER`; what it opens are the connections N1, N2, ...
    """

    name: str
    steps: Sequence[Step]
    server: Literal["broker", "namesrv"] = "broker"
    settings: Mapping[str, str] = field(default_factory=dict)
    kinds: tuple[str, ...] = KINDS
    listens: bool = False


def step(
    code: int,
    ext: Mapping[str, Value] | None = None,
    body: bytes = b"",
    *,
    answers: tuple[int, ...] = (0,),
    **more: object,
) -> Request:
    """Returns a request that only leads on to others; it succeeds."""
    return _request(code, "step", ext, body, answers, more)


def good(
    code: int,
    ext: Mapping[str, Value] | None = None,
    body: bytes = b"",
    *,
    answers: tuple[int, ...] = (0,),
    **more: object,
) -> Request:
    """Returns a request that is served; `answers` where that is another code than 0."""
    return _request(code, "good", ext, body, answers, more)


def refused(
    code: int,
    ext: Mapping[str, Value] | None = None,
    body: bytes = b"",
    *,
    answers: tuple[int, ...] = (),
    **more: object,
) -> Request:
    """Returns a well-formed request that asks for what is not there, or is not allowed."""
    return _request(code, "refused", ext, body, answers, more)


def malformed(
    code: int,
    ext: Mapping[str, Value] | None = None,
    body: bytes = b"",
    *,
    answers: tuple[int, ...] = (),
    **more: object,
) -> Request:
    """Returns a request that lacks something, or has something of another type."""
    return _request(code, "malformed", ext, body, answers, more)


def oneway(request: Request) -> Request:
    """Returns the request as one that wants no answer."""
    values = {name: getattr(request, name) for name in Request.__slots__}
    return Request(**values | {"flag": 2, "frames": request.frames or {}})


def _request(
    code: int,
    kind: Kind,
    ext: Mapping[str, Value] | None,
    body: bytes,
    answers: tuple[int, ...],
    more: Mapping[str, object],
) -> Request:
    given = {} if ext is None else ext
    # The keywords are those of `Request`, which names one that does not exist.
    return Request(code=code, kind=kind, ext=given, body=body, answers=answers, **more)  # type: ignore[arg-type]
