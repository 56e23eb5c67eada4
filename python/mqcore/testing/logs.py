"""What one broker logs, kept for the test that wants to read it.

Several brokers live in one process: whose a record is, the name of its thread shows. What is kept
beyond the level that the application set goes nowhere else.
"""

import logging
from collections import deque
from weakref import WeakSet

# The handlers that listen.
_listening: list["CapturedLogs"] = []
# A broker that logs more than this in one test is not read line by line; the last lines count.
_RECORDS_MAX = 10_000
_LOGGER = "mqcore"


class _Gate(logging.Handler):
    """Keeps from other handlers what they would not have got had nobody listened.

    The first handler of the logger: it puts a filter on those that come after it, which may be
    newer than it is.

    Attributes:
        level_before: The logger's level before somebody listened.
        level_set: The one that was set since.
    """

    def __init__(self) -> None:
        super().__init__()
        self.level_before = logging.NOTSET
        self.level_set = logging.NOTSET
        # Those of tests that are over are not to be kept.
        self._filtered: WeakSet[logging.Handler] = WeakSet()

    def emit(self, record: logging.LogRecord) -> None:
        logger = logging.getLogger(_LOGGER)
        others = [each for each in logger.handlers if each is not self and each not in _listening]
        if logger.propagate:
            others += logging.getLogger().handlers
        for handler in others:
            if handler not in self._filtered:
                handler.addFilter(self._is_wanted)
                self._filtered.add(handler)
        last = logging.lastResort
        # A broker in a test does not print by itself: `logs` has it.
        is_brokers = any(each.is_of(record) for each in _listening)
        if others or is_brokers or last is None:
            return
        if record.levelno >= last.level and self._is_wanted(record):
            last.handle(record)

    def open(self) -> None:
        """Lets other handlers get everything again."""
        for handler in self._filtered:
            handler.removeFilter(self._is_wanted)
        self._filtered.clear()

    def _is_wanted(self, record: logging.LogRecord) -> bool:
        """Returns whether a record is of the level that its logger would have had."""
        name = record.name
        is_ours = name == _LOGGER or name.startswith(f"{_LOGGER}.")
        return not is_ours or record.levelno >= self._level_of(name)

    def _level_of(self, name: str) -> int:
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            level = logger.level
            if logger.name == _LOGGER and level == self.level_set:
                level = self.level_before
            if level:
                return level
            logger = logger.parent
        return logging.NOTSET


_gate = _Gate()


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
            _gate.level_before = logger.level
            # Before all others, which it is to keep records from.
            logger.handlers.insert(0, _gate)
        _listening.append(self)
        logger.setLevel(min(logger.getEffectiveLevel(), self.level))
        _gate.level_set = logger.level
        logger.addHandler(self)

    def detach(self) -> None:
        """Ends; with the last one the logger is as it was."""
        logger = logging.getLogger(_LOGGER)
        logger.removeHandler(self)
        if self in _listening:
            _listening.remove(self)
            if not _listening:
                logger.setLevel(_gate.level_before)
                logger.removeHandler(_gate)
                _gate.open()

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
