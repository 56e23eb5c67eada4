"""The audit of one server: lines of changes and refusals, written in order beside the event loop.

    trail = AuditTrail.of(settings.access, directory=store, server="broker-a")
    await trail.write(row)             # a change waits for its line
    trail.note(row)                    # a refusal does not
    await trail.stop()

A line that cannot be written goes to the program's log, and the next one that can has the number of
those that are missing. With `mqcoreAuditOnFailure=refuse` a change has a line of its own before it
is made (`asked`), and is refused where that cannot be written. Belongs to the event loop; knows no
request.
"""

import asyncio
import json
import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from mqcore.audit.files import AuditFiles, AuditReader
from mqcore.audit.lines import time_text
from mqcore.clock import wall_ms
from mqcore.errors import ConfigurationError, RefusedError
from mqcore.remoting import ResponseCode

__all__ = ["EVENTS", "LOGGER", "AuditFigures", "AuditSettings", "AuditTrail"]

# A logger of its own: lines that no file takes.
LOGGER: Final = "mqcore.audit"
_log = logging.getLogger(LOGGER)

# What a line is about: a change, what access control has refused, a change that is asked for.
EVENTS: Final = ("change", "refused", "asked")
# Lines that wait for the disk at the most; refusals beyond it are counted as missing.
_WAITING_MAX: Final = 10_000
# Written at once.
_BATCH_MAX: Final = 256
# A line may have 64 KiB.
_FILE_BYTES_MIN: Final = 128 << 10
_FILE_NAME: Final = "audit.log"
_DIRECTORY_NAME: Final = "audit"
_REFUSE: Final = "refuse"


class AuditSettings(Protocol):
    """The settings of the audit; `mqcore.config.AccessSettings` is one."""

    @property
    def is_audited(self) -> bool:
        """Whether there is an audit (`mqcoreAuditEnable`)."""

    @property
    def audit_file(self) -> Path | str:
        """The file; empty for that of the server's directory (`mqcoreAuditFile`)."""

    @property
    def audit_file_bytes(self) -> int:
        """From which size on a file gets another name (`mqcoreAuditFileSize`)."""

    @property
    def audit_files_max(self) -> int:
        """How many files there are (`mqcoreAuditFiles`)."""

    @property
    def is_audit_synced(self) -> bool:
        """Whether a change is answered when its line is on the disk (`mqcoreAuditSync`)."""

    @property
    def audit_on_failure(self) -> str:
        """What becomes of changes that have no line (`mqcoreAuditOnFailure`)."""


@dataclass(frozen=True, slots=True)
class AuditFigures:
    """What an audit has counted since the start.

    Attributes:
        lines: Lines that were written, by what they are about: one of `EVENTS`.
        bytes: Bytes that were written.
        missed: Lines that could not be.
        changes_refused: Changes that were refused because they could have no line.
        is_failing: Whether the last line could not be written.
        failed_ms: When a line could not be written last, Unix ms; 0: never.
    """

    lines: Mapping[str, int]
    bytes: int
    missed: int
    changes_refused: int
    is_failing: bool
    failed_ms: int


