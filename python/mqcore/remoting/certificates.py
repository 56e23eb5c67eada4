"""When certificates end: of files, and of bytes that a peer has shown. Verifies nothing.

The standard library shows the dates of a certificate that it has verified alone, and those of an
expired one never. So the few fields before them are stepped over here (RFC 5280, 4.1: X.690 DER).
"""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

__all__ = ["elements", "end_of", "ends_in"]

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"
_SEQUENCE: Final = 0x30
# The version, where it is not the first one.
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_GENERALIZED_TIME: Final = 0x18
# Of a length: set where it is the number of bytes that the length has.
_LONG: Final = 0x80
# A length of more bytes is no certificate's.
_LENGTH_BYTES_MAX: Final = 4
# Serial number, signature algorithm, issuer.
_BEFORE_VALIDITY: Final = 3
# UTCTime has two digits of the year: these and above are of the last century.
_YEARS_OF_1900: Final = 50
# A bundle of all authorities of the world has some hundreds.
_CERTIFICATES_MAX: Final = 1_000


def ends_in(path: Path) -> list[int]:
    """Returns when each certificate of a PEM file ends, Unix seconds, in their order.

    Raises:
        OSError: It cannot be read.
        ValueError: A certificate in it is none.
    """
    found: list[int] = []
    rest = path.read_text(encoding="ascii", errors="replace")
    while _BEGIN in rest and len(found) < _CERTIFICATES_MAX:
        _, _, rest = rest.partition(_BEGIN)
        body, sign, rest = rest.partition(_END)
        if not sign:
            raise ValueError(f"{path}: a certificate has no end")
        found.append(end_of(ssl.PEM_cert_to_DER_cert(f"{_BEGIN}{body}{_END}\n")))
    return found


def end_of(certificate: bytes) -> int:
    """Returns when a certificate in DER ends, Unix seconds.

    Raises:
        ValueError: It is none.
    """
    ((_, whole),) = list(elements(certificate, 1, _SEQUENCE))
    ((_, signed),) = list(elements(whole, 1, _SEQUENCE))
    fields = list(elements(signed, _BEFORE_VALIDITY + 2))
    if fields and fields[0][0] == _VERSION:
        fields = fields[1:]
    if len(fields) <= _BEFORE_VALIDITY or fields[_BEFORE_VALIDITY][0] != _SEQUENCE:
        raise ValueError("no certificate: it has no validity")
    times = list(elements(fields[_BEFORE_VALIDITY][1], 2))
    if len(times) != 2:
        raise ValueError("no certificate: its validity has no end")
    return _seconds(*times[1])


def elements(content: bytes, count: int, wanted: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Yields tag and content of the first elements of what is encoded in DER.

    Args:
        content: The bytes.
        count: How many elements at the most.
        wanted: The tag that each has to have; any without.

    Raises:
        ValueError: There is none, or it is longer than what is there, or of another kind.
    """
    at = 0
    for _ in range(count):
        if at == len(content) and wanted is None:
            return
        head = content[at : at + 2]
        if len(head) < 2 or (wanted is not None and head[0] != wanted):
            raise ValueError("no certificate")
        at, length = at + 2, head[1]
        if length & _LONG:
            size = length - _LONG
            if not 0 < size <= _LENGTH_BYTES_MAX:
                raise ValueError("no certificate: a length is too long")
            at, length = at + size, int.from_bytes(content[at : at + size])
        if at + length > len(content):
            raise ValueError("no certificate: it is cut off")
        yield head[0], content[at : at + length]
        at += length


def _seconds(tag: int, content: bytes) -> int:
    text = content.decode("ascii", "replace")
    if tag == _UTC_TIME:
        century = "19" if text[:2].isdigit() and int(text[:2]) >= _YEARS_OF_1900 else "20"
        text = century + text
    elif tag != _GENERALIZED_TIME:
        raise ValueError("no certificate: its end is no time")
    moment = datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    return int(moment.timestamp())
