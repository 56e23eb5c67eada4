"""Reads a page of a program of the test over HTTP, as a scraper does."""

import asyncio


async def page_text(port: int, path: str) -> str:
    """Returns the body of a page that is there."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.0\r\nhost: x\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert head.split()[1] == b"200", head
    return body.decode()
