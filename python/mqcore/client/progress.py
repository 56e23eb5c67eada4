"""How far a member of a group has come: offsets noted as messages are consumed, saved, and moved.

The table is `offset_table`'s, where it is kept `offset_stores`'. Knows neither pulls nor handlers.
"""

from collections.abc import Iterable, Mapping

from mqcore.client.offset_stores import OffsetStore
from mqcore.client.offset_table import OffsetTable
from mqcore.client.queue_puller import HeldQueue
from mqcore.model.queues import MessageQueue

__all__ = ["Progress"]


class Progress:
    """The offsets of one member."""

    def __init__(self, store: OffsetStore, held: Mapping[MessageQueue, HeldQueue]) -> None:
        """Takes where offsets are kept, and the queues that the member holds at any time."""
        self._store = store
        self._held = held
        self._offsets = OffsetTable()
        # Where the user wants to begin queues that are not held yet.
        self._starts: dict[MessageQueue, int] = {}

    async def load(self, queue: MessageQueue) -> int | None:
        """Returns the offset that was saved of a queue; None where none was.

        Raises:
            RemotingError: The store cannot be asked.
        """
        self._offsets.remove(queue)
        return await self._store.load(queue)

    def loaded(self, queue: MessageQueue, offset: int) -> None:
        """Notes what the store knows: there is nothing to save."""
        self._offsets.loaded(queue, offset)

    def start_at(self, queue: MessageQueue, offset: int) -> None:
        """Begins a queue that is not held yet at an offset, once it is."""
        self._starts[queue] = offset

    def first_offset(self, queue: MessageQueue, offset: int) -> int:
        """Returns where a queue begins: where the user wants it, or at `offset`."""
        return self._starts.pop(queue, offset)

    def note(self, held: HeldQueue) -> None:
        """Notes how far a queue has come, unless it was dropped."""
        state = held.state
        offset = state.commit_offset
        if offset is not None and not state.is_dropped:
            self._offsets.update(state.queue, offset)

    def set(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Notes offsets, lower ones too."""
        for queue, offset in offsets.items():
            self._offsets.update(queue, offset, may_fall=True)

    def forget(self, queue: MessageQueue) -> None:
        """Forgets a queue."""
        self._offsets.remove(queue)

    async def persist(self) -> list[MessageQueue]:
        """Saves every offset that changed; returns the queues whose offsets were not saved."""
        for held in self._held.values():
            self.note(held)
        return await self.save(None)

    async def save(self, queues: Iterable[MessageQueue] | None) -> list[MessageQueue]:
        """Saves offsets that changed, of some queues or of all.

        Returns:
            The queues whose offsets were not saved; they are saved the next time.
        """
        unsaved = self._offsets.unsaved(queues)
        saved = await self._store.save(unsaved) if unsaved else {}
        self._offsets.saved(saved)
        return [queue for queue in unsaved if queue not in saved]

    async def move(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Puts queues at other offsets, and saves these."""
        for queue, offset in offsets.items():
            self._offsets.remove(queue)
            self._offsets.update(queue, offset)
        await self.save(offsets)

    def committed(self, topic: str) -> dict[MessageQueue, int]:
        """Returns how far a topic's queues have come; of all topics where it is empty."""
        for held in self._held.values():
            self.note(held)
        return self._offsets.of_topic(topic)
