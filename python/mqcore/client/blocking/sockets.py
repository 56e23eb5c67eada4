"""Blocking connections to brokers, for one request at a time each; kept for the next one.

A hop through the loop's thread costs some 60 microseconds, about as much as the whole send. A
connection is taken out of the pool while it is used, so that any number of threads may send.
"""

import contextlib
import select
import socket
import ssl
import threading
import time
from collections import deque

from mqcore.errors import (
    CallTimeoutError,
    ConnectError,
    ConnectionLostError,
    FrameError,
    RemotingError,
)
from mqcore.native import Command, FrameReader
from mqcore.remoting.address import UnixAddress, parse_address
from mqcore.remoting.request_codes import code_name
from mqcore.remoting.tls import TlsContext, context_now

__all__ = ["BlockingLink", "SocketPool"]

_RECEIVE_BYTES = 16 << 10
# Brokers close a connection that was idle for 120 s; one that may be closing is not used.
_IDLE_S_MAX = 60.0
# Connections kept to one broker; a flood of threads makes more and drops them afterwards.
_KEPT_MAX = 64
_SHORTEST_WAIT_S = 0.001
# A time-out that is so near the wanted one stays: setting it is a system call.
_NEAR_S = 0.005


class BlockingLink:
    """One connection.

    Attributes:
        address: Where to.
        used_s: When it was last used, by the monotonic clock.
    """

    __slots__ = ("_buffer", "_end", "_reader", "_socket", "_timeout_s", "address", "used_s")

    def __init__(self, address: str, *, tls: TlsContext | None, timeout_s: float) -> None:
        """Connects.

        Raises:
            ConnectError: It could not be made in time.
        """
        self.address = address
        self._reader = FrameReader()
        self._buffer = memoryview(bytearray(_RECEIVE_BYTES))
        self.used_s = time.monotonic()
        target = parse_address(address)
        try:
            if isinstance(target, UnixAddress):
                made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                made.settimeout(timeout_s)
                made.connect(target.path)
            else:
                made = socket.create_connection((target.host, target.port), timeout_s)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                context = context_now(tls)
                if context is not None:
                    made = context.wrap_socket(made, server_hostname=target.host)
        except TimeoutError as error:
            raise ConnectError(
                f"{address}: no connection within {timeout_s:g} s", address=address
            ) from error
        except OSError as error:
            raise ConnectError(f"{address}: {error}", address=address) from error
        self._socket = made
        self._timeout_s = timeout_s
        # Where TLS brings bytes of its own (tickets), they are no end.
        self._end: select.poll | None = None
        if not isinstance(made, ssl.SSLSocket):
            self._end = select.poll()
            self._end.register(made, select.POLLIN)

    def exchange(self, opaque: int, frame: bytes, timeout_s: float, code: int) -> Command:
        """Sends a request and returns its answer. After any error the connection is of no use.

        Args:
            opaque: The request's number.
            frame: The whole frame.
            timeout_s: The deadline.
            code: What is asked, for the error.

        Raises:
            CallTimeoutError: No answer in time.
            ConnectionLostError: The connection ended before the answer.
        """
        deadline_s = time.monotonic() + timeout_s
        try:
            self._wait_at_most(timeout_s)
            self._socket.sendall(frame)
            while True:
                count = self._socket.recv_into(self._buffer)
                if not count:
                    raise ConnectionLostError(
                        f"{self.address}: the connection ended", address=self.address
                    )
                for command in self._reader.feed(self._buffer[:count]):
                    if command.is_response and command.opaque == opaque:
                        self.used_s = time.monotonic()
                        return command
                # Not 0, which would mean not to wait at all.
                self._wait_at_most(max(deadline_s - time.monotonic(), _SHORTEST_WAIT_S))
        except TimeoutError as error:
            raise CallTimeoutError(
                f"{self.address}: no answer to {code_name(code)} within {timeout_s:g} s",
                address=self.address,
                code=code,
                timeout_s=timeout_s,
            ) from error
        except FrameError as error:
            raise ConnectionLostError(
                f"{self.address} sent bytes that are no frame: {error.message}",
                address=self.address,
            ) from error
        except OSError as error:
            raise ConnectionLostError(f"{self.address}: {error}", address=self.address) from error

    def send(self, frame: bytes, timeout_s: float) -> None:
        """Sends a request that has no answer.

        Raises:
            ConnectionLostError: The connection ended, or had no space in time.
        """
        try:
            self._wait_at_most(timeout_s)
            self._socket.sendall(frame)
        except OSError as error:
            raise ConnectionLostError(f"{self.address}: {error}", address=self.address) from error
        self.used_s = time.monotonic()

    def receive_exactly(self, into: memoryview, timeout_s: float) -> None:
        """Fills a buffer with what comes; for who reads frames without a command's own reader.

        Raises:
            CallTimeoutError: Not enough came in time.
            ConnectionLostError: The connection ended.
        """
        deadline_s = time.monotonic() + timeout_s
        at = 0
        try:
            while at < len(into):
                self._socket.settimeout(max(deadline_s - time.monotonic(), _SHORTEST_WAIT_S))
                count = self._socket.recv_into(into[at:])
                if not count:
                    raise ConnectionLostError(
                        f"{self.address}: the connection ended", address=self.address
                    )
                at += count
        except TimeoutError as error:
            raise CallTimeoutError(
                f"{self.address}: {at} of {len(into)} bytes of an answer came within "
                f"{timeout_s:g} s",
                address=self.address,
                code=0,
                timeout_s=timeout_s,
            ) from error
        except OSError as error:
            raise ConnectionLostError(f"{self.address}: {error}", address=self.address) from error
        self.used_s = time.monotonic()

    @property
    def is_fresh(self) -> bool:
        """Whether it was used lately and the broker has not closed it."""
        if time.monotonic() - self.used_s > _IDLE_S_MAX:
            return False
        # Nothing can be there to be read between two exchanges but the end.
        return self._end is None or not self._end.poll(0)

    def _wait_at_most(self, timeout_s: float) -> None:
        if abs(timeout_s - self._timeout_s) > _NEAR_S or timeout_s < _NEAR_S:
            self._socket.settimeout(timeout_s)
            self._timeout_s = timeout_s

    def close(self) -> None:
        """Closes it."""
        with contextlib.suppress(OSError):
            self._socket.close()


