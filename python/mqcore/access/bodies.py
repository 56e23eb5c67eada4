"""What a request needs that its header does not have: topics and groups of its body.

`BODY_PAIRS` has a function for each code whose rule has `body` and whose body has all of it; what
is in the store is the broker's (`mqcore.broker.access_pairs`). A pair is a resource and the actions
of which one must be allowed, as the engine takes them. Pure: a body that cannot be read has no
pair, and its handler refuses it.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from mqcore.access.model import action_bits
from mqcore.errors import BadJsonError
from mqcore.model.reading import as_dict, as_list, as_text
from mqcore.model.relaxed_json import parse
from mqcore.model.topics import DLQ_PREFIX, RETRY_PREFIX
from mqcore.remoting import RequestCode

__all__ = ["BODY_PAIRS", "Pair", "cluster_pair", "group_pair", "topic_pair"]

# A resource, and the actions of which one must be allowed.
Pair: TypeAlias = tuple[str, int]
_Extractor: TypeAlias = Callable[[Mapping[str, str], bytes], list[Pair]]

_GROUP_TOPICS: Final = (RETRY_PREFIX, DLQ_PREFIX)


def group_pair(group: str, *actions: str) -> Pair:
    """Returns what one of some actions on a group needs."""
    for prefix in _GROUP_TOPICS:
        group = group.removeprefix(prefix)
    return f"Group:{group}", action_bits(actions)


def topic_pair(topic: str, *actions: str) -> Pair:
    """Returns what one of some actions on a topic needs; a topic of a group counts as that."""
    if topic.startswith(_GROUP_TOPICS):
        return group_pair(topic, *("Sub" if each == "Pub" else each for each in actions))
    return f"Topic:{topic}", action_bits(actions)


def cluster_pair(cluster: str, *actions: str) -> Pair:
    """Returns what one of some actions on a cluster needs."""
    return f"Cluster:{cluster}", action_bits(actions)


def _read(body: bytes) -> dict[str, Any]:
    try:
        return as_dict(parse(body))
    except BadJsonError:
        return {}


def _rows(found: Mapping[str, Any], *names: str) -> list[dict[str, Any]]:
    """Returns the objects of lists."""
    return [as_dict(each) for name in names for each in as_list(found.get(name))]


def _subscribed(group: str, topics: Iterable[str]) -> list[Pair]:
    """Returns what a group needs to read topics; its own topics go with it."""
    others = (topic for topic in topics if not topic.startswith(RETRY_PREFIX))
    return [group_pair(group, "Sub"), *(topic_pair(topic, "Sub") for topic in others)]


def _heartbeat(_ext: Mapping[str, str], body: bytes) -> list[Pair]:
    """34: of each consumer group, and of what it subscribes; producers need nothing here."""
    found: list[Pair] = []
    for consumer in _rows(_read(body), "consumerDataSet"):
        wanted = (as_text(each.get("topic")) for each in _rows(consumer, "subscriptionDataSet"))
        found += _subscribed(as_text(consumer.get("groupName")), wanted)
    return found


def _queues(_ext: Mapping[str, str], body: bytes) -> list[Pair]:
    """41, 42: of the group, and of the topic of each queue."""
    asked = _read(body)
    topics = dict.fromkeys(as_text(each.get("topic")) for each in _rows(asked, "mqSet"))
    return _subscribed(as_text(asked.get("consumerGroup")), topics)


def _topics(_ext: Mapping[str, str], body: bytes) -> list[Pair]:
    """18: of every topic."""
    rows = _rows(_read(body), "topicConfigList")
    return [topic_pair(as_text(each.get("topicName")), "Create") for each in rows]


def _group(_ext: Mapping[str, str], body: bytes) -> list[Pair]:
    """200: of the group."""
    return [group_pair(as_text(_read(body).get("groupName")), "Create", "Update")]


def _groups(_ext: Mapping[str, str], body: bytes) -> list[Pair]:
    """225: of every group."""
    rows = _rows(_read(body), "groupConfigList")
    return [group_pair(as_text(each.get("groupName")), "Create", "Update") for each in rows]


def _corrected(ext: Mapping[str, str], _body: bytes) -> list[Pair]:
    """308: of the groups that are left out."""
    names = ext.get("filterGroups", "").split(",")
    return [group_pair(name, "Get") for name in names if name]


def _forbidden(ext: Mapping[str, str], _body: bytes) -> list[Pair]:
    """353: of topic and group, to look or to change."""
    action = "Update" if "readable" in ext else "Get"
    return [topic_pair(ext.get("topic", ""), action), group_pair(ext.get("group", ""), action)]


def _assigned(_ext: Mapping[str, str], body: bytes) -> list[Pair]:
    """400: of topic and group."""
    asked = _read(body)
    topic, group = as_text(asked.get("topic")), as_text(asked.get("consumerGroup"))
    return [topic_pair(topic, "Sub"), group_pair(group, "Sub")]


def _moded(_ext: Mapping[str, str], body: bytes) -> list[Pair]:
    """401: of topic and group."""
    asked = _read(body)
    topic, group = as_text(asked.get("topic")), as_text(asked.get("consumerGroup"))
    return [topic_pair(topic, "Update"), group_pair(group, "Update")]


BODY_PAIRS: Final[Mapping[int, _Extractor]] = MappingProxyType(
    {
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: _topics,
        RequestCode.HEART_BEAT: _heartbeat,
        RequestCode.LOCK_BATCH_MQ: _queues,
        RequestCode.UNLOCK_BATCH_MQ: _queues,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _group,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _groups,
        RequestCode.QUERY_CORRECTION_OFFSET: _corrected,
        RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: _forbidden,
        RequestCode.QUERY_ASSIGNMENT: _assigned,
        RequestCode.SET_MESSAGE_REQUEST_MODE: _moded,
    }
)
