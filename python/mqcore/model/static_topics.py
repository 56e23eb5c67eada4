"""Static topics of 5.x: queues with numbers of their own, wherever their messages are.

A logical queue is a list of items, each a physical queue of one broker with the logical offset at
which it begins; the last item's broker leads the queue. Pure values and arithmetic
(`LogicQueueMappingItem`, `TopicQueueMappingDetail`, `TopicQueueMappingUtils`). Knows no table, no
request.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from mqcore.errors import BadJsonError
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_bool, as_dict, as_int, as_list, as_text
from mqcore.model.topics import QUEUES_MAX

__all__ = [
    "GLOBAL_SCOPE",
    "ITEMS_MAX",
    "LOGICAL_PREFIX",
    "NOBODY",
    "MappingFaultError",
    "MappingItem",
    "StaticQueues",
    "StaticTopic",
    "brokers_of_queues",
    "check_items",
    "check_successors",
    "is_logical",
    "item_of",
    "logical_broker",
    "next_item",
]

# `MixAll.LOGICAL_QUEUE_MOCK_BROKER_PREFIX`: what the broker of a logical queue is called.
LOGICAL_PREFIX: Final = "__syslo__"
# `MixAll.LOGICAL_QUEUE_MOCK_BROKER_NAME_NOT_EXIST`: the broker of a queue that nobody leads.
NOBODY: Final = "__syslo__none__"
# `MixAll.METADATA_SCOPE_GLOBAL`: all brokers of a name server.
GLOBAL_SCOPE: Final = "__global__"
# Items of one logical queue: each is one move of it, and what is empty is taken out in time.
ITEMS_MAX: Final = 1_024

_UNDECIDED: Final = -1


class MappingFaultError(ValueError):
    """What is wrong with a mapping, in the official words."""


@dataclass(frozen=True, slots=True)
class MappingItem:
    """A physical queue as a part of a logical one (`LogicQueueMappingItem`).

    Attributes:
        gen: Its number within the logical queue, ascending.
        queue_id: The physical queue.
        broker: The name of its broker.
        logic_offset: The logical offset of its first message; -1 until that is decided.
        start_offset: The physical offset of its first message, 0.
        end_offset: The physical offset behind its last message; -1 where it is not written down.
        start_ms: Kept as it is.
        end_ms: Kept as it is.
    """

    gen: int
    queue_id: int
    broker: str
    logic_offset: int = _UNDECIDED
    start_offset: int = 0
    end_offset: int = _UNDECIDED
    start_ms: int = -1
    end_ms: int = -1

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns the item of a JSON object; zeros for what is missing, as in Java."""
        found = as_dict(value)
        return cls(
            gen=as_int(found.get("gen")),
            queue_id=as_int(found.get("queueId")),
            broker=as_text(found.get("bname")),
            logic_offset=as_int(found.get("logicOffset")),
            start_offset=as_int(found.get("startOffset")),
            end_offset=as_int(found.get("endOffset"), -1),
            start_ms=as_int(found.get("timeOfStart"), -1),
            end_ms=as_int(found.get("timeOfEnd"), -1),
        )

    def to_json(self) -> dict[str, Any]:
        """Returns its JSON object."""
        return {
            "bname": self.broker,
            "endOffset": self.end_offset,
            "gen": self.gen,
            "logicOffset": self.logic_offset,
            "queueId": self.queue_id,
            "startOffset": self.start_offset,
            "timeOfEnd": self.end_ms,
            "timeOfStart": self.start_ms,
        }

    @property
    def is_decided(self) -> bool:
        """Whether it is known at which logical offset it begins."""
        return self.logic_offset >= 0

    @property
    def is_end_decided(self) -> bool:
        """Whether it is written down where it ends."""
        return self.end_offset > self.start_offset

    @property
    def delta(self) -> int:
        """What a physical offset is less than its logical one."""
        return self.logic_offset - self.start_offset

    @property
    def max_logical(self) -> int:
        """The logical offset behind it, as far as that is written down."""
        return self.logic_offset + max(0, self.end_offset - self.start_offset)

    def physical(self, logical: int) -> int:
        """Returns the physical offset of a logical one."""
        return logical - self.logic_offset + self.start_offset

    def logical(self, physical: int) -> int:
        """Returns the logical offset of a physical one (`computeStaticQueueOffsetStrictly`)."""
        return self.logic_offset + max(0, physical - self.start_offset)

    def logical_or_none(self, physical: int) -> int:
        """Returns the same within its end; -1 before its beginning is decided (`...Loosely`)."""
        if not self.is_decided:
            return -1
        if self.end_offset >= self.start_offset:
            physical = min(physical, self.end_offset)
        return self.logical(physical)


