"""Requests of mqcore alone about the inside of a broker: what it occupies, sources of settings.

Both are answered by every broker, whatever its role: they change nothing.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mqcore.broker.memory import held_by_owners
from mqcore.broker.state import BrokerState
from mqcore.config import Setting
from mqcore.errors import MQError, RefusedError
from mqcore.model.relaxed_json import compact
from mqcore.native import Command, Stats
from mqcore.occupancy import Occupied, occupied
from mqcore.remoting import Handler, OwnRequestCode, Request, ResponseCode

__all__ = ["Inside"]

# What a controller decides, whatever the file has.
_OF_CONTROLLER = "decided by the controller"


class Inside:
    """Serves the requests about the inside of a broker."""

    def __init__(self, state: BrokerState) -> None:
        """Takes what it looks at."""
        self._state = state
        self._looking = asyncio.Lock()

    def own_handlers(self) -> Mapping[int, Handler]:
        """Returns the codes of ours served here."""
        return {
            OwnRequestCode.MEMORY: self.memory,
            OwnRequestCode.SETTINGS: self.settings,
        }

    async def memory(self, request: Request) -> Command:
        """MEMORY: what process and store occupy (`Occupied`, as JSON), and what holds it.

        Asks the kernel for the pages of every file, in a thread: one question after the other.
        """
        async with self._looking:
            fast_path = self._state.fast_path.stats()
            try:
                found, offsets, stats = await asyncio.to_thread(self._looked)
            except (MQError, OSError) as error:
                why = f"what the broker occupies cannot be found out: {error}"
                raise RefusedError(why, code=ResponseCode.SYSTEM_ERROR) from error
        held = held_by_owners(self._state, fast_path, offsets, stats, found.threads)
        return request.answer(body=compact(replace(found, held=held).to_json()))

    def _looked(self) -> tuple[Occupied, Mapping[str, Mapping[int, int]], Stats]:
        """Returns what the kernel has of process and files, the consumer offsets, and the store."""
        state = self._state
        store, log_dir = _directories(state)
        found = occupied(os.getpid(), store, log_dir=log_dir)
        return found, state.fast_path.offsets.snapshot(), state.store.stats()

    def settings(self, request: Request) -> Command:
        """SETTINGS: every setting with its default, where its value comes from, its meaning.

        `{"settings": [{"name", "value", "default", "source", "unit", "isLive", "isKept",
        "isHonoured", "meaning"}]}`, by name; secrets are masked.
        """
        configuration, role = self._state.settings.configuration, self._state.role
        rows = {name: _row(name, each) for name, each in configuration.settings.items()}
        if role.is_controlled:
            for name, value in (
                ("brokerRole", role.official_name),
                ("brokerId", str(role.broker_id)),
            ):
                rows[name] |= {"value": value, "source": _OF_CONTROLLER}
        return request.answer(body=compact({"settings": [rows[name] for name in sorted(rows)]}))


def _directories(state: BrokerState) -> tuple[Path, Path | None]:
    """Returns where the store is, and its log where that is elsewhere."""
    settings = state.settings
    log_dir = settings.configuration.settings["storePathCommitLog"].shown
    return Path(settings.store_dir).absolute(), Path(log_dir).absolute() if log_dir else None


def _row(name: str, setting: Setting) -> dict[str, Any]:
    key = setting.key
    return {
        "name": name,
        "value": setting.shown,
        "default": key.default,
        "source": setting.source,
        "unit": key.unit,
        "isLive": key.is_live,
        "isKept": key.is_kept,
        "isHonoured": key.fate.is_honoured,
        "meaning": key.words,
    }
