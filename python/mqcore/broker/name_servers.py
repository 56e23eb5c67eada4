"""Which name servers there are, where a setting has them looked up: by DNS, or an address server.

Knows how addresses are found, and how often; nothing of registrations. A look that fails, or finds
nothing, leaves the addresses that are known (`updateNameServerAddressListByDnsLookup` of RocketMQ's
`BrokerOuterAPI`, and `DefaultTopAddressing`).
"""

import asyncio
import ipaddress
import logging
import socket
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Final

from mqcore.broker.state import BrokerState
from mqcore.config import BrokerSettings
from mqcore.periodic import PeriodicTasks

__all__ = ["NameServerLookup", "addresses_in", "looks_up", "lookup_url", "resolved"]

_log = logging.getLogger("mqcore.broker")

_MS_PER_S: Final = 1_000
# However small a setting is, a name or a server is not asked more often.
_PERIOD_MIN_S: Final = 1.0
# After a look that failed.
_RETRY_S: Final = 1.0
# As long as official programs wait for an address server.
_HTTP_TIMEOUT_S: Final = 3.0
# Its port, where the setting has none, and the path before the group.
_HTTP_PORT: Final = 8080
_HTTP_PATH: Final = "rocketmq"
# An answer with the addresses of a thousand name servers is shorter.
_ANSWER_MAX_BYTES: Final = 64 * 1024
# Name servers that are registered with at the most: each is asked on its own.
ADDRESSES_MAX: Final = 64


class NameServerLookup:
    """Keeps the addresses of name servers as somebody else knows them."""

    def __init__(self, state: BrokerState, changed: Callable[[], Awaitable[None]]) -> None:
        """Prepares; `start` begins.

        Args:
            state: The broker, whose addresses are kept.
            changed: Called after they changed.
        """
        self._state = state
        self._changed = changed
        self._tasks = PeriodicTasks()

    def start(self) -> None:
        """Begins to look, where the settings want it."""
        if looks_up(self._state.settings):
            self._tasks.every(
                "addresses of name servers",
                self.look,
                period_s=self._period_s,
                first_s=0.0,
                retry_s=_RETRY_S,
                report=self._report,
            )

    async def stop(self) -> None:
        """Ends."""
        await self._tasks.stop()

    def _period_s(self) -> float:
        settings = self._state.settings
        period_ms = settings.address_server_interval_ms
        if settings.name_servers:
            period_ms = settings.name_servers_interval_ms
        return max(_PERIOD_MIN_S, period_ms / _MS_PER_S)

    async def look(self) -> None:
        """Looks once.

        Raises:
            OSError: Nobody could be asked.
        """
        settings = self._state.settings
        if settings.name_servers:
            found = await resolved(settings.name_servers)
        else:
            found = addresses_in(await asyncio.to_thread(_fetched, lookup_url(settings)))
        if not found or found == self._state.name_servers:
            return
        _log.info("the name servers are %s", "; ".join(found))
        self._state.name_servers = found
        await self._changed()

    def _report(self, error: Exception, failures: int) -> None:
        if failures == 0:
            _log.warning("the addresses of name servers cannot be looked up: %s", error)


def looks_up(settings: BrokerSettings) -> bool:
    """Returns whether the addresses of name servers are looked up."""
    if settings.name_servers:
        return settings.resolves_name_servers
    return settings.asks_address_server


def lookup_url(settings: BrokerSettings) -> str:
    """Returns where an address server is asked (`MixAll.getWSAddr`)."""
    host = settings.address_server
    at = host if ":" in host else f"{host}:{_HTTP_PORT}"
    return f"http://{at}/{_HTTP_PATH}/{settings.address_server_group}"


def addresses_in(text: str) -> tuple[str, ...]:
    """Returns the addresses in an answer of an address server; what is none is left out."""
    parts = (part.strip() for part in text.split(";"))
    found = [
        part for part in parts if part.rpartition(":")[0] and part.rpartition(":")[2].isdigit()
    ]
    return tuple(dict.fromkeys(found))[:ADDRESSES_MAX]


def _fetched(url: str) -> str:
    """Returns the text at an address. Blocks; for a thread.

    Raises:
        OSError: There is no good answer in time.
    """
    # No proxy of the environment is meant for it.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=_HTTP_TIMEOUT_S) as answer:
        text: bytes = answer.read(_ANSWER_MAX_BYTES)
    return text.decode("utf-8", "replace")


async def resolved(names: tuple[str, ...]) -> tuple[str, ...]:
    """Returns every address of the hosts of `HOST:PORT`.

    Raises:
        OSError: A host has none.
    """
    loop = asyncio.get_running_loop()
    found = []
    for name in names:
        host, _, port = name.rpartition(":")
        infos = await loop.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        found += [_address(str(info[4][0]), port) for info in infos]
    return tuple(sorted(set(found)))[:ADDRESSES_MAX]


def _address(host: str, port: str) -> str:
    is_v6 = ipaddress.ip_address(host.partition("%")[0]).version == 6
    return f"[{host}]:{port}" if is_v6 else f"{host}:{port}"
