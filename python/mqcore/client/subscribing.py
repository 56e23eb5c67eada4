"""What a consumer wants: topics and expressions as users write them, as brokers get them.

Pure state over passed-in times. A tag expression is `a || b`; `Sql` is checked by the broker. Plain
text that reads like SQL is refused, for no message has such a tag: `Tags` takes any text.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from mqcore.errors import UsageError
from mqcore.model.queues import MessageQueue
from mqcore.model.subscriptions import ALL, SubscriptionData
from mqcore.model.topics import topic_fault

__all__ = ["Expression", "Sql", "Subscriptions", "Tags", "Topics", "is_like_sql"]

SQL92: Final = "SQL92"
# What the language of `Sql` has and tags have not: comparisons, quotes, its words between spaces.
_SQL: Final = re.compile(
    r"[=<>'\"]|\s(AND|OR|NOT|BETWEEN|IN|IS|CONTAINS|STARTSWITH|ENDSWITH)[\s(]", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Sql:
    """An expression over the properties of messages, such as `price > 10 AND region = 'eu'`.

    Attributes:
        text: The expression.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Tags:
    """An expression of tags, such as `a || b`, whatever its text looks like.

    Attributes:
        text: The expression.
    """

    text: str


# Tags (`a || b`, `*` for everything), or SQL92.
Expression: TypeAlias = str | Tags | Sql
# Names of topics, or names with expressions.
Topics: TypeAlias = str | Iterable[str] | Mapping[str, Expression]


class Subscriptions:
    """What one consumer wants: topics that it subscribed to, or queues that were assigned to it.

    Attributes:
        assigned: The queues that the user chose; None where they are divided.
    """

    def __init__(self, full_name: Callable[[str], str], *, retry_topic: str | None) -> None:
        """Takes who adds the namespace, and the group's retry topic where it has one."""
        self.assigned: frozenset[MessageQueue] | None = None
        self._full_name = full_name
        self._wanted: dict[str, SubscriptionData] = {}
        # What pulls ask with: never a newer version than brokers received, unless what is wanted
        # changed; then a broker that does not know it yet must refuse.
        self._asked: dict[str, SubscriptionData] = {}
        if retry_topic is not None:
            self._wanted[retry_topic] = self._asked[retry_topic] = SubscriptionData(retry_topic)

    def add_all(self, topics: Topics) -> None:
        """Wants topics: a name, names, or names with expressions."""
        if isinstance(topics, str):
            topics = (topics,)
        if isinstance(topics, Mapping):
            for topic, expression in topics.items():
                self.add(topic, expression)
        elif isinstance(topics, Iterable):
            for topic in topics:
                self.add(topic, ALL)
        else:
            raise UsageError(f"topics: names are expected, not {type(topics).__name__}")

    def add(self, topic: str, expression: Expression) -> SubscriptionData:
        """Wants a topic; another expression for it before is replaced.

        Raises:
            UsageError: The topic's name is illegal, or the expression is none.
        """
        if not isinstance(topic, str):
            raise UsageError(
                f"topic: the name of one as str is expected, not {type(topic).__name__}"
            )
        full = self._full_name(topic)
        fault = topic_fault(full)
        if fault is not None:
            raise UsageError(f"topic {topic[:200]!r}: {fault}")
        before = self._wanted.get(full)
        found = _subscription(full, expression)
        if before is not None:
            found = replace(found, version=before.version + 1)
        self._wanted[full] = self._asked[full] = found
        return found

    def remove(self, topic: str) -> None:
        """Wants a topic no more."""
        self._wanted.pop(self._full_name(topic), None)
        self._asked.pop(self._full_name(topic), None)

    def get(self, topic: str) -> SubscriptionData | None:
        """Returns what is wanted of a topic with its namespace, as pulls ask for it.

        Of an assigned one it is everything, without a subscription of its own.
        """
        found = self._asked.get(topic)
        if found is None and self.assigned is not None:
            return SubscriptionData(topic)
        return found

    def assigned_of(self, topic: str) -> list[MessageQueue] | None:
        """Returns the queues of a topic that the user chose; None where they are divided."""
        if self.assigned is None:
            return None
        return [queue for queue in self.assigned if queue.topic == topic]

    def mark_reported(self) -> None:
        """Notes that brokers heard a heartbeat."""
        self._asked.update(self._wanted)

    @property
    def topics(self) -> frozenset[str]:
        """The topics that were subscribed to, with their namespace."""
        return frozenset(self._wanted)

    @property
    def consumed(self) -> frozenset[str]:
        """The topics that are consumed: those of the assigned queues where there are some."""
        if self.assigned is None:
            return self.topics
        return frozenset(queue.topic for queue in self.assigned)

    @property
    def all(self) -> tuple[SubscriptionData, ...]:
        """All of them."""
        return tuple(self._wanted.values())

    def touch(self, version: int, topic: str | None = None) -> None:
        """Makes a subscription, or all, newer than brokers know: they take what is newer."""
        for name, data in self._wanted.items():
            if topic is None or name == topic:
                self._wanted[name] = replace(data, version=max(version, data.version + 1))


def is_like_sql(text: str) -> bool:
    """Whether text has signs or words of SQL, which tags do not have."""
    return _SQL.search(text) is not None


def _subscription(topic: str, expression: object) -> SubscriptionData:
    if isinstance(expression, Sql):
        text = expression.text.strip() if isinstance(expression.text, str) else ""
        if not text:
            raise UsageError(f"topic {topic}: an SQL expression is expected, not {expression!r}")
        return SubscriptionData(topic, text, kind=SQL92)
    if isinstance(expression, Tags) and isinstance(expression.text, str):
        return SubscriptionData.of_expression(topic, expression.text)
    if isinstance(expression, str):
        if is_like_sql(expression):
            raise UsageError(
                f"topic {topic}: {expression!r} as tags would match no message. SQL? Use "
                f"mqcore.Sql({expression!r}). If it is a tag: mqcore.Tags({expression!r})"
            )
        return SubscriptionData.of_expression(topic, expression)
    raise UsageError(
        f"topic {topic}: tags as str ('a', or 'a || b' for several), or Sql(...), are expected, "
        f"not {type(expression).__name__}"
    )
