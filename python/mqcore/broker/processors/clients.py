"""Clients that come, stay and leave: heartbeats, membership, order locks, who is connected."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.limits import refused
from mqcore.broker.members import ClientInfo
from mqcore.broker.membership_changes import MembershipChanges
from mqcore.broker.order_locks import (
    LOCKS_PER_TURN,
    QUEUES_PER_REQUEST_MAX,
)
from mqcore.broker.state import BrokerState
from mqcore.broker.statistics import CONSUMER_REGISTER, PRODUCER_REGISTER
from mqcore.clock import monotonic_ms
from mqcore.errors import RefusedError
from mqcore.model.heartbeats import (
    HALF_BATCHES_FIELD,
    TIMERS_FIELD,
    ConsumerData,
    HeartbeatData,
)
from mqcore.model.languages import language_name
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_dict, as_list, as_text
from mqcore.model.relaxed_json import compact, compact_in_parts, parse_object
from mqcore.model.subscriptions import SubscriptionData
from mqcore.model.topics import RETRY_PREFIX, topic_fault
from mqcore.native import Command, parse_relaxed_json
from mqcore.remoting import Answer, Handler, Link, Request, RequestCode, ResponseCode, Slices

_log = logging.getLogger("mqcore.broker")

_Result = TypeVar("_Result")

# A longer heartbeat is read beside the loop: this one takes a millisecond.
_BODY_BYTES_AT_ONCE = 64 << 10
# Members that a warning names: enough to find the others.
_DIFFERENCES_SHOWN_MAX = 4


class Clients:
    """Serves the requests of clients about themselves."""

    def __init__(
        self, state: BrokerState, persistence: ConfigPersistence, membership: MembershipChanges
    ) -> None:
        """Takes what it works on."""
        self._state = state
        self._persistence = persistence
        self._membership = membership
        # Heartbeats that are being taken, each with what its client has left meanwhile.
        self._beats: dict[Link, list[set[tuple[str, str]]]] = {}

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {
            RequestCode.HEART_BEAT: self.heartbeat,
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.CHECK_CLIENT_CONFIG: self.check,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.consumer_ids,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumers,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producers,
            RequestCode.GET_ALL_PRODUCER_INFO: self.all_producers,
            RequestCode.LOCK_BATCH_MQ: self.lock,
            RequestCode.UNLOCK_BATCH_MQ: self.unlock,
        }

    async def heartbeat(self, request: Request) -> Command:
        """34: notes a client with its groups; makes what its groups need."""
        beat = await self._read(request.body)
        now_ms, slices = self._state.now_ms(), Slices()
        faults: list[RefusedError] = []
        allowed = await self._admitted(beat.consumers, now_ms, slices, faults)
        client = ClientInfo(
            link=request.link,
            client_id=beat.client_id,
            address=request.link.peer,
            language=language_name(request.command.language),
            version=request.command.version,
            seen_ms=now_ms,
        )
        if not request.link.is_open:
            # It left while its groups were being made: nobody would take it out again.
            return request.answer()
        with self._heard_out(request.link) as left:
            for name in beat.producer_groups:
                if request.link.is_open and ("producer", name) not in left:
                    with self._timed(PRODUCER_REGISTER):
                        _try(faults, self._state.members.take_producer, name, client)
                await slices.turn()
            for data in allowed:
                if request.link.is_open and ("consumer", data.group) not in left:
                    with self._timed(CONSUMER_REGISTER):
                        _try(faults, self._take, data, client)
                await slices.turn()
            await self._membership.subscriptions_filled()
        if faults:
            raise faults[0]
        has_timers = "true" if self._state.settings.has_timers else "false"
        return request.answer(ext={TIMERS_FIELD: has_timers, HALF_BATCHES_FIELD: "true"})

    async def _read(self, body: bytes) -> HeartbeatData:
        """Returns a heartbeat that is within the limits; a long one is read beside the loop.

        Raises:
            RefusedError: It is too large, or names too much.
        """
        limits = self._state.limits
        if len(body) > limits.heartbeat_bytes:
            raise self._too_much(f"a heartbeat of {len(body)} bytes", "heartbeatBytesMax")
        if len(body) <= _BODY_BYTES_AT_ONCE:
            found = parse_object(body)
            self._check_counts(found)
            return HeartbeatData.of_json(found)

        def read() -> HeartbeatData:
            found = as_dict(parse_relaxed_json(body))
            self._check_counts(found)
            return HeartbeatData.of_json(found)

        return await asyncio.to_thread(read)

    def _check_counts(self, found: Mapping[str, Any]) -> None:
        """Refuses a heartbeat that names too much, before anything is made of it."""
        limits = self._state.limits
        for name in ("producerDataSet", "consumerDataSet"):
            count = len(as_list(found.get(name)))
            if count > limits.groups_per_heartbeat:
                raise self._too_much(f"a heartbeat with {count} groups", "groupsPerHeartbeatMax")
        total = 0
        for item in as_list(found.get("consumerDataSet")):
            group = as_dict(item)
            count = len(as_list(group.get("subscriptionDataSet")))
            if count > limits.subscriptions_per_group:
                name = as_text(group.get("groupName"))
                raise self._too_much(
                    f"group {name} with {count} subscriptions", "subscriptionsPerGroupMax"
                )
            total += count
        if total > limits.subscriptions_per_heartbeat:
            raise self._too_much(
                f"a heartbeat with {total} subscriptions", "subscriptionsPerHeartbeatMax"
            )

    def _too_much(self, what: str, key: str) -> RefusedError:
        limit = self._state.settings.configuration.value(key)
        return refused(what, key, int(str(limit)))

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        """Counts how long it takes to note a member, ms."""
        began_ms = monotonic_ms()
        yield
        cluster = self._state.settings.cluster
        self._state.tallies.add(name, cluster, monotonic_ms() - began_ms)

    @contextlib.contextmanager
    def _heard_out(self, link: Link) -> Iterator[set[tuple[str, str]]]:
        """Notes what a client leaves while a heartbeat of it is being taken in slices."""
        left: set[tuple[str, str]] = set()
        beats = self._beats.setdefault(link, [])
        beats.append(left)
        try:
            yield left
        finally:
            beats.remove(left)
            if not beats:
                del self._beats[link]

    def _take(self, data: ConsumerData, client: ClientInfo) -> None:
        """Takes what a heartbeat contains of one group."""
        state = self._state
        is_changed, is_updated = state.members.take(data, client)
        is_filtered = state.filters.register(data.group, data.subscriptions, client.seen_ms)
        if is_updated or is_filtered:
            self._membership.subscriptions_changed((data.group,))
        if is_changed:
            self._membership.members_changed((data.group,))
        self._report_differences(data.group)

    def _report_differences(self, name: str) -> None:
        """Logs a group whose members have come to want different messages."""
        group = self._state.members.consumers.get(name)
        if group is None or not group.subscription_check.news():
            return
        self._state.conflicts += 1
        shown = list(group.differences().items())[:_DIFFERENCES_SHOWN_MAX]
        _log.warning(
            "group %s: its members want different messages, and each loses what only it "
            "wants: %s. Give all of them the same subscriptions, or groups of their own",
            name,
            "; ".join(f"{client} {wanted}" for client, wanted in shown),
        )

    async def _admitted(
        self,
        groups_data: Iterable[ConsumerData],
        now_ms: int,
        slices: Slices,
        faults: list[RefusedError],
    ) -> list[ConsumerData]:
        """Returns the groups that may exist; makes those that are new, and their retry topics."""
        topics, groups = self._state.topics, self._state.groups
        allowed: list[ConsumerData] = []
        new_groups, new_topics = [], []
        for data in groups_data:
            await slices.turn()
            was_there = groups.find(data.group) is not None
            group = _try(faults, groups.find_or_create, data.group, now_ms)
            if group is None:
                continue
            allowed.append(data)
            if not was_there:
                new_groups.append(data.group)
            retry = f"{RETRY_PREFIX}{data.group}"
            # A long name was legal for a group and is none for a topic: no retries then.
            is_possible = group.retry_queues > 0 and topic_fault(retry) is None
            if is_possible and topics.find(retry) is None:
                sys_flag = 1 if data.is_unit_mode else 0
                topics.create_for_group(retry, group.retry_queues, now_ms=now_ms, sys_flag=sys_flag)
                new_topics.append(retry)
        if new_groups:
            await self._persistence.groups_changed(new_groups)
        if new_topics:
            await self._persistence.topics_changed(new_topics)
        return allowed

    def unregister(self, request: Request) -> Command:
        """35: takes a client out of its groups."""
        for beat in self._beats.get(request.link, ()):
            beat.add(("producer", request.ext.get("producerGroup", "")))
            beat.add(("consumer", request.ext.get("consumerGroup", "")))
        left = self._state.members.leave(
            request.link,
            producer=request.ext.get("producerGroup"),
            consumer=request.ext.get("consumerGroup"),
        )
        self._membership.subscriptions_changed(left)
        self._membership.members_changed(left)
        return request.answer()

    def check(self, request: Request) -> Command:
        """46: whether an expression can be used here; where it cannot, what is wrong and where."""
        wanted = SubscriptionData.of_json(parse_object(request.body).get("subscriptionData"))
        if wanted is None or wanted.is_tag:
            return request.answer()
        if not self._state.settings.filters_properties:
            raise RefusedError(
                f"The broker does not support consumer to filter message by {wanted.kind}",
                code=ResponseCode.SYSTEM_ERROR,
            )
        fault = self._state.filters.fault(wanted.kind, wanted.expression)
        if fault is not None:
            raise RefusedError(fault, code=ResponseCode.SUBSCRIPTION_PARSE_FAILED)
        return request.answer()

    def consumer_ids(self, request: Request) -> Command:
        """38: the members of a group."""
        name = request.field("consumerGroup")
        group = self._state.members.consumers.get(name)
        if group is None:
            raise RefusedError(
                f"no consumer for this group, {name}", code=ResponseCode.SYSTEM_ERROR
            )
        return request.answer(body=compact({"consumerIdList": group.client_ids()}))

    async def consumers(self, request: Request) -> Command:
        """203: the members of a group with what they want."""
        name = request.field("consumerGroup")
        group = self._state.members.consumers.get(name)
        if group is None:
            raise RefusedError(
                f"the consumer group[{name}] not online", code=ResponseCode.CONSUMER_NOT_ONLINE
            )
        wanted = {topic: each.to_json() for topic, each in group.subscriptions.items()}
        body = {
            "connectionSet": [client.to_json() for client in group.clients.values()],
            "consumeFromWhere": group.data.from_where,
            "consumeType": group.data.consume_type,
            "messageModel": group.data.message_model,
            "subscriptionTable": wanted,
        }
        differences = group.differences()
        if differences:
            # Ours; official tools read past it.
            body["inconsistentSubscriptions"] = differences
        return request.answer(body=await asyncio.to_thread(compact_in_parts, body))

    def producers(self, request: Request) -> Command:
        """204: the members of a producer group."""
        name = request.field("producerGroup")
        group = self._state.members.producers.get(name)
        if group is None:
            raise RefusedError(
                f"the producer group[{name}] not exist", code=ResponseCode.SYSTEM_ERROR
            )
        body = {"connectionSet": [client.to_json() for client in group.values()]}
        return request.answer(body=compact(body))

    async def all_producers(self, request: Request) -> Command:
        """328: every producer."""
        slices, data = Slices(), {}
        for name, group in list(self._state.members.producers.items()):
            await slices.turn()
            data[name] = [
                {
                    "clientId": client.client_id,
                    "language": client.language,
                    "lastUpdateTimestamp": client.seen_ms,
                    # With its port, written as Java writes an address without a name.
                    "remoteIP": f"/{client.address}",
                    "version": client.version,
                }
                for client in group.values()
            ]
        return request.answer(body=await asyncio.to_thread(compact_in_parts, {"data": data}))

    def lock(self, request: Request) -> Answer | Awaitable[Answer]:
        """41: locks queues for a client; answers with all that it holds now."""
        return self._in_turns(request, self._lock_some)

    def unlock(self, request: Request) -> Answer | Awaitable[Answer]:
        """42: frees queues."""
        return self._in_turns(request, self._unlock_some)

    def _lock_some(self, group: str, queues: list[MessageQueue], client_id: str) -> list[Any]:
        held = self._state.locks.lock(group, queues, client_id, self._state.now_ms())
        return [queue.to_json() for queue in held]

    def _unlock_some(self, group: str, queues: list[MessageQueue], client_id: str) -> list[Any]:
        self._state.locks.unlock(group, queues, client_id)
        return []

    def _in_turns(
        self, request: Request, work: Callable[[str, list[MessageQueue], str], list[Any]]
    ) -> Answer | Awaitable[Answer]:
        """Works on the queues that a request names, as many as a turn of the loop may take."""
        group, client_id, queues = self._lock_request(request)

        def some(begin: int) -> list[Any]:
            part = queues[begin : begin + LOCKS_PER_TURN]
            named = (MessageQueue.of_json(queue) for queue in part)
            done = work(group, [queue for queue in named if queue is not None], client_id)
            self._state.fast_path.set_group_lock(group, self._state.locks.until_ms(group))
            return done

        def answer(done: list[Any]) -> Command:
            is_lock = request.code == RequestCode.LOCK_BATCH_MQ
            return request.answer(body=compact({"lockOKMQSet": done}) if is_lock else b"")

        async def many() -> Command:
            done: list[Any] = []
            for begin in range(0, len(queues), LOCKS_PER_TURN):
                done += some(begin)
                await asyncio.sleep(0)
            return answer(done)

        return many() if len(queues) > LOCKS_PER_TURN else answer(some(0))

    def _lock_request(self, request: Request) -> tuple[str, str, list[Any]]:
        found = parse_object(request.body)
        queues = as_list(found.get("mqSet"))
        if len(queues) > QUEUES_PER_REQUEST_MAX:
            raise RefusedError(
                f"{len(queues)} queues in one request, at most {QUEUES_PER_REQUEST_MAX}",
                code=self._state.invalid_code,
            )
        return as_text(found.get("consumerGroup")), as_text(found.get("clientId")), queues


def _try(
    faults: list[RefusedError], take: Callable[..., _Result], *given: object
) -> _Result | None:
    """Takes one group of a heartbeat; one that is refused does not keep the others out."""
    try:
        return take(*given)
    except RefusedError as error:
        faults.append(error)
        return None
