"""Whom a certificate names: its subject as RFC 2253 writes it, and its alternative names.

Texts are those of Java's `X500Principal.getName()`, which rules for Kafka were written for: most
specific part first, the keywords of RFC 2253, any other attribute as its number with the encoded
value. What could be taken for a separator is escaped, so that no value can pose as another part.
Pure functions of bytes; verifies nothing.
"""

import ipaddress
from typing import Final

from mqcore.remoting.certificates import elements

__all__ = ["alternative_names_of", "subject_of"]

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# Kinds of text (X.690) and their encodings.
_TEXTS: Final = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANK: Final = " "
# Before the subject: serial number, signature algorithm, issuer, validity.
_BEFORE_SUBJECT: Final = 4
_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_ALTERNATIVE_NAMES: Final = "2.5.29.17"
_OCTETS: Final = 0x04
_MAIL, _HOST, _URI, _ADDRESS = 0x81, 0x82, 0x86, 0x87
# A certificate of a person or a program has a few of either.
_PARTS_MAX: Final = 1_000


def subject_of(certificate: bytes) -> str:
    """Returns the subject of a certificate in DER; empty where it has none.

    Raises:
        ValueError: It is no certificate.
    """
    fields = _signed_fields(certificate)
    if len(fields) <= _BEFORE_SUBJECT:
        raise ValueError("no certificate: it has no subject")
    parts = [_part_text(content) for _, content in _all(fields[_BEFORE_SUBJECT][1])]
    return ",".join(reversed(parts))


def alternative_names_of(certificate: bytes) -> list[str]:
    """Returns the alternative names, as `DNS:host`, `IP:number`, `URI:...`, `EMAIL:...`.

    Raises:
        ValueError: It is no certificate.
    """
    for tag, content in _signed_fields(certificate):
        if tag != _EXTENSIONS:
            continue
        for _, listed in _all(content):
            for _, extension in _all(listed):
                found = _all(extension)
                if not found or found[-1][0] != _OCTETS:
                    continue
                if _number_text(found[0][1]) == _ALTERNATIVE_NAMES:
                    names = [each for _, inside in _all(found[-1][1]) for each in _all(inside)]
                    return [text for tag, name in names if (text := _name_text(tag, name))]
    return []


def _signed_fields(certificate: bytes) -> list[tuple[int, bytes]]:
    """Returns what is signed, without the version."""
    (_, whole), *_ = _all(certificate) or [(0, b"")]
    (_, signed), *_ = _all(whole) or [(0, b"")]
    fields = _all(signed)
    return fields[1:] if fields and fields[0][0] == _VERSION else fields


def _all(content: bytes) -> list[tuple[int, bytes]]:
    return list(elements(content, _PARTS_MAX))


def _part_text(content: bytes) -> str:
    return "+".join(_attribute_text(each) for _, each in _all(content))


def _attribute_text(content: bytes) -> str:
    found = _all(content)
    if len(found) != 2:
        raise ValueError("no certificate: a part of its subject is no pair")
    (_, number), (tag, value) = found
    dotted = _number_text(number)
    keyword, encoding = _KEYWORDS.get(dotted), _TEXTS.get(tag)
    if keyword is None or encoding is None:
        # As it is encoded, with its tag and length.
        encoded = content[len(content) - _size(value) :]
        return f"{keyword or dotted}=#{encoded.hex()}"
    return f"{keyword}={_escaped(value.decode(encoding))}"


def _size(value: bytes) -> int:
    """Returns how many bytes a value has with its tag and length."""
    length = len(value)
    return 2 + length + ((length.bit_length() + 7) // 8 if length > 0x7F else 0)


def _escaped(text: str) -> str:
    made = "".join(
        f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in text
    )
    inner = made.strip(_BLANK)
    if not inner:
        return "\\ " * len(made)
    lead = len(made) - len(made.lstrip(_BLANK))
    trail = len(made) - len(made.rstrip(_BLANK))
    return "\\ " * lead + inner + "\\ " * trail


def _number_text(content: bytes) -> str:
    """Returns an object identifier with its dots."""
    if not content:
        raise ValueError("no certificate: an attribute has no number")
    arcs, value = [], 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(value)
            value = 0
    if not arcs:
        raise ValueError("no certificate: a number has no end")
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, [first, arcs[0] - 40 * first, *arcs[1:]]))


def _name_text(tag: int, content: bytes) -> str:
    """Returns an alternative name; empty for a kind that rules cannot name."""
    if tag == _ADDRESS:
        return f"IP:{ipaddress.ip_address(content)}"
    kinds = {_MAIL: "EMAIL", _HOST: "DNS", _URI: "URI"}
    return f"{kinds[tag]}:{content.decode('ascii')}" if tag in kinds else ""
