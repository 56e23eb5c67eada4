"""How far a consumer has come, queue by queue: what is known, and what a store does not know yet.

Pure state. Knows no store and no time.
"""

from collections.abc import Iterable, Mapping

from mqcore.model.queues import MessageQueue

__all__ = ["OffsetTable"]


class OffsetTable:
    """Queue offsets of one consumer; the first one that is to be consumed, of each queue."""

    def __init__(self) -> None:
        """Makes an empty table."""
        self._offsets: dict[MessageQueue, int] = {}
        self._saved: dict[MessageQueue, int] = {}

    def update(self, queue: MessageQueue, offset: int, *, may_fall: bool = False) -> None:
        """Notes an offset; a lower one than before only where it `may_fall`."""
        known = self._offsets.get(queue, -1)
        if may_fall or offset > known:
            self._offsets[queue] = offset

    def loaded(self, queue: MessageQueue, offset: int) -> None:
        """Notes what the store knows: there is nothing to save."""
        self._offsets[queue] = self._saved[queue] = offset

    def get(self, queue: MessageQueue) -> int | None:
        """Returns the offset of a queue, None where none is known."""
        return self._offsets.get(queue)

    def unsaved(self, queues: Iterable[MessageQueue] | None = None) -> dict[MessageQueue, int]:
        """Returns what the store does not know yet, of some queues or of all."""
        wanted = self._offsets if queues is None else queues
        return {
            queue: offset
            for queue in wanted
            if (offset := self._offsets.get(queue)) is not None and self._saved.get(queue) != offset
        }

    def saved(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Notes that the store knows these now."""
        for queue, offset in offsets.items():
            if queue in self._offsets:
                self._saved[queue] = offset

    def remove(self, queue: MessageQueue) -> None:
        """Forgets a queue."""
        self._offsets.pop(queue, None)
        self._saved.pop(queue, None)

    def of_topic(self, topic: str) -> dict[MessageQueue, int]:
        """Returns the offsets of a topic's queues; of all where it is empty."""
        return {
            queue: offset
            for queue, offset in self._offsets.items()
            if not topic or queue.topic == topic
        }
