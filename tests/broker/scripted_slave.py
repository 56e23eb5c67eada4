"""A slave that does what a test wants: connects, reads, reports any number at any time.

    slave = await ScriptedSlave.of(port, 0)      # asks for the log from 0 on
    await slave.until(end)                       # has read the log up to an offset
    slave.report(end)
    slave.close()

Knows the stream of replication as RocketMQ describes it, and none of our code.
"""

import asyncio
import contextlib
import struct

_HEADER = struct.Struct(">qi")
_REPORT = struct.Struct(">q")


class ScriptedSlave:
    """One connection to the port of a master for slaves.

    Attributes:
        reports_at_once: Whether everything that comes is reported as soon as it is there.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Takes a connection; `of` makes one."""
        self._reader, self._writer = reader, writer
        self._end = 0
        self._grown = asyncio.Event()
        self.reports_at_once = False
        self._reading = asyncio.get_running_loop().create_task(self._read(), name="slave")

    @classmethod
    async def of(cls, port: int, begin: int, *, reports_at_once: bool = False) -> "ScriptedSlave":
        """Connects to a master of this machine, and asks for its log from `begin` on."""
        slave = cls(*await asyncio.open_connection("127.0.0.1", port))
        slave.reports_at_once = reports_at_once
        slave.report(begin)
        return slave

    @property
    def end(self) -> int:
        """Where the log ends that it has read."""
        return self._end

    async def _read(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                offset, length = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
                await self._reader.readexactly(length)
                self._end = offset + length
                if self.reports_at_once and length:
                    self.report(self._end)
                self._grown.set()

    def report(self, end: int) -> None:
        """Reports an offset, true or not."""
        self._writer.write(_REPORT.pack(end))

    async def until(self, end: int) -> None:
        """Returns when it has read the log up to `end`."""
        while self._end < end:
            self._grown.clear()
            await self._grown.wait()

    async def until_cut(self) -> None:
        """Returns when the master has closed the connection."""
        await self._reading
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    def close(self) -> None:
        """Closes the connection."""
        self._reading.cancel()
        self._writer.close()
