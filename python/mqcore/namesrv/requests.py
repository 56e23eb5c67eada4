"""Serves every request of a name server: what is asked, from the tables, as the official one does.

Knows the tables and no socket: the connection of a request is only a name for who registered.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable
from pathlib import Path

from mqcore.config import AccessSettings, NamesrvSettings
from mqcore.config.amending import SettingsFile, amended, properties_text
from mqcore.errors import MQError, RefusedError
from mqcore.namesrv import answers, bodies
from mqcore.namesrv.kv import ORDER_NAMESPACE, read_kv
from mqcore.namesrv.routes import RouteLimits, RouteTable
from mqcore.namesrv.shapes import MasterAddresses, MinIdChange, Registration
from mqcore.native import Command
from mqcore.remoting import (
    AnsweredBy,
    Dispatcher,
    Request,
    RequestCode,
    ResponseCode,
    check_handlers,
    finished,
    in_slices,
)

__all__ = ["Requests"]

_log = logging.getLogger(__name__)

# Below it (3.0.11) a broker registers with a bare table of topics.
_VERSION_OF_BODIES = 37
# The official black list, which the configuration may make longer and not shorter.
_BLACK_LIST = frozenset({"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"})
# Whose keys a tool is shown.
_TABLES = ("namesrv", "server")
_UNIT = 1
_UNIT_SUBSCRIPTION = 2
# A longer body is read beside the loop: a megabyte takes some 30 ms.
_BODY_BYTES_AT_ONCE = 64 << 10
# With more topics a change of brokers is made in slices: these take a millisecond.
_TOPICS_AT_ONCE = 2_000
# Names in a remark: enough to see that one asks the wrong name server.
_NAMES_SHOWN = 3


class Requests:
    """The handlers, and what they work on.

    Attributes:
        settings: As they are now; a request may change some.
    """

    def __init__(
        self,
        settings: NamesrvSettings,
        *,
        clock: Callable[[], int],
        changed: Callable[[list[MinIdChange]], None] = lambda _changes: None,
        apply_access: Callable[[AccessSettings, str], None] = lambda _settings, _user: None,
        config_path: Path | None = None,
    ) -> None:
        """Takes what is worked on.

        Args:
            settings: The settings at the start.
            clock: Returns milliseconds that never step back.
            changed: Gets the groups whose smallest broker id is another one.
            apply_access: Takes other settings of access control from a user, or refuses them.
            config_path: The properties file that keeps changes by tools.
        """
        self.settings = settings
        self._apply_access = apply_access
        self._file = SettingsFile(config_path)
        self._clock = clock
        self._changed = changed
        self._encoded: dict[str, bytes] = {}
        self.table = RouteTable(self._forget_route, limits_of_routes(settings))
        # Held by who changes brokers and their topics in slices: one at a time, in order.
        self._changes = asyncio.Lock()
        self.table.deletes_missing_topics = settings.registration_deletes_topics
        self.kv, self._kv_file = read_kv(settings.kv_config_path)
        self._began_ms = clock()

    def dispatcher(self) -> Dispatcher:
        """Returns the table of handlers.

        Raises:
            RuntimeError: It differs from the table of request codes.
        """
        code = RequestCode
        dispatcher = Dispatcher(
            {
                code.REGISTER_BROKER: self.register,
                code.UNREGISTER_BROKER: self.unregister,
                code.QUERY_DATA_VERSION: self.query_data_version,
                code.BROKER_HEARTBEAT: self.heartbeat,
                code.GET_ROUTEINFO_BY_TOPIC: self.route,
                code.GET_BROKER_CLUSTER_INFO: self.cluster,
                code.GET_BROKER_MEMBER_GROUP: self.member_group,
                code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.all_topics,
                code.GET_TOPICS_BY_CLUSTER: self.topics_of_cluster,
                code.GET_SYSTEM_TOPIC_LIST_FROM_NS: self.system_topics,
                code.GET_UNIT_TOPIC_LIST: self.unit_topics,
                code.GET_HAS_UNIT_SUB_TOPIC_LIST: self.unit_topics,
                code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self.unit_topics,
                code.WIPE_WRITE_PERM_OF_BROKER: self.wipe_write_perm,
                code.ADD_WRITE_PERM_OF_BROKER: self.add_write_perm,
                code.DELETE_TOPIC_IN_NAMESRV: self.delete_topic,
                code.REGISTER_TOPIC_IN_NAMESRV: self.register_topic,
                code.PUT_KV_CONFIG: self.put_kv,
                code.GET_KV_CONFIG: self.kv_value,
                code.DELETE_KV_CONFIG: self.delete_kv,
                code.GET_KVLIST_BY_NAMESPACE: self.kv_namespace,
                code.UPDATE_NAMESRV_CONFIG: self.update_config,
                code.GET_NAMESRV_CONFIG: self.config,
            }
        )
        check_handlers(AnsweredBy.NAMESRV, dispatcher.codes)
        return dispatcher

    # Brokers.

    def register(self, request: Request) -> Command | Awaitable[Command]:
        """REGISTER_BROKER: a broker is here, with these topics."""
        crc = request.integer("bodyCrc32", 0)
        if crc and crc != bodies.crc_of(request.body):
            raise RefusedError("crc32 not match", code=ResponseCode.SYSTEM_ERROR)
        if len(request.body) > _BODY_BYTES_AT_ONCE or self._is_large:
            return self._register_large(request)
        registration = _registration_of(request, _table_of(request))
        return self._registered(request, finished(self._registering(request, registration)))

    @property
    def _is_large(self) -> bool:
        """Whether a change of brokers takes slices, or has to wait for one that does."""
        return self._changes.locked() or len(self.table.topics) > _TOPICS_AT_ONCE

    async def _register_large(self, request: Request) -> Command:
        length = len(request.body)
        if length > _BODY_BYTES_AT_ONCE:
            table = await asyncio.to_thread(_table_of, request)
        else:
            table = _table_of(request)
        registration = _registration_of(request, table)
        async with self._changes:
            done = await in_slices(self._registering(request, registration))
        return self._registered(request, done)

    def _registering(
        self, request: Request, registration: Registration
    ) -> Generator[None, None, tuple[MasterAddresses, list[MinIdChange]]]:
        """Enters a broker in steps; one whose connection is lost meanwhile is taken out again."""
        is_new = self.table.data_version(registration.cluster, registration.address) is None
        master, changes = yield from self.table.registering(
            registration, request.link, self._clock()
        )
        if is_new:
            _log.info(
                "broker %s (%s, id %d, cluster %s) registered with %d topics",
                registration.name,
                registration.address,
                registration.broker_id,
                registration.cluster,
                len(registration.topics),
            )
        if request.link.is_lost:
            # It went while its body was read: nobody would notice any more that it is gone.
            changes += yield from self.table.closing(request.link)
        return master, changes

    def closed(self, channel: Hashable) -> Coroutine[None, None, None] | None:
        """Forgets the brokers that registered by a connection that is gone.

        Returns:
            What is left to do, None for nothing.
        """
        return self._forget(self.table.closing(channel))

    def expire(self) -> tuple[list[Hashable], Coroutine[None, None, None] | None]:
        """Forgets brokers not heard of for too long.

        Returns:
            Their connections, to be closed; and what is left to do, None for nothing.
        """
        channels, steps = self.table.expiring(self._clock())
        return channels, self._forget(steps)

    def _forget(
        self, steps: Generator[None, None, list[MinIdChange]]
    ) -> Coroutine[None, None, None] | None:
        if self._is_large:
            return self._forget_in_slices(steps)
        self._changed(finished(steps))
        return None

    async def _forget_in_slices(self, steps: Generator[None, None, list[MinIdChange]]) -> None:
        async with self._changes:
            self._changed(await in_slices(steps))

    def _registered(
        self, request: Request, done: tuple[MasterAddresses, list[MinIdChange]]
    ) -> Command:
        master, changes = done
        self._changed(changes)
        ext = {}
        if master.address:
            ext = {"haServerAddr": master.ha_address, "masterAddr": master.address}
        body = b""
        if self.settings.gives_order_conf_to_brokers:
            order = self.kv.namespace(ORDER_NAMESPACE)
            body = answers.kv_body(order) if order is not None else b""
        return request.answer(ext=ext, body=body)

    def unregister(self, request: Request) -> Command | Awaitable[Command]:
        """UNREGISTER_BROKER: a broker leaves."""
        name, address = request.field("brokerName"), request.field("brokerAddr")
        steps = self.table.unregistering(
            request.field("clusterName"), name, address, request.integer("brokerId")
        )
        _log.info("broker %s (%s) left", name, address)
        work = self._forget(steps)
        return request.answer() if work is None else self._answered(request, work)

    async def _answered(self, request: Request, work: Coroutine[None, None, None]) -> Command:
        await work
        return request.answer()

    def query_data_version(self, request: Request) -> Command:
        """QUERY_DATA_VERSION: is what you know of my topics still right?"""
        cluster, address = request.field("clusterName"), request.field("brokerAddr")
        reported = bodies.read_data_version(request.body)
        self.table.heard_of(cluster, address, self._clock())
        known = self.table.data_version(cluster, address)
        return request.answer(
            ext={"changed": "false" if known == reported else "true"},
            body=answers.data_version_body(known) if known is not None else b"",
        )

    def heartbeat(self, request: Request) -> Command:
        """BROKER_HEARTBEAT: a broker is alive."""
        self.table.heard_of(
            request.field("clusterName"), request.field("brokerAddr"), self._clock()
        )
        return request.answer()

    # Routes and lists.

    def route(self, request: Request) -> Command:
        """GET_ROUTEINFO_BY_TOPIC: the request that every client sends for every topic, always."""
        if self.settings.waits_for_service:
            waited_ms = self._clock() - self._began_ms
            if waited_ms < self.settings.wait_for_service_s * 1000:
                raise RefusedError("name server not ready", code=ResponseCode.SYSTEM_ERROR)
        topic = request.field("topic")
        zone = request.ext.get("__ZONE_NAME", "").strip()
        if zone and request.flag("__ZONE_MODE"):
            view = self._view(topic)
            if view is not None:
                return request.answer(body=answers.route_body(view.in_zone(zone)))
        body = self._encoded.get(topic)
        if body is None:
            view = self._view(topic)
            if view is None:
                raise RefusedError(self._no_route(topic), code=ResponseCode.TOPIC_NOT_EXIST)
            body = self._encoded[topic] = answers.route_body(view)
        return request.answer(body=body)

    def cluster(self, request: Request) -> Command:
        """GET_BROKER_CLUSTER_INFO: all brokers."""
        return request.answer(body=answers.cluster_body(self.table))

    def member_group(self, request: Request) -> Command:
        """GET_BROKER_MEMBER_GROUP: the brokers of one name."""
        cluster, name = request.field("clusterName"), request.field("brokerName")
        return request.answer(body=answers.member_group_body(self.table, cluster, name))

    def all_topics(self, request: Request) -> Command:
        """GET_ALL_TOPIC_LIST_FROM_NAMESERVER."""
        if not self.settings.lists_all_topics:
            raise RefusedError("disable", code=ResponseCode.SYSTEM_ERROR)
        return request.answer(body=answers.topic_list_body(self.table.topics))

    def topics_of_cluster(self, request: Request) -> Command:
        """GET_TOPICS_BY_CLUSTER: what has queues on a broker of that cluster."""
        self._need_lists()
        names = self.table.clusters.get(request.field("cluster"), set())
        found = [t for t, queues in self.table.topics.items() if not names.isdisjoint(queues)]
        return request.answer(body=answers.topic_list_body(found))

    def system_topics(self, request: Request) -> Command:
        """GET_SYSTEM_TOPIC_LIST_FROM_NS: names of clusters and brokers, and whom to ask next."""
        names = [
            name
            for cluster, brokers in self.table.clusters.items()
            for name in (cluster, *sorted(brokers))
        ]
        address = next(
            (
                address
                for group in self.table.groups.values()
                for address in group.addresses.values()
            ),
            None,
        )
        return request.answer(body=answers.topic_list_body(names, broker_address=address))

    def unit_topics(self, request: Request) -> Command:
        """The three lists of unit topics."""
        self._need_lists()
        wanted = request.code

        def is_wanted(flags: int) -> bool:
            has_subscription = bool(flags & _UNIT_SUBSCRIPTION)
            if wanted == RequestCode.GET_UNIT_TOPIC_LIST:
                return bool(flags & _UNIT)
            if wanted == RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST:
                return has_subscription
            return has_subscription and not flags & _UNIT

        found = [
            topic
            for topic, queues in self.table.topics.items()
            if is_wanted(next(iter(queues.values())).sys_flag)
        ]
        return request.answer(body=answers.topic_list_body(found))

    # What an administrator changes.

    def wipe_write_perm(self, request: Request) -> Command:
        """WIPE_WRITE_PERM_OF_BROKER: no more messages to this broker, for a while."""
        name = request.field("brokerName")
        count = self.table.wipe_write_perm(name)
        _log.info("%s: no writing to %d topics of %s", request.link.peer, count, name)
        return request.answer(ext={"wipeTopicCount": str(count)})

    def add_write_perm(self, request: Request) -> Command:
        """ADD_WRITE_PERM_OF_BROKER: the way back."""
        name = request.field("brokerName")
        count = self.table.add_write_perm(name)
        _log.info("%s: %d topics of %s may be written", request.link.peer, count, name)
        return request.answer(ext={"addTopicCount": str(count)})

    def delete_topic(self, request: Request) -> Command:
        """DELETE_TOPIC_IN_NAMESRV."""
        topic = request.field("topic")
        self.table.delete_topic(topic, request.ext.get("clusterName") or None)
        _log.info("%s: topic %s deleted", request.link.peer, topic)
        return request.answer()

    def register_topic(self, request: Request) -> Command:
        """REGISTER_TOPIC_IN_NAMESRV."""
        self.table.add_topic(request.field("topic"), bodies.read_queue_datas(request.body))
        return request.answer()

    async def update_config(self, request: Request) -> Command:
        """UPDATE_NAMESRV_CONFIG: all or none; the remark names those of the next start."""
        has_file = self._file.path is not None
        change = amended(self.settings, request.body, _BLACK_LIST, "name server", has_file=has_file)
        if change.settings.access != self.settings.access:
            self._apply_access(change.settings.access, request.user)
        self.settings = change.settings
        self.table.deletes_missing_topics = self.settings.registration_deletes_topics
        self.table.limits = limits_of_routes(self.settings)
        # Some of them decide what is in a route.
        self._encoded.clear()
        _log.info("%s: configuration changed: %s", request.link.peer, dict(change.made))
        await self._file.keep(change.made)
        return request.answer(remark=change.remark)

    def config(self, request: Request) -> Command:
        """GET_NAMESRV_CONFIG."""
        return request.answer(body=properties_text(self.settings.configuration, _TABLES).encode())

    # The KV configuration.

    async def put_kv(self, request: Request) -> Command:
        """PUT_KV_CONFIG."""
        namespace, key = request.field("namespace"), request.field("key")
        self.kv.put(namespace, key, request.field("value"))
        _log.info("%s: KV %s %s put", request.link.peer, namespace, key)
        await self._keep(namespace, key)
        return request.answer()

    def kv_value(self, request: Request) -> Command:
        """GET_KV_CONFIG."""
        namespace, key = request.field("namespace"), request.field("key")
        value = self.kv.value(namespace, key)
        if value is None:
            raise RefusedError(
                f"No config item, Namespace: {namespace} Key: {key}",
                code=ResponseCode.QUERY_NOT_FOUND,
            )
        return request.answer(ext={"value": value})

    async def delete_kv(self, request: Request) -> Command:
        """DELETE_KV_CONFIG: also of what is not there."""
        namespace, key = request.field("namespace"), request.field("key")
        if self.kv.delete(namespace, key):
            _log.info("%s: KV %s %s deleted", request.link.peer, namespace, key)
            await self._keep(namespace, key)
        return request.answer()

    def kv_namespace(self, request: Request) -> Command:
        """GET_KVLIST_BY_NAMESPACE."""
        namespace = request.field("namespace")
        entries = self.kv.namespace(namespace)
        if entries is None:
            raise RefusedError(
                f"No config item, Namespace: {namespace}", code=ResponseCode.QUERY_NOT_FOUND
            )
        return request.answer(body=answers.kv_body(entries))

    async def _keep(self, namespace: str, key: str) -> None:
        """Writes the table as it is now; a failure is returned to who asked, the change stays."""
        if namespace == ORDER_NAMESPACE:
            self._forget_route(key)
        try:
            await self._kv_file.save()
        except MQError as error:
            _log.exception("the KV configuration could not be written")
            raise RefusedError(
                f"changed, but not kept over a restart: {error}", code=ResponseCode.SYSTEM_ERROR
            ) from error

    # Below.

    def _view(self, topic: str) -> answers.RouteView | None:
        order = None
        if self.settings.gives_order_conf:
            order = self.kv.value(ORDER_NAMESPACE, topic)
        return answers.route_of(
            self.table,
            topic,
            order_conf=order,
            has_acting_master=self.settings.has_acting_master,
        )

    def _no_route(self, topic: str) -> str:
        brokers = list(self.table.groups)
        some = ", ".join(brokers[:_NAMES_SHOWN])
        more = ", ..." if len(brokers) > _NAMES_SHOWN else ""
        here = f"brokers here: {some}{more}" if brokers else "no broker has registered here"
        return f"No topic route info in name server for the topic: {topic} ({here})"

    def _need_lists(self) -> None:
        if not self.settings.lists_topics:
            raise RefusedError("disable", code=ResponseCode.SYSTEM_ERROR)

    def _forget_route(self, topic: str) -> None:
        self._encoded.pop(topic, None)


def limits_of_routes(settings: NamesrvSettings) -> RouteLimits:
    """Returns how much brokers may bring."""
    return RouteLimits(
        topics=settings.topics_max,
        topics_per_registration=settings.topics_per_registration_max,
        brokers=settings.brokers_max,
    )


def _registration_of(request: Request, table: bodies.Table) -> Registration:
    """Returns the registration of a broker, with its topics."""
    version, topics = table
    acting = request.flag("enableActingMaster") if "enableActingMaster" in request.ext else None
    timeout_ms = request.integer("heartbeatTimeoutMillis", -1)
    return Registration(
        cluster=request.field("clusterName"),
        name=request.field("brokerName"),
        address=request.field("brokerAddr"),
        broker_id=request.integer("brokerId"),
        ha_address=request.ext.get("haServerAddr", ""),
        timeout_ms=timeout_ms if timeout_ms > 0 else None,
        has_acting_master=acting,
        zone=request.ext.get("__ZONE_NAME"),
        version=version,
        topics=topics,
    )


def _table_of(request: Request) -> bodies.Table:
    """Returns the data version and topics of a registration."""
    if request.command.version < _VERSION_OF_BODIES:
        return bodies.read_wrapper(request.body)
    return bodies.read_registration(request.body, is_compressed=request.flag("compressed"))
