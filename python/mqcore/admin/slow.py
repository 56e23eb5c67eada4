"""The slowest requests of a broker of mqcore, and how long stages take, as values.

Pure functions of parsed JSON; lenient as the other results are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from mqcore.model.reading import as_dict, as_int, as_list, as_text

__all__ = ["RequestStage", "SlowRequest", "SlowRequests"]


@dataclass(frozen=True, slots=True)
class SlowRequest:
    """A slow request.

    Attributes:
        at_ms: When it was answered, Unix ms.
        mark: The same by the clock of the broker, for `after`.
        request: What was asked, by its official name.
        code: Its number.
        response: The response code.
        kind: `send`, `pull` or `other`.
        total_us: From its bytes to its answer, us, without the time for which it was held.
        stages: How long each stage took, us, in the order in which they passed.
        peer: Where the client is.
        topic: The topic; empty where it had none.
        group: The consumer group; empty where it had none.
        queue_id: The queue; -1 where it had none.
        queue_offset: The place in the queue; -1 where it had none.
        messages: Messages stored or given.
        bytes: Bytes of their records.
    """

    at_ms: int
    mark: int
    request: str
    code: int
    response: int
    kind: str
    total_us: int
    stages: Mapping[str, int]
    peer: str
    topic: str
    group: str
    queue_id: int
    queue_offset: int
    messages: int
    bytes: int

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns what a JSON object describes."""
        found = as_dict(value)
        stages = as_dict(found.get("stages"))
        return cls(
            at_ms=as_int(found.get("atMs")),
            mark=as_int(found.get("mark")),
            request=as_text(found.get("request")),
            code=as_int(found.get("code")),
            response=as_int(found.get("response")),
            kind=as_text(found.get("kind")),
            total_us=as_int(found.get("totalUs")),
            stages={name: as_int(stages[name]) for name in _ORDER if name in stages},
            peer=as_text(found.get("peer")),
            topic=as_text(found.get("topic")),
            group=as_text(found.get("group")),
            queue_id=as_int(found.get("queueId"), -1),
            queue_offset=as_int(found.get("queueOffset"), -1),
            messages=as_int(found.get("messages")),
            bytes=as_int(found.get("bytes")),
        )


# The stages of sends and pulls, in the order in which they pass.
_ORDER = (
    *("waited", "appended", "flushed", "replicated"),
    *("held", "read", "executed", "answered"),
)


@dataclass(frozen=True, slots=True)
class RequestStage:
    """How long a stage took, all requests of a kind since the broker's start.

    Attributes:
        kind: `send`, `pull` or `other`.
        stage: The stage.
        count: How many requests had it.
        sum_us: All of them together, us.
        max_us: The longest, us.
        p50_us: Half of them took no longer, us; up to twice as much as they really did.
        p99_us: The same of 99 in a hundred.
        p999_us: The same of 999 in a thousand.
    """

    kind: str
    stage: str
    count: int
    sum_us: int
    max_us: int
    p50_us: int
    p99_us: int
    p999_us: int

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns what a JSON object describes."""
        found = as_dict(value)
        return cls(
            kind=as_text(found.get("kind")),
            stage=as_text(found.get("stage")),
            count=as_int(found.get("count")),
            sum_us=as_int(found.get("sumUs")),
            max_us=as_int(found.get("maxUs")),
            p50_us=as_int(found.get("p50Us")),
            p99_us=as_int(found.get("p99Us")),
            p999_us=as_int(found.get("p999Us")),
        )


@dataclass(frozen=True, slots=True)
class SlowRequests:
    """The slowest requests of the last minutes.

    Attributes:
        is_timed: Whether the broker times requests (`requestTimesEnable`).
        mark: What to ask with for those that come behind.
        now_ms: When that was, Unix ms.
        requests: The requests, the slowest first.
        stages: How long stages take.
    """

    is_timed: bool
    mark: int
    now_ms: int
    requests: tuple[SlowRequest, ...]
    stages: tuple[RequestStage, ...]

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns what a JSON object describes."""
        found = as_dict(value)
        return cls(
            is_timed=bool(found.get("isTimed")),
            mark=as_int(found.get("mark")),
            now_ms=as_int(found.get("nowMs")),
            requests=tuple(map(SlowRequest.of_json, as_list(found.get("requests")))),
            stages=tuple(map(RequestStage.of_json, as_list(found.get("stages")))),
        )
