"""How far groups have read: their statistics, who reads a topic, how old what they read is."""

import asyncio
from collections.abc import Mapping
from typing import Any

from mqcore.access import topic_pair
from mqcore.broker.consumer_offsets import groups_of_topic, split_key, topics_of_group
from mqcore.broker.state import BrokerState
from mqcore.errors import RefusedError
from mqcore.model.queues import MessageQueue
from mqcore.model.relaxed_json import compact, with_queue_keys
from mqcore.native import Command
from mqcore.remoting import Handler, Request, RequestCode, ResponseCode, Slices


class Progress:
    """Serves the requests about what groups have read."""

    def __init__(self, state: BrokerState) -> None:
        """Takes what it works on."""
        self._state = state

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {
            RequestCode.GET_CONSUME_STATS: self.consume_stats,
            RequestCode.GET_BROKER_CONSUME_STATS: self.broker_consume_stats,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self.who_consumes,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self.topics_of,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self.subscription_of,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self.time_span,
        }

    async def consume_stats(self, request: Request) -> Command:
        """208: broker and consumer offset of every queue that a group reads."""
        group = request.field("consumerGroup")
        listed = [name for name in request.ext.get("topicList", "").split(";") if name]
        if listed:
            topics = listed
        else:
            one = request.ext.get("topic")
            topics = [one] if one else self._gettable(request, await self._topics_of_group(group))
            topics = [name for name in topics if self._is_wanted(group, name)]
        offsets = {topic: self._state.fast_path.offsets.of(group, topic) for topic in topics}
        stats = await asyncio.to_thread(self._stats, group, offsets)
        return request.answer(body=with_queue_keys(stats))

    def _gettable(self, request: Request, topics: list[str]) -> list[str]:
        """Returns the topics that the user of a request may get, where that is checked."""
        access = self._state.access
        if not access.settings.authorizes or access.settings.is_dry_run or not request.user:
            return topics
        explain, source = access.engine.explain, request.link.peer_host
        pairs = ((topic, topic_pair(topic, "Get")) for topic in topics)
        return [topic for topic, x in pairs if explain(request.user, source, *x).is_allowed]

    async def _topics_of_group(self, group: str) -> list[str]:
        fast_path = self._state.fast_path
        return await asyncio.to_thread(lambda: topics_of_group(fast_path.offsets.snapshot(), group))

    def _is_wanted(self, group: str, topic: str) -> bool:
        """An online group that does not subscribe a topic any more has only old offsets there."""
        online = self._state.members.consumers.get(group)
        return online is None or not online.subscriptions or topic in online.subscriptions

    def _stats(self, group: str, topics: Mapping[str, Mapping[int, int]]) -> dict[str, Any]:
        """Returns a group's `ConsumeStats`. Reads the disk: runs in a thread."""
        rows: dict[MessageQueue, dict[str, int]] = {}
        tps = 0.0
        static = self._state.static_topics.topics
        for topic, offsets in topics.items():
            # Of a static topic a group may be at another broker: tools look there, then.
            least = -1 if topic in static else 0
            for queue_id in self._state.read_queues(topic):
                _, high = self._state.bounds(topic, queue_id)
                read = max(least, offsets.get(queue_id, least))
                rows[MessageQueue(topic, self._state.settings.name, queue_id)] = {
                    "brokerOffset": high,
                    "consumerOffset": read,
                    "lastTimestamp": max(0, self._state.stored_ms(topic, queue_id, read - 1)),
                    "pullOffset": read,
                }
            series = self._state.statistics.find("GROUP_GET_NUMS", f"{topic}@{group}")
            tps += series.minute.per_second if series is not None else 0.0
        return {"consumeTps": tps, "offsetTable": rows}

    async def broker_consume_stats(self, request: Request) -> Command:
        """317: the same of every group, for ordered topics or for the others."""
        is_order = request.flag("isOrder")
        groups: dict[str, dict[str, Mapping[int, int]]] = {}
        slices = Slices()
        table = await asyncio.to_thread(self._state.fast_path.offsets.snapshot)
        for key, offsets in table.items():
            await slices.turn()
            topic_group = split_key(key)
            if topic_group is None:
                continue
            topic, group = topic_group
            known = self._state.topics.find(topic)
            is_asked = known is not None and known.order == is_order
            if is_asked and self._state.groups.find(group) and self._is_wanted(group, topic):
                groups.setdefault(group, {})[topic] = offsets
        return request.answer(body=await asyncio.to_thread(self._all_stats, groups))

    def _all_stats(self, groups: Mapping[str, Mapping[str, Mapping[int, int]]]) -> bytes:
        """Returns a `ConsumeStatsList`. Reads the disk, and there may be many: for a thread."""
        rows: list[dict[str, Any]] = []
        total = 0
        for group, topics in groups.items():
            stats = [self._stats(group, {topic: topics[topic]}) for topic in topics]
            for each in stats:
                queues = each["offsetTable"].values()
                total += sum(row["brokerOffset"] - max(0, row["consumerOffset"]) for row in queues)
            rows.append({group: stats})
        return with_queue_keys(
            {
                "brokerAddr": self._state.address,
                "consumeStatsList": rows,
                "totalDiff": total,
                "totalInflightDiff": 0,
            }
        )

    async def who_consumes(self, request: Request) -> Command:
        """300: groups that subscribe a topic, and those that have offsets there."""
        topic = request.field("topic")
        online = self._state.members.groups_of_topic(topic)
        fast_path = self._state.fast_path
        stored = await asyncio.to_thread(
            lambda: groups_of_topic(fast_path.offsets.snapshot(), topic)
        )
        names = list(dict.fromkeys([*online, *stored]))
        return request.answer(body=compact({"groupList": names}))

    async def topics_of(self, request: Request) -> Command:
        """343: the topics in which a group has offsets."""
        names = await self._topics_of_group(request.field("group"))
        return request.answer(body=compact({"topicList": names}))

    def subscription_of(self, request: Request) -> Command:
        """345: what a group wants of a topic."""
        group, topic = request.field("group"), request.field("topic")
        online = self._state.members.consumers.get(group)
        wanted = online.subscriptions.get(topic) if online is not None else None
        body: dict[str, Any] = {"group": group, "topic": topic}
        if wanted is not None:
            body["subscriptionData"] = wanted.to_json()
        return request.answer(body=compact(body))

    async def time_span(self, request: Request) -> Command:
        """303: how old the messages are that a group reads."""
        topic, group = request.field("topic"), request.field("group")
        known = self._state.topics.find(topic)
        if known is None:
            raise RefusedError(f"topic[{topic}] not exist", code=ResponseCode.TOPIC_NOT_EXIST)
        offsets = self._state.fast_path.offsets.of(group, topic)
        rows = await asyncio.to_thread(self._spans, topic, offsets, known.write_queues)
        return request.answer(body=compact({"consumeTimeSpanSet": rows}))

    def _spans(self, topic: str, offsets: Mapping[int, int], queues: int) -> list[dict[str, Any]]:
        """Reads the disk: runs in a thread."""
        state, rows = self._state, []
        for queue_id in range(queues):
            low, high = state.bounds(topic, queue_id)
            read = offsets.get(queue_id, -1)
            earliest_ms = state.stored_ms(topic, queue_id, low) if high > low else -1
            consumed_ms = earliest_ms
            if read > 0:
                consumed_ms = state.stored_ms(topic, queue_id, read - 1)
            waiting_ms = state.stored_ms(topic, queue_id, read) if 0 <= read < high else -1
            rows.append(
                {
                    "consumeTimeStamp": consumed_ms,
                    "delayTime": state.now_ms() - waiting_ms if waiting_ms > 0 else 0,
                    "maxTimeStamp": state.stored_ms(topic, queue_id, high - 1),
                    "messageQueue": MessageQueue(topic, state.settings.name, queue_id).to_json(),
                    "minTimeStamp": earliest_ms,
                }
            )
        return rows
