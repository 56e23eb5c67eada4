"""Pages such as `/metrics` and `/healthz`: HTTP on a port of its own, on a program's event loop.

A few pages, no state, one answer per connection. Bytes are read by h11; everything has a bound, so
that nobody who finds the port can hold the program up. Knows no program: it is given what to show.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

import h11

from mqcore.errors import AddressError, AddressReason

_log = logging.getLogger("mqcore.metrics")

# A request is a line and some headers.
_REQUEST_BYTES_MAX = 16_384
_READ_BYTES = 4_096
# Who does not ask, and take the answer, within this time is not a scraper: Prometheus waits ten.
_REQUEST_TIMEOUT_S = 10.0
# Scrapers come one at a time; the rest is a mistake, or worse.
_CONNECTIONS_MAX = 16
_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Page:
    """One answer.

    Attributes:
        status: The HTTP status.
        body: The body.
        kind: Its content type.
        rest: More of a long body, in pieces.
    """

    status: int
    body: bytes
    kind: str = _TEXT
    rest: Iterable[bytes] | None = None


Source = Callable[[], Awaitable[Page]]


class Observatory:
    """Serves pages by their path; `start` listens, `stop` ends."""

    def __init__(self, pages: dict[str, Source]) -> None:
        """Prepares.

        Args:
            pages: What to answer, by path.
        """
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listens; returns the port, chosen where 0 was asked for.

        Raises:
            AddressError: It cannot be listened on.
        """
        try:
            self._server = await asyncio.start_server(
                self._accepted, host, port, limit=_REQUEST_BYTES_MAX
            )
        except OSError as error:
            why = error.strerror or str(error)
            raise AddressError(
                f"metrics: cannot listen on {host}:{port}: {why}",
                address=f"{host}:{port}",
                reason=AddressReason.CANNOT_LISTEN,
            ) from error
        chosen: int = self._server.sockets[0].getsockname()[1]
        return chosen

    async def stop(self) -> None:
        """Ends listening and every connection."""
        if self._server is None:
            return
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= _CONNECTIONS_MAX:
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_REQUEST_BYTES_MAX)
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                page, with_body = await self._answer(connection, reader)
                await _write(writer, connection, page, with_body=with_body)
        except (TimeoutError, ConnectionError):
            # Nobody asked, or nobody waits any more.
            pass
        finally:
            writer.close()

    async def _answer(
        self, connection: h11.Connection, reader: asyncio.StreamReader
    ) -> tuple[Page, bool]:
        """Returns the page asked for, and whether its body is wanted."""
        try:
            request = await _request(connection, reader)
        except h11.RemoteProtocolError as error:
            return Page(error.error_status_hint, b"no request of HTTP\n"), True
        with_body = request.method != b"HEAD"
        if request.method not in (b"GET", b"HEAD"):
            return Page(405, b"GET alone\n"), True
        path = request.target.split(b"?", 1)[0].decode("ascii", "replace")
        source = self._pages.get(path)
        if source is None:
            listed = "".join(f"{each}\n" for each in self._pages)
            return Page(404, listed.encode()), with_body
        try:
            return await source(), with_body
        except Exception:
            _log.exception("the page %s could not be made", path)
            return Page(500, b"the page could not be made; see the program's log\n"), with_body


async def _request(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Request:
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            return event
        if event is not h11.NEED_DATA:
            raise h11.RemoteProtocolError("no request")
        content = await reader.read(_READ_BYTES)
        connection.receive_data(content)


async def _write(
    writer: asyncio.StreamWriter, connection: h11.Connection, page: Page, *, with_body: bool
) -> None:
    """Writes an answer in pieces: a transport copies what does not fit into the socket.

    The length of a long one is not known before: it goes out in chunks.
    """
    if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        return
    headers = [("content-type", page.kind), ("connection", "close")]
    if page.rest is None:
        headers.append(("content-length", str(len(page.body))))
    writer.write(connection.send(h11.Response(status_code=page.status, headers=headers)) or b"")
    if with_body:
        for piece in (page.body, *(page.rest or ())):
            writer.write(connection.send(h11.Data(data=piece)) or b"")
            await writer.drain()
            # A drain waits only where much is unsent: others have their turn after each piece.
            await asyncio.sleep(0)
        writer.write(connection.send(h11.EndOfMessage()) or b"")
    await writer.drain()
