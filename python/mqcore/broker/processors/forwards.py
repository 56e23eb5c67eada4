"""Requests of tools that a client answers: its state, its offsets, one message consumed at once."""

import asyncio
from collections.abc import Mapping
from typing import Final

from mqcore.broker.members import ClientInfo
from mqcore.broker.quota_waits import count_read, wait_to_read
from mqcore.broker.state import BrokerState
from mqcore.errors import MQError, RefusedError, RemotingError
from mqcore.model.message_ids import parse_offset_id
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_dict, as_int
from mqcore.model.relaxed_json import parse_object, queue_of_key, with_queue_keys
from mqcore.native import Command
from mqcore.remoting import Handler, Link, Request, RequestCode, ResponseCode
from mqcore.remoting.signing import SIGNING_FIELDS

# How long a client may take, as the official broker waits.
_FORWARD_TIMEOUT_S: Final = 10.0
_STATUS_TIMEOUT_S: Final = 5.0
# First releases that answer these: V3_0_7_SNAPSHOT and V3_1_8_SNAPSHOT.
_STATUS_VERSION_MIN: Final = 28
_FORWARD_VERSION_MIN: Final = 62


class Forwards:
    """Serves the requests that go on to a client."""

    def __init__(self, state: BrokerState) -> None:
        """Takes what it works on."""
        self._state = state

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self.status,
        }

    async def running_info(self, request: Request) -> Command:
        """307: what a consumer reports of itself."""
        return await self._forward(request, b"")

    async def consume_directly(self, request: Request) -> Command:
        """309: a consumer consumes one message now."""
        message_id = request.ext.get("msgId")
        if message_id is None:
            return await self._forward(request, b"")
        parsed = parse_offset_id(message_id)
        if parsed is None:
            raise RefusedError(
                f"{message_id} is no message id of a broker", code=ResponseCode.SYSTEM_ERROR
            )
        try:
            at = parsed.physical_offset
            message = await asyncio.to_thread(self._state.store.message_at, at)
        except MQError as error:
            raise RefusedError(
                f"can not find message by the offset, {parsed.physical_offset}",
                code=ResponseCode.SYSTEM_ERROR,
            ) from error
        group, fast_path = request.field("consumerGroup"), self._state.fast_path
        await wait_to_read(fast_path, request.user, message.topic, group)
        count_read(fast_path, request.user, message.topic, [message], group)
        return await self._forward(request, message.record)

    async def _forward(self, request: Request, body: bytes) -> Command:
        group, client_id = request.field("consumerGroup"), request.field("clientId")
        client = self._state.members.client(group, client_id)
        link = client.link if client is not None else None
        if client is None or not isinstance(link, Link):
            raise RefusedError(
                f"The Consumer <{group}> <{client_id}> not online", code=ResponseCode.SYSTEM_ERROR
            )
        if client.version < _FORWARD_VERSION_MIN:
            raise RefusedError(
                f"The Consumer <{client_id}> Version <{client.version}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT",
                code=ResponseCode.SYSTEM_ERROR,
            )
        try:
            # The signature is for us: the client could send it again.
            ext = {name: x for name, x in request.ext.items() if name not in SIGNING_FIELDS}
            answer = await link.call(request.code, ext, body, timeout_s=_FORWARD_TIMEOUT_S)
        except RemotingError as error:
            raise RefusedError(
                f"consumer <{group}> <{client_id}> Timeout: {error.message}",
                code=ResponseCode.CONSUME_MSG_TIMEOUT,
            ) from error
        return request.answer(answer.code, answer.remark, ext=answer.ext, body=answer.body)

    async def status(self, request: Request) -> Command:
        """223: the offsets that the consumers of a group hold in memory."""
        topic, group = request.field("topic"), request.field("group")
        only = request.ext.get("clientAddr")
        online = self._state.members.consumers.get(group)
        clients = [] if online is None else list(online.clients.values())
        if not clients:
            raise RefusedError(
                f"No Any Consumer online in the consumer group: [{group}]",
                code=ResponseCode.SYSTEM_ERROR,
            )
        asked = [client for client in clients if not only or client.client_id == only]
        found = await asyncio.gather(*(self._status_of(each, topic, group) for each in asked))
        table = {each.client_id: offsets for each, offsets in zip(asked, found, strict=True)}
        return request.answer(body=with_queue_keys({"consumerTable": table}))

    async def _status_of(
        self, client: ClientInfo, topic: str, group: str
    ) -> dict[MessageQueue, int]:
        if client.version < _STATUS_VERSION_MIN:
            raise RefusedError(
                f"the client {client.client_id} is too old, please upgrade it",
                code=ResponseCode.SYSTEM_ERROR,
            )
        if not isinstance(client.link, Link):
            return {}
        try:
            answer = await client.link.call(
                RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
                {"topic": topic, "group": group},
                timeout_s=_STATUS_TIMEOUT_S,
            )
        except RemotingError:
            # The official broker leaves out who does not answer.
            return {}
        if answer.code != ResponseCode.SUCCESS or not answer.body:
            return {}
        found = as_dict(parse_object(answer.body).get("messageQueueTable"))
        named = {queue_of_key(key): as_int(offset) for key, offset in found.items()}
        return {queue: offset for queue, offset in named.items() if queue is not None}
