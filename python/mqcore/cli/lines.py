"""Lines of files and pipes, read in a thread; what comes is handed over at once.

Knows nothing of messages.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import BinaryIO

__all__ = ["lines_of"]

# One read; a pipe holds as much.
_READ_BYTES = 64 << 10
# Reads that may wait for who takes the lines.
_WAITING_MAX = 16


async def lines_of(open_stream: Callable[[], BinaryIO]) -> AsyncIterator[list[bytes]]:
    r"""Yields lines as they come, without their ends (`\n` or `\r\n`).

    Args:
        open_stream: Opens what is read; called in the thread.

    Raises:
        OSError: It cannot be opened or read.
    """
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[list[bytes] | OSError | None] = asyncio.Queue()
    free_reads = threading.Semaphore(_WAITING_MAX)
    is_left = threading.Event()

    def put(item: list[bytes] | OSError | None) -> None:
        free_reads.acquire()
        # The loop may be gone: who was interrupted does not wait for a pipe.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(waiting.put_nowait, item)

    def read() -> None:
        try:
            with open_stream() as stream:
                rest = b""
                while not is_left.is_set():
                    # Returns what is there, and waits only while there is nothing.
                    data = stream.read1(_READ_BYTES)  # type: ignore[attr-defined]
                    if not data:
                        break
                    *whole, rest = (rest + data).split(b"\n")
                    if whole:
                        put([line.removesuffix(b"\r") for line in whole])
                if rest:
                    put([rest.removesuffix(b"\r")])
            put(None)
        except OSError as error:
            put(error)

    threading.Thread(target=read, name="lines", daemon=True).start()
    try:
        while True:
            item = await waiting.get()
            free_reads.release()
            if item is None:
                return
            if isinstance(item, OSError):
                raise item
            yield item
    finally:
        is_left.set()
        free_reads.release(_WAITING_MAX)
