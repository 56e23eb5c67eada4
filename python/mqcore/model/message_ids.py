"""Message ids that are addresses: store address, port and physical offset as hexadecimal text."""

import ipaddress
from dataclasses import dataclass

# Port and offset, in bytes, behind an address of 4 or 16 bytes.
_PORT_BYTES = 4
_OFFSET_BYTES = 8
_LENS_BYTES = (4 + _PORT_BYTES + _OFFSET_BYTES, 16 + _PORT_BYTES + _OFFSET_BYTES)


@dataclass(frozen=True, slots=True)
class OffsetId:
    """Where a message was stored.

    Attributes:
        host: Address of the broker.
        port: Its port.
        physical_offset: Where the message begins in the log, in bytes from its beginning.
    """

    host: str
    port: int
    physical_offset: int


def parse_offset_id(text: str) -> OffsetId | None:
    """Returns what an id names, None for a text that is no such id."""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return None
    if len(raw) not in _LENS_BYTES or len(text) != 2 * len(raw):
        return None
    address = raw[: -_PORT_BYTES - _OFFSET_BYTES]
    return OffsetId(
        host=str(ipaddress.ip_address(address)),
        port=int.from_bytes(raw[len(address) : len(address) + _PORT_BYTES], "big"),
        physical_offset=int.from_bytes(raw[-_OFFSET_BYTES:], "big"),
    )
