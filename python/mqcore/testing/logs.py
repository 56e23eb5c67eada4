"""What one broker logs, kept for the test that wants to read it.

Several brokers live in one process: whose a record is, the name of its thread shows.
"""

import logging
from collections import deque

# The handlers that listen, and the logger's level before the first of them came.
_listening: list["CapturedLogs"] = []
_level_before = [logging.NOTSET]
# A broker that logs more than this in one test is not read line by line; the last lines count.
_RECORDS_MAX = 10_000
_LOGGER = "mqcore"


class CapturedLogs(logging.Handler):
    """Keeps the records of threads whose names begin with a prefix.

    Attributes:
        records: The records, oldest first.
    """

    def __init__(self, thread_prefix: str, level: int | str) -> None:
        """Prepares; `attach` begins.

        Args:
            thread_prefix: Whose records are kept.
            level: Least level that is kept.
        """
        super().__init__(level)
        self.records: deque[logging.LogRecord] = deque(maxlen=_RECORDS_MAX)
        self._prefix = thread_prefix

    def attach(self) -> None:
        """Begins to keep; the logger `mqcore` lets records of the level pass from now on."""
        logger = logging.getLogger(_LOGGER)
        if self in _listening:
            return
        if not _listening:
            _level_before[0] = logger.level
        _listening.append(self)
        logger.setLevel(min(logger.getEffectiveLevel(), self.level))
        logger.addHandler(self)

    def detach(self) -> None:
        """Ends; with the last one the logger is as it was."""
        logger = logging.getLogger(_LOGGER)
        logger.removeHandler(self)
        if self in _listening:
            _listening.remove(self)
            if not _listening:
                logger.setLevel(_level_before[0])

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a record, if it is the broker's."""
        if (record.threadName or "").startswith(self._prefix):
            self.records.append(record)

    @property
    def text(self) -> str:
        """The records as lines: level, logger, message."""
        return "\n".join(
            f"{record.levelname:7} {record.name}: {record.getMessage()}" for record in self.records
        )
