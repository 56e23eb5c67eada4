"""The slowest requests of the last minutes, and how long the stages of all requests take.

Counted in the fast path (`rust/fast_path/src/times`); put into words here, in a thread.

Request: `afterUs`, optional: only what was answered behind it, by the `mark` of an answer before;
`limit`, optional. The answer's body:

    {"isTimed": true, "mark": 81234567, "nowMs": 1764192000000, "requests": [REQUEST...],
     "stages": [STAGE...]}

A REQUEST, the slowest first; times in us, without the time for which it was held:

    {"atMs": 1764191999123, "mark": 81200000, "code": 310, "request": "SEND_MESSAGE_V2",
     "response": 0, "kind": "send", "totalUs": 5230, "stages": {"appended": 80, "flushed": 5100,
     "answered": 50}, "peer": "127.0.0.1:40712", "topic": "orders", "group": "", "queueId": 3,
     "queueOffset": 1017, "messages": 1, "bytes": 1213}

`topic` and `group` are empty, `queueId` and `queueOffset` -1, where it had none. A STAGE, of all
requests since the start; a percentile is the bound that so many did not pass:

    {"kind": "send", "stage": "flushed", "count": 93211, "sumUs": 10200300, "maxUs": 88100,
     "p50Us": 128, "p99Us": 1024, "p999Us": 4096}
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from mqcore.broker.durations import percentile_us
from mqcore.broker.state import BrokerState
from mqcore.errors import MQError
from mqcore.model.relaxed_json import compact
from mqcore.native import Command, SlowRequest, StageTimes, Store
from mqcore.remoting import CODES, Handler, OwnRequestCode, Request, RequestCode

__all__ = ["SlowRequests"]

# What an answer has at the most: all that a broker keeps (64 of each of 16 minutes, of each loop).
_LIMIT_MAX: Final = 10_000
_LIMIT: Final = 100
_SENDS: Final = frozenset(
    {RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}
)
_PULLS: Final = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})
_US_PER_MS: Final = 1_000
# The property that has the topic of a message that waits elsewhere.
_REAL_TOPIC: Final = "REAL_TOPIC"
_PERCENTILES: Final = {"p50Us": 0.5, "p99Us": 0.99, "p999Us": 0.999}


class SlowRequests:
    """Serves the request about slow requests."""

    def __init__(self, state: BrokerState) -> None:
        """Takes what it works on."""
        self._state = state

    def own_handlers(self) -> Mapping[int, Handler]:
        """Returns the codes of ours served here."""
        return {OwnRequestCode.SLOW_REQUESTS: self.slow}

    async def slow(self, request: Request) -> Command:
        """SLOW_REQUESTS: the slowest of the last minutes, and the stages of all."""
        after_us = max(0, request.integer("afterUs", 0))
        limit = min(_LIMIT_MAX, max(0, request.integer("limit", _LIMIT)))
        body = await asyncio.to_thread(_body, self._state, after_us, limit)
        return request.answer(body=body)


def _body(state: BrokerState, after_us: int, limit: int) -> bytes:
    times = state.fast_path.times
    mark, now_ms = times.elapsed_us, state.now_ms()
    found = times.slowest(after_us)[:limit]
    requests = [
        _row(each, state.store, now_ms - (mark - each.answered_us) // _US_PER_MS) for each in found
    ]
    return compact(
        {
            "isTimed": state.settings.times_requests,
            "mark": mark,
            "nowMs": now_ms,
            "requests": requests,
            "stages": [_stage(each) for each in times.stages()],
        }
    )


def _row(slow: SlowRequest, store: Store, at_ms: int) -> dict[str, Any]:
    known = CODES.get(slow.code)
    return {
        "atMs": at_ms,
        "mark": slow.answered_us,
        "code": slow.code,
        "request": str(slow.code) if known is None else known.name,
        "response": slow.response,
        "kind": "send" if slow.code in _SENDS else "pull" if slow.code in _PULLS else "other",
        "totalUs": slow.total_us,
        "stages": slow.stages,
        "peer": slow.peer,
        "topic": slow.topic or _stored_topic(slow, store),
        "group": slow.group,
        "queueId": slow.queue_id,
        "queueOffset": slow.queue_offset,
        "messages": max(slow.messages, int(slow.physical_offset >= 0)),
        "bytes": slow.bytes,
    }


def _stored_topic(slow: SlowRequest, store: Store) -> str:
    """Returns the topic of a message that was stored; the log knows it."""
    if slow.physical_offset < 0:
        return ""
    try:
        message = store.message_at(slow.physical_offset)
    except MQError:
        # Its file was removed meanwhile.
        return ""
    return message.properties.get(_REAL_TOPIC, message.topic)


def _stage(times: StageTimes) -> dict[str, Any]:
    count = sum(times.counts)
    row = {
        "kind": times.kind,
        "stage": times.stage,
        "count": count,
        "sumUs": times.sum_us,
        "maxUs": times.max_us,
    }
    return row | {
        name: percentile_us(times.counts, share, times.max_us)
        for name, share in _PERCENTILES.items()
    }
