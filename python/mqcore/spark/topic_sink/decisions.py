"""The topic of decisions: writes what is decided of an epoch, and finds it again.

It has one queue at one broker, so that all who look see the same, in one order: the first decision
of an epoch counts, whoever wrote it. The epochs of a query follow one another there: one is found,
or known not to be decided, by a look at the end. Nobody makes the topic in passing: who made it
anew while its broker is down would forget what was decided.
"""

from typing import Final

from mqcore.client.message import Message
from mqcore.model.queues import MessageQueue
from mqcore.spark.errors import SinkError
from mqcore.spark.topic_sink.epochs import Decision
from mqcore.spark.topic_sink.queue_messages import messages_between
from mqcore.spark.topic_sink.sending import TopicClient
from mqcore.spark.topic_source.cluster import Cluster, QueueBounds

__all__ = ["Decisions"]

# Decisions looked at together, from the end of the queue backwards.
_STEP: Final = 32
# A message that was appended is dispatched within milliseconds, and behind a slow sync in seconds.
_LOOKS_MAX: Final = 50


class Decisions:
    """The decisions of one topic."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        """Takes where they are.

        Args:
            cluster: What is asked.
            topic: The topic, its namespace included.
        """
        self._cluster = cluster
        self._topic = topic

    def queue(self) -> MessageQueue:
        """Returns the queue of the topic.

        Raises:
            RemotingError: A server did not answer.
            SinkError: The topic is not there, or has more queues than one.
        """
        route = self._cluster.route(self._topic)
        if route is None:
            raise SinkError(
                f"delivery 'exactly-once' writes what it decides to topic {self._topic}, which no "
                "name server knows: create it once, with one queue at one broker: "
                f"`mqcore topic create {self._topic} --queues 1 --broker HOST:PORT`; where it was "
                "created, its broker is down"
            )
        queues = route.read_queues
        if len(queues) != 1:
            raise SinkError(
                f"topic {self._topic} has {len(queues)} queues at {len(route.brokers)} brokers, "
                "and decisions need one queue at one broker: give option('decisionTopic', ...) a "
                "topic that is made so"
            )
        return queues[0]

    def find(self, query: str, batch: int, *, seen_offset: int = -1) -> Decision | None:
        """Returns what was decided of an epoch, None where nothing is.

        Args:
            query: The query's mark.
            batch: The batch.
            seen_offset: An offset that the queue is known to have: it is waited for.

        Raises:
            RemotingError: A server did not answer: nobody knows.
            SinkError: The topic is not as it must be, or holds what cannot be understood.
        """
        queue = self.queue()
        bounds = self._bounds(queue, seen_offset)
        found: Decision | None = None
        high = bounds.max
        while high > bounds.min:
            start = max(bounds.min, high - _STEP)
            is_before = False
            first: Decision | None = None
            for message in messages_between(self._cluster, queue, start, high):
                name, _, number = (message.keys or "").rpartition("/")
                if name != query or not number.isdecimal():
                    continue
                if int(number) == batch and first is None:
                    first = _parsed(message.body, f"{query}/{batch}", queue)
                is_before |= int(number) < batch
            found = first or found
            if is_before:
                break
            high = start
        return found

    def _bounds(self, queue: MessageQueue, seen_offset: int) -> QueueBounds:
        for _ in range(_LOOKS_MAX):
            bounds = self._cluster.bounds(self._topic).get(queue)
            if bounds is not None and bounds.max > seen_offset:
                return bounds
            self._cluster.pause()
        name = queue.broker_name
        raise SinkError(
            f"topic {self._topic}: broker {name} has no master now"
            if bounds is None
            else f"topic {self._topic} at broker {name} ends at {bounds.max}, and has had a "
            f"message at {seen_offset}: is its directory another one than before?"
        )

    def write(self, client: TopicClient, decision: Decision) -> Decision:
        """Writes a decision; returns what counts of its epoch: the first one, this or another.

        Raises:
            MQError: It is not known to be stored.
        """
        message = Message(self._topic, decision.encode(), keys=decision.key)
        sent = client.send(message, self.queue())
        found = self.find(decision.query, decision.batch, seen_offset=sent.queue_offset)
        if found is None:
            raise SinkError(f"the decision of batch {decision.batch} was written and is not found")
        return found


def _parsed(body: bytes, key: str, queue: MessageQueue) -> Decision:
    try:
        return Decision.parse(body)
    except ValueError as error:
        raise SinkError(
            f"a message of topic {queue.topic} has the key {key} and is no decision of this "
            f"version ({error}): nothing is committed"
        ) from error
