"""The expressions that groups have registered by their heartbeats, and `consumerFilter.json`.

Pure state over passed-in times; the rules are those of `ConsumerFilterManager`. An expression stays
for a day after its last consumer, so that bits of it in the store keep their meaning.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from mqcore.broker.bloom import BloomBits, BloomFilter
from mqcore.errors import BadJsonError
from mqcore.model.reading import as_dict, as_int, as_list, as_text
from mqcore.model.relaxed_json import parse_object, pretty
from mqcore.model.subscriptions import SubscriptionData

SQL92: Final = "SQL92"
# Texts of all groups together, in characters: hundreds of the longest that are taken.
TEXTS_MAX: Final = 16 << 20
# Who was alive when the file was written died so long before it is read, as the official broker
# assumes.
_DEAD_BEFORE_LOAD_MS: Final = 30_000

# Returns what is wrong with an expression, None when nothing is.
ExpressionCheck = Callable[[str], str | None]


@dataclass(slots=True)
class FilterData:
    """The expression of one group for one topic.

    Attributes:
        topic: The topic.
        group: The group.
        expression: Its text.
        kind: Its kind.
        version: The `subVersion` that it came with.
        bits: Its bits in the Bloom filter.
        born_ms: When it was registered.
        dead_ms: When its group went, 0 while it is there.
        is_settled: Whether messages stored after its registration surely have its bits.
    """

    topic: str
    group: str
    expression: str
    kind: str
    version: int
    bits: BloomBits
    born_ms: int
    dead_ms: int = 0
    is_settled: bool = False

    @property
    def is_dead(self) -> bool:
        """Whether its group is gone, or does not want the topic any more."""
        return self.dead_ms >= self.born_ms

    def register_later(self, born_ms: int) -> None:
        """Moves its registration time, when that was earlier; who is dead stays so."""
        was_dead = self.is_dead
        self.born_ms = max(self.born_ms, born_ms)
        if was_dead:
            self.dead_ms = max(self.dead_ms, self.born_ms)

    def to_json(self) -> dict[str, Any]:
        """Returns its JSON object."""
        return {
            "bloomFilterData": {"bitNum": self.bits.count, "bitPos": list(self.bits.positions)},
            "bornTime": self.born_ms,
            "clientVersion": self.version,
            "consumerGroup": self.group,
            "dead": self.is_dead,
            "deadTime": self.dead_ms,
            "expression": self.expression,
            "expressionType": self.kind,
            "topic": self.topic,
        }

    @classmethod
    def of_json(cls, value: Any) -> "FilterData":
        """Returns what a JSON object describes."""
        found = as_dict(value)
        bloom = as_dict(found.get("bloomFilterData"))
        positions = tuple(as_int(each) for each in as_list(bloom.get("bitPos")))
        return cls(
            topic=as_text(found.get("topic")),
            group=as_text(found.get("consumerGroup")),
            expression=as_text(found.get("expression")),
            kind=as_text(found.get("expressionType")),
            version=as_int(found.get("clientVersion")),
            bits=BloomBits(positions, as_int(bloom.get("bitNum"))),
            born_ms=as_int(found.get("bornTime")),
            dead_ms=as_int(found.get("deadTime")),
        )


class FilterTable:
    """All registered expressions.

    Args:
        bloom: The filter that gives them their bits.
        check: Returns what is wrong with an SQL92 text.
        keep_ms: How long one stays after its group went (`filterDataCleanTimeSpan`).

    Attributes:
        changes: Rises with every change.
        placed: Rises when an expression comes or goes.
    """

    def __init__(self, bloom: BloomFilter, check: ExpressionCheck, keep_ms: int) -> None:
        """Begins with none."""
        self._bloom = bloom
        self._check = check
        self._keep_ms = keep_ms
        self._groups: dict[str, dict[str, FilterData]] = {}
        self._texts = 0
        self.changes = 0
        self.placed = 0

    def find(self, topic: str, group: str) -> FilterData | None:
        """Returns the expression of a group for a topic."""
        return self._groups.get(group, {}).get(topic)

    def of_group(self, group: str) -> tuple[FilterData, ...]:
        """Returns all expressions of a group."""
        return tuple(self._groups.get(group, {}).values())

    def may_pass(self, data: FilterData, stored_ms: int, bits: bytes) -> bool:
        """Returns whether bits of a message leave it open that an expression passes it.

        Args:
            data: The expression.
            stored_ms: When the message was stored.
            bits: The message's bits; empty where none were made.
        """
        is_comparable = data.is_settled and stored_ms > data.born_ms and self._bloom.fits(data.bits)
        if not is_comparable or len(bits) * 8 != data.bits.count:
            return True
        return all(bits[at // 8] >> at % 8 & 1 for at in data.bits.positions)

    def fault(self, kind: str, expression: str) -> str | None:
        """Returns what is wrong with an expression, None when nothing is."""
        if kind != SQL92:
            return f"no expressions of kind {kind[:100]!r} are known"
        return self._check(expression)

    def register(self, group: str, wanted: Iterable[SubscriptionData], now_ms: int) -> bool:
        """Takes what a group wants by a heartbeat; returns whether that changed anything."""
        before = self.changes
        topics = set()
        for subscription in wanted:
            topics.add(subscription.topic)
            if not subscription.is_tag and subscription.expression:
                self._register(group, subscription, now_ms)
        for data in self._groups.get(group, {}).values():
            if data.topic not in topics and not data.is_dead:
                data.dead_ms = now_ms
                self.changes += 1
        return self.changes != before

    def _register(self, group: str, wanted: SubscriptionData, now_ms: int) -> None:
        old = self.find(wanted.topic, group)
        if old is not None and wanted.version <= old.version:
            if wanted.version == old.version and old.is_dead:
                old.dead_ms = 0
                self.changes += 1
            return
        bits = self._bloom.bits_of(f"{group}#{wanted.topic}")
        is_same = old is not None and (old.expression, old.kind, old.bits) == (
            wanted.expression,
            wanted.kind,
            bits,
        )
        if old is not None and is_same:
            old.version, old.dead_ms = wanted.version, 0
            self.changes += 1
            return
        is_fit = self.fault(wanted.kind, wanted.expression) is None
        if is_fit and self._texts + len(wanted.expression) <= TEXTS_MAX:
            made = FilterData(
                wanted.topic,
                group,
                wanted.expression,
                wanted.kind,
                wanted.version,
                bits,
                born_ms=now_ms,
            )
            self._put(made)
        elif old is not None:
            # The pulls that follow are refused, so that its clients notice.
            self._remove(old)

    def unregister(self, group: str, now_ms: int) -> None:
        """Notes that the last member of a group went."""
        for data in self.of_group(group):
            if not data.is_dead:
                data.dead_ms = now_ms
                self.changes += 1

    def clean(self, now_ms: int) -> None:
        """Forgets what has been dead for too long."""
        for data in list(self.all()):
            if data.is_dead and now_ms - data.dead_ms >= self._keep_ms:
                self._remove(data)

    def settle(self, since_ms: int) -> None:
        """Notes since when messages have the bits of all expressions that there are.

        Who came meanwhile is born no earlier: messages between have not been tested for it.
        """
        for data in self.all():
            if not data.is_settled:
                data.register_later(since_ms)
                data.is_settled = True
                self.changes += 1

    def load(self, text: bytes, now_ms: int, *, was_clean: bool = True) -> None:
        """Takes the content of a `consumerFilter.json`.

        All of it is left out where it was written with a Bloom filter of another size. After an
        unclean end it may be older than the bits of the last messages, which other expressions may
        have got under the same name: all are born now then.

        Raises:
            BadJsonError: It cannot be read; nothing was taken.
        """
        by_topic = parse_object(text).get("filterDataByTopic")
        if not isinstance(by_topic, dict | None):
            raise BadJsonError("its filterDataByTopic is no object")
        groups = (
            as_dict(as_dict(each).get("groupFilterData")) for each in (by_topic or {}).values()
        )
        found = [FilterData.of_json(each) for group in groups for each in group.values()]
        found = [data for data in found if data.topic and data.group and data.expression]
        if not all(self._bloom.fits(data.bits) for data in found):
            return
        for data in found:
            if data.dead_ms == 0:
                data.dead_ms = max(data.born_ms, now_ms - _DEAD_BEFORE_LOAD_MS)
            if not was_clean:
                data.register_later(now_ms)
            data.is_settled = was_clean
            self._put(data)

    def text(self) -> Callable[[], bytes]:
        """Returns what makes the content of `consumerFilter.json` of now, in any thread."""
        by_topic: dict[str, dict[str, Any]] = {}
        for data in self.all():
            of_topic = by_topic.setdefault(data.topic, {"groupFilterData": {}, "topic": data.topic})
            of_topic["groupFilterData"][data.group] = data.to_json()
        return lambda: pretty({"filterDataByTopic": by_topic})

    def all(self) -> Iterator[FilterData]:
        """Returns all expressions."""
        for topics in self._groups.values():
            yield from topics.values()

    def _put(self, data: FilterData) -> None:
        old = self.find(data.topic, data.group)
        if old is not None:
            self._remove(old)
        self._groups.setdefault(data.group, {})[data.topic] = data
        self._texts += len(data.expression)
        self.placed += 1
        self.changes += 1

    def _remove(self, data: FilterData) -> None:
        topics = self._groups[data.group]
        del topics[data.topic]
        if not topics:
            del self._groups[data.group]
        self._texts -= len(data.expression)
        self.placed += 1
        self.changes += 1
