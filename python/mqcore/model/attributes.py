"""Attributes of topics (5.x): which there are, how a request changes them, and what they decide.

Pure functions over the rules of `AttributeParser`, `AttributeUtil` and `TopicAttributes`; knows no
table of topics.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

QUEUE_TYPE: Final = "queue.type"
CLEANUP_POLICY: Final = "cleanup.policy"
MESSAGE_TYPE: Final = "message.type"
RESERVE_TIME: Final = "reserve.time"

BATCH_QUEUE: Final = "BatchCQ"
COMPACTION: Final = "COMPACTION"
MIXED: Final = "MIXED"
# Since 5.5: the number of a message's queue is its priority.
PRIORITY: Final = "PRIORITY"
# Of a group, since 5.5: in how many of a hundred pops priorities count.
PRIORITY_FACTOR: Final = "priority.factor"

_LONG_MAX = (1 << 63) - 1
_PERCENT_MAX = 100


class AttributeFaultError(ValueError):
    """A change of attributes that is refused, in the official words."""


class _Attribute(NamedTuple):
    """One attribute: whether it may change once the topic is there, and which values it takes."""

    is_changeable: bool
    verify: Callable[[str], None]


def _one_of(*values: str) -> Callable[[str], None]:
    def verify(value: str) -> None:
        if value not in values:
            raise AttributeFaultError(f"value is not in set: [{', '.join(values)}]")

    return verify


def _reserve_time(value: str) -> None:
    try:
        number = int(value)
    except ValueError:
        raise AttributeFaultError(f'For input string: "{value}"') from None
    if not -1 <= number <= _LONG_MAX:
        raise AttributeFaultError(f"value is not in range(-1, {_LONG_MAX})")


def _percent(value: str) -> None:
    if not (value.isascii() and value.isdigit() and int(value) <= _PERCENT_MAX):
        raise AttributeFaultError(f"value is not in range(0, {_PERCENT_MAX})")


_ALL: Mapping[str, _Attribute] = MappingProxyType(
    {
        QUEUE_TYPE: _Attribute(is_changeable=False, verify=_one_of(BATCH_QUEUE, "SimpleCQ")),
        CLEANUP_POLICY: _Attribute(is_changeable=False, verify=_one_of("DELETE", COMPACTION)),
        MESSAGE_TYPE: _Attribute(
            is_changeable=True,
            verify=_one_of(
                "UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", MIXED, PRIORITY
            ),
        ),
        RESERVE_TIME: _Attribute(is_changeable=True, verify=_reserve_time),
    }
)


_OF_GROUPS: Mapping[str, _Attribute] = MappingProxyType(
    {PRIORITY_FACTOR: _Attribute(is_changeable=True, verify=_percent)}
)


def parse_changes(text: str) -> dict[str, str]:
    """Returns the changes of a request, with their signs: `+key=value,-key`.

    Raises:
        AttributeFaultError: They are written otherwise.
    """
    changes: dict[str, str] = {}
    # Java's split drops empty parts at the end, and only those.
    parts = text.rstrip(",").split(",") if text else []
    for part in parts:
        key, separator, value = part.partition("=")
        value = value.partition("=")[0]
        if separator and not value:
            raise AttributeFaultError(f"add/alter attribute without a value: {key}")
        if separator and "+" not in key:
            raise AttributeFaultError(f"add/alter attribute format is wrong: {key}")
        if not separator and "-" not in key:
            raise AttributeFaultError(f"delete attribute format is wrong: {key}")
        if key in changes:
            raise AttributeFaultError(f"key duplication: {key}")
        changes[key] = value
    return changes


def altered(
    current: Mapping[str, str] | None, changes: Mapping[str, str], *, of_group: bool = False
) -> dict[str, str]:
    """Returns attributes after changes.

    Args:
        current: Those of the topic; None for a topic that is created now.
        changes: By signed keys; a value of a key that goes is passed over.
        of_group: Whether they are those of a group, not of a topic.

    Raises:
        AttributeFaultError: One of them may not be made; nothing is.
    """
    result = dict(current or {})
    seen: set[str] = set()
    for signed, value in changes.items():
        sign, key = signed[:1], signed[1:]
        if not key or "+" in key or "-" in key:
            raise AttributeFaultError("kv string format wrong.")
        if key in seen:
            raise AttributeFaultError(f"alter duplication key. key: {key}")
        seen.add(key)
        if current is None and sign != "+":
            raise AttributeFaultError(
                f"only add attribute is supported while creating topic. key: {key}"
            )
        if sign not in ("+", "-"):
            raise AttributeFaultError(f"wrong format key: {key}")
        if sign == "-" and key not in result:
            raise AttributeFaultError(f"attempt to delete a nonexistent key: {key}")
        known = _OF_GROUPS if of_group else _ALL
        _verify(known, key, value if sign == "+" else None, is_new=current is None)
        if sign == "+":
            result[key] = value
        else:
            del result[key]
    return result


def _verify(known: Mapping[str, _Attribute], key: str, value: str | None, *, is_new: bool) -> None:
    attribute = known.get(key)
    if attribute is None:
        raise AttributeFaultError(f"unsupported key: {key}")
    if not is_new and not attribute.is_changeable:
        raise AttributeFaultError(f"attempt to update an unchangeable attribute. key: {key}")
    if value is not None:
        attribute.verify(value)


def has_batch_queues(attributes: Mapping[str, str]) -> bool:
    """Returns whether a topic's queues are batch queues."""
    return attributes.get(QUEUE_TYPE) == BATCH_QUEUE
