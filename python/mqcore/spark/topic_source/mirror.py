"""Tells a consumer group how far a stream has come, so that ordinary tools show its lag.

A mirror and no truth: Spark's checkpoint says where a stream goes on. It only ever moves forward,
and where it cannot be told the stream goes on with a warning.
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
        self._told: dict[MessageQueue, int] = {}
        self._is_known = False

    def tell(self, places: Mapping[MessageQueue, int]) -> None:
        """Tells places that are ahead of what the group has.

        Args:
            places: Where a reader goes on, by queue.
        """
        self._make_known(places)
        for queue, place in places.items():
            try:
                self._tell(queue, place)
            except MQError as error:
                _log.warning("group %s was not told its progress: %s", self._group, error)
                return

    def _make_known(self, places: Mapping[MessageQueue, int]) -> None:
        if self._is_known or not places:
            return
        # Once: where it is not allowed, offsets are kept all the same.
        self._is_known = True
        try:
            self._cluster.make_group_known(self._group, places)
        except MQError as error:
            _log.warning("official tools may not find group %s: %s", self._group, error)

    def _tell(self, queue: MessageQueue, place: int) -> None:
        told = self._told.get(queue)
        if told is None:
            told = self._cluster.group_offset(self._group, queue)
        if told is None or place > told:
            self._cluster.commit(self._group, queue, place)
            told = place
        self._told[queue] = told
