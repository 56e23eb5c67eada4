"""The extensions of queues as they lie in a store: the tags codes that queue units only point to.

Pure reading through a directory; knows no Arrow and no log.
"""

import struct
from bisect import bisect_right
from typing import Final

from mqcore.spark.directories import Directory

# Size, tags code, store time, bytes of bits (`ConsumeQueueExt.CqExtUnit`).
_HEAD: Final = struct.Struct(">hqqh")
# The greatest number in a queue unit that is no tags code but an offset in the extension
# (`ConsumeQueueExt.MAX_ADDR`).
EXTENSION_CODE_MAX: Final = -(1 << 31) - 1
_FIRST_CODE: Final = -(1 << 63)
# Bytes read at once: hundreds of units, which lie as their queue units do.
_PIECE_BYTES: Final = 64 << 10


class ExtensionReader:
    """Reads the extension of one queue, front to back.

    Args:
        directory: Where the store is.
        path: The extension's directory there; it need not exist.
    """

    def __init__(self, directory: Directory, path: str) -> None:
        """Looks which files there are."""
        self._directory = directory
        entries = sorted(
            (int(entry.name), entry.path)
            for entry in directory.files(path)
            if entry.name.isdecimal()
        )
        self._bases = [base for base, _path in entries]
        self._paths = [path for _base, path in entries]
        self._piece = b""
        self._piece_at = 0

    def tags_code(self, code: int) -> int | None:
        """Returns the tags code that a queue unit means, None where the extension has lost it."""
        if code > EXTENSION_CODE_MAX:
            return code
        at = code - _FIRST_CODE
        for is_last_try in (False, True):
            head = self._piece[max(0, at - self._piece_at) :][: _HEAD.size]
            if self._piece_at <= at and len(head) == _HEAD.size:
                size, tags_code, _stored_ms, bits_len = _HEAD.unpack(head)
                is_whole = bits_len >= 0 and size == _HEAD.size + bits_len
                return tags_code if is_whole else None
            if is_last_try or not self._fill(at):
                break
        return None

    def _fill(self, at: int) -> bool:
        number = bisect_right(self._bases, at) - 1
        if number < 0:
            return False
        self._piece = self._directory.read(
            self._paths[number], at - self._bases[number], _PIECE_BYTES
        )
        self._piece_at = at
        return True
