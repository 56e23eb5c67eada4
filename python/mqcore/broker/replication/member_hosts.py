"""Which hosts are members of a broker's group: at the port for slaves they alone acknowledge.

Members are this machine, the hosts that the settings name, and those of the brokers that have
registered under our name: with a name server, or with our controller. A slave registers before it
copies anything, since it learns its master's address by that. It connects from the host that it
registers, or from the one that it names `brokerIP2`, which it is asked for. Knows no connection.
"""

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from mqcore.broker.state import BrokerState
from mqcore.errors import BadJsonError, MQError
from mqcore.model.reading import as_dict, as_list, as_text
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.model.shown_settings import settings_in
from mqcore.remoting import Client, RequestCode, expect

__all__ = ["MemberHosts", "addresses_of", "host_of", "members_in", "plain", "second_host"]

_log = logging.getLogger("mqcore.broker")

_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_TIMEOUT_S: Final = 1.0
# However many strangers come, name servers are not asked more often.
_LOOK_PAUSE_S: Final = 1.0
# A group has a handful of members: who fills a name server with names fills nothing here.
_MEMBERS_MAX: Final = 32
_OWN: Final = frozenset({"127.0.0.1", "::1"})


class MemberHosts:
    """The members of one broker's group, by host."""

    def __init__(self, state: BrokerState) -> None:
        """Takes the broker."""
        self._state = state
        self._client = Client(
            tls=state.outgoing_tls, credentials=state.credentials, version=state.version
        )
        self._networks, self._names = _parsed(state.settings.replication_member_hosts)
        # Addresses of those that are registered; None while nobody has answered.
        self._known: frozenset[str] | None = frozenset() if self._is_listed else None
        self._named: frozenset[str] = frozenset()
        self._looking: asyncio.Task[None] | None = None
        self._looked_s = float("-inf")

    @property
    def _is_listed(self) -> bool:
        return bool(self._networks or self._names)

    async def close(self) -> None:
        """Ends a look that is under way, and closes the connections."""
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        await self._client.close()

    def has(self, host: str, own_host: str) -> bool | None:
        """Returns whether a host is a member's; None while nobody has answered who is.

        Args:
            host: The address that a connection comes from.
            own_host: Our own address of it: the same one is this machine.
        """
        address = plain(host)
        if address in _OWN or address == plain(own_host) or self._is_named(address):
            return True
        return None if self._known is None else address in self._known

    def _is_named(self, address: str) -> bool:
        if address in self._named:
            return True
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)

    async def look(self) -> None:
        """Asks name servers and controllers who is registered; again only after a while.

        What nobody answers stays as it is known.
        """
        loop = asyncio.get_running_loop()
        if self._looking is None:
            if loop.time() - self._looked_s < _LOOK_PAUSE_S:
                return
            self._looking = loop.create_task(self._look(), name="members of the group")
        looking = self._looking
        try:
            await asyncio.shield(looking)
        finally:
            if looking.done() and self._looking is looking:
                self._looking = None
                self._looked_s = loop.time()

    async def _look(self) -> None:
        state = self._state
        name = state.settings.name
        cluster = RequestCode.GET_BROKER_CLUSTER_INFO
        sets = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
        asked = [self._ask(each, cluster, b"") for each in state.name_servers]
        controllers = state.settings.controllers if state.role.is_controlled else ()
        asked += [self._ask(each, sets, compact([name])) for each in controllers]
        bodies = await asyncio.gather(*asked)
        self._named = await addresses_of(self._names)
        if all(found is None for found in bodies):
            return
        members: set[str] = set()
        for body in filter(None, bodies):
            try:
                members |= members_in(parse_object(body), name)
            except BadJsonError as error:
                _log.debug("members cannot be read: %s", error)
        members.discard(state.address)
        config = RequestCode.GET_BROKER_CONFIG
        some = sorted(members)[:_MEMBERS_MAX]
        configs = await asyncio.gather(*(self._ask(each, config, b"") for each in some))
        hosts = {host_of(each) for each in some}
        hosts.update(second_host(each) for each in configs if each is not None)
        self._known = await addresses_of(hosts)

    async def _ask(self, address: str, code: RequestCode, body: bytes) -> bytes | None:
        """Returns the body that is answered; None for no answer."""
        try:
            answer = await self._client.call(address, code, {}, body, timeout_s=_TIMEOUT_S)
            return expect(answer, address).body
        except MQError as error:
            _log.debug("%s does not name members: %s", address, error.message)
            return None


def members_in(answer: Mapping[str, object], name: str) -> set[str]:
    """Returns the addresses of the brokers of a name.

    Args:
        answer: That of a name server (106), or of a controller (1006).
        name: The name.
    """
    group = as_dict(as_dict(answer.get("brokerAddrTable")).get(name))
    found = [as_text(each) for each in as_dict(group.get("brokerAddrs")).values()]
    sets = as_dict(as_dict(answer.get("replicasInfoTable")).get(name))
    rows = [*as_list(sets.get("inSyncReplicas")), *as_list(sets.get("notInSyncReplicas"))]
    found += [as_text(as_dict(row).get("brokerAddress")) for row in rows]
    return {each for each in found if host_of(each)}


def second_host(config: bytes) -> str:
    """Returns `brokerIP2` in the settings of a broker (26); empty for none."""
    return settings_in(config).get("brokerIP2", "")


def host_of(address: str) -> str:
    """Returns the host of `HOST:PORT`."""
    return address.rpartition(":")[0].strip("[]")


def plain(host: str) -> str:
    """Returns an address in its one form: without a zone, an IPv4 one in IPv6 as IPv4."""
    try:
        parsed = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)


def _parsed(entries: Iterable[str]) -> tuple[list[_Network], list[str]]:
    """Returns the networks and the names among entries of `haMemberHosts`."""
    networks: list[_Network] = []
    names = []
    for entry in entries:
        try:
            networks.append(ipaddress.ip_network(entry, strict=False))
        except ValueError:
            names.append(entry)
    return networks, names


async def addresses_of(hosts: Iterable[str]) -> frozenset[str]:
    """Returns the addresses of hosts; of those that have none, none."""
    loop = asyncio.get_running_loop()
    found: set[str] = set()
    for host in sorted(filter(None, hosts)):
        try:
            ipaddress.ip_address(host)
        except ValueError:
            try:
                infos = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError):
                continue
            found |= {plain(str(info[4][0])) for info in infos}
        else:
            found.add(plain(host))
    return frozenset(found)
