"""Which broker gets which queue of a static topic: new queues, and those that move. Pure functions.

After `TopicQueueMappingUtils.createTopicConfigMapping` and `remappingStaticTopic` of 5.x.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from mqcore.model.reading import as_dict, as_int, as_list, as_text
from mqcore.model.static_topics import (
    MappingFaultError,
    MappingItem,
    StaticTopic,
    check_items,
)
from mqcore.model.topics import QUEUES_MAX, TopicConfig

__all__ = [
    "GAP",
    "Part",
    "StaticPlan",
    "checked_parts",
    "first_logical_offset",
    "leaders",
    "plan_of_move",
    "plan_of_queues",
    "with_decided",
    "with_other_brokers",
]

# `blockSeqSize` of mqadmin: between the end of a queue and its next part so many offsets are left.
GAP: Final = 10_000
# An epoch is the time, or so much more than the one before.
_EPOCH_STEP_MS: Final = 1_000
_CREATE: Final = "CREATE_OR_UPDATE"
_MOVE: Final = "REMAPPING"


@dataclass(frozen=True, slots=True)
class Part:
    """A static topic as it is on one broker (`TopicConfigAndQueueMapping`).

    Attributes:
        config: The topic there.
        mapping: Its mapping there.
    """

    config: TopicConfig
    mapping: StaticTopic

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns what a JSON object holds.

        Raises:
            BadJsonError: It has no mapping.
        """
        config = TopicConfig.of_json(value)
        return cls(config, StaticTopic.of_json(as_dict(value).get("mappingDetail"), config.name))

    def to_json(self) -> dict[str, Any]:
        """Returns its JSON object; the keys of queues are texts."""
        mapping = self.mapping.to_json()
        queues = {str(queue): items for queue, items in mapping["hostedQueues"].items()}
        return {**self.config.to_json(), "mappingDetail": {**mapping, "hostedQueues": queues}}

    def with_one_more(self) -> tuple[Self, int]:
        """Returns it with one more physical queue, and the number of that."""
        config = self.config
        queue_id = config.write_queues
        return (
            replace(
                self,
                config=replace(
                    config, write_queues=queue_id + 1, read_queues=config.read_queues + 1
                ),
            ),
            queue_id,
        )

    def with_items(self, queue: int, items: tuple[MappingItem, ...]) -> Self:
        """Returns it with the items of a logical queue."""
        return replace(self, mapping=self.mapping.with_queues({queue: items}))


