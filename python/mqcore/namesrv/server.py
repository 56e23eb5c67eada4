"""A running name server: the tables behind a listener, and the round that forgets silent brokers.

    server = NameServer(settings)
    address = await server.start()          # with the port that was chosen
    ...
    await server.stop()

All methods belong to the event loop's thread.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path

from mqcore.access import LOOK_S, ServerGate, credentials_of
from mqcore.audit import AuditTrail, audit
from mqcore.clock import monotonic_ms, wall_ms
from mqcore.config import NamesrvSettings
from mqcore.config.budget import memory_plan
from mqcore.errors import RemotingError
from mqcore.namesrv.audit_looks import namesrv_looks
from mqcore.namesrv.requests import Requests
from mqcore.namesrv.shapes import MinIdChange
from mqcore.periodic import PeriodicTasks
from mqcore.remoting import (
    Address,
    Client,
    Link,
    LinkEvents,
    RequestCode,
    Server,
    TcpAddress,
    TlsContext,
    limits_of,
    listen_as,
    outgoing_tls_of,
)

__all__ = ["NameServer"]

_log = logging.getLogger(__name__)

# Telling a broker of a change must not hold anything up; the official name server waits as long.
_NOTIFY_TIMEOUT_S = 0.3


class NameServer(LinkEvents):
    """One name server; it knows of no other.

    Attributes:
        requests: The handlers, with the tables.
        server: The listening half, None before `start`.
    """

    def __init__(
        self,
        settings: NamesrvSettings,
        *,
        clock: Callable[[], int] = monotonic_ms,
        config_path: Path | None = None,
    ) -> None:
        """Reads the KV configuration; listens to nothing yet.

        Args:
            settings: The settings.
            clock: Returns milliseconds that never step back.
            config_path: The properties file that changes by tools are kept in.

        Raises:
            ConfigFileError: The KV configuration is there and cannot be read.
            ConfigurationError: A setting of access control cannot work.
        """
        directory = Path(settings.kv_config_path).parent
        self._trail = AuditTrail.of(settings.access, directory=directory, server="namesrv")
        self._gate = ServerGate(settings.access, directory=directory, trail=self._trail)
        self.requests = Requests(
            settings,
            clock=clock,
            changed=self._notify,
            apply_access=self._gate.apply,
            config_path=config_path,
        )
        self.server: Server | None = None
        self._clock = clock
        self._client: Client | None = None
        self._outgoing_tls: TlsContext | None = None
        self._ports: dict[str, int] = {}
        self._tasks = PeriodicTasks()
        self._started_ms = wall_ms()
        # What is stopped, the last first.
        self._started = AsyncExitStack()

    @property
    def ports(self) -> dict[str, int]:
        """The port that is listened on, by the program's name."""
        return dict(self._ports)

    async def start(self) -> Address:
        """Listens; returns the address with the port that was chosen.

        Raises:
            AddressError: The address cannot be listened on.
            TlsError: Certificates or keys cannot be used.
        """
        listener = self.requests.settings.listener
        plan = memory_plan(self.requests.settings.configuration)
        limits = limits_of(listener, plan)
        _log.debug("%s; %d connections at the most", plan, limits.connections_max)
        async with AsyncExitStack() as starting:
            starting.push_async_callback(self._trail.stop)
            starting.push_async_callback(self._close_client)
            dispatcher = self.requests.dispatcher()
            await asyncio.to_thread(self._gate.load)
            audit(dispatcher, self._trail, namesrv_looks(self.requests, self._gate))
            self._gate.guard(dispatcher)
            server = Server(dispatcher, limits=limits, events=[self])
            starting.push_async_callback(server.close)
            server.hub.bound_by(lambda: self.requests.settings.listener)
            server.hub.first_request_s = self._gate.first_request_s
            address = await listen_as(server, listener)
            self.server = server
            if isinstance(address, TcpAddress):
                self._ports["namesrv"] = address.port
            if listener.health_address:
                # Imported here: without these pages nothing of HTTP is held.
                from mqcore.metrics.page import metrics_page
                from mqcore.namesrv.figures import SERIES_MAX, snapshot
                from mqcore.remoting.health import serving_health

                pages = {
                    "/metrics": metrics_page(
                        lambda: snapshot(
                            self.requests,
                            self._started_ms,
                            self._protections(server),
                            self._trail.figures,
                        ),
                        SERIES_MAX,
                    )
                }
                health, self._ports["health"] = await serving_health(
                    listener.health_address, self._live, self._ready, pages
                )
                starting.push_async_callback(health.stop)
            starting.push_async_callback(self._tasks.stop)
            self._tasks.every("scan brokers", self.look, period_s=self._scan_s)
            self._tasks.every("access", self._gate.look, period_s=lambda: LOOK_S)
            self._started = starting.pop_all()
        return address

    async def stop(self) -> None:
        """Accepts nothing more, answers what is half done, and closes everything."""
        self.server = None
        await self._started.aclose()

    async def _live(self) -> dict[str, str]:
        """Returns what only a new start mends: nothing, while this is answered."""
        return {"server": "" if self.server is not None else "it does not serve"}

    async def _ready(self) -> dict[str, str]:
        """Returns nothing more: brokers look for name servers that are ready, and come then."""
        return {}

    async def _close_client(self) -> None:
        """Closes the connections by which brokers are notified."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def closed(self, link: Link) -> None:
        """Forgets the brokers that registered by a connection: they are gone with it."""
        gone = self.requests.table.brokers_of(link)
        if gone:
            _log.info("broker %s is gone: its connection %s ended", ", ".join(gone), link.peer)
        self._go_on(self.requests.closed(link))

    def look(self) -> None:
        """Makes one round: brokers not heard of for too long are forgotten."""
        channels, work = self.requests.expire()
        for channel in channels:
            if isinstance(channel, Link):
                _log.warning("a broker at %s was not heard of for too long", channel.peer)
                channel.close()
        self._go_on(work)

    def _go_on(self, work: Coroutine[None, None, None] | None) -> None:
        """Does what is left of forgetting brokers with many topics."""
        if work is not None and self.server is not None:
            self.server.hub.spawn(work)
        elif work is not None:
            work.close()

    def _protections(self, server: Server) -> dict[str, list[TlsContext | None]]:
        """Returns what protects its connections, by their kind."""
        return {"server": [each.context for each in server.tls], "client": [self._outgoing_tls]}

    def _scan_s(self) -> float:
        return self.requests.settings.scan_interval_ms / 1000

    def _notify(self, changes: list[MinIdChange]) -> None:
        if not changes or not self.requests.settings.notifies_min_broker_id:
            return
        if self.server is None:
            return
        if self._client is None:
            self._outgoing_tls = outgoing_tls_of(self.requests.settings.listener)
            self._client = Client(
                tls=self._outgoing_tls,
                credentials=credentials_of(self.requests.settings.access),
                connect_timeout_s=_NOTIFY_TIMEOUT_S,
            )
        for change in changes:
            for address in change.notify:
                self.server.hub.spawn(self._send_change(self._client, change, address))

    async def _send_change(self, client: Client, change: MinIdChange, address: str) -> None:
        ext = {
            "minBrokerId": str(change.min_id),
            "brokerName": change.name,
            "minBrokerAddr": change.min_address,
            "haBrokerAddr": change.ha_address,
        }
        if change.offline_address is not None:
            ext["offlineBrokerAddr"] = change.offline_address
        try:
            await client.oneway(
                address,
                RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE,
                ext,
                timeout_s=_NOTIFY_TIMEOUT_S,
            )
        except RemotingError as error:
            _log.warning("broker %s could not be notified of a change: %s", change.name, error)
