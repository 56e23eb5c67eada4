"""Bodies that brokers ask a consumer for, and one that they send: exactly the official JSON.

307 `ConsumerRunningInfo`, 309 `ConsumeMessageDirectlyResult`, 221 `GetConsumerStatusBody`, 220
`ResetOffsetBody`. Pure functions; values are passed in.
"""

import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mqcore.client.outcomes import Outcome
from mqcore.client.process_queue import ConcurrentQueue, OrderlyQueue, PolledQueue
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_dict, as_int, as_list
from mqcore.model.relaxed_json import compact, parse, parse_object, with_queue_keys
from mqcore.model.subscriptions import SubscriptionData

__all__ = [
    "consume_directly_body",
    "consumer_status_body",
    "queue_info",
    "reset_offsets_of",
    "running_info_body",
    "thread_stacks",
]

_MIB: Final = 1 << 20


def queue_info(
    state: ConcurrentQueue[Any] | OrderlyQueue[Any] | PolledQueue[Any],
    commit_offset: int | None,
    ahead_ms: int,
) -> dict[str, Any]:
    """Returns the official `ProcessQueueInfo` of a queue; `droped` is the official spelling.

    Args:
        state: The queue.
        commit_offset: How far it has come, None where that is not known.
        ahead_ms: What makes a time of the state one since 1970.
    """
    low, high = state.open_range or (0, 0)
    taken = state.taken_range if isinstance(state, OrderlyQueue) else None
    taken_low, taken_high, taken_count = taken or (0, 0, 0)
    return {
        "cachedMsgCount": state.count - taken_count,
        "cachedMsgMaxOffset": high,
        "cachedMsgMinOffset": low,
        "cachedMsgSizeInMiB": state.body_bytes // _MIB,
        "commitOffset": -1 if commit_offset is None else commit_offset,
        "droped": state.is_dropped,
        "lastConsumeTimestamp": state.last_consume_ms + ahead_ms,
        "lastLockTimestamp": state.last_lock_ms + ahead_ms,
        "lastPullTimestamp": state.last_pull_ms + ahead_ms,
        "locked": state.is_locked,
        "transactionMsgCount": taken_count,
        "transactionMsgMaxOffset": taken_high,
        "transactionMsgMinOffset": taken_low,
        "tryUnlockTimes": state.unlock_tries,
    }


def running_info_body(
    *,
    properties: Mapping[str, str],
    subscriptions: Sequence[SubscriptionData],
    queues: Mapping[MessageQueue, Mapping[str, Any]],
    statistics: Mapping[str, Mapping[str, int | float]],
    stacks: str | None = None,
) -> bytes:
    """Returns the body of an answer to GET_CONSUMER_RUNNING_INFO.

    Args:
        properties: Settings and facts; the official names.
        subscriptions: What is consumed.
        queues: `queue_info` of every queue.
        statistics: The official `ConsumeStatus` of every topic.
        stacks: The stacks of all threads, where they were asked for.
    """
    info: dict[str, Any] = {
        "mqPopTable": {},
        "mqTable": {queue: queues[queue] for queue in sorted(queues)},
        "properties": dict(sorted(properties.items())),
        "statusTable": {topic: statistics[topic] for topic in sorted(statistics)},
        "subscriptionSet": [
            item.to_json() for item in sorted(subscriptions, key=lambda item: item.topic)
        ],
        "userConsumerInfo": {},
    }
    if stacks is not None:
        info = {"jstack": stacks} | info
    return with_queue_keys(info)


def thread_stacks() -> str:
    """Returns the stacks of all threads, one block each, as a Java client's `jstack` has them."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    blocks = (
        f"{names.get(ident, '?')}  TID: {ident}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()  # noqa: SLF001 - the only way to them
    )
    return "\n\n".join(blocks)


def consume_directly_body(outcome: Outcome, *, is_orderly: bool, took_ms: int) -> bytes:
    """Returns the body of an answer to CONSUME_MESSAGE_DIRECTLY."""
    if outcome.is_done:
        result = "CR_SUCCESS"
    elif outcome.error is not None:
        result = "CR_THROW_EXCEPTION"
    elif outcome.is_null:
        result = "CR_RETURN_NULL"
    else:
        result = "CR_LATER"
    body: dict[str, Any] = {
        "autoCommit": True,
        "consumeResult": result,
        "order": is_orderly,
        "spentTimeMills": took_ms,
    }
    if outcome.why:
        body["remark"] = outcome.why
    return compact(body)


def consumer_status_body(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Returns the body of an answer to GET_CONSUMER_STATUS_FROM_CLIENT."""
    return with_queue_keys({"messageQueueTable": dict(offsets)})


def reset_offsets_of(body: bytes) -> dict[MessageQueue, int]:
    """Returns the offsets of a RESET_CONSUMER_CLIENT_OFFSET, in any of the forms brokers write.

    A map keyed by queues (`ResetOffsetBody`), or a list of queues with their offset, as C++ and Go
    clients get it.

    Raises:
        BadJsonError: It cannot be read.
    """
    table = parse_object(body).get("offsetTable")
    found: dict[MessageQueue, int] = {}
    if isinstance(table, dict):
        pairs = [(parse(key), offset) for key, offset in table.items()]
    else:
        pairs = [_pair(item) for item in as_list(table)]
    for key, offset in pairs:
        queue = MessageQueue.of_json(key)
        if queue is not None:
            found[queue] = as_int(offset, -1)
    return {queue: offset for queue, offset in found.items() if offset >= 0}


def _pair(item: Any) -> tuple[Any, Any]:
    if isinstance(item, list) and len(item) == 2:
        return item[0], item[1]
    return item, as_dict(item).get("offset")
