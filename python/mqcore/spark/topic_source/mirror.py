"""Commits how far a stream has come to a consumer group, so that ordinary tools show its lag.

Only a copy: Spark's checkpoint decides where a stream goes on. It only ever moves forward, and
where it cannot be committed the stream goes on with a warning.
"""

import logging
from collections.abc import Mapping

from mqcore.errors import MQError
from mqcore.model.queues import MessageQueue
from mqcore.spark.topic_source.cluster import Cluster

__all__ = ["GroupMirror"]

_log = logging.getLogger(__name__)


class GroupMirror:
    """The progress of one group."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        """Knows nothing of the group yet."""
        self._cluster = cluster
        self._group = group
        self._committed: dict[MessageQueue, int] = {}
        self._is_known = False

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commits offsets that are ahead of what the group has.

        Args:
            offsets: Where a reader goes on, by queue.
        """
        self._make_known(offsets)
        for queue, offset in offsets.items():
            try:
                self._commit(queue, offset)
            except MQError as error:
                _log.warning("the progress was not committed to group %s: %s", self._group, error)
                return

    def _make_known(self, offsets: Mapping[MessageQueue, int]) -> None:
        if self._is_known or not offsets:
            return
        # Once: where it is not allowed, offsets are kept all the same.
        self._is_known = True
        try:
            self._cluster.make_group_known(self._group, offsets)
        except MQError as error:
            _log.warning("official tools may not find group %s: %s", self._group, error)

    def _commit(self, queue: MessageQueue, offset: int) -> None:
        committed = self._committed.get(queue)
        if committed is None:
            committed = self._cluster.group_offset(self._group, queue)
        if committed is None or offset > committed:
            self._cluster.commit(self._group, queue, offset)
            committed = offset
        self._committed[queue] = committed
