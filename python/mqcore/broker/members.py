"""Who is there: the clients of every producer and consumer group, by heartbeat.

Pure state over passed-in times; a connection is any hashable thing. Methods return the groups whose
membership changed: the caller notifies their members.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from mqcore.broker.limits import UNLIMITED, BrokerLimits, refused
from mqcore.broker.subscription_checks import SubscriptionCheck
from mqcore.model.heartbeats import ConsumerData, HeartbeatData
from mqcore.model.subscriptions import SubscriptionData

# A client that was silent for so long is gone; it would have sent four heartbeats.
EXPIRY_MS = 120_000


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """One client on one connection.

    Attributes:
        link: Its connection.
        client_id: Its id.
        address: Its address and port.
        language: The language that it reported.
        version: The version that it reported.
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
        changed: Consumer groups whose members or topics changed: their members are notified.
        updated: Those, and the groups in which only an expression did.
    """

    changed: tuple[str, ...]
    updated: tuple[str, ...]


@dataclass(slots=True)
class ConsumerGroup:
    """The members of a consumer group that are online, and what the group wants.

    Attributes:
        data: What the last heartbeat contained of the group.
        clients: Its members by connection.
        subscriptions: What it wants, by topic.
        changed_ms: Time of the last change.
        subscription_check: Whether all members subscribe to the same.
    """

    data: ConsumerData
    clients: dict[Hashable, ClientInfo] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    changed_ms: int = 0
    subscription_check: SubscriptionCheck = field(default_factory=SubscriptionCheck)

    def differences(self) -> dict[str, dict[str, str]]:
        """Returns what its members want where they differ, by client id and topic."""
        return self.subscription_check.differences(
            {link: c.client_id for link, c in self.clients.items()}
        )

    def client_ids(self) -> list[str]:
        """Returns the ids of its members, each once, in the order of their arrival."""
        return list(dict.fromkeys(client.client_id for client in self.clients.values()))

    def take(self, data: ConsumerData, client: ClientInfo) -> bool:
        """Takes a heartbeat; returns whether membership or subscribed topics changed."""
        known = self.clients.get(client.link)
        self.clients[client.link] = client
        self.data = data
        self.subscription_check.note(client.link, data.subscriptions)
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

    def __init__(self, limits: BrokerLimits = UNLIMITED) -> None:
        """Begins with nobody.

        Args:
            limits: How many clients and groups there may be; they may be replaced at any time.
        """
        self.limits = limits
        self._consumers: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, dict[Hashable, ClientInfo]] = {}
        self._links: dict[Hashable, set[tuple[str, str]]] = {}
        # When each connection sent its last heartbeat.
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
        """Takes a heartbeat as a whole; see `take_producer` and `take`.

        Args:
            beat: The heartbeat.
            client: Who sent it.
            allowed: Those of its consumer groups that may exist.
        """
        client = replace(client, client_id=beat.client_id)
        for group in beat.producer_groups:
            self.take_producer(group, client)
        changed, updated = [], []
        for data in allowed:
            is_changed, is_updated = self.take(data, client)
            changed += [data.group] * is_changed
            updated += [data.group] * is_updated
        return Beaten(tuple(changed), tuple(updated))

    def take_producer(self, group: str, client: ClientInfo) -> None:
        """Takes one producer group of a heartbeat.

        Raises:
            RefusedError: It is new, or the client is new in it, and there are too many.
        """
        known = self._producers.get(group)
        if known is None and len(self._producers) >= self.limits.groups:
            raise refused(f"the new producer group {group}", "groupsMax", self.limits.groups)
        self._check_clients(group, known or {}, client)
        self._producers.setdefault(group, {})[client.link] = client
        self._note(client, "producer", group)

    def take(self, data: ConsumerData, client: ClientInfo) -> tuple[bool, bool]:
        """Takes one consumer group of a heartbeat.

        Returns:
            Whether its members or topics changed, and whether anything did.

        Raises:
            RefusedError: The client is new in it, and there are too many.
        """
        group = self._consumers.get(data.group)
        self._check_clients(data.group, group.clients if group is not None else {}, client)
        if group is None:
            group = self._consumers[data.group] = ConsumerGroup(data)
        was = (group.data.message_model, group.subscriptions.copy())
        is_changed = group.take(data, client)
        self._note(client, "consumer", data.group)
        return is_changed, is_changed or was != (data.message_model, group.subscriptions)

    def _check_clients(
        self, group: str, clients: Mapping[Hashable, ClientInfo], client: ClientInfo
    ) -> None:
        limit = self.limits.clients_per_group
        if client.link not in clients and len(clients) >= limit:
            raise refused(f"another client of group {group}", "clientsPerGroupMax", limit)

    def _note(self, client: ClientInfo, kind: str, group: str) -> None:
        self._links.setdefault(client.link, set()).add((kind, group))
        self._seen_ms[client.link] = max(self._seen_ms.get(client.link, 0), client.seen_ms)

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

    def closed(self, link: Hashable) -> list[str]:
        """Takes a connection out of every group; returns the consumer groups that changed."""
        return [name for name in self.closing(link) if name]

    def closing(self, link: Hashable) -> Iterator[str]:
        """Takes a connection out of one group after the other.

        Yields:
            The consumer group that changed; nothing of a name for another step.
        """
        for kind, group in list(self._links.get(link, ())):
            is_changed = self._leave_one(link, kind, group) and kind == "consumer"
            yield group if is_changed else ""

    def _leave_one(self, link: Hashable, kind: str, group: str) -> bool:
        roles = self._links.get(link)
        if roles is not None:
            roles.discard((kind, group))
            if not roles:
                del self._links[link]
                self._seen_ms.pop(link, None)
        if kind == "producer":
            members = self._producers.get(group, {})
            was_there = members.pop(link, None) is not None
            if not members:
                self._producers.pop(group, None)
            return was_there
        known = self._consumers.get(group)
        if known is None or known.clients.pop(link, None) is None:
            return False
        known.subscription_check.forget(link)
        if not known.clients:
            del self._consumers[group]
        return True

    def expired(self, now_ms: int) -> list[Hashable]:
        """Returns the connections whose clients were silent for too long in every group."""
        return [link for link, seen_ms in self._seen_ms.items() if now_ms - seen_ms > EXPIRY_MS]
