"""The client instance: routes, broker addresses, heartbeats, and requests that brokers send.

After the official `MQClientInstance`. Producers and consumers are its parts (`Part`); it knows
neither of them. Everything belongs to the event loop that `start` ran on.

    instance = Instance("127.0.0.1:9876")
    await instance.start()
    route = await instance.route("topic")                    # cached, kept fresh while in use
    address = instance.address_of("broker-a")                # its master
    answer = await instance.call(address, RequestCode.GET_MAX_OFFSET, {...})
    instance.register(part); await instance.heartbeat()
    await instance.close()
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from threading import get_ident
from types import TracebackType
from typing import Self, Unpack

from mqcore.client.client_options import ClientOptions
from mqcore.client.client_settings import ClientSettings
from mqcore.client.duties import Duties
from mqcore.client.here import close_in_forks, current_loop
from mqcore.client.identity import client_id, local_address
from mqcore.client.name_servers import NameServers, addresses_of
from mqcore.client.namespaces import check_group, check_namespace, with_namespace, without_namespace
from mqcore.client.option import made_of, shows_options
from mqcore.client.parts import Part
from mqcore.client.pushed import Pushed
from mqcore.client.route_table import RouteTable
from mqcore.client.routes import MASTER_ID, TopicRoute
from mqcore.client.tls_option import TlsOption, tls_context
from mqcore.errors import (
    ClosedError,
    MQError,
    NameServerError,
    RemotingError,
    UnsupportedError,
    UsageError,
    UsageReason,
)
from mqcore.model.heartbeats import HALF_BATCHES_FIELD, TIMERS_FIELD, HeartbeatData
from mqcore.model.queues import MessageQueue
from mqcore.model.versions import version_name
from mqcore.native import Command
from mqcore.remoting.client import Client
from mqcore.remoting.dispatch import Dispatcher
from mqcore.remoting.request_codes import RequestCode

__all__ = ["HEARTBEAT_TIMEOUT_S", "PYTHON", "Instance", "TlsOption", "tls_context"]

_log = logging.getLogger(__name__)

# `LanguageCode.PYTHON`: tools show it.
PYTHON = 3
HEARTBEAT_TIMEOUT_S = 3.0
# The ordinal of V5_0_0: arbitrary delays came with it.
_TIMERS_SINCE = 413
# Leaving is a courtesy: brokers notice the closed connection too.
_UNREGISTER_TIMEOUT_S = 1.0


class Instance:
    """One client of a cluster.

    Attributes:
        client_id: Who brokers know it as.
        namespace: Put before topics and groups; empty for none.
        remote: The connections, by address.
        name_servers: Who is asked for routes.
        routes: What they returned.
        credentials: Who we are to servers that ask, or None.
        default_queues: Queues of a topic that the broker makes at the first send.
        broker_versions: The version that each broker's last heartbeat answer had, by address.
        pushed: The requests that brokers send, and who serves them.
        is_open: Whether it is started, not closed, and of this process.
        loop: The event loop that it was started on, None before.
    """

    @shows_options(ClientSettings)
    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        """Prepares; nothing is connected yet.

        Args:
            namesrv: Name servers: `host:port`, several with `;` between, or a sequence; those of
                the environment when not given.
            options: Those of `ClientSettings`.

        Raises:
            AddressError: A name server's address is none.
            UsageError: An option cannot work.
            TlsError: Certificates cannot be used.
        """
        settings = made_of(options, "a client", ClientSettings)
        addresses = addresses_of(namesrv)
        self.namespace = check_namespace(settings.namespace)
        self.credentials = settings.credentials
        self.client_id = client_id(
            local_address(), instance_name=settings.instance_name, unit_name=settings.unit_name
        )
        self.pushed = Pushed(self.namespace)
        self.tls = tls_context(settings.tls)
        self.connect_timeout_s = settings.connect_timeout_s
        self.remote = Client(
            Dispatcher(self.pushed.handlers()),
            limits=settings.limits,
            language=PYTHON,
            tls=self.tls,
            credentials=settings.credentials,
            connect_timeout_s=settings.connect_timeout_s,
        )
        self.name_servers = NameServers(self.remote, addresses)
        self.routes = RouteTable(
            self.name_servers,
            call_timeout_s=settings.call_timeout_s,
            default_queues=settings.default_queues,
        )
        self.routes.listen(self._on_route)
        self.broker_versions: dict[str, int] = {}
        self._with_timers, self.with_half_batches = set[str](), set[str]()
        self.call_timeout_s = settings.call_timeout_s
        self.default_queues = settings.default_queues
        self._duties = Duties()
        self._heartbeat_interval_s = settings.heartbeat_interval_s
        self._route_interval_s = settings.route_interval_s
        self._process_id = self._thread_id = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        self.is_open = self._is_closed = False
        self._registered_at, self._unheard_at = set[str](), set[str]()

    async def __aenter__(self) -> Self:
        """Starts it."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes it."""
        await self.close()

    # Life.

    async def start(self, *, timeout_s: float | None = None) -> None:
        """Starts what is done again and again. Starting again does nothing.

        Args:
            timeout_s: For how long to wait for a name server; asked in the background without it.

        Raises:
            ClosedError: It was closed.
            NameServerError: None answered within `timeout_s`; it may be started again.
        """
        if self._is_closed:
            raise ClosedError("this client is closed: make another one")
        if timeout_s is not None:
            await self.name_servers.until_answered(timeout_s)
        if self._process_id:
            return
        if timeout_s is None:
            self.soon("the first question", self.name_servers.until_answered)
        self._process_id = os.getpid()
        self.loop = asyncio.get_running_loop()
        self._thread_id = get_ident()
        self.is_open = True
        close_in_forks(self)
        self._duties.every(self._heartbeat_interval_s, "heartbeat", self.heartbeat)
        self._duties.every(self._route_interval_s, "routes", self.refresh_routes)

    @property
    def is_in_its_loop(self) -> bool:
        """Whether the caller runs in its event loop; asking for that one is a system call."""
        loop = self.loop
        return loop is not None and get_ident() == self._thread_id and loop.is_running()

    def check_usable(self) -> None:
        """Checks that it can be used now, here.

        Raises:
            ClosedError: It is closed.
            UsageError: It is not started.
            UsageError: The process was forked since.
            UsageError: This thread runs another event loop than the client's.
        """
        if self._is_closed:
            raise ClosedError("this client is closed: make another one")
        if not self._process_id:
            raise UsageError(
                "this client is not started: call start(), or use it with `with`",
                reason=UsageReason.NOT_STARTED,
            )
        if self._process_id != os.getpid():
            raise UsageError(
                f"this client was made by process {self._process_id}, and process {os.getpid()} "
                "is its fork: make clients after forking",
                opener=self._process_id,
                reason=UsageReason.FORKED,
            )
        if current_loop() not in (None, self.loop):
            raise UsageError(
                "this client was started on another event loop: make one per loop, and close it "
                "there"
            )

    async def close(self) -> None:
        """Unregisters its groups at the brokers, and closes every connection.

        Parts still registered are forgotten; close them before.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self.is_open = False
        await self._duties.close()
        parts = self.pushed.parts
        await asyncio.gather(*(self._leave(part) for part in parts), return_exceptions=True)
        for part in parts:
            self.pushed.remove(part)
        await self.remote.close()

    # Parts.

    def register(self, part: Part) -> None:
        """Takes a part; its topics are kept fresh, and the next heartbeat has its group.

        Raises:
            UsageError: The group's name is illegal, or this client has such a part already.
        """
        self.check_usable()
        check_group(part.group)
        if not self.pushed.add(part):
            kind = "producer" if part.consumer_data() is None else "consumer"
            raise UsageError(
                f"group {part.group}: this client has a {kind} of it already; "
                "use that one, or make another client",
                group=part.group,
                reason=UsageReason.GROUP,
            )

    async def unregister(self, part: Part) -> None:
        """Forgets a part and unregisters it; brokers that do not answer soon are left alone."""
        self.pushed.remove(part)
        if not self._is_closed:
            await self._leave(part)

    async def _leave(self, part: Part) -> None:
        name = "producerGroup" if part.consumer_data() is None else "consumerGroup"
        ext = {"clientID": self.client_id, name: part.group}
        await asyncio.gather(
            *(
                self.call(
                    address, RequestCode.UNREGISTER_CLIENT, ext, timeout_s=_UNREGISTER_TIMEOUT_S
                )
                for address in self._registered_at
            ),
            return_exceptions=True,
        )

    # Names.

    def full_name(self, name: str) -> str:
        """Returns a topic or group with the namespace."""
        return with_namespace(self.namespace, name)

    def short_name(self, name: str) -> str:
        """Returns a topic or group without the namespace."""
        return without_namespace(self.namespace, name)

    # Routes.

    async def route(self, topic: str, *, has_template: bool = False) -> TopicRoute:
        """Returns the route of a topic: the known one, or what the name servers return.

        Args:
            topic: The topic, its namespace included.
            has_template: Whether a topic that is not there may have the route of the topic that
                brokers make new ones after: for producers.

        Raises:
            NoRouteError: No broker has it.
            NameServerError: No name server answered.
        """
        self.check_usable()
        return await self.routes.route(topic, has_template=has_template)

    def known_route(self, topic: str) -> TopicRoute | None:
        """Returns the route that was last heard of, without asking."""
        return self.routes.known(topic)

    async def refresh_route(self, topic: str) -> TopicRoute | None:
        """Asks for a topic's route now; returns what is known then.

        Raises:
            NameServerError: No name server answered; what was known stays.
        """
        return await self.routes.refresh(topic)

    async def refresh_routes(self) -> None:
        """Asks for the routes of all topics in use again."""
        topics = {topic for part in self.pushed.parts for topic in part.topics()}
        for topic in sorted(topics | self.routes.topics):
            try:
                await self.routes.refresh(topic)
            except NameServerError:
                # Reported by who asked; the other topics would get the same answer.
                return
            except MQError as error:
                _log.warning("the route of %s was not refreshed: %s", topic, error.message)

    def _on_route(self, topic: str, route: TopicRoute) -> None:
        for part in self.pushed.parts:
            if topic in part.topics():
                try:
                    part.on_route(topic, route)
                except Exception:
                    _log.exception("group %s: a changed route of %s", part.group, topic)
        # A broker that is new must know our groups before it can ask us anything.
        if self._process_id and not self._is_closed and self._recipients() - self._registered_at:
            self._duties.once("heartbeat", self.heartbeat)

    def address_of(self, broker_name: str, broker_id: int = MASTER_ID) -> str | None:
        """Returns a broker's address by name and id; None where no route has it."""
        return self.routes.address_of(broker_name, broker_id)

    def broker_of(self, queue: MessageQueue) -> str:
        """Returns the name of the broker that a queue is at; of a static topic, of its leader."""
        return self.routes.broker_of(queue)

    def any_address_of(self, broker_name: str, broker_id: int = MASTER_ID) -> str | None:
        """Returns the address of a broker id, or of another broker of that name."""
        return self.routes.any_address_of(broker_name, broker_id)

    # Calls.

    async def call(
        self,
        address: str,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_s: float | None = None,
    ) -> Command:
        """Sends a request to a broker and returns its answer, whatever its code.

        Raises:
            RemotingError: There was no answer; its classes give the reason.
        """
        return await self.remote.call(
            address,
            code,
            ext,
            body,
            timeout_s=self.call_timeout_s if timeout_s is None else timeout_s,
        )

    async def oneway(
        self,
        address: str,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> None:
        """Sends a request that has no answer.

        Raises:
            RemotingError: There is no connection, or no space on it.
        """
        await self.remote.oneway(address, code, ext, body, timeout_s=self.call_timeout_s)

    # Heartbeats.

    async def heartbeat(self) -> None:
        """Sends a heartbeat to every broker of the routes in use; failures are logged."""
        data = HeartbeatData(
            client_id=self.client_id,
            producer_groups=tuple(part.group for part in self.pushed.producers),
            consumers=tuple(
                data for part in self.pushed.consumers if (data := part.consumer_data()) is not None
            ),
        )
        if not data.producer_groups and not data.consumers:
            return
        body = data.encode()
        calls: list[Awaitable[None]] = [
            self._heartbeat_to(address, body) for address in sorted(self._recipients())
        ]
        await asyncio.gather(*calls)

    async def until_known(self, broker_names: Iterable[str]) -> None:
        """Returns when the masters of these names know our groups, or did not answer."""
        addresses = {self.address_of(name) for name in broker_names}
        if addresses - {None} - self._registered_at:
            await self.heartbeat()

    async def need_timers(self, topic: str, broker_names: Iterable[str]) -> None:
        """Checks that brokers deliver timed messages in time; older ones do at once, in silence.

        Raises:
            UnsupportedError: One is older than 5.0.
        """
        names = set(broker_names)
        await self.until_known(names)
        for name in sorted(names):
            address = self.address_of(name)
            version = self.broker_versions.get(address or "", _TIMERS_SINCE)
            has_timers = version >= _TIMERS_SINCE or address in self._with_timers
            if address is not None and not has_timers:
                raise UnsupportedError(
                    f"topic {topic}: broker {name} at {address} reports that it is "
                    f"{version_name(version)}, which delivers timed messages at once: use "
                    "delay_level, or a broker of 5.0 and later",
                    address=address,
                )

    async def _heartbeat_to(self, address: str, body: bytes) -> None:
        try:
            answer = await self.call(
                address, RequestCode.HEART_BEAT, {}, body, timeout_s=HEARTBEAT_TIMEOUT_S
            )
        except RemotingError as error:
            self._registered_at.discard(address)
            # Reported once, until one is heard.
            level = logging.DEBUG if address in self._unheard_at else logging.WARNING
            self._unheard_at.add(address)
            _log.log(level, "broker %s did not hear our heartbeat: %s", address, error.message)
            return
        self._unheard_at.discard(address)
        if answer.code != 0:
            _log.warning(
                "broker %s refused our heartbeat: %d %s", address, answer.code, answer.remark
            )
            return
        self._registered_at.add(address)
        self.broker_versions[address] = answer.version
        if answer.ext.get(TIMERS_FIELD) == "true":
            self._with_timers.add(address)
        if answer.ext.get(HALF_BATCHES_FIELD) == "true":
            self.with_half_batches.add(address)

    def _recipients(self) -> set[str]:
        """Returns who must know us: masters; slaves too where there are consumers."""
        has_consumers = bool(self.pushed.consumers)
        return {
            address
            for broker in self.routes.brokers()
            for broker_id, address in broker.by_id
            if has_consumers or broker_id == MASTER_ID
        }

    def soon(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Does work soon; asked again under the same name before it began, once."""
        self._duties.once(name, work)

    def spawn(self, name: str, work: Awaitable[None]) -> None:
        """Runs work beside everything else; it ends with the instance, and its failure is logged.

        Args:
            name: What it is, for the log.
            work: A coroutine.
        """
        self._duties.spawn(name, work)
