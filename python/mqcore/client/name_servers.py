"""Asks name servers: the one that answered last first, the next one when it does not.

Knows no topic's use. A refusal of a name server is an answer; passed over is one that does not
answer, or answers what is no frame, and one that has no route for a topic: it may have been started
a moment ago, and another one knows. One that does not answer is reported once, and again each
minute while that lasts: several topics ask it every few seconds.
"""

import asyncio
import logging
import os
import random
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Final

from mqcore.errors import AddressError, FrameError, MQError, NameServerError, RemotingError
from mqcore.model.name_servers import name_servers_of
from mqcore.native import Command
from mqcore.remoting.address import parse_address
from mqcore.remoting.client import CALL_TIMEOUT_S, Client
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

_ROUTE: Final = RequestCode.GET_ROUTEINFO_BY_TOPIC

# What an address is from where it is given in code.
_ARGUMENT: Final = "namesrv"
# How long a name server that does not answer is not reported again.
_REPORT_AGAIN_S: Final = 60.0
# The pauses between two questions of who waits for an answer: doubled from the first one on.
_PAUSE_FIRST_S: Final = 0.1
_PAUSE_MAX_S: Final = 2.0


def addresses_of(
    namesrv: str | Sequence[str] | None, environ: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Returns the addresses of name servers.

    Args:
        namesrv: `host:port`, several of them with `;` or `,` between, or a sequence; None for those
            of the environment.
        environ: The environment.

    Raises:
        AddressError: One is no address, or there is none.
    """
    if namesrv is not None:
        return _parsed(namesrv, _ARGUMENT)
    named = name_servers_of(environ)
    return _parsed(named.text, named.source)


def _parsed(namesrv: object, source: str) -> tuple[str, ...]:
    if not isinstance(namesrv, Iterable) or isinstance(namesrv, bytes | bytearray):
        raise AddressError(f"{source}: {namesrv!r} is no address such as 127.0.0.1:9876")
    parts = namesrv.replace(",", ";").split(";") if isinstance(namesrv, str) else list(namesrv)
    for part in parts:
        if not isinstance(part, str):
            raise AddressError(f"{source}: {part!r} is no address such as 127.0.0.1:9876")
    found = tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))
    if not found:
        raise AddressError(f"{source}: no address is given, such as 127.0.0.1:9876")
    for address in found:
        try:
            parse_address(address)
        except AddressError as error:
            if source == _ARGUMENT:
                raise
            # Who gave no address must learn where this one is from.
            raise AddressError(f"{source}: {error.message}") from error
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

    def __init__(
        self, remote: Client, addresses: Sequence[str], *, is_reporting: bool = True
    ) -> None:
        """Takes connections and addresses; begins with any of them.

        Args:
            remote: The connections.
            addresses: The addresses.
            is_reporting: Whether those that do not answer are logged: for who asks by himself.
        """
        self.addresses = tuple(addresses)
        self._is_reporting = is_reporting
        self._remote = remote
        self._at = random.randrange(len(self.addresses))
        self._breaks = _Breaks()
        # Who did not answer, and when that was last reported, on the loop's clock.
        self._reported_s: dict[str, float] = {}
        remote.hub.listen(self._breaks)

    async def call(
        self, code: int, ext: Mapping[str, str] | None = None, *, timeout_s: float
    ) -> Command:
        """Returns the answer of the first name server that gives one, and knows the topic.

        Args:
            code: What is asked for.
            ext: The header's fields.
            timeout_s: The deadline of each of them.

        Raises:
            NameServerError: None gave one.
        """
        causes: dict[str, MQError] = {}
        unknown: tuple[str, Command] | None = None
        start = self._at
        for step in range(len(self.addresses)):
            at = (start + step) % len(self.addresses)
            address = self.addresses[at]
            try:
                answer = await self._remote.call(address, code, ext, timeout_s=timeout_s)
            except RemotingError as error:
                causes[address] = self._explained(address, error)
                continue
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and code in _ALL_KNOW:
                causes[address] = _is_a_broker(address)
                continue
            if answer.code == ResponseCode.TOPIC_NOT_EXIST and code == _ROUTE:
                unknown = unknown or (address, answer)
                continue
            self._at = at
            self._answered(address, causes)
            return answer
        if unknown is not None:
            self._answered(unknown[0], causes)
            return unknown[1]
        reasons = "; ".join(cause.message for cause in causes.values())
        text = (
            f"no name server answered: {reasons}. Check the addresses, and that `mqcore namesrv` "
            "or `mqcore standalone` runs there"
        )
        if self._is_news(causes):
            _log.warning("%s. The client goes on asking", text)
        raise NameServerError(text, address=";".join(self.addresses), causes=causes)

    async def until_answered(self, timeout_s: float = inf) -> None:
        """Asks until a name server answers, whatever it answers.

        Args:
            timeout_s: For how long at the most.

        Raises:
            NameServerError: None answered in time.
        """
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + timeout_s
        pause_s = _PAUSE_FIRST_S
        while True:
            left_s = ends_s - loop.time()
            try:
                await self.call(
                    RequestCode.GET_BROKER_CLUSTER_INFO, timeout_s=min(CALL_TIMEOUT_S, left_s)
                )
            except NameServerError:
                if loop.time() + pause_s >= ends_s:
                    raise
            else:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _answered(self, address: str, causes: Mapping[str, MQError]) -> None:
        """Reports those before the one that answered, and that one where it had not."""
        if causes and self._is_news(causes):
            why = "; ".join(cause.message for cause in causes.values())
            _log.warning("a name server did not answer, the next one did: %s", why)
        if self._reported_s.pop(address, None) is not None:
            _log.info("name server %s answers again", address)

    def _is_news(self, addresses: Iterable[str]) -> bool:
        if not self._is_reporting:
            return False
        now_s = asyncio.get_running_loop().time()
        news = [
            address
            for address in addresses
            if now_s - self._reported_s.get(address, -inf) >= _REPORT_AGAIN_S
        ]
        self._reported_s.update(dict.fromkeys(news, now_s))
        return bool(news)

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
