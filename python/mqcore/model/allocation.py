"""Which queues of a topic are whose: the official strategies of a group, and a sticky one.

Pure functions of sorted queues and sorted client ids: every member computes the whole for itself,
so all must use the same strategy. Knows no socket and no history. The rules are those of
`org.apache.rocketmq.client.consumer.rebalance`, checked by vectors made with the official classes
(`tests/golden/vectors/allocation.txt.xz`).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b, md5
from typing import Final, Protocol, runtime_checkable

from mqcore.model.java_order import queue_key, text_key
from mqcore.model.queues import MessageQueue

__all__ = [
    "Averagely",
    "AveragelyByCircle",
    "ByConfig",
    "ByMachineRoom",
    "ConsistentHash",
    "MachineRoomNearby",
    "Sticky",
    "Strategy",
    "allocated",
]

# The official default: points of one client on the ring.
_VIRTUAL_NODES: Final = 10
# The official ring is numbered by the first bytes of a digest.
_RING_BYTES: Final = 4
_WEIGHT_BYTES: Final = 8


@runtime_checkable
class Strategy(Protocol):
    """Divides the queues of a topic among the members of a group."""

    @property
    def name(self) -> str:
        """Its official name: brokers that allocate themselves know it by this."""
        ...

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """Returns the queues of one member.

        Args:
            client_id: The member; it is among `clients`.
            queues: All queues of the topic, sorted as Java sorts; at least one.
            clients: The ids of all members, sorted as Java sorts.
        """
        ...


def allocated(
    strategy: Strategy, client_id: str, queues: Iterable[MessageQueue], clients: Iterable[str]
) -> frozenset[MessageQueue]:
    """Returns a member's queues, of queues and members in any order.

    A member that is not among `clients` has none yet: its heartbeat has not arrived. What a
    strategy returns beyond the queues of the topic stays out.
    """
    all_queues = sorted(set(queues), key=queue_key)
    all_clients = sorted(set(clients), key=text_key)
    if not all_queues or client_id not in all_clients:
        return frozenset()
    return frozenset(strategy.allocate(client_id, all_queues, all_clients)) & frozenset(all_queues)


class Averagely:
    """Runs of neighbouring queues, as equal as possible (`AllocateMessageQueueAveragely`)."""

    name = "AVG"

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """Returns the run of one member; the first members have one more where it is uneven."""
        index = clients.index(client_id)
        size, rest = divmod(len(queues), len(clients))
        start = index * size + min(index, rest)
        return queues[start : start + size + (index < rest)]


class AveragelyByCircle:
    """Dealt out like cards (`AllocateMessageQueueAveragelyByCircle`)."""

    name = "AVG_BY_CIRCLE"

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """Returns every n-th queue from the member's own index on."""
        return queues[clients.index(client_id) :: len(clients)]


class ByConfig:
    """What somebody wrote down (`AllocateMessageQueueByConfig`).

    Args:
        queues: The queues of this member, of all topics.
    """

    name = "CONFIG"

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        """Takes the queues."""
        self._queues = tuple(queues)

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """Returns what was written down, whoever else there is."""
        del client_id, queues, clients
        return self._queues


def _java_split(text: str) -> list[str]:
    """Returns what Java's `split("@")` does: empty parts at the end fall away."""
    parts = text.split("@")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


class ByMachineRoom:
    """Only queues of brokers named `machine_room@name`, of some machine rooms.

    `AllocateMessageQueueByMachineRoom`.

    Args:
        machine_rooms: The machine rooms; queues of others are read by nobody.
    """

    name = "MACHINE_ROOM"

    def __init__(self, machine_rooms: Iterable[str]) -> None:
        """Takes the machine rooms."""
        self._machine_rooms = frozenset(machine_rooms)

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """Returns a run of the queues in the machine rooms, and one of what the runs leave over."""
        near = [queue for queue in queues if self._is_near(queue)]
        index = clients.index(client_id)
        size, rest = divmod(len(near), len(clients))
        found = near[size * index : size * (index + 1)]
        return [*found, near[index + size * len(clients)]] if rest > index else found

    def _is_near(self, queue: MessageQueue) -> bool:
        parts = _java_split(queue.broker_name)
        return len(parts) == 2 and parts[0] in self._machine_rooms


