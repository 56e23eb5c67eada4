"""Requests of brokers to a consumer: members changed, offsets reset, how it is, consume this now.

After the consumer's half of `ClientRemotingProcessor`. The bodies are `running_info`'s.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from mqcore.client.handler_jobs import HandlerPool, Job
from mqcore.client.member import Member
from mqcore.client.message import ReceivedMessage
from mqcore.client.outcomes import Outcome
from mqcore.client.properties import RETRY_TOPIC
from mqcore.client.running_info import (
    consume_directly_body,
    consumer_status_body,
    queue_info,
    reset_offsets_of,
    running_info_body,
    thread_stacks,
)
from mqcore.clock import wall_ms
from mqcore.errors import BadJsonError, RecordError, RefusedError, StoreError
from mqcore.model.queues import MessageQueue
from mqcore.model.topics import RETRY_PREFIX
from mqcore.native import decode_records
from mqcore.remoting import RequestCode, ResponseCode
from mqcore.remoting.dispatch import Answer, Handler, Request

__all__ = ["ConsumeRequests", "MemberRequests"]

_log = logging.getLogger(__name__)

# `MQVersion.getVersionDesc` of the version in our requests (`mqcore.remoting.VERSION`).
_VERSION_TEXT: Final = "V4_9_8"


class MemberRequests:
    """Answers for any member.

    Attributes:
        handlers: What serves each code.
    """

    def __init__(self, member: Member, official: Mapping[str, str]) -> None:
        """Takes who it answers for, and its settings by their official names."""
        self._member = member
        self._official = official
        self.handlers: dict[int, Handler] = {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._ids_changed,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
        }

    def _ids_changed(self, request: Request) -> Answer:
        del request
        self._member.assignment.wake()
        return None

    async def _reset(self, request: Request) -> Answer:
        topic = request.field("topic")
        try:
            offsets = reset_offsets_of(request.body)
        except BadJsonError as error:
            _log.warning("%s: a reset that cannot be read: %s", request.link.peer, error)
            return None
        wanted = {queue: offset for queue, offset in offsets.items() if queue.topic == topic}
        _log.info("%s resets %d queues of %s", request.link.peer, len(wanted), topic)
        await self._member.reset(wanted)
        return None

    def _status(self, request: Request) -> Answer:
        offsets = self._member.progress.committed(request.field("topic"))
        return request.answer(body=consumer_status_body(offsets))

    def _running_info(self, request: Request) -> Answer:
        member = self._member
        now_ms = member.now_ms()
        # Times of queues are monotonic; tools show times of the day.
        ahead_ms = wall_ms() - now_ms
        offsets = member.progress.committed("")
        held = member.assignment.held
        for item in held.values():
            counters = member.statistics.topic(item.state.queue.topic)
            counters.consumed(*item.state.take_tally(), now_ms)
        body = running_info_body(
            properties=self._properties(),
            subscriptions=member.subscriptions.all,
            queues={
                queue: queue_info(item.state, offsets.get(queue), ahead_ms)
                for queue, item in held.items()
            },
            statistics={
                topic: member.statistics.topic(topic).to_json(now_ms) for topic in member.topics()
            },
            stacks=thread_stacks() if request.flag("jstackEnable") else None,
        )
        return request.answer(body=body)

    def _properties(self) -> dict[str, str]:
        member = self._member
        data = member.consumer_data()
        name_servers = member.instance.name_servers.addresses
        return {
            **self._official,
            "PROP_CLIENT_VERSION": _VERSION_TEXT,
            "PROP_CONSUMER_START_TIMESTAMP": str(member.started_ms),
            "PROP_CONSUME_TYPE": data.consume_type,
            "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in name_servers),
            "consumeFromWhere": data.from_where,
            "consumerGroup": data.group,
            "messageModel": data.message_model,
            "pullThresholdForQueue": str(member.bounds.count_max),
            "pullThresholdSizeForQueue": str(member.bounds.bytes_max >> 20),
            "unitMode": "false",
        }


class ConsumeRequests(MemberRequests):
    """Answers for a push consumer: it can be asked to consume a message, too."""

    def __init__(
        self,
        member: Member,
        official: Mapping[str, str],
        pool: HandlerPool,
        *,
        is_single: bool,
        is_orderly: bool,
    ) -> None:
        """Takes who it answers for.

        Args:
            member: The member.
            official: Its settings by their official names.
            pool: Runs its handler.
            is_single: Whether the handler gets single messages, no batches.
            is_orderly: Whether it consumes in order.
        """
        super().__init__(member, official)
        self._pool = pool
        self._is_single = is_single
        self._is_orderly = is_orderly
        self.handlers[RequestCode.CONSUME_MESSAGE_DIRECTLY] = self._consume_directly

    async def _consume_directly(self, request: Request) -> Answer:
        try:
            record = decode_records(request.body)[0]
        except (RecordError, StoreError, IndexError) as error:
            raise RefusedError(
                f"the message cannot be read: {error}", code=ResponseCode.SYSTEM_ERROR
            ) from error
        topic = record.topic
        queue = MessageQueue(topic, request.ext.get("brokerName", ""), record.queue_id)
        if topic.startswith(RETRY_PREFIX):
            topic = record.properties.get(RETRY_TOPIC, topic)
        message = ReceivedMessage(record, queue, self._member.shown_topic(topic))
        answer: asyncio.Future[tuple[Outcome, int]] = asyncio.get_running_loop().create_future()

        def finished(job: Job, outcome: Outcome, took_ms: int) -> None:
            del job
            if not answer.done():
                answer.set_result((outcome, took_ms))

        argument = message if self._is_single else [message]
        self._pool.submit([Job(argument, finished, None, lambda _job, _now_ms: True)])
        outcome, took_ms = await answer
        body = consume_directly_body(outcome, is_orderly=self._is_orderly, took_ms=took_ms)
        return request.answer(body=body)
