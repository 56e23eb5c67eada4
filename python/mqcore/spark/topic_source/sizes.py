"""About how long the messages of queues are: a few looked at, of each topic and broker once.

Brokers report offsets and not bytes; tasks are cut by bytes.
"""

from collections.abc import Mapping

from mqcore.client.pulling import pull_fields
from mqcore.errors import RemotingError
from mqcore.model.parts import Part
from mqcore.model.queues import MessageQueue
from mqcore.remoting import RequestCode, ResponseCode
from mqcore.spark.topic_source.cluster import Cluster
from mqcore.spark.topic_source.range_reader import TOOLS_GROUP, Wanted

__all__ = ["RowSizes"]

# Where nothing is known: the length that brokers are mostly measured with.
_UNKNOWN_BYTES = 1024.0
# As many as an official broker gives at once.
_SAMPLE_COUNT = 32
_FINE = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


class RowSizes:
    """Bytes of a message by topic and broker."""

    def __init__(self, cluster: Cluster, *, part: Part = Part.WHOLE) -> None:
        """Knows nothing yet.

        Args:
            cluster: Who is asked.
            part: What of the messages is read: brokers that leave the rest out are asked so.
        """
        self._cluster = cluster
        self._part = part
        self._known: dict[tuple[str, str], float] = {}

    def of(
        self, start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, float]:
        """Returns the bytes of a message of each queue in `end`.

        Args:
            start: Where each queue is read from.
            end: Where to: a sample is taken from the middle.
        """
        found: dict[MessageQueue, float] = {}
        for queue, high in end.items():
            key = (queue.topic, queue.broker_name)
            low = start.get(queue, high)
            if key not in self._known and high > low:
                sampled = self._sample(queue, (low + high) // 2)
                if sampled is not None:
                    self._known[key] = sampled
            found[queue] = self._known.get(key, _UNKNOWN_BYTES)
        return found

    def _sample(self, queue: MessageQueue, offset: int) -> float | None:
        """Returns the mean of a few messages; None where they cannot be had: it is an estimate."""
        wanted = Wanted()
        fields = pull_fields(
            TOOLS_GROUP,
            queue,
            offset,
            wanted.subscription(queue.topic),
            count_max=_SAMPLE_COUNT,
            suspend_ms=0,
            sends_subscription=True,
            bytes_max=None if self._part is Part.WHOLE else wanted.fetch_bytes,
            part=self._part,
        )
        try:
            answer = self._cluster.ask(
                self._cluster.address_of(queue), RequestCode.PULL_MESSAGE, fields, fine=_FINE
            )
        except RemotingError:
            return None
        count = int(answer.ext.get("nextBeginOffset", "0")) - offset
        if answer.code != ResponseCode.SUCCESS or count <= 0:
            return None
        return max(1.0, len(answer.body) / count)
