"""Subscriptions: which messages of a topic a group wants, as JSON and as an expression.

Pure values. A tag is tested by the hash that Java gives its text; the client tests the text.
"""

from dataclasses import dataclass
from typing import Any, Final, Self

from mqcore.model.reading import as_bool, as_dict, as_int, as_list, as_text

TAG: Final = "TAG"
ALL: Final = "*"
_HASH_BASE: Final = 31
_INT_BITS: Final = 32


def java_hash(text: str) -> int:
    """Returns Java's `String.hashCode`: over UTF-16 units, as a signed 32-bit number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (value * _HASH_BASE + (units[at] << 8 | units[at + 1])) & (1 << _INT_BITS) - 1
    return value - (1 << _INT_BITS) if value >> (_INT_BITS - 1) else value


@dataclass(frozen=True, slots=True)
class SubscriptionData:
    """What a group wants of one topic.

    Attributes:
        topic: The topic.
        expression: The expression as it was given; `*` for everything.
        tags: Its tags.
        codes: Their hashes; sent by the client, and taken as they came.
        version: Which of two subscriptions is the newer.
        kind: `TAG` or `SQL92`.
        is_class_filter: A filter class; nobody has those any more.
    """

    topic: str
    expression: str = ALL
    tags: frozenset[str] = frozenset()
    codes: frozenset[int] = frozenset()
    version: int = 0
    kind: str = TAG
    is_class_filter: bool = False

    @classmethod
    def of_expression(cls, topic: str, expression: str, version: int = 0) -> Self:
        """Returns what a tag expression such as `a || b` wants."""
        wanted = expression.strip()
        if wanted in ("", ALL):
            return cls(topic=topic, version=version)
        tags = frozenset(tag for part in wanted.split("||") if (tag := part.strip()))
        codes = frozenset(java_hash(tag) for tag in tags)
        return cls(topic=topic, expression=wanted, tags=tags, codes=codes, version=version)

    @classmethod
    def of_json(cls, value: Any) -> Self | None:
        """Returns the subscription that a JSON object describes, None for one without topic."""
        found = as_dict(value)
        topic = as_text(found.get("topic"))
        if not topic:
            return None
        return cls(
            topic=topic,
            expression=as_text(found.get("subString"), ALL),
            tags=frozenset(as_text(tag) for tag in as_list(found.get("tagsSet"))),
            codes=frozenset(as_int(code) for code in as_list(found.get("codeSet"))),
            version=as_int(found.get("subVersion")),
            kind=as_text(found.get("expressionType")) or TAG,
            is_class_filter=as_bool(found.get("classFilterMode")),
        )

    def to_json(self) -> dict[str, Any]:
        """Returns its JSON object."""
        return {
            "classFilterMode": self.is_class_filter,
            "codeSet": sorted(self.codes),
            "expressionType": self.kind,
            "subString": self.expression,
            "subVersion": self.version,
            "tagsSet": sorted(self.tags),
            "topic": self.topic,
        }

    @property
    def is_tag(self) -> bool:
        """Whether the expression is one of tags."""
        return self.kind == TAG
