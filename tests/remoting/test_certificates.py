"""The ends of certificates, read from files and from what a peer shows."""

import datetime
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from mqcore.remoting.certificates import end_of, ends_in
from tls_papers import Papers


def made(path: Path) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(path.read_bytes())


def seconds(certificate: x509.Certificate) -> int:
    return int(certificate.not_valid_after_utc.timestamp())


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers(tmp_path_factory.mktemp("certificates") / "papers")


def test_the_end_is_that_of_the_certificate(papers: Papers) -> None:
    for path in (papers.trusted, papers.issued("a"), papers.issued("b", is_expired=True)):
        assert ends_in(path) == [seconds(each) for each in made(path)]
    expired = ends_in(papers.issued("c", is_expired=True))[0]
    assert expired == int(datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC).timestamp())


def test_a_bundle_has_several_and_a_key_none(papers: Papers, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(papers.trusted.read_bytes() + papers.issued("a").read_bytes())
    assert len(ends_in(bundle)) == 1 + len(made(papers.issued("a")))
    (tmp_path / "key").write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    assert ends_in(tmp_path / "key") == []
    (tmp_path / "half").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n")
    with pytest.raises(ValueError, match="has no end"):
        ends_in(tmp_path / "half")


def test_what_is_cut_off_is_none(papers: Papers) -> None:
    der = ssl.PEM_cert_to_DER_cert(papers.trusted.read_text())
    for length in range(len(der)):
        with pytest.raises(ValueError):  # noqa: PT011 - each of its texts
            end_of(der[:length])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_certificate_or_refused(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each of its texts
        end_of(content)
