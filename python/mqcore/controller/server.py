"""A running controller: the log behind a listener, and the rounds that notice who is gone.

    controller = Controller(settings)
    address = await controller.start()          # with the port that was chosen
    ...
    await controller.stop()

All methods belong to the event loop's thread.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from mqcore.access import LOOK_S, ServerGate, credentials_of
from mqcore.audit import AuditLooks, AuditTrail, audit, settings_named, settings_now
from mqcore.clock import monotonic_ms, wall_ms
from mqcore.config import ControllerSettings, ListenerSettings
from mqcore.config.budget import memory_plan
from mqcore.controller.carrier import Carrier
from mqcore.controller.figures import METER, SERIES_MAX, snapshot
from mqcore.controller.group_file import check_group
from mqcore.controller.peers import Peers, peers_of
from mqcore.controller.requests import Requests
from mqcore.errors import MQError
from mqcore.metrics.audit_figures import audit_rows
from mqcore.metrics.text import Snapshot
from mqcore.native import ControllerGroupRow, ControllerNode
from mqcore.periodic import PeriodicTasks
from mqcore.remoting import (
    Address,
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

__all__ = ["Controller"]

_log = logging.getLogger(__name__)
# Figures are for this machine unless the settings give others.
_METRICS_HOST = "127.0.0.1"


class Controller(LinkEvents):
    """One controller.

    Attributes:
        server: The listening half, None before `start`.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        *,
        clock: Callable[[], int] = monotonic_ms,
        config_path: Path | None = None,
    ) -> None:
        """Reads the settings; opens nothing yet.

        Args:
            settings: The settings.
            clock: Returns milliseconds that never step back.
            config_path: The properties file that changes by tools are kept in.

        Raises:
            ConfigurationError: The peers cannot be understood, or a setting of access control
                cannot work.
        """
        self._settings = settings
        self._clock = clock
        self._config_path = config_path
        self._peers: Peers = peers_of(settings)
        directory = Path(settings.store_dir)
        self._trail = AuditTrail.of(
            settings.access, directory=directory, server=f"controller {self._peers.self_id}"
        )
        self._gate = ServerGate(settings.access, directory=directory, trail=self._trail)
        self._requests: Requests | None = None
        self._node: ControllerNode | None = None
        self.server: Server | None = None
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

    @property
    def requests(self) -> Requests:
        """The handlers, with who is alive.

        Raises:
            RuntimeError: It has not started.
        """
        if self._requests is None:
            raise RuntimeError("the controller has not started")
        return self._requests

    async def start(self) -> Address:
        """Opens the log and listens; returns the address with the port that was chosen.

        Raises:
            ConfigurationError: The log is that of another controller.
            StoreError: The log cannot be opened.
            AddressError: The address cannot be listened on.
            TlsError: Certificates or keys cannot be used.
        """
        settings = self._settings
        listener = replace(settings.listener, port=self._peers.own_port)
        limits = limits_of(listener, memory_plan(settings.configuration))
        async with AsyncExitStack() as starting:
            starting.push_async_callback(self._trail.stop)
            store_dir, self_id = Path(settings.store_dir), self._peers.self_id
            await asyncio.to_thread(check_group, store_dir, settings.group, self_id)
            node = await asyncio.to_thread(ControllerNode, settings.store_dir, self._group())
            starting.push_async_callback(asyncio.to_thread, node.close)
            if len(self._peers.addresses) == 1:
                # Alone it leads already: its state is what its log leads to.
                await asyncio.to_thread(node.confirm)
            self._outgoing_tls = outgoing_tls_of(settings.listener)
            carrier = Carrier(
                node,
                self._peers,
                settings.group,
                tls=self._outgoing_tls,
                credentials=credentials_of(settings.access),
            )
            starting.push_async_callback(carrier.stop)
            requests = Requests(
                settings,
                node,
                self._peers,
                clock=self._clock,
                apply_access=self._gate.apply,
                config_path=self._config_path,
            )
            starting.push_async_callback(requests.elections.close)
            dispatcher = requests.dispatcher()
            await asyncio.to_thread(self._gate.load)
            audit(dispatcher, self._trail, self._looks(requests))
            self._gate.guard(dispatcher)
            server = Server(dispatcher, limits=limits, events=[self])
            starting.push_async_callback(server.close)
            server.hub.bound_by(lambda: requests.settings.listener)
            server.hub.first_request_s = self._gate.first_request_s
            self._requests = requests
            address = await listen_as(server, listener)
            self.server = server
            if isinstance(address, TcpAddress):
                self._ports["controller"] = address.port
                requests.peers = self._peers.at(address.port)
            self._node = node
            await self._observe(listener, starting)
            carrier.start()
            starting.push_async_callback(self._tasks.stop)
            self._tasks.every("scan brokers", self.look, period_s=self._scan_s)
            self._tasks.every("access", self._gate.look, period_s=lambda: LOOK_S)
            self._tasks.every(
                "scan masters", requests.elections.look, period_s=self._scan_masters_s
            )
            self._started = starting.pop_all()
        return address

    def _looks(self, requests: Requests) -> AuditLooks:
        """Returns what the audit has of changes."""
        code = RequestCode.UPDATE_CONTROLLER_CONFIG
        return AuditLooks(
            {code: lambda _asked, about: settings_now(requests.settings.configuration, about)},
            {code: settings_named},
            self._gate.signer,
        )

    async def stop(self) -> None:
        """Accepts nothing more, answers what is half done, and closes everything."""
        self.server = None
        await self._started.aclose()

    async def _observe(self, listener: ListenerSettings, starting: AsyncExitStack) -> None:
        """Opens the ports of health and figures, and pushes figures, as the settings want it."""
        settings = self._settings
        if listener.health_address or settings.has_metrics:
            # Imported here: without these pages nothing of HTTP is held.
            from mqcore.metrics.page import metrics_page
            from mqcore.remoting.health import serving_health

            pages = {"/metrics": metrics_page(self._snapshot, SERIES_MAX)}
            if settings.has_metrics:
                from mqcore.remoting.observatory import Observatory

                observatory = Observatory(pages)
                starting.push_async_callback(observatory.stop)
                host = settings.metrics_host or _METRICS_HOST
                self._ports["metrics"] = await observatory.start(host, settings.metrics_port)
            if listener.health_address:
                health, self._ports["health"] = await serving_health(
                    listener.health_address, self._live, self._ready, pages
                )
                starting.push_async_callback(health.stop)
        if settings.pushes_metrics:
            from mqcore.metrics.page import rest
            from mqcore.metrics.pushing import pusher

            pushing = pusher(settings.pushing, METER, self._started_ms, self._snapshot, rest)
            if pushing is not None:
                pushing.start()
                starting.push_async_callback(pushing.stop)

    async def _snapshot(self) -> Snapshot:
        """Returns the figures of this moment."""
        requests, node = self.requests, self._node
        if node is None:
            raise RuntimeError("the controller has not started")
        counted = requests.figures.rows(requests.liveness.living(self._clock()), node.standing())
        counted |= audit_rows(self._trail.figures)
        self_id = self._peers.self_id
        address = requests.peers.own_address
        return await asyncio.to_thread(
            snapshot,
            requests.settings,
            counted,
            address,
            self_id,
            self._started_ms,
            {
                "server": [each.context for each in (self.server.tls if self.server else ())],
                "client": [self._outgoing_tls],
            },
        )

    async def _live(self) -> dict[str, str]:
        """Returns what only a new start mends: what was agreed on cannot be written any more."""
        failure = None if self._node is None else self._node.standing().failure
        return {"log": failure or ""}

    async def _ready(self) -> dict[str, str]:
        """Returns why nothing can be agreed on: nobody leads."""
        leads = self._node is not None and self._node.standing().leader is not None
        return {"leader": "" if leads else "no leader is known: a majority is wanted"}

    def _group(self) -> ControllerGroupRow:
        numbers = self._peers.numbers
        return ControllerGroupRow(numbers[self._peers.self_id], tuple(numbers.values()))

    def closed(self, link: Link) -> None:
        """Takes the brokers of a connection for dead: they are gone with it."""
        for key in self.requests.liveness.closed(link):
            self._go_on(self.requests.elections.lost(key))

    def look(self) -> None:
        """Makes one round: brokers not heard of for too long are taken for dead."""
        for key, channel in self.requests.liveness.expired(self._clock()):
            _log.warning("broker %s %d was not heard of for too long", key.name, key.broker_id)
            if isinstance(channel, Link):
                channel.close()
            self._go_on(self.requests.elections.lost(key))

    def _go_on(self, work: Coroutine[Any, Any, None]) -> None:
        """Has a master elected beside everything else."""
        if self.server is None:
            work.close()
        else:
            self.server.hub.spawn(_reported(work))

    def _scan_s(self) -> float:
        return self.requests.settings.scan_interval_ms / 1000

    def _scan_masters_s(self) -> float:
        return self.requests.settings.scan_masters_interval_ms / 1000


async def _reported(work: Coroutine[Any, Any, None]) -> None:
    """Does work that nobody waits for; the next round tries again what failed."""
    try:
        await work
    except MQError:
        _log.exception("a master could not be elected")
