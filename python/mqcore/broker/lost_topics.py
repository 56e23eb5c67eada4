"""Topics that have queues in the store and no entry in `topics.json`.

Finds which they are, and what an entry would be. Knows no store and no command, and writes no file:
the text of `with_topics` is its caller's to save.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from mqcore.model.attributes import BATCH_QUEUE, QUEUE_TYPE
from mqcore.model.reading import as_dict
from mqcore.model.relaxed_json import parse_object, pretty
from mqcore.model.topics import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    CHECK_MAX_TIME_TOPIC,
    HALF_TOPIC,
    OFFSET_MOVED_TOPIC,
    OP_HALF_TOPIC,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_PREFIX,
    TRACE_TOPIC,
    TopicConfig,
)
from mqcore.model.versions import DataVersion

# Names that one line of the log holds; the others are only counted.
NAMED_MAX: Final = 20
# Light queues belong to topics of their own kind: none of them is in `topics.json`.
_LIGHT_PREFIX: Final = "%LMQ%"
# A start of the broker makes these by its settings.
_MADE_BY_START: Final = frozenset(
    {
        AUTO_CREATE_TOPIC,
        BENCHMARK_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        HALF_TOPIC,
        OFFSET_MOVED_TOPIC,
        OP_HALF_TOPIC,
        SCHEDULE_TOPIC,
        SELF_TEST_TOPIC,
        TRACE_TOPIC,
    }
)


def lost_topics(queues: Iterable[tuple[str, int]], known: Iterable[str]) -> dict[str, int]:
    """Returns the topics without an entry, by name, each with its number of queues.

    Args:
        queues: Topic and queue id of every queue of the store.
        known: The topics that have an entry.
    """
    have = set(known)
    found: dict[str, int] = {}
    for topic, queue_id in queues:
        if topic not in have and not _is_made_by_start(topic):
            found[topic] = max(found.get(topic, 0), queue_id + 1)
    return dict(sorted(found.items()))


def _is_made_by_start(topic: str) -> bool:
    return topic in _MADE_BY_START or topic.startswith((SYSTEM_PREFIX, _LIGHT_PREFIX))


def named(topics: Iterable[str]) -> str:
    """Returns the names as a bounded list for a message."""
    names = list(topics)
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def entry(name: str, queues: int, *, has_batches: bool = False) -> TopicConfig:
    """Returns the entry that a topic gets again: readable and writable, as clients make them.

    What its queues do not show (order, filter type, a permission taken away) is the usual.
    """
    attributes = {QUEUE_TYPE: BATCH_QUEUE} if has_batches else {}
    return TopicConfig(name=name, read_queues=queues, write_queues=queues, attributes=attributes)


def with_topics(text: bytes, topics: Mapping[str, TopicConfig], now_ms: int) -> bytes:
    """Returns a `topics.json` with these topics added; entries that are there stay as they are.

    Args:
        text: The file of now; empty for none.
        topics: By name.
        now_ms: For the data version, which every change raises.

    Raises:
        BadJsonError: The text cannot be read.
    """
    found = parse_object(text) if text.strip() else {}
    version = DataVersion.of_json(found.get("dataVersion") or {}).next(now_ms)
    table = {name: topic.to_json() for name, topic in topics.items()}
    return pretty(
        {
            **found,
            "dataVersion": version.to_json(),
            "topicConfigTable": table | as_dict(found.get("topicConfigTable")),
        }
    )
