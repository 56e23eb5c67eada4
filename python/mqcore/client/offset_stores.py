"""Where a consumer keeps how far it has come: at the broker, or in a file of its own.

`RemoteBrokerOffsetStore` and `LocalFileOffsetStore` of the official client. The tables are
`mqcore.client.offset_table`'s; what is here reads and writes.
"""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from mqcore.client.consumer_calls import ConsumerCalls
from mqcore.errors import MQError, RemotingError
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_dict, as_int
from mqcore.model.relaxed_json import parse, parse_object, with_queue_keys
from mqcore.state_files import PersistedTable, Snapshot, StateFile

__all__ = ["LocalOffsets", "OffsetStore", "RemoteOffsets", "local_offsets_path"]

_log = logging.getLogger(__name__)

_FILE_NAME = "offsets.json"


class OffsetStore(Protocol):
    """Keeps offsets."""

    async def load(self, queue: MessageQueue) -> int | None:
        """Returns the offset of a queue; None where none was ever saved.

        Raises:
            MQError: It is not known whether there is one.
        """
        ...

    async def save(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Saves offsets; returns those that are surely saved. Failures are logged."""
        ...


class RemoteOffsets:
    """Offsets at the brokers: those of a group that shares its queues.

    The first offset of a topic goes to its broker alone: official brokers make the table of a
    group's topic without a lock (`ConsumerOffsetManager.commitOffset`), and of two that come at
    once one may be lost, though both are acknowledged.
    """

    def __init__(self, calls: ConsumerCalls) -> None:
        """Takes who asks the brokers."""
        self._calls = calls
        self._begun: set[tuple[str, str]] = set()
        # Brokers that did not take the last offset that they were sent.
        self._unsaved: set[str] = set()

    async def load(self, queue: MessageQueue) -> int | None:
        """Returns the group's offset; None where the broker has none."""
        return await self._calls.query_offset(queue)

    async def save(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Sends offsets to brokers, queues together if possible; returns what they acknowledged."""
        first = {(queue.topic, queue.broker_name): queue for queue in offsets}
        alone = {queue for table, queue in first.items() if table not in self._begun}
        saved: dict[MessageQueue, int] = {}
        for queues in (alone, offsets.keys() - alone):
            saved |= await self._save_all({queue: offsets[queue] for queue in queues})
            self._begun |= {(queue.topic, queue.broker_name) for queue in saved}
        return saved

    async def _save_all(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        answers = await asyncio.gather(
            *(self._save(queue, offset) for queue, offset in offsets.items())
        )
        return {
            queue: offset
            for (queue, offset), is_saved in zip(offsets.items(), answers, strict=True)
            if is_saved
        }

    async def _save(self, queue: MessageQueue, offset: int) -> bool:
        try:
            await self._calls.update_offset(queue, offset)
        except RemotingError as error:
            # It is tried again every few seconds; the next one that is saved ends the report.
            level = logging.DEBUG if queue.broker_name in self._unsaved else logging.WARNING
            self._unsaved.add(queue.broker_name)
            label, why = queue.label, error.message
            _log.log(level, "%s: offset %d was not saved yet: %s", label, offset, why)
            return False
        self._unsaved.discard(queue.broker_name)
        return True


def local_offsets_path(directory: Path, client_name: str, group: str) -> Path:
    """Returns the file of a group: `DIRECTORY/CLIENT/GROUP/offsets.json`."""
    return directory / client_name / group / _FILE_NAME


class LocalOffsets:
    """Offsets in a file: those of a consumer that receives everything (broadcast).

    The file has the official shape; the generation before stays beside it as `.bak`.
    """

    def __init__(self, path: Path) -> None:
        """Takes the file; it is read when the first offset is asked for."""
        self._offsets: dict[MessageQueue, int] = {}
        self._is_loaded = False
        self._table = PersistedTable(StateFile(path), load=self._take, snapshot=self._snapshot)

    async def load(self, queue: MessageQueue) -> int | None:
        """Returns the offset in the file.

        Raises:
            StateFileError: Neither the file nor the generation before can be read.
        """
        return self._loaded().get(queue)

    async def save(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Writes the file; what others of its queues had stays.

        Raises:
            StateFileError: Neither the file nor the generation before can be read.
        """
        self._loaded().update(offsets)
        try:
            await self._table.save()
        except MQError as error:
            _log.warning("offsets were not written to %s: %s", self._table.path, error.message)
            return {}
        return dict(offsets)

    def _loaded(self) -> dict[MessageQueue, int]:
        if not self._is_loaded:
            self._table.load()
            self._is_loaded = True
        return self._offsets

    def _take(self, content: bytes) -> None:
        pairs = (
            (MessageQueue.of_json(parse(key)), as_int(offset, -1))
            for key, offset in as_dict(parse_object(content).get("offsetTable")).items()
        )
        self._offsets = {
            queue: offset for queue, offset in pairs if queue is not None and offset >= 0
        }

    def _snapshot(self) -> Snapshot:
        table = {queue: self._offsets[queue] for queue in sorted(self._offsets)}
        return lambda: with_queue_keys({"offsetTable": table})
