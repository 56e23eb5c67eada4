"""Sets up standard logging for the long-running programs: lines for people, or JSON lines.

To standard error, or to a file that gets another name when it is long or old. Knows no program; a
program logs through `logging` and passes fields by `extra`.
"""

import gzip
import json
import logging
import logging.handlers
import shutil
import sys
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

# What every record has; the rest was passed by `extra`.
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


_S_PER_HOUR = 3_600
_COMPRESSED = ".gz"
# What is not compressed yet has this ending behind its name.
_RAW = ".raw"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """Where is logged to, and when that begins anew.

    Attributes:
        path: The file; its directory is made.
        len_bytes_max: Longer than this it becomes a former one; 0: never.
        hours: Older than this too; 0: never.
        kept: Former ones that are kept: `path.1` is the newest.
        compresses: Whether those are compressed.
    """

    path: Path
    len_bytes_max: int = 0
    hours: int = 0
    kept: int = 10
    compresses: bool = True


def start_logging(level: str, form: str, file: LogFile | None = None) -> None:
    """Sends everything logged from `level` on to standard error, or to a file.

    Args:
        level: A level's name in any case.
        form: `json` for one JSON object per line, else lines for people.
        file: The file; None for standard error.

    Raises:
        OSError: It cannot be written.
    """
    handler = logging.StreamHandler(sys.stderr) if file is None else RollingFile(file)
    handler.setFormatter(JsonLines() if form == "json" else Lines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def reopen_log_files() -> int:
    """Opens the files that are logged to anew: others may have renamed them; returns how many."""
    files = [each for each in logging.getLogger().handlers if isinstance(each, RollingFile)]
    for each in files:
        each.reopen()
    return len(files)


class RollingFile(logging.handlers.RotatingFileHandler):
    """A file that becomes `path.1` when it is long or old; compressed beside whoever logs."""

    def __init__(self, file: LogFile) -> None:
        """Opens the file.

        Raises:
            OSError: It cannot be written.
        """
        file.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = file
        self._began_s = time.monotonic()
        self._compressing: threading.Thread | None = None
        super().__init__(
            file.path,
            maxBytes=file.len_bytes_max,
            backupCount=file.kept,
            encoding="utf-8",
        )
        if file.compresses:
            self.namer = lambda name: name + _COMPRESSED
            self.rotator = self._compress

    def shouldRollover(self, record: logging.LogRecord) -> int:
        """Returns whether a record goes into a new file."""
        age_s = time.monotonic() - self._began_s
        if self._file.hours and age_s >= self._file.hours * _S_PER_HOUR:
            return 1
        return int(super().shouldRollover(record))

    def doRollover(self) -> None:
        """Begins a new file."""
        if self._compressing is not None:
            # Of the file before: its name is needed now.
            self._compressing.join()
        super().doRollover()
        self._began_s = time.monotonic()

    def reopen(self) -> None:
        """Opens the file anew, under its name."""
        self.acquire()
        try:
            if self.stream is not None:
                self.stream.close()
            self.stream = self._open()
        finally:
            self.release()

    def _compress(self, source: str, target: str) -> None:
        """Compresses a former file in a thread: an event loop may be what logs."""
        raw = Path(target + _RAW)
        Path(source).replace(raw)

        def work() -> None:
            part = raw.with_suffix(".part")
            with raw.open("rb") as content, gzip.open(part, "wb") as compressed:
                shutil.copyfileobj(content, compressed)
            part.replace(target)
            raw.unlink()

        self._compressing = threading.Thread(target=work, name="log-compress", daemon=True)
        self._compressing.start()


def _moment(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _USUAL}


class Lines(logging.Formatter):
    """Time, level, logger, text, fields; a trace on the lines below."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the lines of a record."""
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        line = f"{_moment(record)} {record.levelname} {record.name}: {record.getMessage()}{fields}"
        if record.exc_info:
            line += f"\n{self.formatException(record.exc_info)}"
        return line


class JsonLines(logging.Formatter):
    """One JSON object per record, fields beside the text."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line of a record."""
        tree = _fields(record) | {
            "time": _moment(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            tree["trace"] = self.formatException(record.exc_info)
        return json.dumps(tree, ensure_ascii=False, default=str)
