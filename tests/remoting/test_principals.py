"""Who a client is by its certificate: names as Java writes them, rules as Kafka has them."""

import datetime
import ipaddress
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID as Oid
from hypothesis import given
from hypothesis import strategies as st

from loops import FACTORIES, run_on
from mqcore.remoting import Client, ServerTls, TlsFiles, TlsMode, client_context, server_context
from mqcore.remoting.certificate_names import alternative_names_of, subject_of
from mqcore.remoting.principals import name_by, principal_rules
from remoting.peers import ECHO, served

_KEY = ec.generate_private_key(ec.SECP256R1())
_Part = Sequence[tuple[x509.ObjectIdentifier, str]]


def made(*parts: _Part, names: Sequence[x509.GeneralName] = ()) -> bytes:
    """Returns a certificate with a subject of parts, each of one or more attributes."""
    pairs = [[x509.NameAttribute(oid, text) for oid, text in part] for part in parts]
    subject = x509.Name([x509.RelativeDistinguishedName(part) for part in pairs])
    found = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(_KEY.public_key())
        .serial_number(5)
        .not_valid_before(datetime.datetime(2020, 1, 1))
        .not_valid_after(datetime.datetime(2040, 1, 1))
    )
    if names:
        found = found.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return found.sign(_KEY, hashes.SHA256()).public_bytes(Encoding.DER)


# The texts are those that `X500Principal.getName()` of Java 17 returned for the same certificates.
@pytest.mark.parametrize(
    ("parts", "subject"),
    [
        (
            [[(Oid.COUNTRY_NAME, "DE")], [(Oid.ORGANIZATION_NAME, "Corp, Inc.")]],
            r"O=Corp\, Inc.,C=DE",
        ),
        ([[(Oid.COMMON_NAME, "x,O=admin")]], r"CN=x\,O\=admin"),
        ([[(Oid.COMMON_NAME, " lead trail ")]], "CN=\\ lead trail\\ "),
        ([[(Oid.COMMON_NAME, "   ")]], "CN=\\ \\ \\ "),
        (
            [[(Oid.COMMON_NAME, '#hash "q" a+b<c>d;e\\f')]],
            r"CN=\#hash \"q\" a\+b\<c\>d\;e\\f",
        ),
        ([[(Oid.COMMON_NAME, "two"), (Oid.USER_ID, "u1")]], "CN=two+UID=u1"),
        (
            [[(Oid.EMAIL_ADDRESS, "a@b.c")], [(Oid.COMMON_NAME, "mail")]],
            "CN=mail,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        (
            [
                [(Oid.DOMAIN_COMPONENT, "org")],
                [(Oid.DOMAIN_COMPONENT, "example")],
                [(Oid.COMMON_NAME, "Jörg 日本")],
            ],
            "CN=Jörg 日本,DC=example,DC=org",
        ),
        (
            [
                [(Oid.STREET_ADDRESS, "s 1")],
                [(Oid.STATE_OR_PROVINCE_NAME, "BY")],
                [(Oid.LOCALITY_NAME, "M")],
                [(Oid.ORGANIZATIONAL_UNIT_NAME, "ou")],
                [(Oid.SERIAL_NUMBER, "77")],
            ],
            "2.5.4.5=#13023737,OU=ou,L=M,ST=BY,STREET=s 1",
        ),
        ([], ""),
    ],
)
def test_a_subject_is_written_as_java_writes_it(parts: Sequence[_Part], subject: str) -> None:
    assert subject_of(made(*parts)) == subject
    assert alternative_names_of(made(*parts)) == []


def test_an_attribute_with_a_long_value_is_its_encoding() -> None:
    # An unknown attribute whose length takes two bytes.
    surname = "x" * 150
    part = [x509.NameAttribute(Oid.SURNAME, surname, _validate=False)]
    name = x509.Name([x509.RelativeDistinguishedName(part)])
    found = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(_KEY.public_key())
        .serial_number(5)
        .not_valid_before(datetime.datetime(2020, 1, 1))
        .not_valid_after(datetime.datetime(2040, 1, 1))
        .sign(_KEY, hashes.SHA256())
    )
    wanted = "2.5.4.4=#0c8196" + surname.encode().hex()
    assert subject_of(found.public_bytes(Encoding.DER)) == wanted


def test_alternative_names_have_their_kind() -> None:
    names = [
        x509.DNSName("a.example"),
        x509.UniformResourceIdentifier("spiffe://corp/ns/x"),
        x509.IPAddress(ipaddress.ip_address("10.0.0.7")),
        x509.IPAddress(ipaddress.ip_address("::1")),
        x509.RFC822Name("a@b.c"),
        x509.RegisteredID(x509.ObjectIdentifier("1.2.3")),
    ]
    assert alternative_names_of(made([(Oid.COMMON_NAME, "x")], names=names)) == [
        "DNS:a.example",
        "URI:spiffe://corp/ns/x",
        "IP:10.0.0.7",
        "IP:::1",
        "EMAIL:a@b.c",
    ]


_SUBJECT = "CN=App7,OU=Services,O=Corp"


