"""Sets up standard logging for the long-running programs: lines for people, or JSON lines.

Knows no program; a program logs through `logging` and passes fields by `extra`.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

# What every record has; the rest was passed by `extra`.
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def start_logging(level: str, form: str) -> None:
    """Sends everything logged from `level` on to standard error.

    Args:
        level: A level's name in any case.
        form: `json` for one JSON object per line, else lines for people.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else Lines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


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
