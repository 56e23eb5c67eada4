"""Both faces speak TLS to name servers and brokers; a certificate of a stranger is refused."""

import asyncio
import dataclasses
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner, Result

import mqcore
from client.serving import scripted
from mqcore import Message, TlsFiles, aio
from mqcore.cli.main import commands
from mqcore.client.instance import tls_context
from mqcore.errors import NameServerError
from mqcore.remoting import ServerTls, TlsMode, server_context
from mqcore.remoting.tls import context_now
from tls_papers import Papers


def _papers(directory: Path, name: str, host: str = "127.0.0.1") -> tuple[ServerTls, TlsFiles]:
    authority = trustme.CA()
    papers, trusted = directory / f"{name}.pem", directory / f"{name}-ca.pem"
    authority.issue_cert(host).private_key_and_cert_chain_pem.write_to_path(str(papers))
    authority.cert_pem.write_to_path(str(trusted))
    context = server_context(TlsFiles(certificate=papers))
    return ServerTls(TlsMode.ENFORCING, context), TlsFiles(trusted=trusted)


def test_both_faces_speak_tls(tmp_path: Path) -> None:
    tls, files = _papers(tmp_path, "ours")
    with scripted(tls=tls) as server:
        with mqcore.Producer(server.address, group="g", tls=files) as producer:
            assert producer.send(Message("t", b"x" * 4000)).is_ok
            # The connection is kept, and used again.
            assert producer.send(Message("t", b"x")).is_ok

        async def work() -> None:
            async with aio.Producer(server.address, group="g", tls=files) as other:
                assert (await other.send(Message("t", b"x"))).is_ok

        asyncio.run(work())


def test_a_stranger_is_refused(tmp_path: Path) -> None:
    tls, _ = _papers(tmp_path, "ours")
    _, others = _papers(tmp_path, "theirs")
    with (
        scripted(tls=tls) as server,
        mqcore.Producer(server.address, group="g", tls=others) as producer,
        pytest.raises(NameServerError, match="certificate"),
    ):
        producer.send(Message("t", b"x"))


def test_a_certificate_of_another_host_is_refused_by_default(tmp_path: Path) -> None:
    tls, files = _papers(tmp_path, "ours", host="mq.example.org")
    with scripted(tls=tls) as server:
        with (
            mqcore.Producer(server.address, group="g", tls=files) as producer,
            pytest.raises(NameServerError, match=r"127\.0\.0\.1"),
        ):
            producer.send(Message("t", b"x"))
        unchecked = dataclasses.replace(files, checks_host=False)
        with mqcore.Producer(server.address, group="g", tls=unchecked) as producer:
            assert producer.send(Message("t", b"x")).is_ok


def test_the_command_line_checks_hosts_unless_it_is_switched_off(tmp_path: Path) -> None:
    tls, files = _papers(tmp_path, "ours", host="mq.example.org")
    with scripted(tls=tls) as server:

        def produced(*options: str) -> Result:
            line = ["produce", "t", "-m", "x", "-n", server.address]
            return CliRunner().invoke(commands, [*line, *options])

        trusted = ["--tls", "--tls-ca", str(files.trusted)]
        assert "127.0.0.1" in str(produced(*trusted).exception)
        assert produced(*trusted, "--no-tls-host-check").exit_code == 0
        assert "--tls" in produced("--no-tls-host-check").output


def test_the_command_line_shows_a_certificate_where_one_is_asked_for(tmp_path: Path) -> None:
    papers = Papers(tmp_path / "papers")
    files = TlsFiles(
        certificate=papers.issued("server"), trusted=papers.trusted, is_peer_required=True
    )
    own = papers.pair()
    certificate, key = tmp_path / "own.pem", tmp_path / "own.key"
    certificate.write_bytes(own.certificate)
    key.write_bytes(own.key)
    with scripted(tls=ServerTls(TlsMode.ENFORCING, server_context(files))) as server:

        def produced(*options: str) -> Result:
            line = ["produce", "t", "-m", "x", "-n", server.address, "--timeout", "3"]
            return CliRunner().invoke(commands, [*line, *options])

        trusted = ["--tls", "--tls-ca", str(papers.trusted)]
        shown = ["--tls-client-cert", str(certificate), "--tls-client-key", str(key)]
        assert produced(*trusted, *shown).exit_code == 0
        assert produced(*trusted).exit_code != 0
        assert "go with --tls" in produced(*shown).output
        assert "--tls-client-cert" in produced(*trusted, *shown[2:]).output


def test_true_checks_hosts() -> None:
    context = context_now(tls_context(True))
    assert context is not None
    assert context.check_hostname
