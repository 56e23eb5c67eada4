"""Who is there: the clients of every producer and consumer group, by heartbeat.

Pure state over passed-in times; a connection is any hashable thing. Methods return the groups whose
membership changed: the caller tells their members.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from mqcore.broker.wishes import Wishes
from mqcore.model.heartbeats import ConsumerData, HeartbeatData
from mqcore.model.subscriptions import SubscriptionData

# A client that was silent for so long is gone; it would have sent four heartbeats.
EXPIRY_MS = 120_000
# Groups that one heartbeat may name: a client instance of a large service has some dozens.
GROUPS_PER_CLIENT_MAX = 1_024


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """One client on one connection.

    Attributes:
        link: Its connection.
        client_id: Its id.
        address: Its address and port.
        language: The language that it told.
        version: The version that it told.
        seen_ms: Time of its last heartbeat.
    """

    link: Hashable
    client_id: str
    address: str
    language: str
    version: int
    seen_ms: int

    def to_json(self) -> dict[str, Any]:
        """Returns it as `Connection` has it."""
        return {
            "clientAddr": self.address,
            "clientId": self.client_id,
            "language": self.language,
            "version": self.version,
        }


@dataclass(frozen=True, slots=True)
class Beaten:
    """What a heartbeat did.

    Attributes:
        changed: Consumer groups whose members or topics changed: their members are told.
        updated: Those, and the groups in which only an expression did.
    """

    changed: tuple[str, ...]
    updated: tuple[str, ...]


@dataclass(slots=True)
class ConsumerGroup:
    """The members of a consumer group that are online, and what the group wants.

    Attributes:
        data: What the last heartbeat told of the group.
        clients: Its members by connection.
        subscriptions: What it wants, by topic.
        changed_ms: Time of the last change.
        wishes: What each member wants, to see whether they agree.
    """

    data: ConsumerData
    clients: dict[Hashable, ClientInfo] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    changed_ms: int = 0
    wishes: Wishes = field(default_factory=Wishes)

    def differences(self) -> dict[str, dict[str, str]]:
        """Returns what its members want where they differ, by client id and topic."""
        return self.wishes.differences({link: c.client_id for link, c in self.clients.items()})

    def client_ids(self) -> list[str]:
        """Returns the ids of its members, each once, in the order of their arrival."""
        return list(dict.fromkeys(client.client_id for client in self.clients.values()))

    def take(self, data: ConsumerData, client: ClientInfo) -> bool:
        """Takes a heartbeat; returns whether membership or subscribed topics changed."""
        known = self.clients.get(client.link)
        self.clients[client.link] = client
        self.data = data
        self.wishes.note(client.link, data.subscriptions)
        is_changed = known is None or known.client_id != client.client_id
        for wanted in data.subscriptions:
            old = self.subscriptions.get(wanted.topic)
            if old is None or wanted.version > old.version:
                self.subscriptions[wanted.topic] = wanted
                is_changed = is_changed or old is None
        topics = {wanted.topic for wanted in data.subscriptions}
        for topic in self.subscriptions.keys() - topics:
            del self.subscriptions[topic]
            is_changed = True
        if is_changed:
            self.changed_ms = client.seen_ms
        return is_changed


class Members:
    """All clients, and the groups in which they are."""

    def __init__(self) -> None:
        """Begins with nobody."""
        self._consumers: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, dict[Hashable, ClientInfo]] = {}
        self._links: dict[Hashable, set[tuple[str, str]]] = {}
        # When each of them was heard of last: a heartbeat names all groups of its client.
        self._seen_ms: dict[Hashable, int] = {}

    @property
    def consumers(self) -> Mapping[str, ConsumerGroup]:
        """Consumer groups that are online, by name."""
        return MappingProxyType(self._consumers)

    @property
    def producers(self) -> Mapping[str, Mapping[Hashable, ClientInfo]]:
        """Producer groups that are online: their members by connection."""
        return MappingProxyType(self._producers)

    def client(self, group: str, client_id: str) -> ClientInfo | None:
        """Returns a member of a consumer group by its id."""
        members = self._consumers.get(group)
        if members is None:
            return None
        found = (c for c in members.clients.values() if c.client_id == client_id)
        return next(found, None)

    def producer(self, client_id: str) -> ClientInfo | None:
        """Returns a producer by its id, whatever its group."""
        for group in self._producers.values():
            for client in group.values():
                if client.client_id == client_id:
                    return client
        return None

    def groups_of_topic(self, topic: str) -> list[str]:
        """Returns the online groups that subscribe a topic."""
        return [name for name, group in self._consumers.items() if topic in group.subscriptions]

    def beat(
        self, beat: HeartbeatData, client: ClientInfo, allowed: Iterable[ConsumerData]
    ) -> Beaten:
        """Takes a heartbeat.

        Args:
            beat: The heartbeat.
            client: Who sent it.
            allowed: Those of its consumer groups that may exist.
        """
        client = replace(client, client_id=beat.client_id)
        links = self._links.setdefault(client.link, set())
        for group in beat.producer_groups[:GROUPS_PER_CLIENT_MAX]:
            self._producers.setdefault(group, {})[client.link] = client
            links.add(("producer", group))
        changed, updated = [], []
        for data in list(allowed)[:GROUPS_PER_CLIENT_MAX]:
            group_now = self._consumers.get(data.group)
            if group_now is None:
                group_now = self._consumers[data.group] = ConsumerGroup(data)
            was = (group_now.data.message_model, group_now.subscriptions.copy())
            if group_now.take(data, client):
                changed.append(data.group)
            if changed[-1:] == [data.group] or was != (data.message_model, group_now.subscriptions):
                updated.append(data.group)
            links.add(("consumer", data.group))
        if links:
            self._seen_ms[client.link] = client.seen_ms
        else:
            self._forget(client.link)
        return Beaten(tuple(changed), tuple(updated))

    def leave(
        self, link: Hashable, *, producer: str | None = None, consumer: str | None = None
    ) -> list[str]:
        """Takes a client out of a group; returns the consumer groups that changed."""
        changed = []
        if producer:
            self._leave_one(link, "producer", producer)
        if consumer and self._leave_one(link, "consumer", consumer):
            changed.append(consumer)
        return changed

    def closed(self, link: Hashable, groups_max: int | None = None) -> list[str]:
        """Takes a connection out of its groups; returns the consumer groups that changed.

        Args:
            link: The connection.
            groups_max: Out of how many groups at the most; `is_member` tells whether it is in more.
        """
        places = self._links.get(link, set())
        left = 0
        changed = []
        while places and (groups_max is None or left < groups_max):
            left += 1
            kind, group = places.pop()
            if self._leave_one(link, kind, group) and kind == "consumer":
                changed.append(group)
        if not places:
            self._forget(link)
        return changed

    def _forget(self, link: Hashable) -> None:
        self._links.pop(link, None)
        self._seen_ms.pop(link, None)

    def is_member(self, link: Hashable) -> bool:
        """Tells whether a connection is in some group."""
        return link in self._links

    def _leave_one(self, link: Hashable, kind: str, group: str) -> bool:
        places = self._links.get(link)
        if places is not None:
            places.discard((kind, group))
            if not places:
                self._forget(link)
        if kind == "producer":
            members = self._producers.get(group, {})
            was_there = members.pop(link, None) is not None
            if not members:
                self._producers.pop(group, None)
            return was_there
        known = self._consumers.get(group)
        if known is None or known.clients.pop(link, None) is None:
            return False
        known.wishes.forget(link)
        if not known.clients:
            del self._consumers[group]
        return True

    def expired(self, now_ms: int) -> list[Hashable]:
        """Returns the connections whose clients were silent for too long in every group."""
        seen = self._seen_ms.items()
        return [link for link, seen_ms in seen if now_ms - seen_ms > EXPIRY_MS]
