"""Single messages: by the broker's id, by unique id, by key, by queue offset.

A broker finds by hash, so that other keys may come too: what it answers is tested here.
"""

from datetime import datetime

from mqcore.admin.arguments import LONG_MAX, of_type, unix_ms, whole
from mqcore.admin.transport import Transport, all_of
from mqcore.client.recall import RecallHandle
from mqcore.errors import MQError
from mqcore.model.message_ids import parse_offset_id
from mqcore.model.queues import MessageQueue
from mqcore.model.topics import CHECK_MAX_TIME_TOPIC
from mqcore.native import Command, Message, decode_records
from mqcore.remoting import RequestCode, ResponseCode
from mqcore.remoting.address import TcpAddress

__all__ = ["Messages", "located"]

# What official tools ask for.
_KEY_MAX = 64
_UNIQUE_MAX = 32
_FOREVER_MS = 2**63 - 1
_PORT_MAX = 65_535
# How much is pulled at once by queue offset.
_PULL_MAX = 32
# Pull with a subscription in the request; a message that is not there is not waited for.
_SUBSCRIPTION = 4
_TOOLS_GROUP = "TOOLS_CONSUMER"
_TAG, _SQL = "TAG", "SQL92"
# The producer group in the request that recalls a message.
_RECALL_GROUP = "mqcore-admin"
_MASTER_ID = 0


def located(offset_id: str) -> tuple[str, int]:
    """Returns the address and the physical offset in a broker's id.

    Raises:
        MQError: It is no such id.
    """
    of_type("offset_id", offset_id, str)
    parsed = parse_offset_id(offset_id)
    # A producer's id has the same digits, and no port in its position.
    if parsed is None or not 0 < parsed.port <= _PORT_MAX:
        raise MQError(
            f"{offset_id!r} is no id of a broker; the id of a producer is found with its topic"
        )
    return str(TcpAddress(parsed.host, parsed.port)), parsed.physical_offset


