"""The audits of servers, synchronously: the methods of `mqcore.admin.audits`."""

from mqcore.admin import audits as asynchronous
from mqcore.admin.audits import AuditCheck, AuditPage
from mqcore.audit import Wanted
from mqcore.client.blocking.loop_thread import LoopThread

__all__ = ["Audits"]


class Audits:
    """The audits of servers. An address is `host:port` of a broker, name server or controller."""

    def __init__(self, thread: LoopThread, core: asynchronous.Audits) -> None:
        """Takes the loop, and the asyncio methods under it."""
        self._thread = thread
        self._core = core

    def brokers(self) -> list[str]:
        """Returns the addresses of all brokers, masters first: each has an audit of its own.

        Raises:
            NameServerError: No name server answers.
        """
        return self._thread.run(self._core.brokers)

    def read(
        self, address: str, *, count: int = 100, before: int = 0, wanted: Wanted | None = None
    ) -> AuditPage:
        """Returns lines of a server's audit, the newest first; a Super user asks.

        Args:
            address: The server.
            count: How many lines at the most, up to 500.
            before: Only lines before this one; 0 for all.
            wanted: Which lines; None for every one.

        Raises:
            ResponseError: It refused, or is official.
            UsageError: A number is out of bounds.
        """
        return self._thread.run(
            lambda: self._core.read(address, count=count, before=before, wanted=wanted)
        )

    def check(self, address: str, *, number: int = 0, line_hash: str = "") -> AuditCheck:
        """Returns whether lines were taken out of a server's audit, or changed.

        Args:
            address: The server.
            number: A line that must be there; 0 for none.
            line_hash: The hash that it had.

        Raises:
            ResponseError: It refused, has no audit, or is official.
            UsageError: The number is out of bounds.
        """
        return self._thread.run(
            lambda: self._core.check(address, number=number, line_hash=line_hash)
        )
