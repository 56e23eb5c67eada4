"""The arithmetic of logical queues, and who leads them."""

import pytest

from mqcore.errors import BadJsonError
from mqcore.model.queues import MessageQueue
from mqcore.model.static_topics import (
    NOBODY,
    MappingFaultError,
    MappingItem,
    StaticQueues,
    StaticTopic,
    brokers_of_queues,
    check_items,
    check_successors,
    is_logical,
    item_of,
    logical_broker,
    next_item,
)

FIRST = MappingItem(0, 2, "a", 0)
SECOND = MappingItem(1, 0, "b", 10_000)
OPEN = MappingItem(2, 1, "a")
ITEMS = (FIRST, SECOND, OPEN)


def test_an_offset_belongs_to_the_item_that_begins_before_it() -> None:
    found = {offset: item_of(ITEMS, offset) for offset in (-5, 0, 9_999, 10_000, 1 << 40)}
    assert list(found.values()) == [FIRST, FIRST, FIRST, SECOND, SECOND]
    assert item_of([OPEN], 0) is None
    assert next_item(ITEMS, FIRST) == SECOND
    assert next_item(ITEMS, SECOND) is None, "it is not decided where the next one begins"
    assert next_item(ITEMS, MappingItem(7, 0, "a", 0)) is None


def test_offsets_are_counted_from_where_an_item_begins() -> None:
    assert (SECOND.logical(7), SECOND.physical(10_007), SECOND.delta) == (10_007, 7, 10_000)
    assert SECOND.logical(-1) == 10_000
    assert OPEN.logical_or_none(7) == -1
    ended = MappingItem(0, 0, "a", 100, 0, 5)
    assert (ended.is_end_decided, ended.max_logical) == (True, 105)
    assert [ended.logical_or_none(at) for at in (3, 5, 9)] == [103, 105, 105]
    assert SECOND.max_logical == 10_000


@pytest.mark.parametrize(
    ("items", "why"),
    [
        ((MappingItem(0, -1, "a", 0),), "should not be negative"),
        ((OPEN, MappingItem(3, 0, "b", 5)), "non-latest item has negative"),
        ((SECOND, MappingItem(1, 0, "c", 20_000)), "gen does not increase"),
        ((MappingItem(0, 0, "a", 0, 5, 3),), "endOffset is smaller"),
        ((SECOND, MappingItem(2, 0, "c", 10_000)), "base logic offset"),
        ((MappingItem(0, 0, "a", 0, 0, 30), MappingItem(1, 0, "b", 20)), "max logic offset"),
    ],
)
def test_items_that_are_no_queue_are_found(items: tuple[MappingItem, ...], why: str) -> None:
    with pytest.raises(MappingFaultError, match=why):
        check_items(items)
    check_items(ITEMS)


def test_items_change_nothing_of_those_before_them() -> None:
    check_successors(ITEMS, (*ITEMS[:2], MappingItem(2, 1, "a", 20_000)), is_same_epoch=True)
    # What is empty was taken out.
    check_successors(ITEMS, ITEMS[1:], is_same_epoch=True)
    for new, is_same_epoch, why in (
        ((), False, "null or empty"),
        ((FIRST, MappingItem(1, 0, "b", 20_000)), False, "gen 1"),
        ((MappingItem(0, 3, "a", 0),), False, "gen 0"),
        ((FIRST, SECOND), True, "leader is different"),
    ):
        with pytest.raises(MappingFaultError, match=why):
            check_successors(ITEMS, new, is_same_epoch=is_same_epoch)


def test_the_newest_epoch_names_the_leader() -> None:
    parts = [
        StaticQueues("t", "a", 3, 7, led=((0, 0), (1, 1))),
        StaticQueues("t", "b", 3, 8, led=((1, 0),)),
    ]
    queues = [MessageQueue("t", "__syslo__global__", number) for number in range(3)]
    for each in (parts, parts[::-1]):
        assert brokers_of_queues("t", each) == dict(zip(queues, ["a", "b", NOBODY], strict=True))
    assert is_logical(queues[0])
    assert not is_logical(MessageQueue("t", "a", 0))
    assert logical_broker("east") == "__syslo__east"
    assert brokers_of_queues("t", []) == {}


def test_a_mapping_is_read_as_it_is_written() -> None:
    topic = StaticTopic("t", "b", 4, 9, queues={0: ITEMS, 3: (MappingItem(0, 1, "b", 0),)})
    assert StaticTopic.of_json(topic.to_json()) == topic
    assert topic.leads(0) is None
    led = topic.registered()
    assert led.led == ((3, 1),)
    assert StaticQueues.of_json(led.to_json()) == led
    for bad in ({}, {"topic": "t", "hostedQueues": {"x": []}}):
        with pytest.raises(BadJsonError):
            StaticTopic.of_json(bad)
