"""Static topics as tools see them: their mappings are set here, and read with topics (351)."""

from collections.abc import Mapping

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.processors.bodies import object_of
from mqcore.broker.processors.topic_admin import check_topic
from mqcore.broker.state import BrokerState
from mqcore.errors import BadJsonError, RefusedError
from mqcore.model.reading import INT
from mqcore.model.static_topics import MappingFaultError, StaticTopic
from mqcore.model.topics import QUEUES_MAX, TopicConfig
from mqcore.native import Command
from mqcore.remoting import Handler, Request, RequestCode, ResponseCode


class StaticAdmin:
    """Serves the requests about static topics."""

    def __init__(self, state: BrokerState, persistence: ConfigPersistence) -> None:
        """Takes what it works on."""
        self._state = state
        self._persistence = persistence

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC: self.update}

    async def update(self, request: Request) -> Command:
        """513: sets a topic with its mapping; when it is answered, routes know both.

        Nothing is changed where the mapping contradicts itself, or what is there.
        """
        known = self._state.topics.find(request.field("topic"))
        topic = TopicConfig(
            name=request.field("topic"),
            read_queues=request.integer("readQueueNums", bits=INT),
            write_queues=request.integer("writeQueueNums", bits=INT),
            perm=request.integer("perm", bits=INT),
            filter_type=request.ext.get("topicFilterType", "SINGLE_TAG"),
            sys_flag=request.integer("topicSysFlag", 0, bits=INT),
            attributes={} if known is None else known.attributes,
        )
        check_topic(self._state, topic)
        try:
            mapping = await object_of(request)
        except BadJsonError as error:
            raise RefusedError(str(error), code=ResponseCode.SYSTEM_ERROR) from error
        self._state.topics.check([topic])
        try:
            wanted = StaticTopic.of_json(mapping, topic.name)
            self._check(topic, wanted)
            accepted = self._state.static_topics.accepted(wanted, is_forced=request.flag("force"))
        except MappingFaultError as error:
            raise RefusedError(str(error), code=ResponseCode.SYSTEM_ERROR) from error
        now_ms = self._state.now_ms()
        self._state.topics.put(topic, now_ms)
        self._state.static_topics.put(accepted, now_ms)
        # A topic whose mapping is not there yet would be written as an ordinary one.
        await self._persistence.static_topics_changed()
        await self._persistence.topics_changed([topic.name], must_have=True)
        return request.answer()

    def _check(self, topic: TopicConfig, wanted: StaticTopic) -> None:
        """Checks what the official broker leaves to assertions, which a JVM does not look at."""
        own = self._state.settings.name
        if wanted.topic != topic.name:
            raise MappingFaultError(f"the mapping is one of {wanted.topic}, not of {topic.name}")
        if wanted.broker != own:
            raise MappingFaultError(f"the mapping is one of broker {wanted.broker}, not of {own}")
        numbers = (wanted.total, len(wanted.queues), *wanted.queues)
        if not all(0 <= number <= QUEUES_MAX for number in numbers):
            raise MappingFaultError(f"a static topic has {QUEUES_MAX} queues at the most")
