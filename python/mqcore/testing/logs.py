"""What one broker logs, kept for the test that wants to read it.

Several brokers live in one process: whose a record is, the name of its thread shows. What is kept
beyond the level that the application set goes nowhere else.
"""

import logging
from collections import deque

# The handlers that listen.
_listening: list["CapturedLogs"] = []
# A broker that logs more than this in one test is not read line by line; the last lines count.
_RECORDS_MAX = 10_000
_LOGGER = "mqcore"


class _Onward(logging.Handler):
    """Passes on to the root what would have reached it had nobody listened.

    Attributes:
        level_before: The logger's level before somebody listened.
        level_set: The one that was set since.
        propagated: Whether the logger propagated before.
    """

    def __init__(self) -> None:
        super().__init__()
        self.level_before = logging.NOTSET
        self.level_set = logging.NOTSET
        self.propagated = True

    def emit(self, record: logging.LogRecord) -> None:
        root = logging.getLogger()
        if not self.propagated or record.levelno < self._level_of(record.name):
            return
        # A broker in a test does not print by itself: `logs` has it.
        is_brokers = any(each.is_of(record) for each in _listening)
        if root.handlers or not is_brokers:
            root.callHandlers(record)

    def _level_of(self, name: str) -> int:
        """Returns the level that a logger would have had."""
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            level = logger.level
            if logger.name == _LOGGER and level == self.level_set:
                level = self.level_before
            if level:
                return level
            logger = logger.parent
        return logging.NOTSET


_onward = _Onward()


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
        """Begins to keep; the logger `mqcore` lets records of the level pass to it from now on."""
        logger = logging.getLogger(_LOGGER)
        if self in _listening:
            return
        if not _listening:
            _onward.level_before, _onward.propagated = logger.level, logger.propagate
            logger.propagate = False
            logger.addHandler(_onward)
        _listening.append(self)
        logger.setLevel(min(logger.getEffectiveLevel(), self.level))
        _onward.level_set = logger.level
        logger.addHandler(self)

    def detach(self) -> None:
        """Ends; with the last one the logger is as it was."""
        logger = logging.getLogger(_LOGGER)
        logger.removeHandler(self)
        if self in _listening:
            _listening.remove(self)
            if not _listening:
                logger.setLevel(_onward.level_before)
                logger.removeHandler(_onward)
                logger.propagate = _onward.propagated

    def is_of(self, record: logging.LogRecord) -> bool:
        """Returns whether a record is the broker's."""
        return (record.threadName or "").startswith(self._prefix)

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a record, if it is the broker's."""
        if self.is_of(record):
            self.records.append(record)

    @property
    def text(self) -> str:
        """The records as lines: level, logger, message."""
        return "\n".join(
            f"{record.levelname:7} {record.name}: {record.getMessage()}" for record in self.records
        )
