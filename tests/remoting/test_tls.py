"""TLS and plain on one port, with certificates made for the test."""

import asyncio
import contextlib
import ssl
from pathlib import Path

import pytest
import trustme

from loops import until
from mqcore.errors import ConnectError, FrameError, TlsError
from mqcore.remoting import (
    Client,
    Limits,
    ServerTls,
    TlsFiles,
    TlsMode,
    client_context,
    expect,
    server_context,
)
from remoting.conftest import Run
from remoting.peers import ECHO, LATER, assert_alive, peer_of, served


class Papers:
    """An authority and the files it made."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.trusted = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(str(self.trusted))
        self.server = self._issued(folder / "server.pem", "localhost", "127.0.0.1")
        self.client = self._issued(folder / "client.pem", "client.example")

    def _issued(self, path: Path, *names: str) -> Path:
        self.authority.issue_cert(*names).private_key_and_cert_chain_pem.write_to_path(str(path))
        return path

    def served(self, mode: TlsMode = TlsMode.PERMISSIVE) -> ServerTls:
        return ServerTls(mode, server_context(TlsFiles(certificate=self.server)))

    def trusting(self) -> ssl.SSLContext:
        return client_context(TlsFiles(trusted=self.trusted))


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers(tmp_path_factory.mktemp("papers"))


def test_permissive_serves_both_on_one_port(run: Run, papers: Papers) -> None:
    async def work() -> None:
        async with (
            served(tls=papers.served()) as it,
            Client(tls=papers.trusting()) as safe,
            Client() as plain,
        ):
            for client, is_tls in ((safe, True), (plain, False)):
                answer = await client.call(it.address, ECHO, body=b"x" * 300_000, timeout_s=30)
                assert len(answer.body) == 300_000
                assert it.seen[-1].link.is_tls is is_tls
            slow = [
                asyncio.create_task(safe.call(it.address, LATER, body=b"%d" % i, timeout_s=30))
                for i in range(20)
            ]
            await until(lambda: len(it.seen) == 22)
            it.gate.set()
            assert [(await call).body for call in slow] == [b"%d" % i for i in range(20)]

    run(work())


def test_enforcing_refuses_plain(run: Run, papers: Papers) -> None:
    async def work() -> None:
        tls = papers.served(TlsMode.ENFORCING)
        async with served(tls=tls) as it, Client(tls=papers.trusting()) as safe:
            async with peer_of(it.address) as peer:
                peer.send(b"\0\0\0\1")
                assert await peer.hear() is None
            assert it.refusals == {"tls": 1}
            expect(await safe.call(it.address, ECHO, timeout_s=30), it.address)

    run(work())


@pytest.mark.parametrize("mode", [TlsMode.PERMISSIVE, TlsMode.DISABLED])
def test_a_client_hello_without_certificate_is_refused(
    run: Run, papers: Papers, mode: TlsMode, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with (
            served(tls=ServerTls(mode)) as it,
            peer_of(it.address) as other,
            Client(tls=papers.trusting()) as safe,
        ):
            await assert_alive(other)
            with pytest.raises(ConnectError, match="speaks plain, or has no certificate"):
                await safe.call(it.address, ECHO, timeout_s=30)
            assert it.refusals == {"tls": 1}
            await assert_alive(other)

    run(work())
    setting = "tls.server.mode" if mode is TlsMode.DISABLED else "set tls.server.certPath and"
    assert "it begins TLS, and" in caplog.text
    assert setting in caplog.text


def test_a_client_that_trusts_nobody_we_know_gets_no_connection(
    run: Run, papers: Papers, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def work() -> None:
        stranger = Papers(tmp_path_factory.mktemp("stranger"))
        async with (
            served(tls=papers.served()) as it,
            peer_of(it.address) as other,
            Client(tls=stranger.trusting()) as client,
        ):
            await assert_alive(other)
            with pytest.raises(ConnectError, match=r"(?i)certificate"):
                await client.call(it.address, ECHO, timeout_s=30)
            await assert_alive(other)

    run(work())


def test_a_client_without_certificate_is_refused_where_one_is_required(
    run: Run, papers: Papers
) -> None:
    async def work() -> None:
        files = TlsFiles(certificate=papers.server, trusted=papers.trusted, is_peer_required=True)
        known = client_context(TlsFiles(certificate=papers.client, trusted=papers.trusted))
        tls = ServerTls(TlsMode.ENFORCING, server_context(files))
        async with (
            served(tls=tls) as it,
            Client(tls=known) as welcome,
            Client(tls=papers.trusting()) as unknown,
        ):
            expect(await welcome.call(it.address, ECHO, timeout_s=30), it.address)
            # With TLS 1.3 a client learns of it only after its side of the handshake.
            with pytest.raises(Exception, match=r"127\.0\.0\.1"):
                await unknown.call(it.address, ECHO, timeout_s=30)
            assert len(it.seen) == 1

    run(work())


def test_a_handshake_that_stalls_is_given_up(run: Run, papers: Papers) -> None:
    async def work() -> None:
        async with (
            served(Limits(handshake_s=0.05), tls=papers.served()) as it,
            peer_of(it.address) as peer,
            peer_of(it.address) as other,
        ):
            peer.send(b"\x16\x03\x01\x00")
            assert await peer.hear() is None
            await assert_alive(other)
            assert it.refusals == {"handshake": 1}

    run(work())


def test_a_client_hello_full_of_nonsense_hurts_nobody(run: Run, papers: Papers) -> None:
    async def work() -> None:
        async with (
            served(tls=papers.served()) as it,
            peer_of(it.address) as peer,
            peer_of(it.address) as other,
        ):
            peer.send(b"\x16\x03\x01\x02\x00" + bytes(range(256)) * 3)
            # An alert is no frame: the reader of the test raises.
            with contextlib.suppress(FrameError):
                assert await peer.hear() is None
            await assert_alive(other)

    run(work())


@pytest.mark.parametrize("what", ["no file", "missing", "no key", "no authority", "bad authority"])
def test_files_that_cannot_be_used_are_reported(papers: Papers, tmp_path: Path, what: str) -> None:
    missing = tmp_path / "missing.pem"
    files = {
        "no file": TlsFiles(),
        "missing": TlsFiles(certificate=missing),
        "no key": TlsFiles(certificate=papers.trusted),
        "no authority": TlsFiles(certificate=papers.server, is_peer_required=True),
        "bad authority": TlsFiles(certificate=papers.server, trusted=missing),
    }
    with pytest.raises(TlsError):
        server_context(files[what])
