"""The table of static topics, and its file, `topicQueueMapping.json`.

Pure state: no file, no socket, no clock. After `TopicQueueMappingManager` of 5.x.
"""

from collections.abc import Callable, Mapping
from typing import Any

from mqcore.errors import BadJsonError
from mqcore.model.reading import as_dict
from mqcore.model.relaxed_json import parse_object, pretty
from mqcore.model.static_topics import (
    MappingFaultError,
    StaticTopic,
    check_items,
    check_successors,
)
from mqcore.model.versions import DataVersion

# Members of GET_ALL_TOPIC_CONFIG (`TopicConfigAndMappingSerializeWrapper`).
_TOPICS_OF_ALL = "topicQueueMappingDetailMap"
_VERSION_OF_ALL = "mappingDataVersion"


class StaticTopicTable:
    """The mappings of static topics that are on this broker.

    Attributes:
        changed: Gets each topic whose mapping is another one now.
    """

    def __init__(self, now_ms: int) -> None:
        """Begins with none."""
        self._topics: dict[str, StaticTopic] = {}
        self._version = DataVersion(counter=0, timestamp_ms=now_ms)
        self.changed: Callable[[str], None] = lambda _topic: None

    @property
    def version(self) -> DataVersion:
        """Changes with every change of the table."""
        return self._version

    @property
    def topics(self) -> Mapping[str, StaticTopic]:
        """All of them by topic, to be read."""
        return self._topics

    def find(self, topic: str) -> StaticTopic | None:
        """Returns the mapping of a topic, None of one that is not static."""
        return self._topics.get(topic)

    def load(self, text: bytes) -> None:
        """Takes the content of a `topicQueueMapping.json`.

        Raises:
            BadJsonError: It cannot be read; nothing was taken.
        """
        found = parse_object(text)
        self._topics = _table_of(found.get("topicQueueMappingInfoMap"))
        self._version = DataVersion.of_json(found.get("dataVersion"))

    def follow(self, text: bytes) -> tuple[str, ...]:
        """Takes the table of a master, of its answer to GET_ALL_TOPIC_CONFIG.

        Returns:
            The topics that changed, came or went; empty where the version is the same, or the
            master has no such table.

        Raises:
            BadJsonError: It cannot be read; nothing was taken.
        """
        found = parse_object(text)
        version = DataVersion.of_json(found.get(_VERSION_OF_ALL))
        if _TOPICS_OF_ALL not in found or version == self._version:
            return ()
        old, self._topics = self._topics, _table_of(found[_TOPICS_OF_ALL])
        self._version = version
        names = old.keys() | self._topics.keys()
        changed = tuple(sorted(n for n in names if old.get(n) != self._topics.get(n)))
        for name in changed:
            self.changed(name)
        return changed

    def text(self) -> Callable[[], bytes]:
        """Returns what makes the content of `topicQueueMapping.json` of now, in any thread."""
        version, topics = self._version, dict(self._topics)
        return lambda: pretty(
            {
                "dataVersion": version.to_json(),
                "topicQueueMappingInfoMap": {
                    name: topic.to_json() for name, topic in topics.items()
                },
            }
        )

    def members(self) -> dict[str, Any]:
        """Returns what the answer to GET_ALL_TOPIC_CONFIG has of it; empty until the first one."""
        if not self._topics and not self._version.counter:
            return {}
        return {
            _VERSION_OF_ALL: self._version.to_json(),
            _TOPICS_OF_ALL: {name: topic.to_json() for name, topic in self._topics.items()},
            "topicQueueMappingInfoMap": {},
        }

    def accepted(self, wanted: StaticTopic, *, is_forced: bool) -> StaticTopic:
        """Returns the mapping as it is after a change; changes nothing.

        Queues that a change does not name stay as they are.

        Args:
            wanted: The change.
            is_forced: Take it whatever is there now.

        Raises:
            MappingFaultError: It contradicts itself, or what is there.
        """
        for items in wanted.queues.values():
            check_items(items)
        known = self._topics.get(wanted.topic)
        if known is None:
            return wanted
        merged = wanted.with_queues({**known.queues, **wanted.queues})
        if is_forced:
            return merged
        if wanted.epoch < known.epoch:
            raise MappingFaultError(
                f"Can't accept data with small epoch {wanted.epoch} < {known.epoch}"
            )
        if wanted.scope != known.scope:
            raise MappingFaultError(
                f"Can't accept data with unmatched scope {wanted.scope} != {known.scope}"
            )
        is_same_epoch = wanted.epoch == known.epoch
        for queue, items in known.queues.items():
            new = wanted.queues.get(queue)
            if new is not None:
                check_successors(items, new, is_same_epoch=is_same_epoch)
            elif is_same_epoch:
                raise MappingFaultError("Cannot accept equal epoch with null data")
        return merged

    def put(self, topic: StaticTopic, now_ms: int) -> None:
        """Replaces the mapping of a topic; `accepted` decides before whether it may."""
        self._topics[topic.topic] = topic
        self._version = self._version.next(now_ms)
        self.changed(topic.topic)

    def delete(self, topic: str, now_ms: int) -> bool:
        """Forgets a topic; returns whether it was static."""
        if self._topics.pop(topic, None) is None:
            return False
        self._version = self._version.next(now_ms)
        self.changed(topic)
        return True


def _table_of(value: Any) -> dict[str, StaticTopic]:
    if not isinstance(value, dict | None):
        raise BadJsonError("its mappings are no object")
    topics = (StaticTopic.of_json(row, name) for name, row in as_dict(value).items())
    return {topic.topic: topic for topic in topics}