class MachineRoomNearby:
    """Queues of a machine room go to its clients, those of one without clients to all.

    `AllocateMachineRoomNearby`.

    Args:
        inner: Divides within a machine room.
        machine_room_of_queue: Names the machine room of a queue, never empty.
        machine_room_of_client: Names the machine room of a client id, never empty.
    """

    def __init__(
        self,
        inner: Strategy,
        machine_room_of_queue: Callable[[MessageQueue], str],
        machine_room_of_client: Callable[[str], str],
    ) -> None:
        """Takes the inner strategy, and who knows the machine rooms."""
        self._inner = inner
        self._machine_room_of_queue = machine_room_of_queue
        self._machine_room_of_client = machine_room_of_client
        self.name = f"MACHINE_ROOM_NEARBY-{inner.name}"

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """Returns the member's share of its own machine room, and of every one that has no client.

        Raises:
            ValueError: A queue or a client has no machine room.
        """
        queues_of: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_of.setdefault(_named(self._machine_room_of_queue(queue), queue), []).append(
                queue
            )
        clients_of: dict[str, list[str]] = {}
        for client in clients:
            clients_of.setdefault(_named(self._machine_room_of_client(client), client), []).append(
                client
            )
        own = self._machine_room_of_client(client_id)
        found: list[MessageQueue] = []
        for machine_room in sorted(queues_of, key=text_key):
            if machine_room == own:
                found += self._inner.allocate(
                    client_id, queues_of[machine_room], clients_of[machine_room]
                )
            elif machine_room not in clients_of:
                found += self._inner.allocate(client_id, queues_of[machine_room], clients)
        return found


def _named(machine_room: str, whose: object) -> str:
    if not machine_room:
        raise ValueError(f"no machine room is known for {whose}")
    return machine_room


class ConsistentHash:
    """A ring of hashed client ids (`AllocateMessageQueueConsistentHash`).

    Args:
        virtual_nodes: Places of one client on the ring.
    """

    name = "CONSISTENT_HASH"

    def __init__(self, virtual_nodes: int = _VIRTUAL_NODES) -> None:
        """Takes the number of points.

        Raises:
            ValueError: It is negative.
        """
        if virtual_nodes < 0:
            raise ValueError(f"virtual_nodes is {virtual_nodes}: it must not be negative")
        self._virtual_nodes = virtual_nodes

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """Returns the queues whose hash meets one of the member's points first."""
        owners = {
            _ring_hash(f"{client}-{number}"): client
            for client in clients
            for number in range(self._virtual_nodes)
        }
        ring = sorted(owners)
        if not ring:
            return []

        def owner(queue: MessageQueue) -> str:
            at = bisect_left(ring, _ring_hash(_java_text(queue)))
            return owners[ring[at % len(ring)]]

        return [queue for queue in queues if owner(queue) == client_id]


def _ring_hash(text: str) -> int:
    digest = md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:_RING_BYTES], "big")


def _java_text(queue: MessageQueue) -> str:
    """Returns what Java's `MessageQueue.toString` gives: the ring hashes it."""
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
        f"queueId={queue.queue_id}]"
    )


class Sticky:
    """As equal as possible, and few queues move when a member joins or leaves; ours alone.

    Every pair of queue and client has a weight, its hash; the heaviest pair whose client still has
    capacity is taken, and again. What a member has depends on nothing but the names, so no state is
    needed and all members agree; the weights of those who stay do not change, so most queues stay
    where they are. An official client in the same group cannot take part.
    """

    name = "STICKY"

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """Returns the member's queues."""
        size, rest = divmod(len(queues), len(clients))
        pairs = sorted(
            (
                (_weight(client, queue), number, client)
                for number, queue in enumerate(queues)
                for client in clients
            ),
            reverse=True,
        )
        loads = dict.fromkeys(clients, 0)
        owner: dict[int, str] = {}
        for _, number, client in pairs:
            if number in owner or loads[client] > size or (loads[client] == size and not rest):
                continue
            rest -= loads[client] == size
            loads[client] += 1
            owner[number] = client
        return [queue for number, queue in enumerate(queues) if owner[number] == client_id]


def _weight(client: str, queue: MessageQueue) -> bytes:
    text = f"{client}\0{_java_text(queue)}"
    return blake2b(text.encode(), digest_size=_WEIGHT_BYTES).digest()
