"""A client of any number of servers: one connection per address, made when it is needed.

    async with Client() as client:
        answer = await client.call("127.0.0.1:9876", RequestCode.GET_BROKER_CLUSTER_INFO)

A server may send requests too; the client's dispatcher serves them. All methods belong to the event
loop's thread.
"""

import asyncio
import os
import ssl
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from mqcore.errors import ConnectError, ConnectionLostError, ResponseError
from mqcore.native import Command
from mqcore.remoting.address import UnixAddress, parse_address
from mqcore.remoting.connection import Connection
from mqcore.remoting.dispatch import VERSION, Dispatcher
from mqcore.remoting.hub import Hub, LinkEvents
from mqcore.remoting.limits import Limits
from mqcore.remoting.link import Link
from mqcore.remoting.signing import Credentials
from mqcore.remoting.sweep import Sweep
from mqcore.remoting.tls import TlsContext, context_now

__all__ = ["CALL_TIMEOUT_S", "CONNECT_TIMEOUT_S", "Client", "expect"]

# The official client's default for calls that are not sends or pulls.
CALL_TIMEOUT_S = 3.0
CONNECT_TIMEOUT_S = 3.0

# What to do about refusals of brokers, by words of the official remarks.
_WAYS_OUT = {
    "not support consumer to filter message by": "set enablePropertyFilter=true on the broker",
    "recall failed, operation is forbidden": "set recallMessageEnable=true on the broker",
}


