"""Consumer offsets as tools change and copy them: reset by time, clone, correct, hand over."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from mqcore.broker.consumer_offsets import (
    groups_of_topic,
    offsets_json,
    topics_of_group,
)
from mqcore.broker.state import BrokerState
from mqcore.errors import RefusedError
from mqcore.model.languages import language_name
from mqcore.model.queues import MessageQueue
from mqcore.model.relaxed_json import compact, compact_in_parts, with_queue_keys
from mqcore.native import Command
from mqcore.remoting import Handler, Link, Request, RequestCode, ResponseCode

_INT64_MAX: Final = 2**63 - 1
# What every read queue means in a reset, and what "by time" means for its offset.
_ALL_QUEUES: Final = -1
_BY_TIME: Final = -1


class OffsetAdmin:
    """Serves the requests that change offsets, or take all of them."""

    def __init__(self, state: BrokerState) -> None:
        """Takes what it works on."""
        self._state = state

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset,
            RequestCode.CLONE_GROUP_OFFSET: self.clone,
            RequestCode.QUERY_CORRECTION_OFFSET: self.correction,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.all,
            RequestCode.GET_ALL_DELAY_OFFSET: self.delays,
        }

    async def reset(self, request: Request) -> Command:
        """222: moves a group to a time, or one queue to an offset; consumers need not be online.

        The offset is kept here, and the next pull or pop goes on there. Otherwise
        (`useServerSideResetOffset`) the members that are online are sent where to go on.
        """
        if not self._state.settings.keeps_reset_offsets:
            return await self._send_to_members(request)
        topic, group = request.field("topic"), request.field("group")
        if self._state.topics.find(topic) is None:
            raise RefusedError(f"Topic {topic} does not exist", code=ResponseCode.TOPIC_NOT_EXIST)
        if self._state.groups.find(group) is None:
            raise RefusedError(
                f"Group {group} does not exist", code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            )
        queue_id = request.integer("queueId", _ALL_QUEUES, bits=32)
        asked = request.integer("offset", _BY_TIME)
        timestamp_ms = request.integer("timestamp")
        if queue_id != _ALL_QUEUES and asked != _BY_TIME:
            targets = {queue_id: self._checked(topic, queue_id, asked)}
        else:
            every = self._state.read_queues(topic)
            queues = every if queue_id == _ALL_QUEUES else [queue_id]
            targets = await asyncio.to_thread(self._by_time, topic, queues, timestamp_ms)
        for queue, offset in targets.items():
            self._state.fast_path.offsets.reset(group, topic, queue, offset)
        return request.answer(body=_reset_body(request, self._by_queue(topic, targets)))

    async def _send_to_members(self, request: Request) -> Command:
        """Sends the members that are online where to go on (`Broker2Client.resetOffset`)."""
        topic, group = request.field("topic"), request.field("group")
        timestamp_ms = request.integer("timestamp")
        known = self._state.topics.find(topic)
        if known is None:
            remark = f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}"
            raise RefusedError(remark, code=ResponseCode.TOPIC_NOT_EXIST)
        offsets = self._state.fast_path.offsets.of(group, topic)
        queues = range(known.write_queues)
        if any(offsets.get(queue_id, -1) == -1 for queue_id in queues):
            # Spelled so by the official broker.
            remark = f"THe consumer group <{group}> not exist"
            raise RefusedError(remark, code=ResponseCode.SYSTEM_ERROR)
        targets = await asyncio.to_thread(self._by_time, topic, queues, timestamp_ms)
        if not request.flag("isForce"):
            targets = {queue: min(offset, offsets[queue]) for queue, offset in targets.items()}
        table = self._by_queue(topic, targets)
        if not self._notify_members(request, topic, group, timestamp_ms, table):
            remark = (
                f"Consumer not online, so can not reset offset, Group: {group} Topic: {topic} "
                f"Timestamp: {timestamp_ms}"
            )
            raise RefusedError(remark, code=ResponseCode.CONSUMER_NOT_ONLINE)
        return request.answer(body=_reset_body(request, table))

    def _by_queue(self, topic: str, targets: Mapping[int, int]) -> dict[MessageQueue, int]:
        name = self._state.settings.name
        return {MessageQueue(topic, name, queue): offset for queue, offset in targets.items()}

    def _checked(self, topic: str, queue_id: int, offset: int) -> int:
        low, high = self._state.bounds(topic, queue_id)
        if not low <= offset <= high + 1:
            raise RefusedError(
                f"Target offset {offset} not in consume queue range [{low}-{high}]",
                code=ResponseCode.SYSTEM_ERROR,
            )
        return offset

    def _by_time(self, topic: str, queues: Iterable[int], timestamp_ms: int) -> dict[int, int]:
        """Returns the first offset at or behind a time, of each queue. Runs in a thread."""
        targets = {}
        for queue_id in queues:
            low, high = self._state.bounds(topic, queue_id)
            targets[queue_id] = high
            if timestamp_ms >= 0 and high > low:
                found = self._state.store.offset_by_time(topic, queue_id, timestamp_ms)
                targets[queue_id] = high if found is None else min(max(found, low), high)
        return targets

    def _notify_members(
        self,
        request: Request,
        topic: str,
        group: str,
        timestamp_ms: int,
        table: Mapping[MessageQueue, int],
    ) -> bool:
        """Sends it to the members of a group that are online; returns whether there are any."""
        online = self._state.members.consumers.get(group)
        if online is None or not online.clients:
            return False
        ext = {
            "topic": topic,
            "group": group,
            "timestamp": str(timestamp_ms),
            "isForce": request.ext.get("isForce", "true"),
        }
        for client in online.clients.values():
            if isinstance(client.link, Link):
                body = _body_for(client.language, table)
                client.link.notify(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext, body)
        return True

    async def clone(self, request: Request) -> Command:
        """314: gives a group the offsets of another."""
        source, target = request.field("srcGroup"), request.field("destGroup")
        one = request.ext.get("topic", "").strip()
        topics = [one] if one else await self._topics_of_group(source)
        online = self._state.members.consumers.get(source)
        for topic in topics:
            if self._state.topics.find(topic) is None:
                continue
            is_left = online is not None and topic not in online.subscriptions
            if not request.flag("offline") and is_left:
                continue
            for queue_id, offset in self._state.fast_path.offsets.of(source, topic).items():
                self._state.fast_path.offsets.commit(target, topic, queue_id, offset)
        return request.answer()

    async def _topics_of_group(self, group: str) -> list[str]:
        fast_path = self._state.fast_path
        return await asyncio.to_thread(lambda: topics_of_group(fast_path.offsets.snapshot(), group))

    async def correction(self, request: Request) -> Command:
        """308: the smallest offset per queue among groups, measured against one of them."""
        topic, compared = request.field("topic"), request.field("compareGroup")
        left_out = set(request.ext.get("filterGroups", "").split(","))
        smallest: dict[int, int] = {}
        fast_path = self._state.fast_path
        groups = await asyncio.to_thread(
            lambda: groups_of_topic(fast_path.offsets.snapshot(), topic)
        )
        for group in groups:
            if group in left_out:
                continue
            for queue_id, offset in self._state.fast_path.offsets.of(group, topic).items():
                if offset >= self._state.bounds(topic, queue_id)[0]:
                    smallest[queue_id] = min(offset, smallest.get(queue_id, _INT64_MAX))
        for queue_id, offset in self._state.fast_path.offsets.of(compared, topic).items():
            if smallest.get(queue_id, -1) > offset:
                smallest[queue_id] = _INT64_MAX
        body = {"correctionOffsets": {str(queue): smallest[queue] for queue in smallest}}
        return request.answer(body=compact(body))

    async def all(self, request: Request) -> Command:
        """43: all consumer offsets."""
        fast_path, version = self._state.fast_path, self._state.offsets_version
        body = await asyncio.to_thread(
            lambda: compact_in_parts(offsets_json(fast_path.offsets.snapshot(), version))
        )
        return request.answer(body=body)

    def delays(self, request: Request) -> Command:
        """45: how far the delay levels were delivered."""
        return request.answer(body=compact(self._state.delays.to_json()))


def _reset_body(request: Request, table: Mapping[MessageQueue, int]) -> bytes:
    """Returns the answer of a reset in the form that the asking program reads."""
    return _body_for(language_name(request.command.language), table)


def _body_for(language: str, table: Mapping[MessageQueue, int]) -> bytes:
    """Returns `ResetOffsetBody`, or the form of it that C++ reads."""
    if language != "CPP":
        return with_queue_keys({"offsetTable": table})
    rows: list[dict[str, Any]] = [
        queue.to_json() | {"offset": offset} for queue, offset in table.items()
    ]
    return compact({"offsetTable": rows})
