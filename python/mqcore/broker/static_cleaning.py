"""Takes out of mappings what they need no more: parts of queues that retention has emptied.

After `TopicQueueMappingCleanService` of 5.x, which does it once a day. A group that has not come
behind an emptied part is taken to the next one first: officially its offset is lost, and it begins
as if it were new. Knows no request of clients.
"""

import logging
from dataclasses import replace
from typing import Final

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.consumer_offsets import OffsetTable, parse_offsets, split_key
from mqcore.broker.state import BrokerState
from mqcore.broker.static_requests import StaticRequests
from mqcore.errors import MQError
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_dict, as_int
from mqcore.model.relaxed_json import parse_object
from mqcore.model.static_topics import (
    MappingItem,
    StaticQueues,
    StaticTopic,
    brokers_of_queues,
    logical_broker,
)
from mqcore.periodic import PeriodicTasks
from mqcore.remoting import RequestCode, expect

__all__ = ["StaticCleaning"]

_log = logging.getLogger("mqcore.broker")

# As long as the official service sleeps; it looks at the hour of `deleteWhen` alone then.
_PERIOD_S: Final = 300.0


class StaticCleaning:
    """Looks at the mappings of one broker now and then."""

    def __init__(
        self, state: BrokerState, persistence: ConfigPersistence, static: StaticRequests
    ) -> None:
        """Takes the broker, what writes its tables, and who asks other brokers."""
        self._state = state
        self._persistence = persistence
        self._static = static
        self._tasks = PeriodicTasks()

    def start(self) -> None:
        """Begins to look."""
        self._tasks.every(
            "clean static topics", self.clean, period_s=lambda: _PERIOD_S, first_s=_PERIOD_S
        )

    async def stop(self) -> None:
        """Ends it."""
        await self._tasks.stop()

    async def clean(self) -> None:
        """Takes out what is not needed; a topic about which nobody answers stays as it is."""
        for topic in list(self._state.static_topics.topics.values()):
            try:
                await self._clean(topic)
            except MQError as error:
                _log.info("static topic %s is not cleaned now: %s", topic.topic, error.message)

    async def _clean(self, topic: StaticTopic) -> None:
        queues = dict(topic.queues)
        for queue, items in topic.queues.items():
            if topic.leads(queue) is None:
                continue
            # The next part has to be known: something is to hold the offsets.
            while len(items) > 1 and items[1].is_decided and await self._is_empty(topic, items[0]):
                await self._take_groups(topic, items[0], items[1])
                items = items[1:]
            queues[queue] = items
        for queue in await self._forgotten(topic):
            del queues[queue]
        # It may have been changed while others were asked.
        if queues == topic.queues or self._state.static_topics.find(topic.topic) is not topic:
            return
        _log.info("static topic %s: parts of queues that are empty are taken out", topic.topic)
        self._state.static_topics.put(replace(topic, queues=queues), self._state.now_ms())
        await self._persistence.static_topics_changed()

    async def _is_empty(self, topic: StaticTopic, item: MappingItem) -> bool:
        if item.broker == topic.broker:
            low, high = self._state.bounds(topic.topic, item.queue_id)
            return low == high
        rows = await self._static.stats_of(topic.topic, item.broker)
        row = rows.get(item.queue_id)
        return row is not None and as_int(row.get("maxOffset")) == as_int(row.get("minOffset"))

    async def _take_groups(
        self, topic: StaticTopic, item: MappingItem, following: MappingItem
    ) -> None:
        """Lets groups that have an offset in an emptied part alone go on at the next one."""
        here = _offsets_in(await self._offsets_at(topic, item.broker), topic.topic, item.queue_id)
        there = _offsets_in(
            await self._offsets_at(topic, following.broker), topic.topic, following.queue_id
        )
        for group in here - there:
            if following.broker == topic.broker:
                offsets = self._state.fast_path.offsets
                offsets.commit(group, topic.topic, following.queue_id, following.start_offset)
                continue
            ext = {
                "consumerGroup": group,
                "topic": topic.topic,
                "queueId": str(following.queue_id),
                "commitOffset": str(following.start_offset),
                "lo": "false",
                "bname": following.broker,
            }
            code = RequestCode.UPDATE_CONSUMER_OFFSET
            answer = await self._static.peers.call(following.broker, topic.topic, code, ext)
            expect(answer, following.broker)

    async def _offsets_at(self, topic: StaticTopic, broker: str) -> OffsetTable:
        if broker == topic.broker:
            return self._state.fast_path.offsets.snapshot()
        code = RequestCode.GET_ALL_CONSUMER_OFFSET
        answer = await self._static.peers.call(broker, topic.topic, code, {})
        return parse_offsets(expect(answer, broker).body)

    async def _forgotten(self, topic: StaticTopic) -> list[int]:
        """Returns queues that have moved on from where this broker believes that they are."""
        elsewhere = {
            queue: items[-1].broker
            for queue, items in topic.queues.items()
            if items and topic.leads(queue) is None
        }
        if not elsewhere:
            return []
        route = await self._static.peers.route(topic.topic)
        parts = as_dict(route.get("topicQueueMappingByBroker")).values()
        leaders = brokers_of_queues(topic.topic, map(StaticQueues.of_json, parts))
        gone = []
        for queue, believed in elsewhere.items():
            name = MessageQueue(topic.topic, logical_broker(topic.scope), queue)
            leader = leaders.get(name, believed)
            if leader not in (believed, topic.broker) and await self._leads(topic, queue, leader):
                gone.append(queue)
        return gone

    async def _leads(self, topic: StaticTopic, queue: int, broker: str) -> bool:
        """Returns whether another broker leads a queue by its own mapping, of the same epoch."""
        if broker.startswith(logical_broker("")):
            return False
        ext = {"topic": topic.topic, "lo": "true", "bname": broker}
        code = RequestCode.GET_TOPIC_CONFIG
        answer = await self._static.peers.call(broker, topic.topic, code, ext)
        found = parse_object(expect(answer, broker).body).get("mappingDetail")
        if not found:
            return False
        there = StaticTopic.of_json(found, topic.topic)
        is_same = (there.epoch, there.total) == (topic.epoch, topic.total)
        return is_same and there.leads(queue) is not None


def _offsets_in(table: OffsetTable, topic: str, queue_id: int) -> set[str]:
    """Returns the groups that have an offset in a queue."""
    found = set()
    for key, queues in table.items():
        names = split_key(key)
        if names is not None and names[0] == topic and queues.get(queue_id, -1) >= 0:
            found.add(names[1])
    return found
