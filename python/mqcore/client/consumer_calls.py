"""What a consumer asks of brokers: offsets, members, order locks, messages given back.

One method per request; each has whom it asks and which codes are no errors. Knows no queue's state
and retries nothing: who calls knows what a failure means. After `MQClientAPIImpl`.
"""

import random
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from mqcore.client.properties import properties_text
from mqcore.client.routes import MASTER_ID, TopicRoute
from mqcore.errors import BadJsonError, ConnectError, ResponseError
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_int, as_list, as_text
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.model.subscriptions import SubscriptionData
from mqcore.native import Command
from mqcore.remoting import RequestCode, ResponseCode, expect

__all__ = ["Cluster", "ConsumerCalls"]

# The official deadline of a request to give a message back.
_SEND_BACK_TIMEOUT_S: Final = 5.0
# Whom brokers know as the sender of a message that a consumer sends by itself.
_INNER_PRODUCER: Final = "CLIENT_INNER_PRODUCER"


class Cluster(Protocol):
    """Brokers and routes as a consumer sees them: `mqcore.client.instance.Instance`, or a model."""

    client_id: str

    async def call(
        self,
        address: str,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_s: float | None = None,
    ) -> Command:
        """Sends a request and returns its answer, whatever its code."""
        ...

    async def oneway(
        self, address: str, code: int, ext: Mapping[str, str] | None = None, body: bytes = b""
    ) -> None:
        """Sends a request that has no answer."""
        ...

    async def route(self, topic: str, *, has_template: bool = False) -> TopicRoute:
        """Returns the route of a topic."""
        ...

    def known_route(self, topic: str) -> TopicRoute | None:
        """Returns the route that was last heard of."""
        ...

    async def refresh_route(self, topic: str) -> TopicRoute | None:
        """Asks for a topic's route now."""
        ...

    def address_of(self, broker_name: str, broker_id: int = MASTER_ID) -> str | None:
        """Returns a broker's address by name and id."""
        ...

    def broker_of(self, queue: MessageQueue) -> str:
        """Returns the name of the broker that a queue is at; of a static topic, of its leader."""
        ...

    def any_address_of(self, broker_name: str, broker_id: int = MASTER_ID) -> str | None:
        """Returns the address of a broker id, or of another broker of that name."""
        ...


