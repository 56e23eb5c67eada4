"""The online members of groups for the fast path: subscriptions, expressions, their bits.

Values alone; knows no fast path.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["ExpressionBits", "FilterBits", "MembersPolicy", "RegisteredFilter", "Subscription"]


class Subscription(NamedTuple):
    """What a group subscribes of one topic, by its heartbeats.

    Attributes:
        topic: The topic.
        expression: `*`, `a || b`, or SQL text.
        kind: `TAG` or `SQL92`.
        version: `subVersion`.
    """

    topic: str
    expression: str
    kind: str
    version: int


@dataclass(frozen=True, slots=True)
class FilterBits:
    """Bits that represent an expression in the extension of a queue.

    Attributes:
        positions: Where they are.
        count: How many bits a message has in all.
        since_ms: Messages that were stored later than this have them, Unix ms.
    """

    positions: Sequence[int]
    count: int
    since_ms: int


class ExpressionBits(NamedTuple):
    """An expression that sets bits of messages.

    Attributes:
        topic: The topic of the messages.
        expression: SQL text.
        bits: The bits that it sets.
    """

    topic: str
    expression: str
    bits: FilterBits


class RegisteredFilter(NamedTuple):
    """An expression that a group has registered for a topic.

    Attributes:
        topic: The topic.
        expression: SQL text; one that does not compile is taken as none.
        version: The `subVersion` that it came with.
        bits: Its bits, where messages carry them.
    """

    topic: str
    expression: str
    version: int
    bits: FilterBits | None = None


class MembersPolicy(NamedTuple):
    """The online members of a group, as the fast path needs them.

    Attributes:
        subscriptions: What they subscribe.
        filters: The group's expressions, also of topics that it does not subscribe any more.
        is_broadcasting: Whether they consume by broadcast.
    """

    subscriptions: Sequence[Subscription]
    filters: Sequence[RegisteredFilter] = ()
    is_broadcasting: bool = False
