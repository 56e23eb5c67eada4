"""The console over HTTPS: its certificate is renewed without a restart."""

import asyncio
import ssl
from pathlib import Path

import pytest

from mqcore.console import Console, ConsoleSettings
from mqcore.errors import TlsError
from mqcore.remoting.certificates import ends_in
from tls_papers import Papers


async def _end_shown(port: int, papers: Papers) -> int:
    """Returns when the certificate ends that a new connection is shown."""
    _, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=papers.context(), server_hostname="127.0.0.1"
    )
    shown = writer.get_extra_info("ssl_object").getpeercert()
    writer.close()
    return int(ssl.cert_time_to_seconds(shown["notAfter"]))


def _settings(tmp_path: Path, certificate: Path, key: Path) -> ConsoleSettings:
    # Nobody is asked: no page is looked at.
    return ConsoleSettings(
        namesrv="127.0.0.1:1", data=tmp_path / "data", port=0, certificate=certificate, key=key
    )


def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    papers = Papers(tmp_path / "papers")
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    old, new = papers.pair(100), papers.pair(200)
    certificate.write_bytes(old.certificate)
    key.write_bytes(old.key)

    async def work() -> None:
        console = Console(_settings(tmp_path, certificate, key))
        await console.start()
        try:
            port = console.ports["console"]
            before = await _end_shown(port, papers)
            assert before == ends_in(certificate)[0]
            certificate.write_bytes(new.certificate)
            # Its key is not there yet.
            assert await _end_shown(port, papers) == before
            key.write_bytes(new.key)
            assert await _end_shown(port, papers) == ends_in(certificate)[0] != before
        finally:
            await console.stop()

    asyncio.run(work())


def test_a_certificate_without_its_key_ends_the_start(tmp_path: Path) -> None:
    papers = Papers(tmp_path / "papers")
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    certificate.write_bytes(papers.pair().certificate)
    key.write_bytes(papers.pair().key)

    async def work() -> None:
        console = Console(_settings(tmp_path, certificate, key))
        with pytest.raises(TlsError, match=r"k\.pem cannot be used"):
            await console.start()
        await console.stop()

    asyncio.run(work())
