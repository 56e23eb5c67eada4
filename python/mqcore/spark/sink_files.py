"""Files that are counted and summed while they are written. Knows no directory."""

import io
import zlib
from collections.abc import Callable
from typing import Any, Final

__all__ = ["Sink"]


# What is written and not synced, at the most. One sync of a file of a gigabyte at its end keeps the
# syncs of a broker on the same disk waiting, and unwritten pages its appends.
SETTLED_BYTES: Final = 8 << 20


class Sink(io.RawIOBase):
    """A file that counts and sums what is written to it, as Parquet writers want one.

    Closing it does not close the file, which is the directory's; nor does flushing: the directory
    syncs at the end.
    """

    def __init__(self, target: Any, settle: Callable[[], None] | None = None) -> None:
        """Takes an open file.

        Args:
            target: The file.
            settle: Called after every `SETTLED_BYTES`: syncs what was written so far.
        """
        super().__init__()
        self._target = target
        self._settle = settle
        self._unsettled = 0
        self.size_bytes = 0
        self.crc32 = 0

    def write(self, data: Any) -> int:
        """Writes all of it."""
        view = memoryview(data).cast("B")
        self.crc32 = zlib.crc32(view, self.crc32)
        self.size_bytes += len(view)
        self._target.write(view)
        self._unsettled += len(view)
        if self._settle is not None and self._unsettled >= SETTLED_BYTES:
            self._settle()
            self._unsettled = 0
        return len(view)

    def writable(self) -> bool:
        """Returns True, which pyarrow asks for."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Returns how many bytes were written, for `io.IOBase`, which asks for its position so.

        Raises:
            io.UnsupportedOperation: It is to go anywhere else.
        """
        if (offset, whence) != (0, io.SEEK_CUR):
            raise io.UnsupportedOperation("a file that is summed is written front to back")
        return self.size_bytes
