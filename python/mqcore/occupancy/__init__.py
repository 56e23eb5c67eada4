"""What a process and the files of a store occupy, asked of the kernel: memory, maps, page cache.

Looks at `/proc` from outside or from within: it works beside a broker that no longer answers. Knows
no broker and no protocol. Everything here reads files and may wait: it belongs in a thread.
"""

from mqcore.occupancy.files import page_cache
from mqcore.occupancy.process import holder_of, occupied, store_of
from mqcore.occupancy.values import FilePart, Held, Mapped, Occupied

__all__ = [
    "FilePart",
    "Held",
    "Mapped",
    "Occupied",
    "holder_of",
    "occupied",
    "page_cache",
    "store_of",
]
