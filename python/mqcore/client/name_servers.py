"""Asks name servers: the one that answered last first, the next one when it does not.

Knows no topic's use. A refusal of a name server is an answer; only one that does not answer, or
answers what is no frame, is passed over.
"""

import logging
import random
from collections.abc import Iterable, Mapping, Sequence

from mqcore.errors import AddressError, FrameError, MQError, NameServerError, RemotingError
from mqcore.native import Command
from mqcore.remoting.address import parse_address
from mqcore.remoting.client import Client
from mqcore.remoting.hub import LinkEvents
from mqcore.remoting.link import Link
from mqcore.remoting.request_codes import RequestCode
from mqcore.remoting.response_codes import ResponseCode

__all__ = ["NameServers", "addresses_of"]

_log = logging.getLogger(__name__)
# Every name server answers these, of any release: who does not know them is none.
_ALL_KNOW = frozenset(
    {
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    }
)


def addresses_of(namesrv: str | Sequence[str]) -> tuple[str, ...]:
    """Returns the addresses of name servers.

    Args:
        namesrv: `host:port`, several of them with `;` or `,` between, or a sequence.

    Raises:
        AddressError: One is no address, or there is none.
    """
    if not isinstance(namesrv, Iterable):
        raise AddressError(f"namesrv: {namesrv!r} is no address such as 127.0.0.1:9876")
    parts = namesrv.replace(",", ";").split(";") if isinstance(namesrv, str) else list(namesrv)
    for part in parts:
        if not isinstance(part, str):
            raise AddressError(f"namesrv: {part!r} is no address such as 127.0.0.1:9876")
    found = tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))
    if not found:
        raise AddressError("namesrv: no address is given, such as 127.0.0.1:9876")
    for address in found:
        parse_address(address)
    return found


def _is_a_broker(address: str) -> NameServerError:
    return NameServerError(
        f"{address} is a broker: name servers listen on 9876 where nothing else is set",
        address=address,
        causes={},
    )


class _Breaks(LinkEvents):
    """Remembers why a connection broke: its calls only learn that it ended."""

    def __init__(self) -> None:
        self.by_peer: dict[str, Exception] = {}

    def failed(self, link: Link, error: Exception) -> None:
        self.by_peer[link.peer] = error


class NameServers:
    """The name servers of one client.

    Attributes:
        addresses: Their addresses, as given.
    """

    def __init__(self, remote: Client, addresses: Sequence[str]) -> None:
        """Takes connections and addresses; begins with any of them."""
        self.addresses = tuple(addresses)
        self._remote = remote
        self._at = random.randrange(len(self.addresses))
        self._breaks = _Breaks()
        remote.hub.listen(self._breaks)

    async def call(
        self, code: int, ext: Mapping[str, str] | None = None, *, timeout_s: float
    ) -> Command:
        """Returns the answer of the first name server that gives one.

        Args:
            code: What is asked for.
            ext: The header's fields.
            timeout_s: The deadline of each of them.

        Raises:
            NameServerError: None gave one.
        """
        causes: dict[str, MQError] = {}
        start = self._at
        for step in range(len(self.addresses)):
            at = (start + step) % len(self.addresses)
            address = self.addresses[at]
            try:
                answer = await self._remote.call(address, code, ext, timeout_s=timeout_s)
            except RemotingError as error:
                causes[address] = self._explained(address, error)
                _log.warning("name server %s: %s", address, causes[address].message)
                continue
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and code in _ALL_KNOW:
                causes[address] = _is_a_broker(address)
                _log.warning("name server %s", causes[address].message)
                continue
            self._at = at
            return answer
        reasons = "; ".join(cause.message for cause in causes.values())
        raise NameServerError(
            f"no name server answered: {reasons}. Check the addresses, and that `mqcore namesrv` "
            "or `mqcore standalone` runs there",
            address=";".join(self.addresses),
            causes=causes,
        )

    def _explained(self, address: str, error: RemotingError) -> MQError:
        """Returns the error that names what is at the address when it is no name server."""
        # A name may have been dialled, and its connection has a number: ports are compared.
        port = address.rpartition(":")[2]
        broken = self._breaks.by_peer
        peers = [peer for peer in broken if peer.rpartition(":")[2] == port]
        why = [broken.pop(peer) for peer in peers][-1] if peers else None
        if not isinstance(why, FrameError):
            return error
        return NameServerError(
            f"{address} speaks another protocol than a name server ({why}): is it an HTTP server, "
            "or a port that wants TLS?",
            address=address,
            causes={},
        )
