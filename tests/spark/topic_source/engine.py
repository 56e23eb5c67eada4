"""Plays what Spark's engine asks of a stream reader, without Spark: order, restarts, failures.

The orders are those observed with 4.0 to 4.3: where the query begins is asked again whenever the
first batch is run again, `commit` trails by a batch, the reader crosses to each task by pickling,
offsets are kept and compared as text.
"""

import json
import pickle
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit


class TaskFailed(Exception):
    """A task failed more often than Spark tries."""


class Engine:
    """One query on one checkpoint, through any number of restarts.

    Attributes:
        is_legacy: Whether it is Spark before 4.2.
        offset_log: Ends of batches, as text.
        committed: Batches that are done.
        batches: Rows of each batch that was done.
    """

    def __init__(self, make_reader: Callable[[], Any], *, is_legacy: bool = False) -> None:
        self._make = make_reader
        self.is_legacy = is_legacy
        self.offset_log: list[str] = []
        self.committed = 0
        self.batches: list[list[dict[str, Any]]] = []
        self.restart()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows of all batches."""
        return [row for batch in self.batches for row in batch]

    def restart(self) -> None:
        """The driver starts on the same checkpoint."""
        self.reader = self._make()
        self._initial: str | None = None
        if self.is_legacy and self.committed:
            last = json.loads(self.offset_log[self.committed - 1])
            assert self.reader.partitions(last, last) == []

    def available_now(self) -> None:
        """Reads what is there now, and ends."""
        self.reader.prepareForTriggerAvailableNow()
        while self.trigger():
            pass

    def trigger(self, *, fails: bool = False, limit: ReadLimit | None = None) -> bool:
        """Runs one trigger; returns whether there was a batch.

        Raises:
            TaskFailed: It was made to fail: the batch is planned and not done.
        """
        if len(self.offset_log) == self.committed and not self._plan(limit):
            return False
        at = self.committed
        start = self.offset_log[at - 1] if at else self._begin()
        rows = self._run(json.loads(start), json.loads(self.offset_log[at]))
        if fails:
            raise TaskFailed
        self.batches.append(rows)
        self.committed += 1
        if at:
            self.reader.commit(json.loads(start))
        return True

    def _begin(self) -> str:
        # Asked for twice in a new query.
        first = json.dumps(self.reader.initialOffset())
        assert json.dumps(self.reader.initialOffset()) == first
        return first

    def _plan(self, limit: ReadLimit | None) -> bool:
        last = self.offset_log[-1] if self.offset_log else None
        if self.is_legacy:
            end = json.dumps(self.reader.latestOffset())
        else:
            start = json.loads(last if last is not None else self._begin())
            limit = limit or self.reader.getDefaultReadLimit()
            end = json.dumps(self.reader.latestOffset(start, limit))
        if end == last:
            return False
        self.offset_log.append(end)
        return True

    def _run(self, start: Any, end: Any) -> list[dict[str, Any]]:
        found = []
        for partition in self.reader.partitions(start, end):
            task, part = pickle.loads(pickle.dumps((self.reader, partition)))
            for batch in task.read(part):
                found += batch.to_pylist()
        return found


EVERYTHING = ReadAllAvailable()
