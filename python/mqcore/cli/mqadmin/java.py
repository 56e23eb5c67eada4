"""How Java prints what mqadmin prints: texts of objects, times, numbers, pretty JSON. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_dict, as_int, as_list, as_text
from mqcore.model.topics import PERM_READ, PERM_WRITE

__all__ = [
    "clipped",
    "compact_time",
    "day_time",
    "group_fields",
    "group_text",
    "laid",
    "mapping_text",
    "perm_text",
    "pretty",
    "queue_text",
    "ranked",
    "text",
    "time_ms",
    "topic_text",
]

_MS_PER_S: Final = 1_000
_TAB: Final = "\t"
_INHERIT: Final = 1
# Fields of `SubscriptionGroupConfig.toString`, in its order.
_GROUP_FIELDS: Final = (
    "groupName",
    "consumeEnable",
    "consumeFromMinEnable",
    "consumeBroadcastEnable",
    "consumeMessageOrderly",
    "retryQueueNums",
    "retryMaxTimes",
    "groupRetryPolicy",
    "brokerId",
    "whichBrokerWhenConsumeSlowly",
    "notifyConsumerIdsChangedEnable",
    "groupSysFlag",
    "consumeTimeoutMinute",
    "subscriptionDataSet",
    "attributes",
)


def text(value: Any) -> str:
    """Returns a value as `String.valueOf` has it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return mapping_text(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(text, value))}]"
    return str(value)


def mapping_text(values: Mapping[Any, Any]) -> str:
    """Returns `AbstractMap.toString`."""
    return f"{{{', '.join(f'{key}={text(value)}' for key, value in values.items())}}}"


def clipped(value: str, most: int) -> str:
    """Returns the beginning of a text (`UtilAll.frontStringAtLeast`)."""
    return value[:most]


def day_time(ms: int) -> str:
    """Returns a moment in the local time zone, to the second."""
    return datetime.fromtimestamp(ms // _MS_PER_S).strftime("%Y-%m-%d %H:%M:%S")


def time_ms(ms: int) -> str:
    """Returns a moment in the local time zone (`timeMillisToHumanString2`)."""
    return f"{day_time(ms)},{ms % _MS_PER_S:03d}"


def laid(layout: str, *cells: object) -> str:
    """Returns cells laid out as `String.format` does."""
    return layout % cells


def compact_time(ms: int) -> str:
    """Returns a moment in the local time zone, digits alone (`timeMillisToHumanString`)."""
    return f"{datetime.fromtimestamp(ms // _MS_PER_S):%Y%m%d%H%M%S}{ms % _MS_PER_S:03d}"


def queue_text(queue: MessageQueue) -> str:
    """Returns `MessageQueue.toString`."""
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
        f"queueId={queue.queue_id}]"
    )


def perm_text(perm: int) -> str:
    """Returns `PermName.perm2String`."""
    read, write = perm & PERM_READ, perm & PERM_WRITE
    return f"{'R' if read else '-'}{'W' if write else '-'}{'X' if perm & _INHERIT else '-'}"


def topic_text(topic: Mapping[str, Any]) -> str:
    """Returns `TopicConfig.toString`."""
    return (
        f"TopicConfig [topicName={topic['topicName']}, readQueueNums={topic['readQueueNums']}, "
        f"writeQueueNums={topic['writeQueueNums']}, perm={perm_text(as_int(topic['perm']))}, "
        f"topicFilterType={topic['topicFilterType']}, topicSysFlag={topic['topicSysFlag']}, "
        f"order={text(topic['order'])}, attributes={text(topic['attributes'])}]"
    )


def group_fields(group: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the fields of a `SubscriptionGroupConfig` with their texts, empty for none."""
    shown = dict(group)
    shown["groupRetryPolicy"] = _policy_text(as_dict(group.get("groupRetryPolicy")))
    return [(name, "" if shown.get(name) is None else text(shown[name])) for name in _GROUP_FIELDS]


def group_text(group: Mapping[str, Any]) -> str:
    """Returns `SubscriptionGroupConfig.toString`."""
    shown = dict(group)
    shown["groupRetryPolicy"] = _policy_text(as_dict(group.get("groupRetryPolicy")))
    fields = (f"{name}={text(shown.get(name))}" for name in _GROUP_FIELDS)
    return f"SubscriptionGroupConfig{{{', '.join(fields)}}}"


def _policy_text(policy: Mapping[str, Any]) -> str:
    exponential = as_dict(policy.get("exponentialRetryPolicy"))
    customized = as_dict(policy.get("customizedRetryPolicy"))
    names = ("initial", "max", "multiplier")
    first = ", ".join(f"{name}={text(exponential.get(name))}" for name in names)
    second = text(as_list(customized.get("next")))
    parts = (
        f"type={text(policy.get('type', 'CUSTOMIZED'))}",
        f"exponentialRetryPolicy={_object('ExponentialRetryPolicy', first, exponential)}",
        f"customizedRetryPolicy={_object('CustomizedRetryPolicy', f'next={second}', customized)}",
    )
    return f"GroupRetryPolicy{{{', '.join(parts)}}}"


def _object(name: str, fields: str, found: Mapping[str, Any]) -> str:
    return f"{name}{{{fields}}}" if found else "null"


def pretty(value: Any, depth: int = 0) -> str:
    """Returns a value as fastjson prints it for people: tabs, and no space behind a colon."""
    inner, end = _TAB * (depth + 1), _TAB * depth
    if isinstance(value, Mapping):
        if not value:
            return "{}"
        rows = (f"{inner}{_quoted(key)}:{pretty(item, depth + 1)}" for key, item in value.items())
        return "{\n" + ",\n".join(rows) + f"\n{end}}}"
    if isinstance(value, list | tuple):
        if not value:
            return "[]"
        rows = (f"{inner}{pretty(item, depth + 1)}" for item in value)
        return "[\n" + ",\n".join(rows) + f"\n{end}]"
    return _quoted(value) if isinstance(value, str) else text(value)


def _quoted(value: Any) -> str:
    # Imported here: few commands need it.
    import json

    return json.dumps(as_text(value) if isinstance(value, str) else text(value), ensure_ascii=False)


def ranked(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Returns queues in the order of `MessageQueue.compareTo`."""
    return sorted(queues)