class ConsumerCalls:
    """The requests of one consumer group."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        """Takes the cluster, and the group with its namespace."""
        self._cluster = cluster
        self._group = group

    # Offsets.

    async def query_offset(self, queue: MessageQueue) -> int | None:
        """Returns the group's offset in a queue; None where it has none.

        Raises:
            RemotingError: There was no answer: not the same as none.
        """
        ext = self._of(queue) | {"consumerGroup": self._group}
        code = RequestCode.QUERY_CONSUMER_OFFSET
        address = await self._address_for(queue, is_any=True)
        answer = await self._cluster.call(address, code, ext)
        expect(answer, address, ResponseCode.QUERY_NOT_FOUND)
        return None if answer.code else _offset_of(answer, address)

    async def update_offset(self, queue: MessageQueue, offset: int) -> None:
        """Sends the group's offset in a queue; returns when the broker knows it.

        Raises:
            RemotingError: It may not know it.
        """
        ext = self._of(queue) | {"consumerGroup": self._group, "commitOffset": str(offset)}
        address = await self._address_for(queue, is_any=True)
        expect(await self._cluster.call(address, RequestCode.UPDATE_CONSUMER_OFFSET, ext), address)

    async def max_offset(self, queue: MessageQueue) -> int:
        """Returns the offset behind the newest message of a queue."""
        return await self._bound(queue, RequestCode.GET_MAX_OFFSET)

    async def min_offset(self, queue: MessageQueue) -> int:
        """Returns the offset of the oldest message of a queue."""
        return await self._bound(queue, RequestCode.GET_MIN_OFFSET)

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Returns the offset of the first message stored at a time or later."""
        return await self._bound(
            queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"timestamp": str(timestamp_ms)}
        )

    async def _bound(
        self, queue: MessageQueue, code: RequestCode, more: Mapping[str, str] | None = None
    ) -> int:
        address = await self._address_for(queue)
        answer = await self._cluster.call(address, code, self._of(queue) | dict(more or {}))
        return _offset_of(expect(answer, address), address)

    # Members.

    async def consumer_ids(self, route: TopicRoute) -> list[str]:
        """Returns the client ids of the group, as one broker of a topic knows them.

        Raises:
            RemotingError: It knows none, or did not answer.
        """
        addresses = [
            address
            for broker in route.brokers
            if (address := self._cluster.any_address_of(broker.name)) is not None
        ]
        if not addresses:
            raise ConnectError(f"no broker of topic {route.topic} is known", address="")
        address = random.choice(addresses)
        answer = await self._cluster.call(
            address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": self._group}
        )
        body = _object(expect(answer, address), address)
        return [as_text(item) for item in as_list(body.get("consumerIdList"))]

    async def check_filter(self, address: str, subscription: SubscriptionData) -> None:
        """Asks a broker whether it can filter by an expression.

        Raises:
            ResponseError: It cannot; the remark gives the reason.
        """
        body = {
            "clientId": self._cluster.client_id,
            "group": self._group,
            "subscriptionData": subscription.to_json(),
        }
        code = RequestCode.CHECK_CLIENT_CONFIG
        expect(await self._cluster.call(address, code, {}, compact(body)), address)

    # Order locks.

    async def lock(self, broker_name: str, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Takes or renews the order locks of a broker's queues; returns those that are ours."""
        address = self._address(broker_name)
        answer = await self._cluster.call(
            address, RequestCode.LOCK_BATCH_MQ, {}, self._lock_body(queues)
        )
        body = _object(expect(answer, address), address)
        found = (MessageQueue.of_json(item) for item in as_list(body.get("lockOKMQSet")))
        return {queue for queue in found if queue is not None}

    async def unlock(self, broker_name: str, queues: Iterable[MessageQueue]) -> None:
        """Gives order locks up; returns when the broker knows it."""
        address = self._address(broker_name)
        body = self._lock_body(queues)
        expect(await self._cluster.call(address, RequestCode.UNLOCK_BATCH_MQ, {}, body), address)

    def _lock_body(self, queues: Iterable[MessageQueue]) -> bytes:
        return compact(
            {
                "clientId": self._cluster.client_id,
                "consumerGroup": self._group,
                "mqSet": [queue.to_json() for queue in queues],
                "onlyThisBroker": False,
            }
        )

    # Messages given back.

    async def send_back(
        self,
        queue: MessageQueue,
        physical_offset: int,
        *,
        level: int,
        reconsume_max: int,
        origin_id: str,
        origin_topic: str,
    ) -> None:
        """Gives a message back to its broker, which delivers it again, or puts it aside for good.

        Args:
            queue: The queue it came from.
            physical_offset: Its physical offset in the broker's log, in bytes.
            level: Level of delay; 0 lets the broker decide, -1 is the dead-letter queue.
            reconsume_max: Deliveries after the first one, beyond which it is put aside.
            origin_id: Its id.
            origin_topic: Its topic as it was stored.
        """
        address = self._address(self.broker_of(queue))
        ext = {
            "offset": str(physical_offset),
            "group": self._group,
            "delayLevel": str(level),
            "originMsgId": origin_id,
            "originTopic": origin_topic,
            "unitMode": "false",
            "maxReconsumeTimes": str(reconsume_max),
            "bname": queue.broker_name,
        }
        code = RequestCode.CONSUMER_SEND_MSG_BACK
        answer = await self._cluster.call(address, code, ext, timeout_s=_SEND_BACK_TIMEOUT_S)
        expect(answer, address)

    async def send_again(
        self,
        queue: MessageQueue,
        body: bytes,
        properties: Mapping[str, str],
        *,
        born_ms: int,
        flag: int,
        sys_flag: int,
        reconsume_times: int,
        reconsume_max: int,
    ) -> None:
        """Sends a copy of a message to a queue of the group's retry topic.

        Args:
            queue: A queue of the retry topic.
            body: The body as it was stored.
            properties: All properties of the copy.
            born_ms: When it was first sent.
            flag: The user's number.
            sys_flag: How the body is compressed.
            reconsume_times: Its deliveries after the first one, with this one.
            reconsume_max: How many there may be; beyond it the broker puts it aside for good.
        """
        address = self._address(self.broker_of(queue))
        ext = {
            "a": _INNER_PRODUCER,
            "b": queue.topic,
            "c": "TBW102",
            "d": "4",
            "e": str(queue.queue_id),
            "f": str(sys_flag),
            "g": str(born_ms),
            "h": str(flag),
            "i": properties_text(properties),
            "j": str(reconsume_times),
            "k": "false",
            "l": str(reconsume_max),
            "m": "false",
            "n": queue.broker_name,
        }
        code = RequestCode.SEND_MESSAGE_V2
        expect(await self._cluster.call(address, code, ext, body), address)

    # Parts of all of them.

    def broker_of(self, queue: MessageQueue) -> str:
        """Returns the name of the broker that a queue is at."""
        return self._cluster.broker_of(queue)

    async def _address_for(self, queue: MessageQueue, *, is_any: bool = False) -> str:
        # One may ask about a queue of a topic that was neither subscribed nor assigned.
        if self._cluster.known_route(queue.topic) is None:
            await self._cluster.route(queue.topic)
        return self._address(self.broker_of(queue), is_any=is_any)

    def _address(self, broker_name: str, *, is_any: bool = False) -> str:
        address = (
            self._cluster.any_address_of(broker_name)
            if is_any
            else self._cluster.address_of(broker_name)
        )
        if address is None:
            role = "broker" if is_any else "master"
            raise ConnectError(f"no {role} {broker_name} is in the routes now", address=broker_name)
        return address

    def _of(self, queue: MessageQueue) -> dict[str, str]:
        return {
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "bname": queue.broker_name,
        }


def _object(answer: Command, address: str) -> dict[str, Any]:
    try:
        return parse_object(answer.body)
    except BadJsonError as error:
        raise ResponseError(
            f"{address} sent a body that cannot be read: {error}",
            address=address,
            code=int(ResponseCode.SYSTEM_ERROR),
            remark=str(error),
        ) from error


def _offset_of(answer: Command, address: str) -> int:
    text = answer.ext.get("offset")
    offset = as_int(text, -1)
    if text is None or offset < -1:
        raise ResponseError(
            f"{address} answered without an offset: {text!r}",
            address=address,
            code=int(ResponseCode.SYSTEM_ERROR),
            remark="",
        )
    return offset
