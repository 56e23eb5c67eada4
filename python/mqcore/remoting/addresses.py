"""How many connections each address has; pure state. Knows no socket.

An address of IPv6 counts with all of its /64: whoever has one of them has all.
"""

import ipaddress

__all__ = ["Addresses"]

_PREFIX_6 = 64


class Addresses:
    """Connections by address. Has as many rows as there are connections at the most."""

    def __init__(self) -> None:
        """Begins with nobody."""
        self._counts: dict[str, int] = {}

    @staticmethod
    def key_of(host: str) -> str:
        """Returns what an address counts as; empty for a local process, which is not counted."""
        if ":" not in host:
            return host
        try:
            address = ipaddress.IPv6Address(host.partition("%")[0])
        except ValueError:
            return host
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.IPv6Network((address, _PREFIX_6), strict=False))

    def of(self, key: str) -> int:
        """Returns how many an address has."""
        return self._counts.get(key, 0)

    def add(self, key: str) -> None:
        """Counts one more."""
        if key:
            self._counts[key] = self.of(key) + 1

    def remove(self, key: str) -> None:
        """Counts one less."""
        left = self.of(key) - 1
        if left > 0:
            self._counts[key] = left
        else:
            self._counts.pop(key, None)

    def most(self, count: int) -> list[tuple[str, int]]:
        """Returns so many addresses that have most, with how many."""
        rows = sorted(self._counts.items(), key=lambda row: (-row[1], row[0]))
        return rows[:count]
