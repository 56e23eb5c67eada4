"""The port of metrics answers HTTP, and whoever else finds it gets nowhere."""

import asyncio
import io
from collections.abc import Callable, Coroutine
from http.client import HTTPResponse
from typing import Any, cast

import pytest

from mqcore.errors import AddressError
from mqcore.remoting import observatory
from mqcore.remoting.observatory import Observatory, Page

DEADLINE_S = 60.0


class Made:
    """Bytes of an answer as http.client wants them."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def makefile(self, _mode: str) -> Any:
        return io.BytesIO(self.content)


def run(work: Callable[[Observatory, int], Coroutine[Any, Any, None]]) -> None:
    """Runs a test's coroutine beside a port with pages that work, and one that does not."""

    async def page() -> Page:
        return Page(200, b"42\n")

    async def broken() -> Page:
        raise KeyError("secret")

    async def bounded() -> None:
        served = Observatory({"/metrics": page, "/broken": broken})
        port = await served.start("127.0.0.1", 0)
        try:
            async with asyncio.timeout(DEADLINE_S):
                await work(served, port)
        finally:
            await served.stop()

    asyncio.run(bounded())


async def raw(port: int, content: bytes) -> bytes:
    """Returns everything that comes back until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(content)
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def asked(port: int, method: str, path: str) -> tuple[int, bytes]:
    content = await raw(port, f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    response = HTTPResponse(cast("Any", Made(content)), method=method)
    response.begin()
    assert response.getheader("connection") == "close"
    return response.status, response.read()


def test_pages_are_served_by_their_path() -> None:
    async def work(_: Observatory, port: int) -> None:
        assert await asked(port, "GET", "/metrics") == (200, b"42\n")
        assert await asked(port, "GET", "/metrics?x=1") == (200, b"42\n")
        assert await asked(port, "HEAD", "/metrics") == (200, b"")
        assert (await asked(port, "GET", "/etc/passwd"))[0] == 404
        assert (await asked(port, "POST", "/metrics"))[0] == 405

    run(work)


def test_a_page_that_fails_shows_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    async def work(_: Observatory, port: int) -> None:
        status, body = await asked(port, "GET", "/broken")
        assert status == 500
        assert b"secret" not in body

    run(work)
    assert "the page /broken could not be made" in caplog.text


@pytest.mark.parametrize(
    "content",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET /" + b"a" * 100_000,
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000,
    ],
)
def test_garbage_is_refused_and_others_are_served(content: bytes) -> None:
    async def work(_: Observatory, port: int) -> None:
        answer = await raw(port, content)
        assert answer[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.1 431")
        assert await asked(port, "GET", "/metrics") == (200, b"42\n")

    run(work)


def test_too_many_connections_are_closed_and_the_rest_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(observatory, "_REQUEST_TIMEOUT_S", DEADLINE_S)

    async def work(_: Observatory, port: int) -> None:
        held = [
            await asyncio.open_connection("127.0.0.1", port)
            for _ in range(observatory._CONNECTIONS_MAX)
        ]
        # One more ends without an answer, once the others were accepted.
        assert await raw(port, b"") == b""
        reader, writer = held[0]
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert (await reader.read()).endswith(b"42\n")
        for connection in held:
            connection[1].close()

    run(work)


def test_who_never_asks_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observatory, "_REQUEST_TIMEOUT_S", 0.0)

    async def work(_: Observatory, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        writer.close()

    run(work)


def test_a_port_that_is_taken_is_named() -> None:
    async def work(_: Observatory, port: int) -> None:
        with pytest.raises(AddressError, match=str(port)):
            await Observatory({}).start("127.0.0.1", port)

    run(work)


def test_stopping_ends_open_connections() -> None:
    async def work(served: Observatory, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /met")
        await asked(port, "GET", "/metrics")
        await served.stop()
        assert await reader.read() == b""
        writer.close()
        await served.stop()

    run(work)
