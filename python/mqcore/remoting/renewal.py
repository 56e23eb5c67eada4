"""What is made of files, and made anew once they have changed: certificates are renewed in place.

The files are looked at whenever the next connection asks, so that open connections keep what they
have. Files that cannot be used together (a new certificate, and its key not yet there) leave in use
what was made before. Knows no socket, and not what is made. Any thread may ask.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, TypeVar

from mqcore.errors import TlsError

__all__ = ["Renewed"]

_log = logging.getLogger(__name__)

_Made = TypeVar("_Made")


class Renewed(Generic[_Made]):
    """One thing that is made of some files.

    Attributes:
        paths: The files.
        taken: How often changed files were taken since the start.
        refused: How often changed files could not be used.
        is_behind: Whether the files as they are now cannot be used, and others before them are.
    """

    def __init__(self, what: str, paths: Iterable[Path | None], make: Callable[[], _Made]) -> None:
        """Makes it.

        Args:
            what: What to call it in the log.
            paths: The files that it is made of; None for those that there are not.
            make: Makes it of them, and raises `TlsError` where they cannot be used.

        Raises:
            TlsError: A file cannot be read, or they cannot be used.
        """
        self._what = what
        self.paths = sorted({path for path in paths if path is not None})
        self._make = make
        self._lock = threading.Lock()
        self.taken = 0
        self.refused = 0
        self.is_behind = False
        self._seen = self._marks()
        self._made = make()

    def now(self) -> _Made:
        """Returns what the files make; what was made before where they cannot be used."""
        with self._lock:
            # Looked at before they are read: what is written meanwhile is seen the next time.
            marks = self._marks()
            if marks != self._seen:
                self._seen = marks
                self._renew()
            return self._made

    def _renew(self) -> None:
        try:
            self._made = self._make()
        except TlsError as error:
            self.refused += 1
            self.is_behind = True
            _log.warning(
                "%s: changed files cannot be used, what they were before is used on: %s",
                self._what,
                error.message,
            )
            return
        self.taken += 1
        self.is_behind = False
        names = ", ".join(map(str, self.paths))
        _log.info("%s: changed files are used for new connections: %s", self._what, names)

    def _marks(self) -> list[tuple[int, ...]]:
        """Returns what changes with the files, their contents and whether they may be read."""
        return [_mark(path) for path in self.paths]


def _mark(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError as error:
        return (error.errno or -1,)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
