"""The small files of a broker's `config` folder: read with their `.bak`, replaced durably.

Knows nothing of their content but the function that reads it. Blocks on the disk: the event loop
calls it in a thread.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mqcore.errors import MQError, StateFileError
from mqcore.native import write_state

_log = logging.getLogger("mqcore.broker")

# Longest file that is read, as long as the engine writes one.
LEN_MAX_BYTES: Final = 256 << 20


class StateFile:
    """One small file.

    Args:
        path: Where it lies.
    """

    def __init__(self, path: Path) -> None:
        """Takes the path."""
        self.path = path

    @property
    def backup(self) -> Path:
        """The generation before."""
        return self.path.with_name(f"{self.path.name}.bak")

    def load(self, take: Callable[[bytes], None]) -> bool:
        """Gives the newest generation that can be read to `take`.

        Args:
            take: Takes a content, or raises `MQError` and takes nothing.

        Returns:
            Whether there was one: a file that is absent or empty in both generations is none.

        Raises:
            StateFileError: There is content, and no generation can be read.
        """
        why = self._take(self.path, take)
        if why is None:
            return True
        backup_why = self._take(self.backup, take)
        if backup_why is None:
            if why:
                _log.warning("%s cannot be read (%s): %s is used", self.path, why, self.backup)
            return True
        if not why and not backup_why:
            return False
        raise StateFileError(
            f"{self.path}: {why or 'it is missing or empty'}, nor can {self.backup.name} be read: "
            f"{backup_why or 'it is missing or empty'}. Restore it, or remove both to start with "
            "nothing",
            path=str(self.path),
            why=why or backup_why,
        )

    @staticmethod
    def _take(path: Path, take: Callable[[bytes], None]) -> str | None:
        """Returns None where it was taken, `""` where there is nothing, else what is wrong."""
        try:
            if path.stat().st_size > LEN_MAX_BYTES:
                return f"it has more than {LEN_MAX_BYTES} bytes"
            content = path.read_bytes()
        except FileNotFoundError:
            return ""
        except OSError as error:
            return error.strerror or str(error)
        if not content.strip():
            return ""
        try:
            take(content)
        except MQError as error:
            return error.message
        return None

    def save(self, content: bytes) -> None:
        """Replaces the file; on return both generations survive power loss.

        Raises:
            StoreError: It cannot be written; the old content stays.
        """
        write_state(self.path, content)