class AuditTrail:
    """The audit of one server.

    Attributes:
        server: Its name in lines.
        reader: What reads the files; None without an audit.
    """

    def __init__(
        self,
        files: AuditFiles | None,
        *,
        server: str,
        is_strict: bool = False,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        """Takes the files; touches nothing.

        Args:
            files: Where lines go; None for nowhere.
            server: The server's name in lines.
            is_strict: Whether a change is refused that can have no line.
            now_ms: The wall clock.
        """
        self.server = server
        self.reader = AuditReader(files.path) if files is not None else None
        self._lines: Counter[str] = Counter()
        self._missed = 0
        self._changes_refused = 0
        self._failed_ms = 0
        self._files = files
        self._is_strict = is_strict
        self._now_ms = now_ms
        self._waiting: deque[tuple[dict[str, Any], asyncio.Future[None] | None]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._is_failing = False

    @classmethod
    def of(
        cls,
        settings: AuditSettings,
        *,
        directory: Path,
        server: str,
        now_ms: Callable[[], int] = wall_ms,
    ) -> "AuditTrail":
        """Returns the audit of a server; the files are below its directory unless settings differ.

        Args:
            settings: The settings.
            directory: The server's own directory.
            server: Its name in lines.
            now_ms: The wall clock.

        Raises:
            ConfigurationError: The files would be too small.
        """
        files = None
        if settings.is_audited:
            if settings.audit_file_bytes < _FILE_BYTES_MIN:
                key = "mqcoreAuditFileSize"
                raise ConfigurationError(
                    f"{key}={settings.audit_file_bytes}: at least {_FILE_BYTES_MIN} bytes, so that "
                    "a file has more than a line",
                    faults=(key,),
                )
            named = settings.audit_file
            files = AuditFiles(
                Path(named) if named else directory / _DIRECTORY_NAME / _FILE_NAME,
                file_bytes_max=settings.audit_file_bytes,
                files_max=settings.audit_files_max,
                is_synced=settings.is_audit_synced,
            )
        is_strict = settings.audit_on_failure == _REFUSE
        return cls(files, server=server, is_strict=is_strict, now_ms=now_ms)

    @property
    def is_on(self) -> bool:
        """Whether there is an audit."""
        return self._files is not None

    @property
    def figures(self) -> AuditFigures | None:
        """What was counted since the start; None without an audit."""
        if self._files is None:
            return None
        return AuditFigures(
            {event: self._lines[event] for event in EVENTS},
            self._files.bytes,
            self._missed,
            self._changes_refused,
            self._is_failing,
            self._failed_ms,
        )

    def note(self, row: Mapping[str, Any]) -> None:
        """Has a line written without waiting for it."""
        if self._files is None:
            return
        if len(self._waiting) >= _WAITING_MAX:
            self._lost([dict(row)], "too many lines wait")
            return
        self._waiting.append((self._headed(row), None))
        self._go_on()

    async def write(self, row: Mapping[str, Any]) -> bool:
        """Writes a line; returns whether it was. One that was not went to the log."""
        if self._files is None:
            return True
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._headed(row), done))
        self._go_on()
        try:
            await done
        except OSError:
            return False
        return True

    async def begin(self, row: Mapping[str, Any]) -> None:
        """Writes the line of a change before it is made, where a change must not be without one.

        Raises:
            RefusedError: It could not be written, and the change may not be made.
        """
        if self._is_strict and self._files is not None and not await self.write(row):
            self._changes_refused += 1
            raise RefusedError(
                f"the audit {self._files.path.name} cannot be written, and without a line of it "
                "nothing may be changed (mqcoreAuditOnFailure=refuse)",
                code=ResponseCode.SYSTEM_ERROR,
            )

    async def stop(self) -> None:
        """Writes what waits, and closes the file."""
        while self._task is not None:
            await asyncio.wait([self._task])
        if self._files is not None:
            await asyncio.to_thread(self._files.close)

    def _headed(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {"time": time_text(self._now_ms()), "server": self.server, **row}

    def _go_on(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write_all())

    async def _write_all(self) -> None:
        """Writes what waits, batch by batch: one that is being written is awaited by all of it."""
        files = self._files
        assert files is not None
        try:
            while self._waiting:
                batch = [
                    self._waiting.popleft() for _ in range(min(_BATCH_MAX, len(self._waiting)))
                ]
                rows = [row for row, _done in batch]
                error: OSError | None = None
                try:
                    await asyncio.to_thread(files.append, rows)
                except OSError as raised:
                    error = raised
                    self._lost(rows, raised.strerror or str(raised))
                else:
                    self._lines.update(str(row.get("event")) for row in rows)
                    self._is_failing = False
                for _row, done in batch:
                    if done is not None and not done.done():
                        _settle(done, error)
        finally:
            self._task = None

    def _lost(self, rows: list[dict[str, Any]], why: str) -> None:
        """Counts lines that no file has, and logs them: a log is better than nothing."""
        self._missed += len(rows)
        self._failed_ms = self._now_ms()
        if not self._is_failing:
            where = self._files.path if self._files is not None else ""
            _log.error("the audit %s cannot be written: %s", where, why)
            self._is_failing = True
        for row in rows:
            _log.error("%s", json.dumps(row, ensure_ascii=True))


def _settle(done: asyncio.Future[None], error: OSError | None) -> None:
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
