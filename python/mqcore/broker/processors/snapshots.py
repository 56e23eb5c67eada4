"""The request of mqcore alone by which a tool takes a snapshot of a store that is open.

The tool gives the files second names and copies them; the broker writes what it has in memory, and
answers where the log is durable. Holds nothing: a tool that is gone leaves nothing behind here.
"""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.state import BrokerState
from mqcore.errors import RefusedError
from mqcore.model.relaxed_json import compact
from mqcore.native import Command
from mqcore.remoting import Handler, OwnRequestCode, Request, ResponseCode

__all__ = ["Snapshots"]

_LOG_DIR: Final = "storePathCommitLog"
_FILE_LEN: Final = "mappedFileSizeCommitLog"


class Snapshots:
    """Serves the request about snapshots."""

    def __init__(self, state: BrokerState, persistence: ConfigPersistence) -> None:
        """Takes what it works on."""
        self._state = state
        self._persistence = persistence

    def own_handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {OwnRequestCode.SNAPSHOT: self.snapshot}

    async def snapshot(self, request: Request) -> Command:
        """SNAPSHOT: writes every table (tables) or flushes the log (point); where files are."""
        state, action = self._state, request.ext.get("action", "")
        if state.settings.mounted_dir:
            why = "it serves a mounted store: a snapshot is taken of the store itself"
            raise RefusedError(why, code=ResponseCode.NO_PERMISSION)
        end = 0
        if action == "tables":
            await self._persistence.save_all("for a snapshot")
        elif action == "point":
            end = await asyncio.to_thread(state.store.flush)
            epochs = state.replicas.epochs
            if epochs is not None:
                # What is behind may be cut off again, in the very files that the snapshot has.
                end = min(end, epochs.positions().confirmed)
        else:
            why = f"action={action}: tables or point"
            raise RefusedError(why, code=ResponseCode.INVALID_PARAMETER)
        root, lock = await asyncio.to_thread(self._directory)
        found = {
            "brokerName": state.settings.name,
            "end": end,
            "fileLen": int(state.store.settings[_FILE_LEN]),
            "lock": f"{lock.st_dev}:{lock.st_ino}",
            "logDir": state.store.settings.get(_LOG_DIR, ""),
            "storeDir": str(root),
        }
        return request.answer(body=compact(found))

    def _directory(self) -> tuple[Path, os.stat_result]:
        """Returns the store's directory, and its lock. Waits for the disk."""
        root = Path(self._state.settings.store_dir).absolute()
        return root, (root / "lock").stat()