class Client:
    """Connections to servers, by address.

    Attributes:
        hub: What the connections share.
    """

    def __init__(
        self,
        dispatcher: Dispatcher | None = None,
        *,
        limits: Limits | None = None,
        events: Sequence[LinkEvents] = (),
        version: int = VERSION,
        language: int = 0,
        tls: TlsContext | None = None,
        credentials: Credentials | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        """Prepares; nothing is connected yet.

        Args:
            dispatcher: Serves requests that servers send.
            limits: The bounds of connections.
            events: Who hears of connections.
            version: The version in requests.
            language: The language code in requests; 0 is JAVA, 3 PYTHON.
            tls: Speaks TLS with it; plain without.
            credentials: What its requests are signed with; None for unsigned ones.
            connect_timeout_s: How long making a connection may take.
        """
        self.hub = Hub(dispatcher, limits=limits, events=events, version=version, language=language)
        self.hub.credentials = credentials
        self._tls = tls
        self._connect_timeout_s = connect_timeout_s
        self._links: dict[str, Link] = {}
        self._connecting: dict[str, asyncio.Task[Link]] = {}
        self._sweep = Sweep(self.hub)
        self._is_closed = False

    async def __aenter__(self) -> Self:
        """Returns itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes it."""
        await self.close()

    async def call(
        self,
        address: str,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> Command:
        """Sends a request and returns its answer, whatever its code.

        Args:
            address: `host:port` or `unix:/path`.
            code: What is asked for.
            ext: The header's fields.
            body: The body.
            timeout_s: The deadline, with the time that making a connection takes.

        Raises:
            ConnectError: There is no connection and none could be made: nothing was sent.
            CallTimeoutError: No answer in time.
            ConnectionLostError: The connection ended before the answer came.
            TooBusyError: Too many calls wait already.
        """
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        link = await self.link(address, timeout_s=timeout_s)
        # What is left may be nothing; the call then times out as it should, after sending.
        left_s = max(0.0, timeout_s - (loop.time() - began_s))
        return await link.call(code, ext, body, timeout_s=left_s)

    async def oneway(
        self,
        address: str,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        """Sends a request that has no answer.

        Raises:
            ConnectError: There is no connection and none could be made.
            ConnectionLostError: The connection ended before there was space.
        """
        try:
            async with asyncio.timeout(timeout_s):
                link = await self.link(address, timeout_s=timeout_s)
                await link.oneway(code, ext, body)
        except TimeoutError as error:
            raise ConnectionLostError(
                f"{address}: no space to send within {timeout_s:g} s", address=address
            ) from error

    def open_link(self, address: str) -> Link | None:
        """Returns the connection to an address if there is an open one."""
        link = self._links.get(address)
        return link if link is not None and link.is_open else None

    async def link(self, address: str, *, timeout_s: float | None = None) -> Link:
        """Returns the open connection to an address; makes it when there is none.

        Who asks for an address that is being connected waits for the same attempt; cancelling
        one does not cancel the attempt.

        Raises:
            ConnectError: It could not be made in time.
        """
        link = self._links.get(address)
        if link is not None and link.is_open:
            return link
        if self._is_closed:
            raise ConnectError(f"{address}: the client is closed", address=address)
        task = self._connecting.get(address)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._connect(address))
            self._connecting[address] = task
            task.add_done_callback(lambda done: self._connected(address, done))
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(task)
        except TimeoutError as error:
            raise ConnectError(
                f"{address}: no connection within {timeout_s:g} s", address=address
            ) from error

    def drop(self, address: str) -> None:
        """Closes the connection to an address, if there is one."""
        link = self._links.pop(address, None)
        if link is not None:
            link.close()

    async def close(self) -> None:
        """Closes every connection; calls that wait end with an error."""
        self._is_closed = True
        await self._sweep.stop()
        connecting = list(self._connecting.values())
        for task in connecting:
            task.cancel()
        await asyncio.gather(*connecting, return_exceptions=True)
        await self.hub.end(0.0)
        self._links.clear()

    async def _connect(self, address: str) -> Link:
        loop = asyncio.get_running_loop()
        target = parse_address(address)
        hub, tls = self.hub, context_now(self._tls)
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                if isinstance(target, UnixAddress):
                    _, made = await loop.create_unix_connection(
                        lambda: Connection(hub), target.path
                    )
                else:
                    _, made = await loop.create_connection(
                        lambda: Connection(hub),
                        target.host,
                        target.port,
                        ssl=tls,
                        server_hostname=target.host if tls is not None else None,
                    )
        except TimeoutError as error:
            why = f"no connection within {self._connect_timeout_s:g} s"
            raise ConnectError(f"{address}: {why}", address=address) from error
        except OSError as error:
            why = _why_of(error, is_tls=tls is not None)
            raise ConnectError(f"{address}: {why}", address=address) from error
        except ValueError as error:
            # What a peer gave for a name may be none: a letter that no name has, a zero byte.
            why = f"no host has such a name: {error}"
            raise ConnectError(f"{address!r}: {why}", address=address) from error
        return made.link

    def _connected(self, address: str, done: asyncio.Task[Link]) -> None:
        self._connecting.pop(address, None)
        if done.cancelled() or done.exception() is not None:
            return
        link = done.result()
        if self._is_closed:
            link.abort()
            return
        self._links[address] = link
        self._sweep.start()


def _why_of(error: OSError, *, is_tls: bool) -> str:
    """Returns why there is no connection, in the system's words."""
    if is_tls and isinstance(error, ConnectionResetError):
        return (
            "it ended the connection when TLS was asked for: it speaks plain, or has no certificate"
        )
    # Those of ssl have numbers of its own, and where several addresses fail there is none.
    if isinstance(error, ssl.SSLError) or not error.errno:
        return str(error)
    # A name that is not found has a negative number, and its words in the error.
    return os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)


def way_out(remark: str) -> str:
    """Returns what to do about a remark that gives no advice; empty for one that is not known."""
    return next((f": {todo}" for words, todo in _WAYS_OUT.items() if words in remark), "")


def expect(answer: Command, address: str, *codes: int) -> Command:
    """Returns an answer whose code is success, or one of `codes`.

    Args:
        answer: The answer.
        address: Who gave it, for the error.
        codes: Other codes that are fine.

    Raises:
        ResponseError: It has another code.
    """
    if answer.code == 0 or answer.code in codes:
        return answer
    remark = answer.remark or ""
    raise ResponseError(
        f"{address} answered {answer.code}: {remark.strip()}{way_out(remark)}",
        address=address,
        code=answer.code,
        remark=remark,
    )
