"""Messages that were not consumed go back: to their broker, or as a copy to the retry topic.

`DefaultMQPushConsumerImpl.sendMessageBack`. When neither way works the message stays with the
consumer: it is never dropped.
"""

import logging
import random
from typing import Final

from mqcore.client.consumer_calls import Cluster, ConsumerCalls
from mqcore.client.message import ReceivedMessage
from mqcore.client.outcomes import DEAD_LETTER
from mqcore.client.properties import (
    DELAY,
    MAX_RECONSUME_TIMES,
    RECONSUME_TIME,
    RETRY_TOPIC,
    TRAN_MSG,
)
from mqcore.errors import MQError, RemotingError
from mqcore.model.static_topics import is_logical
from mqcore.model.topics import RETRY_PREFIX

__all__ = ["GivingBack"]

_log = logging.getLogger(__name__)

_ORIGIN_ID: Final = "ORIGIN_MESSAGE_ID"
# The first back-off of the broker is its level 3, and each delivery is one level later.
_FIRST_LEVEL: Final = 3
# Bits of a system flag that a new send may keep: how the body is compressed.
_COMPRESSION_BITS: Final = 0x701


class GivingBack:
    """Gives messages of one group back."""

    def __init__(
        self, cluster: Cluster, calls: ConsumerCalls, group: str, reconsume_max: int
    ) -> None:
        """Takes who asks the brokers, the group, and how often a message may come again."""
        self._cluster = cluster
        self._calls = calls
        self._group = group
        self._reconsume_max = reconsume_max

    async def give_back(self, message: ReceivedMessage, level: int) -> bool:
        """Gives a message back; returns whether a broker has it now.

        Args:
            message: The message.
            level: Level of delay; 0 lets the broker decide, -1 is the dead-letter queue.
        """
        # One of a static topic may be on any broker: its copy goes back.
        if not is_logical(message.queue) and await self._is_sent_back(message, level):
            return True
        try:
            await self._send_copy(message, level)
        except MQError as error:
            _log.warning("%r was not sent to the retry topic: %s", message, error.message)
            return False
        return True

    async def _is_sent_back(self, message: ReceivedMessage, level: int) -> bool:
        record = message.record
        try:
            await self._calls.send_back(
                message.queue,
                record.physical_offset,
                level=level,
                reconsume_max=self._reconsume_max,
                origin_id=message.message_id,
                origin_topic=record.topic,
            )
        except RemotingError as error:
            _log.warning("%r was not taken back by its broker: %s", message, error.message)
            return False
        return True

    async def _send_copy(self, message: ReceivedMessage, level: int) -> None:
        """Sends a copy to the retry topic of any broker; a broker counts and puts aside by it."""
        record = message.record
        route = await self._cluster.route(RETRY_PREFIX + self._group)
        if not route.write_queues:
            raise RemotingError(f"topic {route.topic} has no queue that is written now")
        times = record.reconsume_times + 1
        if level == DEAD_LETTER:
            # Beyond the bound the broker puts it into the dead-letter queue itself.
            times = max(times, self._reconsume_max + 1)
        properties = dict(record.properties)
        properties.pop(TRAN_MSG, None)
        properties.setdefault(_ORIGIN_ID, message.message_id)
        properties[RETRY_TOPIC] = properties.get(RETRY_TOPIC, record.topic)
        properties[RECONSUME_TIME] = str(times)
        properties[MAX_RECONSUME_TIMES] = str(self._reconsume_max)
        properties[DELAY] = str(level if level > 0 else _FIRST_LEVEL + record.reconsume_times)
        await self._calls.send_again(
            random.choice(route.write_queues),
            record.stored_body,
            properties,
            born_ms=record.born_timestamp_ms,
            flag=record.flag,
            sys_flag=record.sys_flag & _COMPRESSION_BITS,
            reconsume_times=times,
            reconsume_max=self._reconsume_max,
        )
