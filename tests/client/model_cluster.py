"""Brokers as a consumer sees them, made of dictionaries: for tests in virtual time.

What they answer follows the official broker: held pulls, members, order locks, messages given
back, offsets that a crash takes back to the last snapshot. Knows no socket.
"""

import asyncio
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from client.virtual_loop import virtual_loop
from mqcore.client.instance import Instance
from mqcore.client.parts import Part
from mqcore.client.routes import BrokerAddresses, QueueCounts, TopicRoute
from mqcore.errors import CallTimeoutError, ConnectError, ConnectionLostError, NoRouteError
from mqcore.model.queues import MessageQueue
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.native import Command
from mqcore.remoting import RequestCode, ResponseCode

LOCK_LIFE_S = 60.0
LATENCY_S = 0.002
LEVELS_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


def record_of(
    topic: str,
    queue_id: int,
    offset: int,
    body: bytes,
    *,
    physical_offset: int = 0,
    reconsume_times: int = 0,
    properties: Mapping[str, str] | None = None,
) -> bytes:
    """Returns a stored record of the first version."""
    text = "".join(f"{k}\x01{v}\x02" for k, v in (properties or {}).items()).encode()
    name = topic.encode()
    host = struct.pack(">4sI", bytes([127, 0, 0, 1]), 1)
    rest = struct.pack(
        ">IIiIqqIq8sq8sIq",
        0xDAA320A7,
        zlib.crc32(body) & 0x7FFFFFFF,
        queue_id,
        0,
        offset,
        physical_offset,
        0,
        0,
        host,
        0,
        host,
        reconsume_times,
        0,
    )
    rest += struct.pack(">I", len(body)) + body
    rest += struct.pack(">B", len(name)) + name + struct.pack(">H", len(text)) + text
    return struct.pack(">I", len(rest) + 4) + rest


@dataclass(slots=True)
class Stored:
    """A message at a broker."""

    body: bytes
    reconsume_times: int
    properties: dict[str, str]
    physical_offset: int


@dataclass(slots=True)
class ModelBroker:
    """One broker, by name; its address is its name."""

    name: str
    queues: dict[tuple[str, int], list[Stored]] = field(default_factory=dict)
    log: list[tuple[str, int, Stored]] = field(default_factory=list)
    offsets: dict[tuple[str, MessageQueue], int] = field(default_factory=dict)
    snapshot: dict[tuple[str, MessageQueue], int] = field(default_factory=dict)
    members: dict[str, dict[str, "ModelInstance"]] = field(default_factory=dict)
    locks: dict[tuple[str, MessageQueue], tuple[str, float]] = field(default_factory=dict)
    arrivals: list[asyncio.Future[None]] = field(default_factory=list)
    is_up: bool = True

    def append(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        *,
        reconsume_times: int = 0,
        properties: dict[str, str] | None = None,
    ) -> int:
        """Stores a message; returns its queue offset."""
        queue = self.queues.setdefault((topic, queue_id), [])
        stored = Stored(body, reconsume_times, properties or {}, len(self.log))
        self.log.append((topic, queue_id, stored))
        queue.append(stored)
        arrivals, self.arrivals = self.arrivals, []
        for arrival in arrivals:
            if not arrival.done():
                arrival.set_result(None)
        return len(queue) - 1

    def crash(self) -> None:
        """Stops; members and locks are forgotten, offsets fall back to the snapshot."""
        self.is_up = False
        self.members.clear()
        self.locks.clear()
        self.offsets = dict(self.snapshot)

    def forget(self, client_id: str) -> None:
        """Hears that a client's connection ended; its locks live on."""
        for group, members in list(self.members.items()):
            if members.pop(client_id, None) is not None:
                self.notify(group)

    def notify(self, group: str) -> None:
        """Notifies every member that the members changed."""
        for member in list(self.members.get(group, {}).values()):
            member.ids_changed(group)


