"""Messages that tools look up: by key, by unique key, by place, by queue."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from mqcore.broker.queue_units import UNITS_MAX, rows_of, shown_filter, test_of
from mqcore.broker.quota_waits import count_read, wait_to_read
from mqcore.broker.state import BrokerState
from mqcore.broker.static_requests import StaticRequests
from mqcore.errors import MQError, RefusedError
from mqcore.model.relaxed_json import compact
from mqcore.native import Command, Message
from mqcore.remoting import Handler, Request, RequestCode, ResponseCode

# Messages of one query at the most (`maxMsgsNumBatch`).
QUERY_MAX: Final = 64
# Bytes of messages in one answer: a frame has at most 16 MiB, with its header.
_BODY_MAX_BYTES: Final = 15 << 20
_UNIQUE_QUERY: Final = "_UNIQUE_KEY_QUERY"
# How 5.5 asks for tags; its index has them as keys with this before them (`IndexService.buildKey`).
_INDEX_TYPE: Final = "indexType"
_TAGS_TYPE: Final = "T"
_TAGS_PREFIX: Final = "T#"
_INT64_MAX: Final = 2**63 - 1


class Messages:
    """Serves the requests for single messages."""

    def __init__(self, state: BrokerState, static: StaticRequests) -> None:
        """Takes what it works on."""
        self._state = state
        self._static = static

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {
            RequestCode.QUERY_MESSAGE: self.query,
            RequestCode.VIEW_MESSAGE_BY_ID: self.view,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self.earliest,
            RequestCode.QUERY_CONSUME_QUEUE: self.queue_units,
        }

    async def query(self, request: Request) -> Command:
        """12: the newest messages with a key, with a unique key, or with tags."""
        wanted, key = request.integer("maxNum"), request.field("key")
        if request.flag(_UNIQUE_QUERY):
            wanted = self._state.settings.query_max
        elif request.ext.get(_INDEX_TYPE) == _TAGS_TYPE:
            key = f"{_TAGS_PREFIX}{key}"
        topic, fast_path = request.field("topic"), self._state.fast_path
        await wait_to_read(fast_path, request.user, topic)
        found = await asyncio.to_thread(
            self._state.store.query,
            topic,
            key,
            max(0, min(wanted, QUERY_MAX)),
            begin_ms=request.integer("beginTimestamp"),
            end_ms=min(request.integer("endTimestamp"), _INT64_MAX),
        )
        if not found:
            raise RefusedError(
                "can not find message, maybe time range not correct",
                code=ResponseCode.QUERY_NOT_FOUND,
            )
        given, last = whole(found), found[-1]
        count_read(fast_path, request.user, topic, given)
        ext = {
            "indexLastUpdateTimestamp": str(last.store_timestamp_ms),
            "indexLastUpdatePhyoffset": str(last.physical_offset),
        }
        return request.answer(ext=ext, body=b"".join(each.record for each in given))

    async def view(self, request: Request) -> Command:
        """33: the message at a place of the log."""
        offset = request.integer("offset")
        try:
            if offset < 0:
                raise RefusedError("", code=ResponseCode.SYSTEM_ERROR)
            message = await asyncio.to_thread(self._state.store.message_at, offset)
        except MQError as error:
            raise RefusedError(
                f"can not find message by the offset, {offset}", code=ResponseCode.SYSTEM_ERROR
            ) from error
        # Whose it is shows the message alone.
        await wait_to_read(self._state.fast_path, request.user, message.topic)
        count_read(self._state.fast_path, request.user, message.topic, [message])
        return request.answer(body=message.record)

    async def earliest(self, request: Request) -> Command:
        """32: when the first message of a queue was stored."""
        routed = await self._static.routed(request)
        if isinstance(routed, Command):
            return routed
        topic, queue_id = routed.field("topic"), routed.integer("queueId", bits=32)
        low, high = self._state.bounds(topic, queue_id)
        stored_ms = -1
        if high > low:
            stored_ms = await asyncio.to_thread(self._state.stored_ms, topic, queue_id, low)
        return request.answer(ext={"timestamp": str(stored_ms)})

    async def queue_units(self, request: Request) -> Command:
        """321: the units of a queue, and whether its extension lets a group have them."""
        topic, queue_id = request.field("topic"), request.integer("queueId", bits=32)
        index, count = request.integer("index"), request.integer("count")
        bounds = self._state.store.bounds(topic, queue_id)
        if bounds is None:
            raise RefusedError(f"{queue_id}@{topic} is not exist!", code=ResponseCode.SYSTEM_ERROR)
        group = request.ext.get("consumerGroup", "")
        online = self._state.members.consumers.get(group)
        wanted = online.subscriptions.get(topic) if online is not None else None
        filters = self._state.filters
        first = max(index, bounds.min_offset, 0)
        count = max(0, min(count, UNITS_MAX))
        rows: list[dict[str, Any]] = []
        if first < bounds.max_offset and count:
            units = await asyncio.to_thread(self._state.store.units, topic, queue_id, first, count)
            rows = rows_of(units, test_of(wanted, filters, group))
        body: dict[str, Any] = {
            "maxQueueIndex": bounds.max_offset,
            "minQueueIndex": bounds.min_offset,
            "queueData": rows,
        }
        if group:
            body = {"filterData": shown_filter(wanted, filters, group, topic), **body}
        if wanted is not None:
            body["subscriptionData"] = wanted.to_json()
        return request.answer(body=compact(body))


def whole(messages: list[Message]) -> list[Message]:
    """Returns the first of some messages, as many as a frame has space for."""
    size = 0
    for at, message in enumerate(messages):
        size += message.store_size_bytes
        if at and size > _BODY_MAX_BYTES:
            return messages[:at]
    return messages
