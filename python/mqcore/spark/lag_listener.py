"""Commits how far streaming queries have come to consumer groups, with each progress event.

`commit` of a source trails by one batch, and is never called for the last one of a query: this
gets an event for each batch when it is done. The offsets name the group, so one listener serves
all queries of a session. It only ever moves groups forward. After `StreamingQueryListener`.
"""

import json
import logging
from typing import Final
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from mqcore.errors import MQError
from mqcore.remoting.tls import TlsFiles
from mqcore.spark.errors import SparkError
from mqcore.spark.topic_source.cluster import Access, cluster_of
from mqcore.spark.topic_source.mirror import GroupMirror
from mqcore.spark.topic_source.stream_offsets import StreamOffset

__all__ = ["LagListener", "attach_lag"]

_log = logging.getLogger(__name__)

# A progress event waits for nobody: the next one has newer offsets.
_RETRIES: Final = 0


class LagListener(StreamingQueryListener):
    """Mirrors the progress of our sources to their groups."""

    def __init__(
        self,
        access_key: str | None = None,
        secret_key: str | None = None,
        *,
        tls: bool | TlsFiles = False,
    ) -> None:
        """Takes what offsets do not contain.

        Args:
            access_key: The account, where brokers ask for one.
            secret_key: Its secret.
            tls: Speak TLS.
        """
        self._keys = (access_key, secret_key)
        self._tls = tls
        self._mirrors: dict[tuple[str, str], GroupMirror] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing was read yet."""

    def onQueryIdle(self, event: object) -> None:
        """Nothing new."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Does nothing: what was done was reported."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Commits to the groups of a query's sources where it goes on."""
        for source in event.progress.sources:
            self.report(source.endOffset)

    def report(self, end_offset: str | None) -> None:
        """Commits to the group that an offset names; an offset of another source names none.

        Args:
            end_offset: JSON, as Spark shows it.
        """
        try:
            offset = StreamOffset.of_json(json.loads(end_offset or "null"))
        except (SparkError, ValueError):
            return
        if offset.mirror is None:
            return
        try:
            self._mirror(*offset.mirror).commit(offset.next)
        except MQError as error:
            _log.warning("the progress of a query was not committed to its group: %s", error)

    def _mirror(self, namesrv: str, group: str) -> GroupMirror:
        found = self._mirrors.get((namesrv, group))
        if found is None:
            access = Access(namesrv, *self._keys, tls=self._tls, retries=_RETRIES)
            found = self._mirrors[namesrv, group] = GroupMirror(cluster_of(access), group)
        return found


_attached: WeakKeyDictionary[SparkSession, LagListener] = WeakKeyDictionary()


def attach_lag(
    spark: SparkSession,
    *,
    access_key: str | None = None,
    secret_key: str | None = None,
    tls: bool | TlsFiles = False,
) -> None:
    """Lets a session commit the progress of its streams to groups; once more does no harm.

    Needed only where the session was not made by `mqcore.spark.session`.

    Args:
        spark: The session.
        access_key: The account, where brokers ask for one.
        secret_key: Its secret.
        tls: Speak TLS.
    """
    kept = _attached.pop(spark, None)
    if kept is not None:
        spark.streams.removeListener(kept)
    listener = LagListener(access_key, secret_key, tls=tls)
    spark.streams.addListener(listener)
    _attached[spark] = listener
