"""Topics as tools see them: created, changed, deleted, listed, and how full their queues are."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.consumer_offsets import groups_of_topic
from mqcore.broker.processors.bodies import object_of, too_many_of
from mqcore.broker.state import BrokerState
from mqcore.broker.topics import table_json
from mqcore.errors import RefusedError
from mqcore.model.attributes import (
    CLEANUP_POLICY,
    COMPACTION,
    MESSAGE_TYPE,
    MIXED,
    AttributeFaultError,
    altered,
    has_batch_queues,
    parse_changes,
)
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import INT, as_list
from mqcore.model.relaxed_json import compact, compact_in_parts, with_queue_keys
from mqcore.model.topics import (
    QUEUES_MAX,
    RETRY_PREFIX,
    TopicConfig,
    pop_retry_topics,
    topic_fault,
)
from mqcore.native import Command
from mqcore.remoting import Handler, Request, RequestCode, ResponseCode, Slices

# Permission bits that exist.
_PERM_MAX = 15


class TopicAdmin:
    """Serves the requests about topics."""

    def __init__(self, state: BrokerState, persistence: ConfigPersistence) -> None:
        """Takes what it works on."""
        self._state = state
        self._persistence = persistence

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.update,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self.update_list,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete,
            RequestCode.GET_ALL_TOPIC_CONFIG: self.all,
            RequestCode.GET_TOPIC_CONFIG: self.one,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self.system,
            RequestCode.GET_TOPIC_STATS_INFO: self.stats,
        }

    async def update(self, request: Request) -> Command:
        """17: creates or changes a topic; when it is answered, routes know it."""
        topic = TopicConfig(
            name=request.field("topic"),
            read_queues=request.integer("readQueueNums", bits=INT),
            write_queues=request.integer("writeQueueNums", bits=INT),
            perm=request.integer("perm", bits=INT),
            filter_type=request.ext.get("topicFilterType", "SINGLE_TAG"),
            sys_flag=request.integer("topicSysFlag", 0, bits=INT),
            order=request.flag("order"),
        )
        try:
            changes = parse_changes(request.ext.get("attributes", ""))
        except AttributeFaultError as error:
            raise RefusedError(str(error), code=ResponseCode.SYSTEM_ERROR) from error
        await self._put([(topic, changes)])
        return request.answer()

    async def update_list(self, request: Request) -> Command:
        """18: the same for many topics: all of them or none."""
        found = as_list((await object_of(request)).get("topicConfigList"))
        too_many_of(found, "topics", "topicsMax", self._state.limits.topics)
        slices, asked = Slices(), []
        for item in found:
            topic = TopicConfig.of_json(item)
            asked.append((replace(topic, attributes={}), topic.attributes))
            await slices.turn()
        await self._put(asked)
        return request.answer()

    async def _put(self, asked: list[tuple[TopicConfig, dict[str, str]]]) -> None:
        slices = Slices()
        for topic, _changes in asked:
            check_topic(self._state, topic)
            await slices.turn()
        topics = [self._altered(topic, changes) for topic, changes in asked]
        self._state.topics.check(topics)
        for topic in topics:
            if has_batch_queues(topic.attributes):
                store = self._state.store
                await asyncio.to_thread(store.declare_batch_queues, topic.name)
        now_ms = self._state.now_ms()
        for topic in topics:
            self._state.topics.put(topic, now_ms)
        names = [topic.name for topic in topics]
        await self._persistence.topics_changed(names, must_have=True)

    def _altered(self, topic: TopicConfig, changes: Mapping[str, str]) -> TopicConfig:
        """Returns a topic with its attributes after changes (`updateSingleTopicConfig...`)."""
        known = self._state.topics.find(topic.name)
        current = None if known is None else known.attributes
        try:
            attributes = altered(current, changes)
        except AttributeFaultError as error:
            raise RefusedError(str(error), code=ResponseCode.SYSTEM_ERROR) from error
        asked = changes.get
        fault = None
        if asked(f"+{MESSAGE_TYPE}") == MIXED and not self._state.settings.allows_mixed_types:
            fault = "MIXED message type is not supported."
        if asked(f"+{CLEANUP_POLICY}") == COMPACTION:
            # Kept as a word alone it would lose what compaction keeps for ever.
            fault = f"The topic[{topic.name}] cannot be compacted: this broker does not compact."
        if fault is not None:
            raise RefusedError(fault, code=self._state.invalid_code)
        return replace(topic, attributes=attributes)

    async def delete(self, request: Request) -> Command:
        """215: deletes a topic with its queues and the offsets of its consumers."""
        name = request.field("topic")
        fault = "The specified topic is blank." if not name.strip() else None
        if fault is None and self._state.topics.is_system(name):
            fault = f"The topic[{name}] is conflict with system topic."
        if fault is not None:
            raise RefusedError(fault, code=self._state.invalid_code)
        for each in (*await self._pop_retry_topics(name), name):
            await self._delete(each)
        return request.answer()

    async def _pop_retry_topics(self, topic: str) -> list[str]:
        """Returns those of a topic (`clearRetryTopicWhenDeleteTopic`).

        The official broker may take the ordinary retry topic of another group for one of them
        (group `g_t`, when `t` is deleted that group `g` has read): such a one stays here.
        """
        state = self._state
        if not state.settings.deletes_pop_retry_topics:
            return []
        fast_path = state.fast_path
        groups = await asyncio.to_thread(
            lambda: groups_of_topic(fast_path.offsets.snapshot(), topic)
        )
        return [
            name
            for group in groups
            for name in pop_retry_topics(topic, group)
            if name in state.topics.topics and name[len(RETRY_PREFIX) :] not in state.groups.groups
        ]

    async def _delete(self, name: str) -> None:
        """Deletes one that may be deleted."""
        now_ms = self._state.now_ms()
        if self._state.static_topics.delete(name, now_ms):
            await self._persistence.static_topics_changed()
        if self._state.topics.delete(name, now_ms):
            await self._persistence.topics_changed([name], must_have=True)
        self._state.fast_path.offsets.remove(topic=name)
        await asyncio.to_thread(self._state.store.delete_topic, name)
        if self._state.timers is not None:
            await asyncio.to_thread(self._state.timers.forget, name)

    async def all(self, request: Request) -> Command:
        """21: every topic."""
        version, topics = self._state.topics.version, list(self._state.topics.topics.values())
        static = self._state.static_topics.members()
        body = await asyncio.to_thread(
            lambda: compact_in_parts(table_json(version, topics) | static)
        )
        return request.answer(body=body)

    def one(self, request: Request) -> Command:
        """351: one topic."""
        name = request.field("topic")
        topic = self._state.topics.find(name)
        if topic is None:
            raise RefusedError(
                f"No topic in this broker. topic: {name}", code=ResponseCode.TOPIC_NOT_EXIST
            )
        found = topic.to_json()
        static = self._state.static_topics.find(name) if request.flag("lo") else None
        if static is not None:
            found["mappingDetail"] = static.to_json()
        return request.answer(body=compact(found))

    def system(self, request: Request) -> Command:
        """305: the broker's own topics."""
        names = sorted(self._state.topics.system_names)
        return request.answer(body=compact({"topicList": names}))

    async def stats(self, request: Request) -> Command:
        """202: first and next offset of every queue, and the time of its last message."""
        name = request.field("topic")
        topic = self._state.topics.find(name)
        if topic is None:
            raise RefusedError(f"topic[{name}] not exist", code=ResponseCode.TOPIC_NOT_EXIST)
        rows = await asyncio.to_thread(self._queue_rows, name, topic.queues)
        put = self._state.statistics.find("TOPIC_PUT_NUMS", name)
        tps = put.minute.per_second if put is not None else 0.0
        return request.answer(body=with_queue_keys({"offsetTable": rows, "topicPutTps": tps}))

    def _queue_rows(self, name: str, queues: int) -> dict[MessageQueue, dict[str, int]]:
        """Reads the disk: runs in a thread."""
        rows = {}
        for queue_id in range(queues):
            low, high = self._state.bounds(name, queue_id)
            rows[MessageQueue(name, self._state.settings.name, queue_id)] = {
                "lastUpdateTimestamp": max(0, self._state.stored_ms(name, queue_id, high - 1)),
                "maxOffset": high,
                "minOffset": low,
            }
        return rows


def check_topic(state: BrokerState, topic: TopicConfig) -> None:
    """Checks that a topic may be as it is asked for.

    Raises:
        RefusedError: It may not.
    """
    fault = topic_fault(topic.name)
    is_protected = state.settings.protects_system_topics and state.topics.is_system(topic.name)
    if fault is None and is_protected:
        fault = f"The topic[{topic.name}] is conflict with system topic."
    counts = (topic.read_queues, topic.write_queues)
    if fault is None and not all(0 <= count <= QUEUES_MAX for count in counts):
        fault = f"The topic[{topic.name}] must have 0 to {QUEUES_MAX} queues."
    if fault is None and not 0 <= topic.perm <= _PERM_MAX:
        fault = f"The topic[{topic.name}] has an unknown permission {topic.perm}."
    if fault is not None:
        raise RefusedError(fault, code=state.invalid_code)