@pytest.mark.parametrize(
    ("rules", "subject", "alternatives", "name"),
    [
        ("", _SUBJECT, (), ""),
        ("DEFAULT", _SUBJECT, (), _SUBJECT),
        ("RULE:^CN=(.*?),OU=Services.*$/$1/", _SUBJECT, (), "App7"),
        ("RULE:^CN=(.*?),OU=Services.*$/$1/L", _SUBJECT, (), "app7"),
        ("RULE:^CN=(.*?),OU=Services.*$/$1@corp/U", _SUBJECT, (), "APP7@CORP"),
        ("RULE:^CN=(.*?),OU=Others.*$/$1/, DEFAULT", _SUBJECT, (), _SUBJECT),
        ("RULE:^CN=(.*?),OU=Others.*$/$1/", _SUBJECT, (), ""),
        # The whole text has to match, as in Kafka.
        ("RULE:CN=(.*?),/$1/", _SUBJECT, (), ""),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*)$/$3.$1/", _SUBJECT, (), "Corp.App7"),
        (r"RULE:^CN=(.*?),OU=Services.*$/\$1-$1/", _SUBJECT, (), "$1-App7"),
        (r"RULE:^CN=a\/b$/x\/y/", "CN=a/b", (), "x/y"),
        ("RULE:^CN=x(y)?$/n$1/", "CN=x", (), "n"),
        # A value cannot pose as another part: what separates is escaped.
        ("RULE:^CN=(\\w+),O=admin$/$1/", "CN=x\\,O\\=admin", (), ""),
        ("SAN:^URI:spiffe://corp/(.*)$/$1/", _SUBJECT, ("URI:spiffe://corp/ns",), None),
        (r"SAN:^URI:spiffe:\/\/corp\/(.*)$/$1/", _SUBJECT, ("DNS:h", "URI:spiffe://corp/ns"), "ns"),
        (r"SAN:^DNS:(.*)\.corp$/$1/L, DEFAULT", _SUBJECT, ("DNS:App.corp",), "app"),
        (r"SAN:^DNS:(.*)\.corp$/$1/L, DEFAULT", _SUBJECT, ("DNS:App.other",), _SUBJECT),
        ("DEFAULT", "CN=" + "x" * 300, (), ""),
        ("DEFAULT", "", (), ""),
    ],
)
def test_rules_make_names(
    rules: str, subject: str, alternatives: Sequence[str], name: str | None
) -> None:
    if name is None:
        # A slash that is not escaped ends the pattern: the rest is no rule.
        with pytest.raises(ValueError, match="begins with no rule"):
            principal_rules(rules)
        return
    assert name_by(principal_rules(rules), subject, alternatives) == name


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("RULE:^CN=(.*$/$1/", "is no pattern"),
        ("RULE:^CN=(.*)$/$2/", "has no group 2"),
        ("RULE:^CN=(.*)$/$1", "begins with no rule"),
        ("RULE:^CN=(.*)$/$1/X", "begins with no rule"),
        ("DEFAULTS", "begins with no rule"),
        ("DEFAULT RULE:a/b/", "begins with no rule"),
    ],
)
def test_rules_that_are_none_are_refused_in_words(rules: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        principal_rules(rules)


@given(st.binary(max_size=300))
def test_any_bytes_name_nobody_or_are_refused(content: bytes) -> None:
    assert principal_rules("DEFAULT").name_of(content) == ""


# Made once: signatures differ from one to the next.
_WHOLE = made([(Oid.COMMON_NAME, "x")], names=[x509.DNSName("a.example")])


@given(st.data())
def test_a_cut_or_changed_certificate_raises_nothing_else(data: st.DataObject) -> None:
    whole = bytearray(_WHOLE)
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    principal_rules("SAN:(.*)/$1/, DEFAULT").name_of(bytes(whole[: data.draw(st.integers(0, 999))]))


@pytest.mark.parametrize("loop", sorted(FACTORIES))
def test_a_connection_has_the_name_of_its_certificate(loop: str, tmp_path: Path) -> None:
    authority = trustme.CA()
    trusted = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(trusted))

    def issued(name: str, organization: str | None = None) -> Path:
        path = tmp_path / f"{name}.pem"
        hosts = (f"{name}.example", "127.0.0.1")
        found = authority.issue_cert(*hosts, organization_name=organization)
        found.private_key_and_cert_chain_pem.write_to_path(str(path))
        return path

    files = TlsFiles(certificate=issued("server"), trusted=trusted)
    rules = principal_rules(r"RULE:^.*O=Services.*$/service/, SAN:^DNS:(.*)\.example$/$1/")
    tls = ServerTls(TlsMode.PERMISSIVE, server_context(files), rules)

    def shows(path: Path | None) -> ssl.SSLContext:
        return client_context(TlsFiles(certificate=path, trusted=trusted))

    async def work() -> None:
        async with (
            served(tls=tls) as it,
            Client(tls=shows(issued("app"))) as named,
            Client(tls=shows(issued("svc", organization="Services"))) as service,
            Client(tls=shows(None)) as unnamed,
            Client() as plain,
        ):
            for client in (named, service, unnamed, plain):
                await client.call(it.address, ECHO, timeout_s=30)
            found = [each.link.certificate_name for each in it.seen]
            assert found == ["app", "service", "", ""]

    run_on(loop, work())