class Messages:
    """The messages of a cluster."""

    def __init__(self, transport: Transport) -> None:
        """Takes the way to the servers."""
        self._transport = transport

    async def by_offset_id(self, offset_id: str) -> Message:
        """Returns the message that a broker's id names; asks the broker in the id (33).

        Args:
            offset_id: 32 or 56 hexadecimal digits: address and physical offset.

        Raises:
            MQError: It is no such id.
            ResponseError: There is no message at that address.
        """
        address, physical_offset = located(offset_id)
        ext = {"offset": str(physical_offset)}
        answer = await self._transport.ask(address, RequestCode.VIEW_MESSAGE_BY_ID, ext)
        return decode_records(answer.body)[0]

    async def by_unique_id(self, topic: str, message_id: str) -> list[Message]:
        """Returns the messages with a producer's id, oldest first (12).

        There is more than one where a send was repeated after it had been stored.

        Raises:
            NoRouteError: No name server knows the topic.
        """
        of_type("message_id", message_id, str)
        found = await self._query(topic, message_id, _UNIQUE_MAX, 0, _FOREVER_MS, is_unique=True)
        return [each for each in found if each.uniq_key == message_id]

    async def by_key(
        self,
        topic: str,
        key: str,
        *,
        limit: int = _KEY_MAX,
        begin_ms: int | datetime = 0,
        end_ms: int | datetime = _FOREVER_MS,
    ) -> list[Message]:
        """Returns the newest messages with a key, oldest first (12).

        Args:
            topic: Its topic.
            key: One of the keys that the producer gave it.
            limit: At most so many from each broker; brokers give 64.
            begin_ms: Stored not before: Unix ms, or a `datetime` with a time zone.
            end_ms: Stored not behind: likewise.

        Raises:
            NoRouteError: No name server knows the topic.
        """
        of_type("key", key, str)
        whole("limit", limit, 1)
        begin, end = unix_ms("begin_ms", begin_ms), unix_ms("end_ms", end_ms)
        found = await self._query(topic, key, limit, begin, end, is_unique=False)
        return [each for each in found if each.topic == topic and key in (each.keys or "").split()]

    async def _query(
        self, topic: str, key: str, limit: int, begin_ms: int, end_ms: int, *, is_unique: bool
    ) -> list[Message]:
        ext = {
            "topic": topic,
            "key": key,
            "maxNum": str(limit),
            "beginTimestamp": str(begin_ms),
            "endTimestamp": str(end_ms),
            "_UNIQUE_KEY_QUERY": str(is_unique).lower(),
        }

        async def ask(address: str) -> Command:
            fine = (ResponseCode.QUERY_NOT_FOUND,)
            return await self._transport.ask(address, RequestCode.QUERY_MESSAGE, ext, fine=fine)

        brokers = await self._transport.addresses_of_topic(topic)
        answers = await all_of(brokers.values(), ask)
        found = [
            message
            for answer in answers
            if answer.code == ResponseCode.SUCCESS
            for message in decode_records(answer.body)
        ]
        return sorted(found, key=lambda each: each.store_timestamp_ms)

    async def at(
        self, queue: MessageQueue, offset: int, limit: int = 1, *, sql: str = ""
    ) -> list[Message]:
        """Returns messages of a queue from an offset on (11); fewer where there are no more.

        Args:
            queue: Which.
            offset: First queue offset.
            limit: At most so many, 32 in one call.
            sql: Only messages for which this expression of SQL92 is true; empty for all.

        Raises:
            NoRouteError: No name server knows the topic, or the broker.
            ResponseError: It takes no expressions (`enablePropertyFilter`), or not this one.
        """
        whole("offset", offset, 0, LONG_MAX)
        whole("limit", limit, 1)
        address = await self._transport.address_of(queue)
        ext = {
            "consumerGroup": _TOOLS_GROUP,
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": str(min(limit, _PULL_MAX)),
            "sysFlag": str(_SUBSCRIPTION),
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": sql or "*",
            "subVersion": "0",
            "expressionType": _SQL if sql else _TAG,
        }
        none = (
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            ResponseCode.PULL_OFFSET_MOVED,
        )
        answer = await self._transport.ask(address, RequestCode.PULL_MESSAGE, ext, fine=none)
        if answer.code != ResponseCode.SUCCESS:
            return []
        # Of a batch that is one record, the messages before the offset come along.
        found = decode_records(answer.body, unwraps=True)
        return [message for message in found if message.queue_offset >= offset][:limit]

    async def recall(self, handle: str) -> str:
        """Takes a timed message back before its time (370); returns its unique id.

        Args:
            handle: As brokers of 5.3.2 and later give it with the answer to a send.

        Raises:
            MessageError: It is no handle.
            MQError: Name servers know no master of the broker in it.
            ResponseError: The broker refuses: recalls are off (`recallMessageEnable`), or the
                message was delivered.
        """
        named = RecallHandle.parse(handle)
        address = (
            (await self._transport.cluster()).brokers.get(named.broker_name, {}).get(_MASTER_ID)
        )
        if address is None:
            raise MQError(
                f"name servers know no master of {named.broker_name}, which keeps the message"
            )
        ext = {"producerGroup": _RECALL_GROUP, "topic": named.topic, "recallHandle": handle}
        ext["bname"] = named.broker_name
        answer = await self._transport.ask(address, RequestCode.RECALL_MESSAGE, ext)
        return answer.ext.get("msgId") or named.message_id

    async def resume_check(self, offset_id: str) -> None:
        """Lets a half message that was given up be asked about again (323).

        Args:
            offset_id: The broker's id of it, in `TRANS_CHECK_MAX_TIME_TOPIC`.

        Raises:
            MQError: It is no such id.
            ResponseError: The broker refuses: there is no such message, or it was not given up.
        """
        address, _ = located(offset_id)
        ext = {"topic": CHECK_MAX_TIME_TOPIC, "msgId": offset_id}
        await self._transport.ask(address, RequestCode.RESUME_CHECK_HALF_MESSAGE, ext)