@dataclass(frozen=True, slots=True)
class StaticQueues:
    """What a broker leads of a static topic, as routes have it (`TopicQueueMappingInfo`).

    Attributes:
        topic: The topic.
        broker: The broker's name.
        total: Queues of the topic on all brokers.
        epoch: The larger one is believed.
        scope: Which brokers the topic is on: all of the name server.
        is_dirty: Kept as it is.
        led: Pairs of logical and physical queue, ascending.
    """

    topic: str
    broker: str
    total: int
    epoch: int
    scope: str = GLOBAL_SCOPE
    is_dirty: bool = False
    led: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns what a JSON object holds."""
        found = as_dict(value)
        led = as_dict(found.get("currIdMap")).items()
        return cls(
            topic=as_text(found.get("topic")),
            broker=as_text(found.get("bname")),
            total=as_int(found.get("totalQueues")),
            epoch=as_int(found.get("epoch")),
            scope=as_text(found.get("scope")) or GLOBAL_SCOPE,
            is_dirty=as_bool(found.get("dirty")),
            led=tuple(sorted((as_int(logical, -1), as_int(queue)) for logical, queue in led)),
        )

    def to_json(self) -> dict[str, Any]:
        """Returns its JSON object."""
        return {
            "bname": self.broker,
            "currIdMap": {str(logical): physical for logical, physical in self.led},
            "dirty": self.is_dirty,
            "epoch": self.epoch,
            "scope": self.scope,
            "topic": self.topic,
            "totalQueues": self.total,
        }


@dataclass(frozen=True, slots=True)
class StaticTopic:
    """What a broker knows of a static topic (`TopicQueueMappingDetail`).

    Attributes:
        topic: The topic.
        broker: The broker's name.
        total: Queues of the topic on all brokers.
        epoch: Larger with every change.
        scope: As in `StaticQueues`.
        is_dirty: Kept as it is.
        queues: The logical queues that are, or were, on this broker; their items in order.
    """

    topic: str
    broker: str
    total: int
    epoch: int
    scope: str = GLOBAL_SCOPE
    is_dirty: bool = False
    queues: Mapping[int, tuple[MappingItem, ...]] = field(default_factory=dict)

    @classmethod
    def of_json(cls, value: Any, topic: str = "") -> Self:
        """Returns what a JSON object holds.

        Raises:
            BadJsonError: It names no topic, or has too many items.
        """
        found = as_dict(value)
        queues = {}
        for key, items in as_dict(found.get("hostedQueues")).items():
            rows = as_list(items)
            if len(rows) > ITEMS_MAX:
                raise BadJsonError(f"queue {key} has more than {ITEMS_MAX} items")
            queues[as_int(key, -1)] = tuple(map(MappingItem.of_json, rows))
        name = as_text(found.get("topic")) or topic
        if not name or min(queues, default=0) < 0:
            raise BadJsonError("it is no mapping of a static topic")
        return cls(
            topic=name,
            broker=as_text(found.get("bname")),
            total=as_int(found.get("totalQueues")),
            epoch=as_int(found.get("epoch")),
            scope=as_text(found.get("scope")) or GLOBAL_SCOPE,
            is_dirty=as_bool(found.get("dirty")),
            queues=queues,
        )

    def to_json(self) -> dict[str, Any]:
        """Returns its JSON object; the keys of its queues are numbers."""
        return {
            "bname": self.broker,
            "currIdMap": {},
            "dirty": self.is_dirty,
            "epoch": self.epoch,
            "hostedQueues": {
                queue: [item.to_json() for item in self.queues[queue]]
                for queue in sorted(self.queues)
            },
            "scope": self.scope,
            "topic": self.topic,
            "totalQueues": self.total,
        }

    def leads(self, queue: int) -> MappingItem | None:
        """Returns the item that a logical queue is written to here; None where another leads it."""
        items = self.queues.get(queue)
        return items[-1] if items and items[-1].broker == self.broker else None

    def registered(self) -> StaticQueues:
        """Returns what name servers get of it."""
        led = ((queue, self.leads(queue)) for queue in sorted(self.queues))
        return StaticQueues(
            topic=self.topic,
            broker=self.broker,
            total=self.total,
            epoch=self.epoch,
            scope=self.scope,
            is_dirty=False,
            led=tuple((queue, item.queue_id) for queue, item in led if item is not None),
        )

    def with_queues(self, queues: Mapping[int, tuple[MappingItem, ...]]) -> Self:
        """Returns it with other items of some queues."""
        return replace(self, queues={**self.queues, **queues})


def is_logical(queue: MessageQueue) -> bool:
    """Returns whether a queue is one of a static topic."""
    return queue.broker_name.startswith(LOGICAL_PREFIX)


def logical_broker(scope: str) -> str:
    """Returns what the broker of logical queues is called (`getMockBrokerName`)."""
    return LOGICAL_PREFIX + (scope[2:] if scope == GLOBAL_SCOPE else scope)


def item_of(items: Sequence[MappingItem], logical: int) -> MappingItem | None:
    """Returns the item that holds a logical offset; the first one for an offset before it.

    Items whose beginning is not decided are passed over (`findLogicQueueMappingItem`).
    """
    decided = [item for item in items if item.is_decided]
    found = (item for item in reversed(decided) if logical >= item.logic_offset)
    return next(found, decided[0] if decided else None)


def next_item(items: Sequence[MappingItem], current: MappingItem) -> MappingItem | None:
    """Returns the item behind another, if its beginning is decided (`findNext`)."""
    gens = [item.gen for item in items]
    at = gens.index(current.gen) + 1 if current.gen in gens else len(gens)
    return items[at] if at < len(items) and items[at].is_decided else None


def check_items(items: Sequence[MappingItem]) -> None:
    """Checks the items of one logical queue (`checkLogicQueueMappingItemOffset`).

    Raises:
        MappingFaultError: They are no queue.
    """
    last_gen = last_offset = -1
    for at, item in reversed(list(enumerate(items))):
        if min(item.start_offset, item.gen, item.queue_id) < 0:
            raise MappingFaultError("The field is illegal, should not be negative")
        if at <= len(items) - 2 and not item.is_decided:
            raise MappingFaultError("The non-latest item has negative logic offset")
        if last_gen != -1 and item.gen >= last_gen:
            raise MappingFaultError("The gen does not increase monotonically")
        if item.end_offset != -1 and item.end_offset < item.start_offset:
            raise MappingFaultError("The endOffset is smaller than the start offset")
        if last_offset != -1 and item.logic_offset != -1:
            if item.logic_offset >= last_offset:
                raise MappingFaultError("The base logic offset does not increase monotonically")
            if item.max_logical >= last_offset:
                raise MappingFaultError("The max logic offset does not increase monotonically")
        last_gen, last_offset = item.gen, item.logic_offset


def check_successors(
    old: Sequence[MappingItem], new: Sequence[MappingItem], *, is_same_epoch: bool
) -> None:
    """Checks that items change nothing of those before them.

    The official broker asserts the first, which a JVM does not by default
    (`makeSureLogicQueueMappingItemImmutable`).

    Raises:
        MappingFaultError: They do.
    """
    if not old:
        return
    if not new:
        raise MappingFaultError("The new item list is null or empty")
    known = {item.gen: item for item in old}
    for item in new:
        before = known.get(item.gen)
        if before is None:
            continue
        where = (item.broker, item.queue_id, item.start_offset)
        is_moved = before.is_decided and before.logic_offset != item.logic_offset
        if is_moved or where != (before.broker, before.queue_id, before.start_offset):
            raise MappingFaultError(f"The item of gen {item.gen} is another one than before")
    if not is_same_epoch:
        return
    last, leader = old[-1], new[-1]
    if (last.gen, last.broker, last.queue_id, last.start_offset) != (
        leader.gen,
        leader.broker,
        leader.queue_id,
        leader.start_offset,
    ):
        raise MappingFaultError("The new leader is different but epoch equal")


def brokers_of_queues(topic: str, parts: Iterable[StaticQueues]) -> dict[MessageQueue, str]:
    """Returns the leading broker of each logical queue, `NOBODY` where there is none.

    After `ClientMetadata.topicRouteData2EndpointsForStaticTopic`; sorted by scope and number.
    """
    by_scope: dict[str, list[StaticQueues]] = {}
    for part in parts:
        by_scope.setdefault(part.scope, []).append(part)
    brokers: dict[MessageQueue, str] = {}
    for scope in sorted(by_scope):
        found = sorted(by_scope[scope], key=lambda part: part.epoch)
        leaders = {logical: part.broker for part in found for logical, _physical in part.led}
        total = min(QUEUES_MAX, max(part.total for part in found))
        for number in range(total):
            queue = MessageQueue(topic, logical_broker(scope), number)
            brokers[queue] = leaders.get(number, NOBODY)
    return brokers
