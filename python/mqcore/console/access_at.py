"""Users and policies of all brokers of a cluster beside one another: what differs is seen.

Asks by `Questions`, so that a broker that hangs or has no access control is named and the others
are shown. Changes go to every broker one after the other, and what failed at some is named.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mqcore.access import Acl, Entry, User
from mqcore.console.asking import Questions
from mqcore.console.views import Asked, InputError
from mqcore.errors import MQError

__all__ = ["AccessTables", "at_each", "cluster_of", "entry_text", "tables_of"]

_ANYWHERE: Final = "anywhere"
# What an entry is about: user, policy and resource; a broker has one of them at the most.
_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class AccessTables:
    """What the brokers of a cluster have.

    Attributes:
        brokers: The address of each broker that answered, by `NAME ID`, masters first.
        users: The user at each broker, by name and broker.
        entries: The entry at each broker, by user, policy and resource, and by broker.
    """

    brokers: Mapping[str, str]
    users: Mapping[str, Mapping[str, User]]
    entries: Mapping[_Key, Mapping[str, Entry]]

    def shapes_of(self, name: str) -> dict[str, str]:
        """Returns kind and status of a user at each broker, `not there` where it is not."""
        at = self.users.get(name, {})
        return {
            broker: f"{at[broker].kind}, {at[broker].status}" if broker in at else "not there"
            for broker in self.brokers
        }

    def is_same(self, at: Mapping[str, object]) -> bool:
        """Returns whether every broker has the same."""
        first = next(iter(at.values()), None)
        return len(at) == len(self.brokers) and all(each == first for each in at.values())

    def has(self, name: str) -> dict[str, str]:
        """Returns the brokers that have a user, with their addresses."""
        at = self.users.get(name, {})
        return {broker: address for broker, address in self.brokers.items() if broker in at}


def entry_text(entry: Entry | None) -> str:
    """Returns what an entry allows or denies, but for its resource."""
    if entry is None:
        return "not there"
    where = ",".join(entry.sources) or _ANYWHERE
    return f"{entry.decision} {','.join(entry.actions)} from {where}"


async def cluster_of(asked: Asked) -> tuple[str, list[str]]:
    """Returns the cluster that is asked for, or the first, and all of them.

    Raises:
        InputError: There is no such cluster.
        NameServerError: No name server answers.
    """
    known = sorted((await asked.questions.cluster()).clusters)
    wanted = asked.form.get("cluster", "") or asked.query.get("cluster", "")
    if wanted and wanted not in known:
        raise InputError(f"there is no cluster {wanted[:100]!r}")
    return wanted or (known[0] if known else ""), known


async def tables_of(asks: Questions, cluster: str) -> AccessTables:
    """Returns the users and policies of the brokers of a cluster.

    Raises:
        NameServerError: No name server answers.
    """
    info = await asks.cluster()
    addresses = {
        f"{name} {broker_id}": address
        for name, broker_id, address in info.masters_first()
        if info.cluster_of(name) == cluster
    }
    access = asks.admin.access
    users = await asks.each(addresses, "users", lambda key: access.users_at(addresses[key]))
    answering = {key: addresses[key] for key in addresses if key in users}
    acls = await asks.each(
        answering, "policies", lambda key: access.all_policies_at(answering[key])
    )
    users_at: dict[str, dict[str, User]] = {}
    entries_at: dict[_Key, dict[str, Entry]] = {}
    for broker in answering:
        for user in users[broker]:
            users_at.setdefault(user.name, {})[broker] = user
        for key, entry in _entries_of(acls.get(broker, ())):
            entries_at.setdefault(key, {})[broker] = entry
    return AccessTables(answering, dict(sorted(users_at.items())), entries_at)


def _entries_of(acls: Iterable[Acl]) -> Iterator[tuple[_Key, Entry]]:
    for acl in acls:
        for policy in acl.policies:
            for entry in policy.entries:
                yield (acl.user, policy.kind, str(entry.resource)), entry


async def at_each(
    addresses: Mapping[str, str], change: Callable[[str], Awaitable[object]]
) -> Sequence[str]:
    """Makes a change at each broker; returns what failed, in words, where some have made it.

    Raises:
        MQError: No broker has made it.
    """
    failed = []
    for broker, address in addresses.items():
        try:
            await change(address)
        except MQError as error:
            failed.append(f"{broker}: {error.message}")
    if len(failed) == len(addresses):
        raise MQError("; ".join(failed) or "there is no broker to change it at")
    return failed