@dataclass(frozen=True, slots=True)
class StaticPlan:
    """What is to be set on which broker (`TopicRemappingDetailWrapper`).

    Attributes:
        topic: The topic.
        epoch: Of every mapping.
        parts: By broker name.
        into: The brokers that get queues from others.
        out_of: The brokers that give queues away.
        kind: Whether queues are new, or move.
    """

    topic: str
    epoch: int
    parts: Mapping[str, Part]
    into: frozenset[str] = field(default_factory=frozenset)
    out_of: frozenset[str] = field(default_factory=frozenset)
    kind: str = _CREATE

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns the plan of a file.

        Raises:
            BadJsonError: A mapping is missing.
        """
        found = as_dict(value)
        rows = as_dict(found.get("brokerConfigMap")).items()
        return cls(
            topic=as_text(found.get("topic")),
            epoch=as_int(found.get("epoch")),
            parts={name: Part.of_json(row) for name, row in rows},
            into=frozenset(map(as_text, as_list(found.get("brokerToMapIn")))),
            out_of=frozenset(map(as_text, as_list(found.get("brokerToMapOut")))),
            kind=as_text(found.get("type")) or _CREATE,
        )

    def to_json(self) -> dict[str, Any]:
        """Returns its JSON object, as mqadmin writes it into files."""
        return {
            "brokerConfigMap": {name: part.to_json() for name, part in self.parts.items()},
            "brokerToMapIn": sorted(self.into),
            "brokerToMapOut": sorted(self.out_of),
            "epoch": self.epoch,
            "topic": self.topic,
            "type": self.kind,
        }


def checked_parts(topic: str, parts: Mapping[str, Part]) -> tuple[int, int]:
    """Checks that the parts of a topic belong together; returns their epoch and queues.

    After `checkNameEpochNumConsistence`.

    Raises:
        MappingFaultError: They do not.
    """
    first = next(iter(parts.values()), None)
    if first is None:
        return -1, 0
    for broker, part in parts.items():
        mapping = part.mapping
        if mapping.broker != broker:
            raise MappingFaultError(f"The broker name is not equal {broker} != {mapping.broker}")
        if mapping.is_dirty:
            raise MappingFaultError(f"The mapping info is dirty in broker {broker}")
        if {part.config.name, mapping.topic} != {topic}:
            raise MappingFaultError(f"The topic name is not match for broker {broker}")
        for what, known, here in (
            ("scope", first.mapping.scope, mapping.scope),
            ("epoch", first.mapping.epoch, mapping.epoch),
            ("total queue number", first.mapping.total, mapping.total),
        ):
            if known != here:
                raise MappingFaultError(f"{what} does not match {known} != {here} in {broker}")
    return first.mapping.epoch, first.mapping.total


def leaders(parts: Mapping[str, Part]) -> dict[int, tuple[str, tuple[MappingItem, ...]]]:
    """Returns the leading broker of each logical queue, with its items (`...MappingItems`).

    Raises:
        MappingFaultError: A queue has none or two, or a physical queue is used twice.
    """
    found: dict[int, tuple[str, tuple[MappingItem, ...]]] = {}
    for broker, part in parts.items():
        for queue, items in part.mapping.queues.items():
            check_items(items)
            if part.mapping.leads(queue) is None:
                continue
            if queue in found:
                raise MappingFaultError(
                    f"The queue id is duplicated in broker {found[queue][0]} {broker}"
                )
            found[queue] = (broker, items)
    total = max((part.mapping.total for part in parts.values()), default=0)
    if sorted(found) != list(range(total)):
        raise MappingFaultError(
            "The total queue number in config does not match the real hosted queues "
            f"{total} != {len(found)}"
        )
    used: dict[tuple[str, int], int] = {}
    for queue, (_broker, items) in found.items():
        for item in items:
            other = used.setdefault((item.broker, item.queue_id), queue)
            if other != queue:
                raise MappingFaultError(
                    f"global queue id {queue} and {other} shared the same physical queue "
                    f"{item.broker}-{item.queue_id}"
                )
    _check_queues(parts)
    return dict(sorted(found.items()))


def _check_queues(parts: Mapping[str, Part]) -> None:
    """Checks that the physical queues are there (`checkPhysicalQueueConsistence`)."""
    for part in parts.values():
        if part.config.read_queues < part.config.write_queues:
            raise MappingFaultError("Read queues is smaller than write queues")
        for items in part.mapping.queues.values():
            for item in items:
                if item.start_offset:
                    raise MappingFaultError("The start offset does not begin from 0")
                owner = parts.get(item.broker)
                if owner is None:
                    raise MappingFaultError(f"The broker of item does not exist: {item.broker}")
                if item.queue_id >= owner.config.write_queues:
                    raise MappingFaultError("The physical queue id is overflow the write queues")


def plan_of_queues(
    topic: str, total: int, targets: Collection[str], parts: Mapping[str, Part], now_ms: int
) -> StaticPlan:
    """Returns how a topic comes to so many queues: new ones, on the brokers that have fewest.

    Args:
        topic: The topic.
        total: Its queues, on all brokers together.
        targets: The brokers that are to have some, beside those that do.
        parts: The topic as it is; none for a new one.
        now_ms: The time.

    Raises:
        MappingFaultError: It would have fewer queues, or no more, or what is there is no topic.
    """
    epoch, _total = checked_parts(topic, parts)
    known = leaders(parts)
    if total < len(known):
        raise MappingFaultError(
            f"Cannot decrease the queue num for static topic {total} < {len(known)}"
        )
    if total == len(known):
        raise MappingFaultError("The topic queue num is equal the existed queue num, do nothing")
    if total > QUEUES_MAX:
        raise MappingFaultError(f"A static topic has {QUEUES_MAX} queues at the most")
    counts = dict.fromkeys(sorted({*targets, *parts}), 0)
    for broker, _items in known.values():
        counts[broker] += 1
    planned = dict(parts)
    for queue in range(len(known), total):
        broker = min(counts, key=lambda name: counts[name])
        counts[broker] += 1
        part = planned.get(broker)
        if part is None:
            part = _empty(topic, broker, epoch)
        part, queue_id = part.with_one_more()
        item = MappingItem(gen=0, queue_id=queue_id, broker=broker, logic_offset=0)
        planned[broker] = part.with_items(queue, (item,))
    return _finished(StaticPlan(topic, max(epoch + _EPOCH_STEP_MS, now_ms), planned), total)


def plan_of_move(
    topic: str, targets: Collection[str], parts: Mapping[str, Part], now_ms: int
) -> StaticPlan:
    """Returns how all queues come to some brokers, with as few moves as there have to be.

    A broker gets queues or gives queues away, never both.

    Args:
        topic: The topic.
        targets: The brokers that are to lead all queues.
        parts: The topic as it is.
        now_ms: The time.

    Raises:
        MappingFaultError: What is there is no static topic, or there is nobody to move to.
    """
    if not parts or not targets:
        raise MappingFaultError("No topic route to do the remapping")
    epoch, total = checked_parts(topic, parts)
    known = leaders(parts)
    homes = _homes(known, sorted(set(targets)))
    planned = dict(parts)
    into, out_of = set(), set()
    for queue, (before, items) in known.items():
        broker = homes[queue]
        if broker == before:
            continue
        into.add(broker)
        out_of.add(before)
        part = planned.get(broker, _empty(topic, broker, epoch))
        part, queue_id = part.with_one_more()
        moved = (*items, MappingItem(gen=items[-1].gen + 1, queue_id=queue_id, broker=broker))
        planned[broker] = part.with_items(queue, moved)
        planned[before] = planned[before].with_items(queue, moved)
    plan = StaticPlan(
        topic,
        max(epoch + _EPOCH_STEP_MS, now_ms),
        planned,
        frozenset(into),
        frozenset(out_of),
        _MOVE,
    )
    return _finished(plan, total)


def _homes(
    known: Mapping[int, tuple[str, tuple[MappingItem, ...]]], targets: list[str]
) -> dict[int, str]:
    """Returns where each queue is to be: equally many on each broker, as many as can be at home."""
    before = dict.fromkeys(targets, 0)
    for broker, _items in known.values():
        if broker in before:
            before[broker] += 1
    # Those that have most get one more, where it does not come out even.
    ordered = sorted(targets, key=lambda name: -before[name])
    share, more = divmod(len(known), len(targets))
    space = {name: share + (at < more) for at, name in enumerate(ordered)}
    homes, homeless = {}, []
    for queue, (broker, _items) in known.items():
        if space.get(broker, 0) > 0:
            space[broker] -= 1
            homes[queue] = broker
        else:
            homeless.append(queue)
    free = (name for name in ordered for _ in range(space[name]))
    homes |= dict(zip(homeless, free, strict=True))
    return homes


def _empty(topic: str, broker: str, epoch: int) -> Part:
    config = TopicConfig(topic, read_queues=0, write_queues=0)
    return Part(config, StaticTopic(topic, broker, 0, epoch))


def _finished(plan: StaticPlan, total: int) -> StaticPlan:
    """Returns a plan with one epoch and one number of queues, checked once more."""
    parts = {
        broker: replace(part, mapping=replace(part.mapping, epoch=plan.epoch, total=total))
        for broker, part in plan.parts.items()
    }
    checked_parts(plan.topic, parts)
    leaders(parts)
    return replace(plan, parts=parts)


def with_other_brokers(plan: StaticPlan, brokers: Iterable[str]) -> StaticPlan:
    """Returns a plan that names brokers without queues too, so that each knows the topic.

    After `completeNoTargetBrokers`.
    """
    total = max((part.mapping.total for part in plan.parts.values()), default=0)
    others = {
        broker: Part(
            TopicConfig(plan.topic, read_queues=0, write_queues=0),
            StaticTopic(plan.topic, broker, total, plan.epoch),
        )
        for broker in brokers
        if broker not in plan.parts
    }
    return replace(plan, parts={**plan.parts, **others})


def with_decided(plan: StaticPlan, offsets: Mapping[int, int]) -> StaticPlan:
    """Returns a plan of a move in which it is decided where the new parts of queues begin.

    Args:
        plan: The plan.
        offsets: The first logical offset of the last item, by queue.
    """
    parts = dict(plan.parts)
    for broker, part in plan.parts.items():
        for queue, items in part.mapping.queues.items():
            if queue in offsets:
                last = replace(items[-1], logic_offset=offsets[queue])
                parts[broker] = parts[broker].with_items(queue, (*items[:-1], last))
    return replace(plan, parts=parts)


def first_logical_offset(item: MappingItem, max_offset: int, gap: int = GAP) -> int:
    """Returns where the queue behind an item begins: a multiple of the gap, well behind its end.

    After `blockSeqRoundUp`.

    Args:
        item: The item that is written to no more.
        max_offset: Its physical end.
        gap: The distance.
    """
    number, left = divmod(item.logical(max_offset), gap)
    return (number + (1 if left < gap // 2 else 2)) * gap
