"""Which broker gets which queue of a static topic."""

import pytest

from mqcore.admin.static_plans import (
    Part,
    StaticPlan,
    checked_parts,
    first_logical_offset,
    leaders,
    plan_of_move,
    plan_of_queues,
    with_decided,
    with_other_brokers,
)
from mqcore.model.static_topics import MappingFaultError, MappingItem, StaticTopic
from mqcore.model.topics import TopicConfig

TOPIC = "t"


def counts(plan: StaticPlan) -> dict[str, int]:
    """Returns how many queues each broker leads."""
    found = dict.fromkeys(plan.parts, 0)
    for broker, _items in leaders(plan.parts).values():
        found[broker] += 1
    return found


def test_new_queues_go_where_there_are_fewest() -> None:
    plan = plan_of_queues(TOPIC, 4, {"a"}, {}, 7_000)
    assert counts(plan) == {"a": 4}
    assert (plan.epoch, plan.parts["a"].config.write_queues) == (7_000, 4)
    more = plan_of_queues(TOPIC, 7, {"b"}, plan.parts, 7_001)
    assert counts(more) == {"a": 4, "b": 3}
    assert more.epoch == 8_000, "a clock that is behind makes no older epoch"
    assert {part.mapping.total for part in more.parts.values()} == {7}
    # What was there is as it was.
    assert leaders(more.parts)[2] == leaders(plan.parts)[2]
    for total, why in ((7, "equal the existed"), (6, "Cannot decrease"), (70_000, "at the most")):
        with pytest.raises(MappingFaultError, match=why):
            plan_of_queues(TOPIC, total, {"b"}, more.parts, 9)


def test_queues_move_as_little_as_they_have_to() -> None:
    plan = plan_of_queues(TOPIC, 5, {"a", "b"}, {}, 7)
    assert counts(plan) == {"a": 3, "b": 2}
    spread = plan_of_move(TOPIC, {"a", "b", "c"}, plan.parts, 8)
    assert counts(spread) == {"a": 2, "b": 2, "c": 1}
    assert (set(spread.into), set(spread.out_of)) == ({"c"}, {"a"})
    away = plan_of_move(TOPIC, {"c"}, plan.parts, 8)
    assert counts(away) == {"a": 0, "b": 0, "c": 5}
    assert (set(away.into), set(away.out_of)) == ({"c"}, {"a", "b"})
    for broker, items in leaders(away.parts).values():
        assert broker == "c"
        assert [item.gen for item in items] == [0, 1]
        assert (items[1].is_decided, items[1].start_offset) == (False, 0)
    # Both ends know the queue.
    assert away.parts["a"].mapping.queues.items() <= away.parts["c"].mapping.queues.items()
    nothing = plan_of_move(TOPIC, {"a", "b"}, plan.parts, 8)
    assert (nothing.into, nothing.out_of) == (frozenset(), frozenset())
    with pytest.raises(MappingFaultError):
        plan_of_move(TOPIC, {"a"}, {}, 8)


def test_a_moved_queue_begins_behind_its_end_with_a_gap() -> None:
    item = MappingItem(0, 0, "a", 0)
    found = {end: first_logical_offset(item, end) for end in (0, 57, 4_999, 5_000, 10_000, 25_000)}
    assert list(found.values()) == [10_000, 10_000, 10_000, 20_000, 20_000, 40_000]
    moved = plan_of_move(TOPIC, {"b"}, plan_of_queues(TOPIC, 1, {"a"}, {}, 7).parts, 8)
    decided = with_decided(moved, {0: 10_000})
    for broker in ("a", "b"):
        items = decided.parts[broker].mapping.queues[0]
        assert [each.logic_offset for each in items] == [0, 10_000]
    # It may move again.
    back = plan_of_move(TOPIC, {"a"}, decided.parts, 9)
    assert [each.broker for each in leaders(back.parts)[0][1]] == ["a", "b", "a"]
    assert leaders(back.parts)[0][1][-1].queue_id == 1, "no physical queue is used twice"


def test_a_plan_is_read_as_it_is_written() -> None:
    plan = plan_of_move(TOPIC, {"b"}, plan_of_queues(TOPIC, 3, {"a"}, {}, 7).parts, 8)
    whole = with_other_brokers(plan, ["a", "c"])
    assert whole.parts["c"].mapping == StaticTopic(TOPIC, "c", 3, plan.epoch)
    assert StaticPlan.of_json(whole.to_json()) == whole
    assert checked_parts(TOPIC, whole.parts) == (plan.epoch, 3)


def part(broker: str, **facts: object) -> Part:
    """Returns a part whose queue 0 is led there."""
    row = StaticTopic(TOPIC, broker, 1, 7, queues={0: (MappingItem(0, 0, broker, 0),)}).to_json()
    return Part(TopicConfig(TOPIC, 1, 1), StaticTopic.of_json(row | facts))


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"b": part("a")}, "broker name is not equal"),
        ({"a": part("a", dirty=True)}, "dirty"),
        ({"a": part("a", topic="x")}, "topic name"),
        ({"a": part("a"), "b": part("b", epoch=8)}, "epoch does not match 7 != 8 in b"),
        ({"a": part("a"), "b": part("b", totalQueues=2)}, "total queue number"),
        ({"a": part("a"), "b": part("b", scope="x")}, "scope"),
    ],
)
def test_parts_that_do_not_belong_together_are_found(parts: dict[str, Part], why: str) -> None:
    with pytest.raises(MappingFaultError, match=why):
        checked_parts(TOPIC, parts)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"a": part("a"), "b": part("b")}, "duplicated"),
        ({"a": part("a", totalQueues=2)}, "does not match the real hosted queues 2 != 1"),
        ({"a": Part(TopicConfig(TOPIC, 0, 0), part("a").mapping)}, "overflow"),
        ({"a": Part(TopicConfig(TOPIC, 0, 1), part("a").mapping)}, "Read queues is smaller"),
    ],
)
def test_queues_that_cannot_be_are_found(parts: dict[str, Part], why: str) -> None:
    with pytest.raises(MappingFaultError, match=why):
        leaders(parts)
