"""Who this client is: client ids and unique message ids exactly as Java forms them.

Pure functions over passed-in facts, and one source per process that collects them.
"""

import ipaddress
import os
import socket
import threading
import time
from datetime import UTC, datetime
from itertools import count, islice

from mqcore.clock import wall_ms

__all__ = ["UniqueIds", "client_id", "local_address", "unique_ids"]

_COUNTER_MASK = 0xFFFF
_WORD_MASK = 0xFFFFFFFF
_INT_BOUND = 1 << 31
# The official source takes 20 random bytes where it finds no address; ours dials nowhere either.
_PROBE = ("198.51.100.1", 9)
_LOOPBACK = "127.0.0.1"


def local_address() -> str:
    """Returns the address that others see us by, as far as the routing table shows.

    The loopback address where the machine has no other.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # A datagram socket that is connected sends nothing: it only picks an interface.
            probe.connect(_PROBE)
            return str(probe.getsockname()[0])
        except OSError:
            return _LOOPBACK


def client_id(
    address: str, *, instance_name: str | None = None, unit_name: str | None = None
) -> str:
    """Returns the id that brokers know a client instance by.

    Args:
        address: Our address.
        instance_name: Its name; `DEFAULT` or none becomes process id and a moment, so that two
            instances never share an id by chance (`ClientConfig.changeInstanceNameToPID`).
        unit_name: The unit, appended.
    """
    if not instance_name or instance_name == "DEFAULT":
        instance_name = f"{os.getpid()}#{time.monotonic_ns()}"
    return "@".join(part for part in (address, instance_name, unit_name) if part)


class UniqueIds:
    """Makes unique message ids: `MessageClientIDSetter` of the official client.

    Address (4 or 16 bytes), low 16 bits of the process id, a 32-bit number of this source, ms since
    the start of the month, a 16-bit counter; as upper-case hexadecimal.
    """

    def __init__(self, address: str, process_id: int, source: int) -> None:
        """Takes what does not change.

        Args:
            address: Our address.
            process_id: The process.
            source: What distinguishes two sources in one process; Java takes the hash of a class
                loader.
        """
        packed = ipaddress.ip_address(address).packed
        self._prefix = (
            packed.hex() + f"{process_id & 0xFFFF:04X}{source & _WORD_MASK:08X}"
        ).upper()
        self._counter = count()
        self._month_begin_ms = 0
        self._next_month_ms = 0
        self._word = ""
        self._word_ms = -1

    @property
    def prefix(self) -> str:
        """The part that does not change, in hexadecimal."""
        return self._prefix

    def month_begin_ms(self, now_ms: int) -> int:
        """Returns the start of the month in local time, as Java has it."""
        if not self._month_begin_ms <= now_ms < self._next_month_ms:
            now = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone()
            begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
            after = begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)
            self._month_begin_ms = int(begin.timestamp() * 1000)
            self._next_month_ms = int(after.timestamp() * 1000)
        return self._month_begin_ms

    def next(self, now_ms: int) -> str:
        """Returns a new id.

        Args:
            now_ms: The wall clock.
        """
        return f"{self._lead(now_ms)}{next(self._counter) & _COUNTER_MASK:04X}"

    def take(self, count: int, now_ms: int) -> tuple[str, int]:
        """Returns new ids that count on: what they begin with, and the first one's counter.

        Args:
            count: How many.
            now_ms: The wall clock.
        """
        # One call of C code: no other thread comes between.
        taken = list(islice(self._counter, count))
        return self._lead(now_ms), taken[0] & _COUNTER_MASK

    def _lead(self, now_ms: int) -> str:
        if now_ms != self._word_ms:
            age_ms = now_ms - self.month_begin_ms(now_ms)
            self._word, self._word_ms = f"{self._prefix}{age_ms & _WORD_MASK:08X}", now_ms
        return self._word


_lock = threading.Lock()
_ids: UniqueIds | None = None
_ids_process = 0


def unique_ids() -> UniqueIds:
    """Returns the source of this process; a forked child gets its own."""
    global _ids, _ids_process
    process_id = os.getpid()
    ids = _ids
    if ids is None or _ids_process != process_id:
        with _lock:
            if _ids is None or _ids_process != process_id:
                # Two containers may share address and process id: the moment distinguishes them.
                source = int.from_bytes(os.urandom(4), "big") ^ (wall_ms() & _WORD_MASK)
                _ids = UniqueIds(local_address(), process_id, source)
                _ids_process = process_id
            ids = _ids
    return ids
