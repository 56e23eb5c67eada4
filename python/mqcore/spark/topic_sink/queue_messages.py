"""Reads a range of a queue, message by message: what was decided, and what is committed already.

Little is read, and rarely; who reads topics at speed has `mqcore.spark.topic_source`.
"""

from collections.abc import Iterator
from typing import Final

from mqcore.client.pulling import pull_fields
from mqcore.model.queues import MessageQueue
from mqcore.model.subscriptions import SubscriptionData
from mqcore.native import Message, decode_records
from mqcore.remoting import RequestCode, ResponseCode
from mqcore.spark.errors import SinkError
from mqcore.spark.topic_source.cluster import Cluster
from mqcore.spark.topic_source.range_reader import TOOLS_GROUP

__all__ = ["messages_between"]

# An official broker gives 32 of these, ours as many as fit into an answer.
_COUNT_MAX: Final = 4_096
# A message that was appended is dispatched within milliseconds, and behind a slow sync in seconds.
_EMPTY_MAX: Final = 50
_FINE: Final = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


def messages_between(
    cluster: Cluster, queue: MessageQueue, start: int, end: int
) -> Iterator[Message]:
    """Yields the messages of a queue whose offsets are in a range that the queue has.

    Args:
        cluster: Where it is.
        queue: The queue.
        start: The first offset.
        end: The offset behind the last one.

    Raises:
        RemotingError: Its broker refused, or did not answer.
        SinkError: It gives nothing, although it reports that there is something.
    """
    wanted = SubscriptionData(topic=queue.topic)
    at, empty = start, 0
    while at < end:
        fields = pull_fields(
            TOOLS_GROUP,
            queue,
            at,
            wanted,
            count_max=min(_COUNT_MAX, end - at),
            suspend_ms=0,
            sends_subscription=True,
        )
        answer = cluster.ask(
            cluster.address_of(queue), RequestCode.PULL_MESSAGE, fields, fine=_FINE
        )
        if answer.code == ResponseCode.SUCCESS:
            for message in decode_records(answer.body, unwraps=True):
                if at <= message.queue_offset < end:
                    yield message
        following = int(answer.ext.get("nextBeginOffset", at))
        if following > at:
            at, empty = following, 0
            continue
        empty += 1
        if empty > _EMPTY_MAX:
            raise SinkError(
                f"queue {queue.queue_id} of {queue.topic} at broker {queue.broker_name} says that "
                f"it ends at {end}, and gives nothing from {at} on"
            )
        cluster.pause()
