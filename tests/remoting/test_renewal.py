"""Renewed certificates: taken for new connections, when the new files can be used together."""

import asyncio
import logging
import ssl
from pathlib import Path

import pytest

from mqcore.client.blocking.sockets import BlockingLink
from mqcore.errors import ConnectError, TlsError
from mqcore.remoting import Client, ServerTls, TlsFiles, TlsMode
from mqcore.remoting.certificates import ends_in
from mqcore.remoting.renewal import Renewed
from mqcore.remoting.tls import renewed_client_context, renewed_server_context
from remoting.conftest import Run
from remoting.peers import ECHO, served
from tls_papers import Papers


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path / "papers")


async def _end_shown(client: Client, address: str) -> int:
    """Returns when the certificate ends that a server shows on a new connection."""
    client.drop(address)
    link = await client.link(address, timeout_s=30)
    assert link._transport is not None
    shown = link._transport.get_extra_info("ssl_object").getpeercert()
    return int(ssl.cert_time_to_seconds(shown["notAfter"]))


def test_a_renewed_certificate_is_for_new_connections(run: Run, papers: Papers) -> None:
    path = papers.issued("server", days=100)
    tls = ServerTls(TlsMode.ENFORCING, renewed_server_context(TlsFiles(certificate=path)))

    async def work() -> None:
        async with (
            served(tls=tls) as it,
            Client(tls=papers.context()) as kept,
            Client(tls=papers.context()) as other,
        ):
            await kept.call(it.address, ECHO, timeout_s=30)
            before = await _end_shown(other, it.address)
            assert before == ends_in(path)[0]
            papers.issued("server", days=200)
            after = await _end_shown(other, it.address)
            assert after == ends_in(path)[0]
            assert after != before
            # The connection that was there is the same one.
            await kept.call(it.address, ECHO, timeout_s=30)
            assert it.seen[0].link is it.seen[-1].link

    run(work())


def test_a_certificate_whose_key_is_not_there_yet_waits_for_it(
    run: Run, papers: Papers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    old, new = (papers.pair(days) for days in (100, 200))
    certificate.write_bytes(old.certificate)
    key.write_bytes(old.key)
    followed = renewed_server_context(TlsFiles(certificate=certificate, key=key))
    caplog.set_level(logging.INFO, "mqcore.remoting")

    async def work() -> None:
        tls = ServerTls(TlsMode.ENFORCING, followed)
        async with served(tls=tls) as it, Client(tls=papers.context()) as client:
            first = await _end_shown(client, it.address)
            certificate.write_bytes(new.certificate)
            assert await _end_shown(client, it.address) == first
            assert await _end_shown(client, it.address) == first
            assert (followed.taken, followed.refused, followed.is_behind) == (0, 1, True)
            key.write_bytes(new.key)
            assert await _end_shown(client, it.address) == ends_in(certificate)[0] != first
            assert (followed.taken, followed.refused, followed.is_behind) == (1, 1, False)

    run(work())
    lines = [each.message for each in caplog.records]
    logged = [each for each in lines if each.startswith("certificates of the listener")]
    # Once each, whatever came in meanwhile.
    assert len(logged) == 2
    assert "what they were before is used on" in logged[0]


@pytest.mark.parametrize("fault", ["gone", "empty", "unreadable bytes"])
def test_a_file_that_spoils_changes_nothing(fault: str, run: Run, papers: Papers) -> None:
    path = papers.issued("server")
    whole = path.read_bytes()
    followed = renewed_server_context(TlsFiles(certificate=path))

    async def work() -> None:
        tls = ServerTls(TlsMode.ENFORCING, followed)
        async with served(tls=tls) as it, Client(tls=papers.context()) as client:
            if fault == "gone":
                path.unlink()
            else:
                path.write_bytes(b"" if fault == "empty" else whole[:700])
            await _end_shown(client, it.address)
            assert followed.is_behind
            path.write_bytes(whole)
            await _end_shown(client, it.address)
            assert not followed.is_behind

    run(work())


def test_a_client_takes_renewed_authorities(run: Run, papers: Papers, tmp_path: Path) -> None:
    other = Papers(tmp_path / "others")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(papers.trusted.read_bytes())
    tls = renewed_client_context(TlsFiles(trusted=trusted))

    async def work() -> None:
        async with served(tls=other.serving()) as it, Client(tls=tls) as client:
            with pytest.raises(ConnectError, match="certificate"):
                await client.call(it.address, ECHO, timeout_s=30)
            trusted.write_bytes(other.trusted.read_bytes())
            await client.call(it.address, ECHO, timeout_s=30)
            # The blocking twin follows the same files.
            link = await asyncio.to_thread(BlockingLink, it.address, tls=tls, timeout_s=30)
            link.close()
            trusted.write_bytes(papers.trusted.read_bytes())
            with pytest.raises(ConnectError, match="certificate"):
                await asyncio.to_thread(BlockingLink, it.address, tls=tls, timeout_s=30)

    run(work())


def test_a_file_with_the_same_bytes_by_another_name_is_looked_at(tmp_path: Path) -> None:
    """A directory that is exchanged as a whole, as Kubernetes does with secrets."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    link = tmp_path / "now"
    link.symlink_to("a")
    followed = Renewed("it", [link / "file", None], (link / "file").read_text)
    assert followed.now() == "a"
    beside = tmp_path / "beside"
    beside.symlink_to("b")
    beside.rename(link)
    assert followed.now() == "b"
    assert followed.taken == 1


def test_what_cannot_be_used_at_the_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TlsError, match="missing"):
        renewed_server_context(TlsFiles(certificate=tmp_path / "missing.pem"))


def test_ciphers_are_those_of_the_setting(papers: Papers) -> None:
    files = TlsFiles(certificate=papers.issued("s"), ciphers="ECDHE-ECDSA-AES256-GCM-SHA384")
    context = renewed_server_context(files).now()
    older = [each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.2"]
    assert older == ["ECDHE-ECDSA-AES256-GCM-SHA384"]
    assert context.maximum_version is ssl.TLSVersion.MAXIMUM_SUPPORTED
    with pytest.raises(TlsError, match="none of the ciphers NOTHING"):
        renewed_client_context(TlsFiles(ciphers="NOTHING"))
