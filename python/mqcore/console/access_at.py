"""Users and policies of all brokers of a cluster beside one another: what differs is seen.

Asks by `Questions`, so that a broker that hangs or has no access control is named and the others
are shown. Changes go to every broker one after the other, and what failed at some is named.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mqcore.access import Acl, Entry, User
from mqcore.admin import Access
from mqcore.console.asking import Questions
from mqcore.console.views import Asked, InputError
from mqcore.errors import MQError, ResponseError
from mqcore.remoting import ResponseCode

__all__ = ["OLD", "AccessTables", "at_each", "cluster_of", "entry_text", "tables_of"]

_ANYWHERE: Final = "anywhere"
# Why a broker has no users.
OLD: Final = "of a release before 5.3, which has accounts in files (plain_acl.yml) and no users"
_OFF: Final = "no users: its access control is not set up (authenticationMetadataProvider)"
# What an official broker answers without that setting.
_NOT_CONFIGURED: Final = "MetadataProvider is not configured"
# What an entry is about: user, policy and resource; a broker has one of them at the most.
_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class AccessTables:
    """What the brokers of a cluster have.

    Attributes:
        brokers: The address of each broker that answered, by `NAME ID`, masters first.
        without: Why each of those has no users that answered and have none, by `NAME ID`.
        users: The user at each broker, by name and broker.
        entries: The entry at each broker, by user, policy and resource, and by broker.
    """

    brokers: Mapping[str, str]
    without: Mapping[str, str]
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
    found = await asks.each(addresses, "users", lambda key: _users_at(access, addresses[key]))
    users = {key: each for key, each in found.items() if not isinstance(each, str)}
    answering = {key: addresses[key] for key in users}
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
    without = {key: each for key, each in found.items() if isinstance(each, str)}
    return AccessTables(answering, without, dict(sorted(users_at.items())), entries_at)


async def _users_at(access: Access, address: str) -> list[User] | str:
    """Returns the users of a broker, or why it has none.

    Raises:
        ResponseError: It refused.
    """
    try:
        return await access.users_at(address)
    except ResponseError as error:
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return OLD
        if error.code != ResponseCode.SYSTEM_ERROR:
            raise
        # 5.3.3 has the cause only in what it answers about policies.
        try:
            await access.all_policies_at(address)
        except ResponseError as other:
            if _NOT_CONFIGURED in other.remark:
                return _OFF
        raise


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