class SocketPool:
    """The connections that are not in use, by address."""

    def __init__(self, *, tls: TlsContext | None, connect_timeout_s: float) -> None:
        """Begins without any."""
        self._tls = tls
        self._connect_timeout_s = connect_timeout_s
        self._kept: dict[str, deque[BlockingLink]] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def take(self, address: str, timeout_s: float) -> BlockingLink:
        """Returns a connection that nobody else uses; makes one when there is none.

        Raises:
            ConnectError: It could not be made in time.
        """
        kept = self._kept.get(address)
        while kept:
            try:
                link = kept.pop()
            except IndexError:
                # Another thread took the last one.
                break
            if link.is_fresh:
                return link
            link.close()
        limit_s = min(timeout_s, self._connect_timeout_s)
        return BlockingLink(address, tls=self._tls, timeout_s=limit_s)

    def give(self, link: BlockingLink) -> None:
        """Keeps a connection for the next one who asks."""
        kept = self._kept.get(link.address)
        if kept is None:
            with self._lock:
                kept = self._kept.setdefault(link.address, deque())
        if self._is_closed or len(kept) >= _KEPT_MAX:
            link.close()
        else:
            kept.append(link)

    def exchange(
        self, address: str, opaque: int, frame: bytes, timeout_s: float, code: int
    ) -> Command:
        """Sends a request and returns its answer, whatever its code.

        Raises:
            RemotingError: There was none; its classes give the reason.
        """
        began_s = time.monotonic()
        link = self.take(address, timeout_s)
        left_s = timeout_s - (time.monotonic() - began_s)
        try:
            answer = link.exchange(opaque, frame, max(left_s, _SHORTEST_WAIT_S), code)
        except BaseException:
            link.close()
            raise
        self.give(link)
        return answer

    def send(self, address: str, frame: bytes, timeout_s: float) -> None:
        """Sends a request that has no answer.

        Raises:
            RemotingError: There was no connection, or no space on it.
        """
        link = self.take(address, timeout_s)
        try:
            link.send(frame, timeout_s)
        except RemotingError:
            link.close()
            raise
        self.give(link)

    def close(self) -> None:
        """Closes what is kept; what is in use is closed when it comes back."""
        self._is_closed = True
        for kept in list(self._kept.values()):
            while kept:
                with contextlib.suppress(IndexError):
                    kept.pop().close()
