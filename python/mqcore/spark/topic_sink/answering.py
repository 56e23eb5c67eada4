"""Answers brokers that ask what became of a half message of the sink.

Any process of the group may be asked, about any query: the topic of decisions knows all of them.
What no decision names is rolled back once its epoch is decided, and waits until then.
"""

import logging
import threading
from dataclasses import dataclass
from typing import Final

from mqcore.client.message import ReceivedMessage
from mqcore.clock import monotonic_ms
from mqcore.spark.topic_sink.decisions import Decisions
from mqcore.spark.topic_sink.epochs import Decision, HalfLocation, epoch_of
from mqcore.spark.topic_sink.marks import TASK
from mqcore.spark.topic_sink.settling import Settling, stored_of
from mqcore.spark.topic_source.cluster import Cluster

__all__ = ["Answerer"]

_log = logging.getLogger(__name__)
# The first offset of a half message that its broker stored anew, which it does before it asks.
_FIRST_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
# Questions come in rounds, one for every half message: what was looked up serves a round.
_KEPT_MS: Final = 1_000


@dataclass(slots=True)
class _Known:
    """What was looked up of an epoch.

    Attributes:
        at_ms: When.
        decision: What is decided.
        stored: How many rows of its half messages are committed; None where nobody looked.
    """

    at_ms: int
    decision: Decision | None
    stored: dict[HalfLocation, int] | None = None


class Answerer:
    """Knows what became of half messages."""

    def __init__(self, cluster: Cluster, decisions: Decisions) -> None:
        """Takes where decisions are; `settles_with` comes before the first question."""
        self._cluster = cluster
        self._decisions = decisions
        self._settling: Settling | None = None
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, int], _Known] = {}

    def settles_with(self, settling: Settling) -> None:
        """Takes what commits."""
        self._settling = settling

    def __call__(self, half: ReceivedMessage) -> bool | None:
        """Returns whether a half message is committed; None while nothing is decided.

        Raises:
            MQError: A server did not answer; the broker asks again.
        """
        epoch = epoch_of(half.properties.get(TASK, ""))
        if epoch is None:
            _log.warning("asked about %s, which no sink of Spark sent", half.message_id)
            return None
        with self._lock:
            known = self._known(*epoch)
            decision = known.decision
            if decision is None:
                return None
            first = half.properties.get(_FIRST_OFFSET, str(half.queue_offset))
            location = decision.half_at(half.queue.broker_name, int(first))
            if location is None:
                return False
            if known.stored is None:
                known.stored = stored_of(self._cluster, decision)
            if known.stored.get(location, 0) >= location.rows:
                # It is committed, and the note of it was lost with a broker: another commit would
                # store it again, and this one only notes the end.
                return False
            if self._settling is not None:
                self._settling.commit(decision)
                known.stored = {each: each.rows for each in decision.halves}
            return None

    def _known(self, query: str, batch: int) -> _Known:
        now_ms = monotonic_ms()
        for epoch, kept in list(self._kept.items()):
            if now_ms - kept.at_ms > _KEPT_MS:
                del self._kept[epoch]
        known = self._kept.get((query, batch))
        if known is None:
            known = _Known(now_ms, self._decisions.find(query, batch))
            self._kept[query, batch] = known
        return known