class ModelCluster:
    """Brokers that share topics.

    Attributes:
        brokers: By name.
        queues_of: How many queues each broker has of a topic.
        loss: How probable it is that an answer is lost, after the request was done.
    """

    def __init__(self, names: tuple[str, ...], random: Random, *, loss: float = 0.0) -> None:
        self.brokers = {name: ModelBroker(name) for name in names}
        self.queues_of: dict[str, int] = {}
        self.random = random
        self.loss = loss

    def route(self, topic: str) -> TopicRoute | None:
        count = self.queues_of.get(topic)
        if count is None:
            return None
        return TopicRoute(
            topic,
            tuple(BrokerAddresses(name, "c", ((0, name),)) for name in sorted(self.brokers)),
            tuple(QueueCounts(name, count, count, 6) for name in sorted(self.brokers)),
        )


class ModelInstance:
    """One client process: what `Instance` is to a consumer, on the model."""

    def __init__(self, cluster: ModelCluster, client_id: str) -> None:
        self.cluster = cluster
        self.client_id = client_id
        self.is_dead = False
        self.parts: dict[str, Part] = {}
        self.name_servers = SimpleNamespace(addresses=("ns:1",))
        self.calls_made: list[int] = []

    def as_instance(self) -> Instance:
        return cast(Instance, self)

    # Life.

    async def start(self, *, timeout_s: float | None = None) -> None:
        del timeout_s

    async def close(self) -> None:
        for broker in self.cluster.brokers.values():
            broker.forget(self.client_id)

    def kill(self) -> None:
        """Ends the process without a word."""
        self.is_dead = True
        for broker in self.cluster.brokers.values():
            broker.forget(self.client_id)

    def register(self, part: Part) -> None:
        self.parts[part.group] = part

    async def unregister(self, part: Part) -> None:
        self.parts.pop(part.group, None)
        for broker in self.cluster.brokers.values():
            members = broker.members.get(part.group, {})
            if not self.is_dead and self.client_id in members:
                del members[self.client_id]
                broker.notify(part.group)

    def ids_changed(self, group: str) -> None:
        part = self.parts.get(group)
        if part is not None and not self.is_dead:
            handler = part.handlers[RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]
            virtual_loop().call_soon(handler, cast(Any, None))

    def full_name(self, name: str) -> str:
        return name

    def short_name(self, name: str) -> str:
        return name

    # Routes.

    async def route(self, topic: str, *, has_template: bool = False) -> TopicRoute:
        del has_template
        found = self.cluster.route(topic)
        if found is None:
            raise NoRouteError(f"no route for topic {topic}", topic=topic)
        return found

    def known_route(self, topic: str) -> TopicRoute | None:
        return self.cluster.route(topic)

    async def refresh_route(self, topic: str) -> TopicRoute | None:
        return self.cluster.route(topic)

    def address_of(self, broker_name: str, broker_id: int = 0) -> str | None:
        return broker_name if broker_id == 0 else None

    def broker_of(self, queue: MessageQueue) -> str:
        return queue.broker_name

    def any_address_of(self, broker_name: str, broker_id: int = 0) -> str | None:
        del broker_id
        return broker_name

    # Calls.

    async def heartbeat(self) -> None:
        for broker in self.cluster.brokers.values():
            await asyncio.sleep(LATENCY_S)
            if self.is_dead or not broker.is_up:
                continue
            for group in self.parts:
                self.cluster.queues_of.setdefault(f"%RETRY%{group}", 1)
                members = broker.members.setdefault(group, {})
                if self.client_id not in members:
                    members[self.client_id] = self
                    broker.notify(group)

    async def oneway(
        self, address: str, code: int, ext: Mapping[str, str] | None = None, body: bytes = b""
    ) -> None:
        await self.call(address, code, ext, body)

    async def call(
        self,
        address: str,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_s: float | None = None,
    ) -> Command:
        del timeout_s
        self.calls_made.append(code)
        broker = self.cluster.brokers[address]
        self._check(broker, is_new=True)
        await asyncio.sleep(LATENCY_S)
        self._check(broker)
        handler = _HANDLERS[code]
        answer = await handler(self, broker, dict(ext or {}), body)
        await asyncio.sleep(LATENCY_S)
        self._check(broker)
        if self.cluster.loss and self.cluster.random.random() < self.cluster.loss:
            await asyncio.sleep(3.0)
            raise CallTimeoutError(f"{address}: no answer", address=address, code=code)
        return answer

    def _check(self, broker: ModelBroker, *, is_new: bool = False) -> None:
        if self.is_dead or not broker.is_up:
            kind = ConnectError if is_new else ConnectionLostError
            raise kind(f"{broker.name}: no connection", address=broker.name)

    # What brokers do.

    async def pull(self, broker: ModelBroker, ext: dict[str, str], body: bytes) -> Command:
        del body
        group, topic = ext["consumerGroup"], ext["topic"]
        queue_id, asked = int(ext["queueId"]), int(ext["queueOffset"])
        if self.client_id not in broker.members.get(group, {}):
            return Command(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark="who are you")
        flags = int(ext["sysFlag"])
        if flags & 1:
            queue = MessageQueue(topic, broker.name, queue_id)
            broker.offsets[group, queue] = int(ext["commitOffset"])
        stored = broker.queues.setdefault((topic, queue_id), [])
        if asked == len(stored) and flags & 2:
            await self._hold(broker, stored, asked, int(ext["suspendTimeoutMillis"]) / 1000)
        if asked > len(stored):
            return Command(ResponseCode.PULL_OFFSET_MOVED, ext=_bounds(len(stored), len(stored)))
        part = stored[asked : asked + int(ext["maxMsgNums"])]
        if not part:
            return Command(ResponseCode.PULL_NOT_FOUND, ext=_bounds(asked, len(stored)))
        records = b"".join(
            record_of(
                topic,
                queue_id,
                asked + index,
                item.body,
                physical_offset=item.physical_offset,
                reconsume_times=item.reconsume_times,
                properties=item.properties,
            )
            for index, item in enumerate(part)
        )
        return Command(0, ext=_bounds(asked + len(part), len(stored)), body=records)

    async def _hold(
        self, broker: ModelBroker, stored: list[Stored], asked: int, hold_s: float
    ) -> None:
        ends_s = virtual_loop().time() + hold_s
        while len(stored) == asked and (left_s := ends_s - virtual_loop().time()) > 0:
            arrival = virtual_loop().create_future()
            broker.arrivals.append(arrival)
            await asyncio.wait([arrival], timeout=min(left_s, 1.0))
            self._check(broker)

    async def query_offset(self, broker: ModelBroker, ext: dict[str, str], body: bytes) -> Command:
        del body
        offset = broker.offsets.get((ext["consumerGroup"], _queue(broker, ext)))
        if offset is None:
            return Command(ResponseCode.QUERY_NOT_FOUND)
        return Command(0, ext={"offset": str(offset)})

    async def update_offset(self, broker: ModelBroker, ext: dict[str, str], body: bytes) -> Command:
        del body
        broker.offsets[ext["consumerGroup"], _queue(broker, ext)] = int(ext["commitOffset"])
        return Command(0)

    async def max_offset(self, broker: ModelBroker, ext: dict[str, str], body: bytes) -> Command:
        del body
        stored = broker.queues.get((ext["topic"], int(ext["queueId"])), [])
        return Command(0, ext={"offset": str(len(stored))})

    async def consumer_ids(self, broker: ModelBroker, ext: dict[str, str], body: bytes) -> Command:
        del body
        members = list(broker.members.get(ext["consumerGroup"], {}))
        if not members:
            return Command(ResponseCode.SYSTEM_ERROR, remark="no consumer for this group")
        self.cluster.random.shuffle(members)
        return Command(0, body=compact({"consumerIdList": members}))

    async def lock(self, broker: ModelBroker, ext: dict[str, str], body: bytes) -> Command:
        del ext
        found = parse_object(body)
        group, now_s = found["consumerGroup"], virtual_loop().time()
        ours = []
        for item in found["mqSet"]:
            queue = MessageQueue.of_json(item)
            assert queue is not None
            owner, taken_s = broker.locks.get((group, queue), ("", 0.0))
            if owner in ("", found["clientId"]) or now_s - taken_s > LOCK_LIFE_S:
                broker.locks[group, queue] = found["clientId"], now_s
                ours.append(item)
        return Command(0, body=compact({"lockOKMQSet": ours}))

    async def unlock(self, broker: ModelBroker, ext: dict[str, str], body: bytes) -> Command:
        del ext
        found = parse_object(body)
        for item in found["mqSet"]:
            queue = MessageQueue.of_json(item)
            assert queue is not None
            key = found["consumerGroup"], queue
            if broker.locks.get(key, ("", 0.0))[0] == found["clientId"]:
                del broker.locks[key]
        return Command(0)

    async def send_back(self, broker: ModelBroker, ext: dict[str, str], body: bytes) -> Command:
        del body
        group, level = ext["group"], int(ext["delayLevel"])
        topic, _, stored = broker.log[int(ext["offset"])]
        if level < 0 or stored.reconsume_times >= int(ext["maxReconsumeTimes"]):
            broker.append(f"%DLQ%{group}", 0, stored.body)
            return Command(0)
        delay_s = LEVELS_S[min(level or 3 + stored.reconsume_times, 18) - 1]
        properties = {"RETRY_TOPIC": topic} | stored.properties
        times = stored.reconsume_times + 1

        def deliver() -> None:
            broker.append(
                f"%RETRY%{group}", 0, stored.body, reconsume_times=times, properties=properties
            )

        virtual_loop().call_later(delay_s, deliver)
        return Command(0)

    async def send_copy(self, broker: ModelBroker, ext: dict[str, str], body: bytes) -> Command:
        pairs = (pair.split("\x01") for pair in ext["i"].split("\x02") if pair)
        properties = {pair[0]: pair[1] for pair in pairs}
        delay_s = LEVELS_S[min(int(properties["DELAY"]), 18) - 1]
        times = int(ext["j"])
        if times > int(ext["l"]):
            broker.append(ext["b"].replace("%RETRY%", "%DLQ%"), 0, body)
            return Command(0)

        def deliver() -> None:
            broker.append(ext["b"], 0, body, reconsume_times=times, properties=properties)

        virtual_loop().call_later(delay_s, deliver)
        return Command(0)


_Handler = Callable[[ModelInstance, ModelBroker, dict[str, str], bytes], Awaitable[Command]]
_HANDLERS: dict[int, _Handler] = {
    RequestCode.PULL_MESSAGE: ModelInstance.pull,
    RequestCode.QUERY_CONSUMER_OFFSET: ModelInstance.query_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: ModelInstance.update_offset,
    RequestCode.GET_MAX_OFFSET: ModelInstance.max_offset,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: ModelInstance.consumer_ids,
    RequestCode.LOCK_BATCH_MQ: ModelInstance.lock,
    RequestCode.UNLOCK_BATCH_MQ: ModelInstance.unlock,
    RequestCode.CONSUMER_SEND_MSG_BACK: ModelInstance.send_back,
    RequestCode.SEND_MESSAGE_V2: ModelInstance.send_copy,
}


def _queue(broker: ModelBroker, ext: Mapping[str, str]) -> MessageQueue:
    return MessageQueue(ext["topic"], broker.name, int(ext["queueId"]))


def _bounds(next_offset: int, max_offset: int) -> dict[str, str]:
    return {
        "nextBeginOffset": str(next_offset),
        "minOffset": "0",
        "maxOffset": str(max_offset),
        "suggestWhichBrokerId": "0",
    }
