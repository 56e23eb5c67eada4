"""Queues as options and offsets name them, and the JSON of numbers per queue.

A queue's key is `topic@broker:0`. Numbers are given per key, or nested as topic, broker, queue
(the old rocketmq-spark's form). Pure functions of text.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from mqcore.model.queues import MessageQueue
from mqcore.spark.options import json_object, wrong

__all__ = ["EARLIEST", "LATEST", "assignment", "key_of", "queue_of", "queue_values"]

# What offsets below zero mean, as in Kafka's JSON.
LATEST: Final = -1
EARLIEST: Final = -2

_KEY: Final = re.compile(r"(?P<topic>[^@]+)@(?P<broker>.+):(?P<queue>\d+)")
_FORM: Final = (
    'JSON such as {"orders": {"broker-a": {"0": 23, "1": -2}}} or {"orders@broker-a:0": 23}'
)


def key_of(queue: MessageQueue) -> str:
    """Returns a queue as text: `topic@broker:0`."""
    return f"{queue.topic}@{queue.broker_name}:{queue.queue_id}"


def queue_of(key: str) -> MessageQueue:
    """Returns the queue that a key names.

    Raises:
        ValueError: It names none.
    """
    found = _KEY.fullmatch(key)
    if found is None:
        raise ValueError(f"{key!r} is no queue such as orders@broker-a:0")
    return MessageQueue(found["topic"], found["broker"], int(found["queue"]))


def queue_values(option: str, value: str, lowest: int) -> dict[MessageQueue, int]:
    """Returns the number that JSON gives for each queue.

    Args:
        option: The option, for the error.
        value: The JSON.
        lowest: The least number that means something.

    Raises:
        OptionError: It is no such JSON.
    """
    found: dict[MessageQueue, int] = {}
    for name, rest in json_object(option, value).items():
        if isinstance(rest, Mapping):
            for broker, queues in rest.items():
                if not isinstance(queues, Mapping):
                    raise wrong(option, value, _FORM)
                for queue_id, number in queues.items():
                    queue = MessageQueue(name, broker, _queue_id(option, value, queue_id))
                    found[queue] = _value(option, value, number, lowest)
        else:
            try:
                queue = queue_of(name)
            except ValueError as error:
                raise wrong(option, value, f"{_FORM} ({error})") from None
            found[queue] = _value(option, value, rest, lowest)
    if not found:
        raise wrong(option, value, _FORM)
    return dict(sorted(found.items()))


def assignment(option: str, value: str) -> tuple[MessageQueue, ...]:
    """Returns the queues that JSON lists: topic, broker, list of queues.

    Raises:
        OptionError: It is no such JSON.
    """
    form = 'JSON such as {"orders": {"broker-a": [0, 1]}}'
    found: set[MessageQueue] = set()
    for topic, brokers in json_object(option, value).items():
        for broker, queues in (brokers if isinstance(brokers, Mapping) else {None: None}).items():
            if broker is None or not isinstance(queues, list):
                raise wrong(option, value, form)
            found.update(MessageQueue(topic, broker, _queue_id(option, value, q)) for q in queues)
    if not found:
        raise wrong(option, value, form)
    return tuple(sorted(found))


def start_of(option: str, value: str) -> str | dict[MessageQueue, int]:
    """`earliest`, `latest`, `group`, or JSON of offsets (-2 earliest, -1 latest)."""
    folded = value.strip().lower()
    if folded in ("earliest", "latest", "group"):
        return folded
    if not folded.startswith("{"):
        raise wrong(option, value, f"earliest, latest, group, or {_FORM}")
    return queue_values(option, value, EARLIEST)


def end_of(option: str, value: str) -> str | dict[MessageQueue, int]:
    """`latest`, or JSON of offsets (-1 latest)."""
    folded = value.strip().lower()
    if folded == "latest":
        return folded
    if not folded.startswith("{"):
        raise wrong(option, value, f"latest, or {_FORM}")
    return queue_values(option, value, LATEST)


def times(option: str, value: str) -> dict[MessageQueue, int]:
    """JSON of times in milliseconds since 1970, per queue."""
    return queue_values(option, value, 0)


def text_of(by_queue: Mapping[MessageQueue, int]) -> str:
    """Returns the JSON that `queue_values` reads."""
    return json.dumps({key_of(queue): number for queue, number in sorted(by_queue.items())})


def _queue_id(option: str, value: str, given: Any) -> int:
    folded = str(given)
    if isinstance(given, bool) or not folded.isdecimal():
        raise wrong(option, value, f"{_FORM} ({given!r} is no number of a queue)")
    return int(folded)


def _value(option: str, value: str, given: Any, lowest: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < lowest:
        raise wrong(option, value, f"{_FORM} ({given!r} is no number from {lowest} on)")
    return given
