"""The topic table: system topics, automatic creation by the official rules, `topics.json`.

Pure state: no file, no socket, no clock. Whoever changes it sees a new `version` and does what
follows from that (writes the file, fills the fast path's policy, registers).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from mqcore.broker.kept_texts import KeptTexts
from mqcore.broker.limits import UNLIMITED, BrokerLimits, refused
from mqcore.errors import BadJsonError
from mqcore.model.reading import as_dict
from mqcore.model.relaxed_json import parse_object, pretty
from mqcore.model.topics import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    CHECK_MAX_TIME_TOPIC,
    DLQ_PREFIX,
    HALF_TOPIC,
    OFFSET_MOVED_TOPIC,
    OP_HALF_TOPIC,
    PERM_INHERIT,
    PERM_READ_WRITE,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_PREFIX,
    TIMER_TOPIC,
    TopicConfig,
    member_group_topic,
    revive_topic,
    topic_fault,
)
from mqcore.model.versions import DataVersion

# Queues that the official broker gives its own topics, whatever the settings.
BENCHMARK_QUEUES = 1024
CLUSTER_QUEUES = 16
# The official broker makes that many queues even where fewer levels are configured.
SCHEDULE_QUEUES = 18


@dataclass(frozen=True, slots=True)
class TopicRules:
    """The settings that decide about topics.

    Attributes:
        cluster: Name of the cluster.
        broker_name: Name of the broker.
        auto_create: `autoCreateTopicEnable`.
        default_queues: `defaultTopicQueueNums`: queues of the template.
        cluster_topic: `clusterTopicEnable`.
        broker_topic: `brokerTopicEnable`.
        trace_topic: Name of the trace topic, None without one.
        has_timers: `timerWheelEnable`.
        revive_queues: `reviveQueueNum`: queues of the topic of check points.
        has_acting_master: `enableSlaveActingMaster`.
    """

    cluster: str
    broker_name: str
    auto_create: bool = True
    default_queues: int = 8
    cluster_topic: bool = True
    broker_topic: bool = True
    trace_topic: str | None = None
    has_timers: bool = False
    revive_queues: int = 8
    has_acting_master: bool = False

    def system_topics(self, schedule_queues: int) -> Iterable[TopicConfig]:
        """Yields the topics that are there from the start."""

        def topic(name: str, queues: int, perm: int = PERM_READ_WRITE) -> TopicConfig:
            return TopicConfig(name=name, read_queues=queues, write_queues=queues, perm=perm)

        yield topic(SELF_TEST_TOPIC, 1)
        if self.auto_create:
            yield topic(AUTO_CREATE_TOPIC, self.default_queues, PERM_READ_WRITE | PERM_INHERIT)
        yield topic(BENCHMARK_TOPIC, BENCHMARK_QUEUES)
        for name, queues, is_open in (
            (self.cluster, CLUSTER_QUEUES, self.cluster_topic),
            (self.broker_name, 1, self.broker_topic),
        ):
            yield topic(name, queues, PERM_INHERIT | (PERM_READ_WRITE if is_open else 0))
        yield topic(OFFSET_MOVED_TOPIC, 1)
        yield topic(SCHEDULE_TOPIC, schedule_queues)
        if self.trace_topic:
            yield topic(self.trace_topic, 1)
        yield topic(f"{self.cluster}_REPLY_TOPIC", 1)
        if self.has_timers:
            yield topic(TIMER_TOPIC, 1)
            yield topic(revive_topic(self.cluster), self.revive_queues)
        if self.has_acting_master:
            yield topic(member_group_topic(self.broker_name), 1, PERM_INHERIT)
        yield topic(HALF_TOPIC, 1)
        yield topic(OP_HALF_TOPIC, 1)


class TopicTable:
    """Every topic of the broker.

    Args:
        rules: The settings; they may be replaced at any time.
        now_ms: Time of the start, for the data version.
        schedule_queues: Queues of the schedule topic.
        limits: How many topics and queues there may be; None for any number. They may be replaced
            at any time.
    """

    def __init__(
        self,
        rules: TopicRules,
        now_ms: int,
        schedule_queues: int = SCHEDULE_QUEUES,
        *,
        limits: BrokerLimits | None = None,
    ) -> None:
        """Begins with the system topics."""
        self.rules = rules
        self.limits = limits if limits is not None else UNLIMITED
        self._version = DataVersion(counter=0, timestamp_ms=now_ms)
        self._texts = KeptTexts[TopicConfig](depth=1)
        self._topics = {topic.name: topic for topic in rules.system_topics(schedule_queues)}
        self._queues = sum(topic.queues for topic in self._topics.values())
        self._system = frozenset(self._topics) | {AUTO_CREATE_TOPIC, CHECK_MAX_TIME_TOPIC}

    @property
    def version(self) -> DataVersion:
        """Changes with every change of the table."""
        return self._version

    @property
    def topics(self) -> Mapping[str, TopicConfig]:
        """All topics by name, to be read."""
        return MappingProxyType(self._topics)

    @property
    def system_names(self) -> frozenset[str]:
        """The topics that are the broker's own."""
        return self._system

    def is_system(self, name: str) -> bool:
        """Returns whether a topic is the broker's own: nobody may change or delete it."""
        return name in self._system or name.startswith(SYSTEM_PREFIX)

    def find(self, name: str) -> TopicConfig | None:
        """Returns a topic, None where there is none."""
        return self._topics.get(name)

    def load(self, text: bytes) -> None:
        """Takes the topics of a `topics.json` over those that are there.

        Raises:
            BadJsonError: It cannot be read; nothing was taken.
        """
        found = parse_object(text)
        if not isinstance(found.get("topicConfigTable", {}), dict):
            raise BadJsonError("its topicConfigTable is no object")
        topics = as_dict(found.get("topicConfigTable"))
        loaded = (TopicConfig.of_json(value, name) for name, value in topics.items())
        self._topics |= {topic.name: topic for topic in loaded if topic.name}
        self._queues = sum(topic.queues for topic in self._topics.values())
        if "dataVersion" in found:
            self._version = DataVersion.of_json(found["dataVersion"])

    def follow(self, text: bytes) -> tuple[str, ...]:
        """Takes the table of a master in place of this one; topics of the system stay.

        Returns:
            The topics that changed, came or went; empty where the version is the same.

        Raises:
            BadJsonError: It cannot be read, or has no topic; nothing was taken.
        """
        found = parse_object(text)
        version = DataVersion.of_json(found.get("dataVersion"))
        if version == self._version:
            return ()
        table = as_dict(found.get("topicConfigTable"))
        loaded = [TopicConfig.of_json(value, name) for name, value in table.items()]
        topics = {topic.name: topic for topic in loaded if topic.name}
        if not topics:
            raise BadJsonError("the master names no topic")
        kept = {name: topic for name, topic in self._topics.items() if name in self._system}
        old, self._topics = self._topics, kept | topics
        self._queues = sum(topic.queues for topic in self._topics.values())
        self._version = version
        names = old.keys() | self._topics.keys()
        return tuple(sorted(name for name in names if old.get(name) != self._topics.get(name)))

    def reign(self, epoch: int, now_ms: int) -> None:
        """Begins the epoch of a master: of two tables that of the later one is believed."""
        self._version = replace(self._version.next(now_ms), state_version=epoch)

    def renew(self, now_ms: int) -> None:
        """Gets a new version: name servers take the whole table again."""
        self._version = self._version.next(now_ms)

    def text(self) -> Callable[[], bytes]:
        """Returns what makes the content of `topics.json` of now, in any thread."""
        version, topics = self._version, dict(self._topics)
        return lambda: pretty(
            {"dataVersion": version.to_json(), "topicConfigTable": self._texts.of(topics)}
        )

    def to_json(self) -> dict[str, object]:
        """Returns the table as `TopicConfigSerializeWrapper` has it."""
        return table_json(self._version, self._topics.values())

    def put(self, topic: TopicConfig, now_ms: int) -> None:
        """Creates or replaces a topic; `check` decides before whether it may come."""
        known = self._topics.get(topic.name)
        self._queues += topic.queues - (known.queues if known is not None else 0)
        self._topics[topic.name] = topic
        self._version = self._version.next(now_ms)

    def check(self, topics: Iterable[TopicConfig]) -> None:
        """Checks that topics may come or change: all of them together.

        Raises:
            RefusedError: They would be too many, or their queues would.
        """
        new: dict[str, int] = {}
        more_queues = 0
        for topic in topics:
            known = self._topics.get(topic.name)
            if known is None:
                new[topic.name] = topic.queues
            else:
                more_queues += max(0, topic.queues - known.queues)
        more_queues += sum(new.values())
        name = next(iter(new), "")
        if new and len(self._topics) + len(new) > self.limits.topics:
            raise refused(f"the new topic {name}", "topicsMax", self.limits.topics)
        if more_queues and self._queues + more_queues > self.limits.queues:
            raise refused(f"{more_queues} new queues", "queuesMax", self.limits.queues)

    def promise_order(self, names: Iterable[str], now_ms: int) -> tuple[str, ...]:
        """Marks topics as ordered; returns those that were not.

        None is unmarked: nobody keeps the name server's list complete
        (`TopicConfigManager.updateOrderTopicConfig`).
        """
        found = (self._topics.get(name) for name in names)
        changed = [topic for topic in found if topic is not None and not topic.order]
        for topic in changed:
            self.put(replace(topic, order=True), now_ms)
        return tuple(topic.name for topic in changed)

    def delete(self, name: str, now_ms: int) -> bool:
        """Forgets a topic; returns whether there was one."""
        gone = self._topics.pop(name, None)
        if gone is None:
            return False
        self._queues -= gone.queues
        self._version = self._version.next(now_ms)
        return True

    def create_for_send(
        self,
        name: str,
        template: str,
        queues: int,
        *,
        sys_flag: int,
        now_ms: int,
    ) -> TopicConfig | None:
        """Returns the topic of a send, which is created where the template allows that.

        Args:
            name: The topic.
            template: The topic to inherit from, as the client asks.
            queues: As many queues at the most, as the client asks.
            sys_flag: The new topic's system flag.
            now_ms: The time.

        Returns:
            The topic, None where it may not be created.

        Raises:
            RefusedError: There are as many topics or queues as there may be.
        """
        known = self._topics.get(name)
        if known is not None:
            return known
        if topic_fault(name) is not None:
            return None
        parent = self._topics.get(template)
        is_closed = template == AUTO_CREATE_TOPIC and not self.rules.auto_create
        if parent is None or is_closed or not parent.perm & PERM_INHERIT:
            return self._create_retry(name, sys_flag, now_ms)
        count = max(0, min(queues, parent.write_queues))
        made = replace(
            parent,
            name=name,
            read_queues=count,
            write_queues=count,
            perm=parent.perm & ~PERM_INHERIT,
            sys_flag=sys_flag,
            order=False,
            attributes={},
        )
        self.check([made])
        self.put(made, now_ms)
        return made

    def _create_retry(self, name: str, sys_flag: int, now_ms: int) -> TopicConfig | None:
        """A retry topic needs no template."""
        if not name.startswith(RETRY_PREFIX):
            return None
        # Anybody may name any group here.
        self.check([TopicConfig(name=name, read_queues=1, write_queues=1)])
        return self.create_for_group(name, 1, now_ms=now_ms, sys_flag=sys_flag)

    def create_for_group(
        self, name: str, queues: int, *, now_ms: int, sys_flag: int = 0
    ) -> TopicConfig:
        """Returns the retry or dead-letter topic of a group, created where it is missing.

        Without a limit of its own: messages that are stored already need it, and groups have one.
        """
        known = self._topics.get(name)
        if known is not None:
            return known
        made = TopicConfig(name=name, read_queues=queues, write_queues=queues, sys_flag=sys_flag)
        self.put(made, now_ms)
        return made


def table_json(version: DataVersion, topics: Iterable[TopicConfig]) -> dict[str, object]:
    """Returns topics as `TopicConfigSerializeWrapper` has them."""
    return {
        "dataVersion": version.to_json(),
        "topicConfigTable": {topic.name: topic.to_json() for topic in topics},
    }


def is_of_group(name: str) -> bool:
    """Returns whether a topic is a group's own: of its retries or its dead letters."""
    return name.startswith((RETRY_PREFIX, DLQ_PREFIX))
