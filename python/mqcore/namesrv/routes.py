"""The table of brokers and topics: who is there, and which queues a topic has where.

A pure state machine: the time and the connection of a broker come as arguments, what should be done
outside is returned. The rules are the official ones, of 5.3 where 4.9 and 5.3 differ.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace

from mqcore.errors import RefusedError
from mqcore.model.versions import DataVersion
from mqcore.namesrv.shapes import (
    MASTER_ID,
    PERM_READ,
    PERM_WRITE,
    BrokerGroup,
    Live,
    MasterAddresses,
    MinIdChange,
    Queues,
    Registration,
)
from mqcore.remoting.slices import finished

__all__ = ["BROKER_TIMEOUT_MS", "RouteLimits", "RouteTable"]

# A broker registers every 30 s: four may get lost.
BROKER_TIMEOUT_MS = 120_000
_SYSTEM_ERROR = 1
# Topics that are looked at or entered in one step: a tenth of a millisecond of work.
_TOPICS_PER_STEP = 128

# A broker by cluster and address, as the official table has it.
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteLimits:
    """How much brokers may bring; each is a setting. They refuse what is new.

    Attributes:
        topics: `namesrvTopicsMax`.
        topics_per_registration: `topicsPerRegistrationMax`.
        brokers: `brokersMax`.
    """

    topics: int = 1_000_000
    topics_per_registration: int = 250_000
    brokers: int = 10_000


class RouteTable:
    """Brokers, their topics, and when they were last heard of.

    Attributes:
        groups: Brokers by name.
        topics: Queues by topic and broker name.
        clusters: Broker names by cluster.
        live: When each broker was last heard of.
        limits: How much brokers may bring.
    """

    def __init__(self, changed: Callable[[str], None], limits: RouteLimits = RouteLimits()) -> None:
        """Makes an empty table.

        Args:
            changed: Gets each topic whose route is another one now.
            limits: How much brokers may bring.
        """
        self.limits = limits
        self.groups: dict[str, BrokerGroup] = {}
        self.topics: dict[str, dict[str, Queues]] = {}
        self.clusters: dict[str, set[str]] = {}
        self.live: dict[_Key, Live] = {}
        self.deletes_missing_topics = False
        self._channels: dict[Hashable, set[_Key]] = {}
        self._changed = changed

    # Coming.

    def register(
        self, registration: Registration, channel: Hashable, now_ms: int
    ) -> tuple[MasterAddresses, list[MinIdChange]]:
        """Takes a registration, and the connection whose life is the broker's life.

        Raises:
            RefusedError: A part of a table came before the whole, or there are too many brokers
                or topics already.
        """
        return finished(self.registering(registration, channel, now_ms))

    def registering(
        self, registration: Registration, channel: Hashable, now_ms: int
    ) -> Generator[None, None, tuple[MasterAddresses, list[MinIdChange]]]:
        """Takes a registration step by step; one such work at a time.

        Between two steps each topic is as it was or as it is registered. See `register`.
        """
        group = self.groups.get(registration.name)
        self._check(registration, group)
        key = (registration.cluster, registration.address)
        if group is not None and self._is_outdated(registration, group):
            # A former master that does not know it yet: it gets success, its topics are not taken.
            self._forget_live(key)
            return MasterAddresses(), []
        if group is None:
            group = self.groups[registration.name] = BrokerGroup(
                registration.name, registration.cluster
            )
        self.clusters.setdefault(registration.cluster, set()).add(registration.name)
        is_first, is_new_minimum, is_other = self._join(registration, group)
        if is_other:
            yield from self._touching_topics_of(registration.name)
        yield from self._taking_topics(registration, group, is_first=is_first)
        self._forget_live(key)
        timeout_ms = (
            BROKER_TIMEOUT_MS if registration.timeout_ms is None else registration.timeout_ms
        )
        self.live[key] = Live(
            now_ms, timeout_ms, registration.version, registration.ha_address, channel
        )
        self._channels.setdefault(channel, set()).add(key)
        changes = []
        if is_new_minimum:
            changes = [_change_of(group, registration.ha_address, offline=None)]
        return self._master_of(registration, group), changes

    def data_version(self, cluster: str, address: str) -> DataVersion | None:
        """Returns the version of a broker's table as it was last registered."""
        live = self.live.get((cluster, address))
        return live.version if live is not None else None

    def brokers_of(self, channel: Hashable) -> list[str]:
        """Returns the brokers that registered by a connection, as name and address."""
        keys = self._channels.get(channel)
        if keys is None:
            return []
        return sorted(
            f"{group.name} ({address})"
            for group in self.groups.values()
            for address in group.addresses.values()
            if (group.cluster, address) in keys
        )

    def heard_of(self, cluster: str, address: str, now_ms: int) -> None:
        """Notes that a broker is alive."""
        live = self.live.get((cluster, address))
        if live is not None:
            live.updated_ms = now_ms

    # Going.

    def unregister(
        self, cluster: str, name: str, address: str, broker_id: int
    ) -> list[MinIdChange]:
        """Removes a broker; with the last of its name go the name and its topics' queues there."""
        return finished(self.unregistering(cluster, name, address, broker_id))

    def unregistering(
        self, cluster: str, name: str, address: str, broker_id: int
    ) -> Generator[None, None, list[MinIdChange]]:
        """Removes a broker step by step; one such work at a time."""
        live = self._forget_live((cluster, address))
        group = self.groups.get(name)
        if group is None or address not in group.addresses.values():
            return []
        was_minimum = broker_id == min(group.addresses)
        group.addresses = {i: a for i, a in group.addresses.items() if a != address}
        if not group.addresses:
            yield from self._removing_group(group)
            return []
        if group.has_acting_master and MASTER_ID not in group.addresses:
            self._replace_perms(name, lambda perm: perm & ~PERM_WRITE)
        yield from self._touching_topics_of(name)
        if was_minimum and group.has_acting_master:
            ha_address = live.ha_address if live is not None else ""
            return [_change_of(group, ha_address, offline=address)]
        return []

    def channel_closed(self, channel: Hashable) -> list[MinIdChange]:
        """Removes the brokers that registered by a connection that is gone."""
        return finished(self.closing(channel))

    def closing(self, channel: Hashable) -> Generator[None, None, list[MinIdChange]]:
        """Removes those brokers step by step; one such work at a time."""
        changes: list[MinIdChange] = []
        for key in list(self._channels.get(channel, ())):
            changes += yield from self._removing_key(key)
        return changes

    def expire(self, now_ms: int) -> tuple[list[Hashable], list[MinIdChange]]:
        """Removes brokers not heard of for too long; returns their connections, to be closed."""
        channels, steps = self.expiring(now_ms)
        return channels, finished(steps)

    def expiring(
        self, now_ms: int
    ) -> tuple[list[Hashable], Generator[None, None, list[MinIdChange]]]:
        """Returns the connections of such brokers, and what removes these step by step."""
        expired = [
            (key, live.channel)
            for key, live in self.live.items()
            if live.updated_ms + live.timeout_ms < now_ms
        ]

        def removing() -> Generator[None, None, list[MinIdChange]]:
            changes: list[MinIdChange] = []
            for key, _channel in expired:
                live = self.live.get(key)
                # It may have registered again before its turn came.
                if live is not None and live.updated_ms + live.timeout_ms < now_ms:
                    changes += yield from self._removing_key(key)
            return changes

        return [channel for _key, channel in expired], removing()

    # What an administrator changes; the broker's next registration may change it back.

    def wipe_write_perm(self, name: str) -> int:
        """Takes the permission to write from all topics of a broker; returns how many it has."""
        return self._replace_perms(name, lambda perm: perm & ~PERM_WRITE)

    def add_write_perm(self, name: str) -> int:
        """Lets all topics of a broker be read and written; returns how many it has."""
        return self._replace_perms(name, lambda _perm: PERM_READ | PERM_WRITE)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forgets a topic, everywhere or on the brokers of one cluster."""
        queues = self.topics.get(topic)
        if queues is None:
            return
        names = list(queues) if cluster is None else self.clusters.get(cluster, set())
        for name in names:
            queues.pop(name, None)
        if not queues:
            del self.topics[topic]
        self._changed(topic)

    def add_topic(self, topic: str, queues: Iterable[tuple[str, Queues]]) -> None:
        """Enters a topic on brokers that are known; on others it is not entered."""
        known = [(name, found) for name, found in queues if name in self.groups]
        if not known:
            return
        if topic not in self.topics and len(self.topics) >= self.limits.topics:
            raise _too_many(f"the new topic {topic}", "namesrvTopicsMax", self.limits.topics)
        here = self.topics.setdefault(topic, {})
        for name, found in known:
            # Who enters it by hand does not name what is static.
            static = here[name].static if name in here else None
            here[name] = replace(found, static=static)
        self._changed(topic)

    # The steps of a registration.

    def _check(self, registration: Registration, group: BrokerGroup | None) -> None:
        is_known = group is not None and registration.broker_id in group.addresses
        if not is_known and len(registration.topics) == 1:
            # A broker that has just created a topic registers it before all its others.
            raise RefusedError("register broker failed", code=_SYSTEM_ERROR)
        limits = self.limits
        if group is None and len(self.groups) >= limits.brokers:
            raise _too_many(f"the new broker {registration.name}", "brokersMax", limits.brokers)
        count = len(registration.topics)
        if count > limits.topics_per_registration:
            what = f"a registration of {registration.name} with {count} topics"
            raise _too_many(what, "topicsPerRegistrationMax", limits.topics_per_registration)
        if len(self.topics) + count > limits.topics:
            new = sum(topic not in self.topics for topic in registration.topics)
            if len(self.topics) + new > limits.topics:
                what = f"a registration of {registration.name} with {new} new topics"
                raise _too_many(what, "namesrvTopicsMax", limits.topics)

    def _is_outdated(self, registration: Registration, group: BrokerGroup) -> bool:
        holder = group.addresses.get(registration.broker_id)
        if holder is None or holder == registration.address:
            return False
        live = self.live.get((registration.cluster, holder))
        return live is not None and live.version.state_version > registration.version.state_version

    def _join(self, registration: Registration, group: BrokerGroup) -> tuple[bool, bool, bool]:
        """Enters the address.

        Returns:
            Whether its id is new, whether it is the smallest now, and whether the routes of its
            topics change.
        """
        before = dict(group.addresses)
        facts_before = (group.has_acting_master, group.zone)
        group.has_acting_master = bool(registration.has_acting_master)
        group.zone = registration.zone
        # The same process under another id: a slave that became master.
        group.addresses = {
            broker_id: address
            for broker_id, address in group.addresses.items()
            if address != registration.address or broker_id == registration.broker_id
        }
        group.addresses[registration.broker_id] = registration.address
        is_other = group.addresses != before
        is_other = is_other or facts_before != (group.has_acting_master, group.zone)
        is_new_minimum = bool(before) and registration.broker_id < min(before)
        return registration.broker_id not in before, is_new_minimum, is_other

    def _taking_topics(
        self, registration: Registration, group: BrokerGroup, *, is_first: bool
    ) -> Generator[None, None, None]:
        is_prime_slave = (
            registration.has_acting_master is not None
            and registration.broker_id != MASTER_ID
            and registration.broker_id == min(group.addresses)
        )
        if registration.broker_id != MASTER_ID and not is_prime_slave:
            return
        if self.deletes_missing_topics:
            yield from self._dropping_missing(registration)
        stored = self.data_version(registration.cluster, registration.address)
        is_table_new = is_first or stored != registration.version
        for at, (topic, queues) in enumerate(registration.topics.items()):
            if at % _TOPICS_PER_STEP == 0:
                yield
            here = self.topics.get(topic)
            if not is_table_new and here is not None and registration.name in here:
                continue
            if is_prime_slave and group.has_acting_master:
                queues = replace(queues, perm=queues.perm & ~PERM_WRITE)
            if here is None:
                here = self.topics[topic] = {}
            if here.get(registration.name) != queues:
                here[registration.name] = queues
                self._changed(topic)

    def _dropping_missing(self, registration: Registration) -> Generator[None, None, None]:
        for topic in self._steps_over_topics_of(registration.name):
            if topic is None:
                yield
            elif topic not in registration.topics:
                self._drop_queues(topic, registration.name)

    def _master_of(self, registration: Registration, group: BrokerGroup) -> MasterAddresses:
        address = group.addresses.get(MASTER_ID)
        if registration.broker_id == MASTER_ID or address is None:
            return MasterAddresses()
        live = self.live.get((registration.cluster, address))
        if live is None:
            return MasterAddresses()
        return MasterAddresses(address, live.ha_address)

    # Removing.

    def _removing_key(self, key: _Key) -> Generator[None, None, list[MinIdChange]]:
        cluster, address = key
        for group in self.groups.values():
            for broker_id, held in group.addresses.items():
                if group.cluster == cluster and held == address:
                    return (yield from self.unregistering(cluster, group.name, address, broker_id))
        self._forget_live(key)
        return []

    def _forget_live(self, key: _Key) -> Live | None:
        live = self.live.pop(key, None)
        if live is not None:
            keys = self._channels[live.channel]
            keys.discard(key)
            if not keys:
                del self._channels[live.channel]
        return live

    def _removing_group(self, group: BrokerGroup) -> Generator[None, None, None]:
        del self.groups[group.name]
        for cluster, names in list(self.clusters.items()):
            names.discard(group.name)
            if not names:
                del self.clusters[cluster]
        for topic in self._steps_over_topics_of(group.name):
            if topic is None:
                yield
            else:
                self._drop_queues(topic, group.name)

    def _drop_queues(self, topic: str, name: str) -> None:
        queues = self.topics[topic]
        del queues[name]
        if not queues:
            del self.topics[topic]
        self._changed(topic)

    def _replace_perms(self, name: str, perm_of: Callable[[int], int]) -> int:
        count = 0
        for topic, queues in self.topics.items():
            found = queues.get(name)
            if found is None:
                continue
            count += 1
            perm = perm_of(found.perm)
            if perm != found.perm:
                queues[name] = replace(found, perm=perm)
                self._changed(topic)
        return count

    def _touching_topics_of(self, name: str) -> Generator[None, None, None]:
        for topic in self._steps_over_topics_of(name):
            if topic is None:
                yield
            else:
                self._changed(topic)

    def _steps_over_topics_of(self, name: str) -> Iterator[str | None]:
        """Yields the topics that a broker has, and None where others may have their turn."""
        for at, topic in enumerate(list(self.topics)):
            if at % _TOPICS_PER_STEP == 0:
                yield None
            # It may be gone by now.
            if name in self.topics.get(topic, ()):
                yield topic


def _change_of(group: BrokerGroup, ha_address: str, *, offline: str | None) -> MinIdChange:
    """Returns whom to notify of a new smallest id: everybody, or all but the one who came."""
    min_id = min(group.addresses)
    is_everybody = offline is not None or len(group.addresses) == 1
    notify = tuple(
        address
        for broker_id, address in group.addresses.items()
        if is_everybody or broker_id != min_id
    )
    return MinIdChange(group.name, min_id, group.addresses[min_id], offline, ha_address, notify)


def _too_many(what: str, key: str, limit: int) -> RefusedError:
    return RefusedError(
        f"{what} is refused: this name server takes no more than {key}={limit}",
        code=_SYSTEM_ERROR,
    )
