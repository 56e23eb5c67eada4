"""A pull as request fields, its answer as the next step: the table of what a consumer does then.

Pure functions and values. Knows no socket and does not wait: a step has how long to. The rules are
those of `DefaultMQPushConsumerImpl.pullMessage` and `PullAPIWrapper`.

    answer                     step
    0 FOUND                    deliver, pull on at once
    19 not found, 20 retry     nothing to deliver, pull on at once
    21 offset moved            the queue begins anew at the broker's offset
    215 flow control           pull again in 20 ms
    24 subscription not known  heartbeat, pull again in 3 s (a broker that was restarted)
    25, 27, 28 it, or its expression, not the newest: as 24
    17 topic not there         route, pull again in 3 s
    501 another broker leads   route, pull again in 200 ms (a queue of a static topic that moved)
    else, and lost calls       pull again in 3 s
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from mqcore.model.parts import Part
from mqcore.model.queues import MessageQueue
from mqcore.model.subscriptions import SubscriptionData
from mqcore.native import Command
from mqcore.remoting import ResponseCode

__all__ = [
    "ERROR_PAUSE_MS",
    "PULL_TIMEOUT_S",
    "SUSPEND_MS",
    "After",
    "PullStep",
    "pull_fields",
    "step_after",
    "step_after_failure",
]

# How long a broker may hold a pull, and how long we wait for its answer (official).
SUSPEND_MS: Final = 15_000
PULL_TIMEOUT_S: Final = 30.0
# After an error, and after a broker's flow control (official).
ERROR_PAUSE_MS: Final = 3_000
_FLOW_PAUSE_MS: Final = 20
# After a queue of a static topic has moved: the route has its new broker by then, mostly.
_MOVED_PAUSE_MS: Final = 200
# The codes of a broker that does not know the newest subscription or expression.
_WANTING_HEARTBEAT: Final = (
    ResponseCode.SUBSCRIPTION_NOT_EXIST,
    ResponseCode.SUBSCRIPTION_NOT_LATEST,
    ResponseCode.FILTER_DATA_NOT_EXIST,
    ResponseCode.FILTER_DATA_NOT_LATEST,
)

_COMMIT, _SUSPEND, _SUBSCRIPTION, _LITE = 1, 2, 4, 16


class After(Enum):
    """What follows an answer."""

    DELIVER = "deliver"
    PULL_ON = "pull on"
    BEGIN_ANEW = "begin anew"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True)
class PullStep:
    """What a consumer does after an answer.

    Attributes:
        after: What.
        next_offset: Where the queue goes on, where the answer has it; else -1.
        broker_id: Which broker of the name to ask next.
        pause_ms: How long to wait before the next pull.
        offset_delta: What is added to the offsets of messages (static topics).
        wants_heartbeat: The broker does not know our subscription (any more).
        wants_route: The queue is no longer where the route has it.
        why: What went wrong, for the log.
    """

    after: After
    next_offset: int = -1
    broker_id: int = 0
    pause_ms: int = 0
    offset_delta: int = 0
    wants_heartbeat: bool = False
    wants_route: bool = False
    why: str = ""


def pull_fields(
    group: str,
    queue: MessageQueue,
    offset: int,
    subscription: SubscriptionData,
    *,
    count_max: int,
    commit_offset: int = -1,
    suspend_ms: int = SUSPEND_MS,
    sends_subscription: bool = False,
    is_lite: bool = False,
    bytes_max: int | None = None,
    part: Part = Part.WHOLE,
) -> dict[str, str]:
    """Returns the fields of a PULL_MESSAGE request.

    Args:
        group: The consumer group.
        queue: The queue.
        offset: First queue offset that is wanted.
        subscription: What is wanted of the topic.
        count_max: How many messages at the most.
        commit_offset: Committed along the way where it is above 0; never sent to a slave.
        suspend_ms: How long the broker may hold it where there is nothing; 0 for not at all.
        sends_subscription: Put the filter into the request: the broker need not know the group.
        is_lite: From a consumer that pulls by itself.
        bytes_max: Bytes of the answer at the most. A broker of ours gives as many messages as are
            asked for then; official ones keep their own bounds, and from 5.x on this one too.
        part: With `bytes_max`: what of the messages is needed.
    """
    flags = (
        (_COMMIT if commit_offset > 0 else 0)
        | (_SUSPEND if suspend_ms else 0)
        | (_SUBSCRIPTION if sends_subscription else 0)
        | (_LITE if is_lite else 0)
    )
    fields = {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(count_max),
        "sysFlag": str(flags),
        "commitOffset": str(max(commit_offset, 0)),
        "suspendTimeoutMillis": str(suspend_ms),
        # A filter that comes along has no version to compare; SQL's is the broker's cache key.
        "subVersion": "0"
        if sends_subscription and subscription.is_tag
        else str(subscription.version),
        "expressionType": subscription.kind,
        "bname": queue.broker_name,
    }
    if sends_subscription:
        fields["subscription"] = subscription.expression
    if bytes_max is not None:
        fields["mqcoreBulk"] = part
        fields["maxMsgBytes"] = str(bytes_max)
    return fields


def step_after(answer: Command, asked_offset: int) -> PullStep:
    """Returns what follows an answer.

    Args:
        answer: The answer.
        asked_offset: The offset that was asked for.
    """
    code = answer.code
    if code == ResponseCode.PULL_OFFSET_MOVED:
        return _moved(answer, asked_offset)
    if code in (
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
    ):
        ext = answer.ext
        next_offset = _number(ext, "nextBeginOffset", -1)
        if next_offset < 0:
            return _pause(f"an answer {code} without nextBeginOffset")
        return PullStep(
            After.DELIVER if code == ResponseCode.SUCCESS else After.PULL_ON,
            next_offset=next_offset,
            broker_id=_number(ext, "suggestWhichBrokerId", 0),
            offset_delta=_number(ext, "offsetDelta", 0),
        )
    why = f"code {code}: {answer.remark or ''}"
    if code == ResponseCode.FLOW_CONTROL:
        return PullStep(After.PAUSE, pause_ms=_FLOW_PAUSE_MS, why=why)
    is_moved = code == ResponseCode.NOT_LEADER_FOR_QUEUE
    return PullStep(
        After.PAUSE,
        pause_ms=_MOVED_PAUSE_MS if is_moved else ERROR_PAUSE_MS,
        wants_heartbeat=code in _WANTING_HEARTBEAT,
        wants_route=is_moved or code in (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.NO_PERMISSION),
        why=why,
    )


def step_after_failure(error: Exception) -> PullStep:
    """Returns what follows a call without an answer: another try, maybe at another address."""
    return _pause(str(error))


def _pause(why: str) -> PullStep:
    return PullStep(After.PAUSE, pause_ms=ERROR_PAUSE_MS, wants_route=True, why=why)


def _moved(answer: Command, asked_offset: int) -> PullStep:
    next_offset = _number(answer.ext, "nextBeginOffset", -1)
    if next_offset < 0:
        return _pause("an offset that moved, without nextBeginOffset")
    return PullStep(
        After.BEGIN_ANEW,
        next_offset=next_offset,
        broker_id=_number(answer.ext, "suggestWhichBrokerId", 0),
        why=f"no offset {asked_offset} ({answer.remark or ''}), going on at {next_offset}",
    )


def _number(ext: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(ext[name])
    except (KeyError, ValueError):
        return default
