"""Strategies against what the official classes allocate, and what a sticky one promises."""

import lzma
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from mqcore.model.allocation import (
    Averagely,
    AveragelyByCircle,
    ByConfig,
    ByMachineRoom,
    ConsistentHash,
    MachineRoomNearby,
    Sticky,
    Strategy,
    allocated,
)
from mqcore.model.java_order import queue_key, text_key
from mqcore.model.queues import MessageQueue

VECTORS = Path(__file__).parent / "vectors" / "allocation.txt.xz"
BROKERS = ("room1@a", "room2@b", "room1@c", "plain")
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def _machine_room(text: str) -> str:
    return text.split("@")[0]


STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Averagely(),
        AveragelyByCircle(),
        ByMachineRoom(["room1", "plain"]),
        MachineRoomNearby(
            Averagely(), lambda queue: _machine_room(queue.broker_name), _machine_room
        ),
        ConsistentHash(),
    )
}


@cache
def _lines() -> list[str]:
    return lzma.decompress(VECTORS.read_bytes()).decode().splitlines()


def queues_of(count: int) -> list[MessageQueue]:
    return [MessageQueue("Topic", BROKERS[i % 4], i // 4) for i in range(count)]


def clients_of(count: int) -> list[str]:
    return [f"room{i % 3 + 1}@10.0.0.{i}@77#{i * 7919}" for i in range(count)]


def owners(strategy: Strategy, queues: list[MessageQueue], clients: list[str]) -> str:
    found = {}
    for index, client in enumerate(sorted(clients, key=text_key)):
        for queue in allocated(strategy, client, queues, clients):
            assert queue not in found
            found[queue] = DIGITS[index]
    return "".join(found.get(queue, "-") for queue in sorted(queues, key=queue_key))


def _cases(name: str) -> Iterator[tuple[int, int, str]]:
    for line in _lines():
        parts = line.split(" ")
        if parts[0] == name:
            yield int(parts[1]), int(parts[2]), parts[3]


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_queue_goes_where_the_official_class_puts_it(name: str) -> None:
    cases = list(_cases(name))
    assert len(cases) == 40 * 12
    for queues, clients, expected in cases:
        found = owners(STRATEGIES[name], queues_of(queues), clients_of(clients))
        assert found == expected, (queues, clients)


def test_texts_sort_as_java_sorts_them() -> None:
    units = [line.partition(" ")[2] for line in _lines() if line.startswith("SORTED")]
    expected = [bytes.fromhex(text).decode("utf-16-be") for text in units]
    assert len(expected) == 14
    assert sorted(sorted(expected), key=text_key) == expected
    assert sorted(expected) != expected


def test_a_written_down_share_is_cut_to_the_topic() -> None:
    mine = MessageQueue("Topic", "plain", 0)
    other = MessageQueue("Other", "plain", 0)
    clients = clients_of(2)
    found = allocated(ByConfig([mine, other]), clients[0], queues_of(8), clients)
    assert found == {mine}


def test_who_is_no_member_has_nothing() -> None:
    assert allocated(Averagely(), "me", queues_of(4), clients_of(2)) == frozenset()
    assert allocated(Averagely(), "me", [], ["me"]) == frozenset()


def test_a_client_without_machine_room_is_an_error() -> None:
    nearby = MachineRoomNearby(Averagely(), lambda _: "room", lambda _: "")
    with pytest.raises(ValueError, match="no machine room"):
        nearby.allocate("c", queues_of(1), ["c"])


def test_a_sticky_share_is_equal_and_complete() -> None:
    for queues in range(1, 41):
        for clients in range(1, 13):
            found = owners(Sticky(), queues_of(queues), clients_of(clients))
            assert "-" not in found
            loads = [found.count(DIGITS[index]) for index in range(clients)]
            assert max(loads) - min(loads) <= 1


def _moved(strategy: Strategy, queues: int, before: list[str], after: list[str]) -> int:
    """Counts queues that moved between two clients that both stayed."""
    owner: dict[MessageQueue, str] = {}
    for client in before:
        owner.update(dict.fromkeys(allocated(strategy, client, queues_of(queues), before), client))
    moved = 0
    for client in after:
        for queue in allocated(strategy, client, queues_of(queues), after):
            moved += owner[queue] != client and owner[queue] in after and client in before
    return moved


def test_a_sticky_share_moves_few_queues_between_those_who_stay() -> None:
    sticky = averagely = 0
    for clients in range(3, 12):
        everybody = clients_of(clients)
        for gone in range(clients):
            left = [client for index, client in enumerate(everybody) if index != gone]
            sticky += _moved(Sticky(), 40, everybody, left)
            averagely += _moved(Averagely(), 40, everybody, left)
    # 192 to 614 when this was written.
    assert sticky * 3 < averagely
