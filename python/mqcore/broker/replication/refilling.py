"""A slave that holds nothing copies whole files of its master's log, before it follows the stream.

A master of RocketMQ gives no files: it is asked first, at the port where it answers requests. Knows
sockets and times; what a connection carries is the extension's.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from mqcore.broker.replication.connecting import connected
from mqcore.clock import monotonic_ms
from mqcore.errors import MQError
from mqcore.native import (
    RefillProgress,
    ReplicationEpochs,
    ReplicationRefill,
    ReplicationTls,
    Store,
)
from mqcore.remoting import Client, OwnRequestCode, ResponseCode

__all__ = ["HA_PORT", "LOG_START", "Offer", "Offered", "RefillFigures", "Refilling", "offer_of"]

_log = logging.getLogger("mqcore.broker")

_ASK_TIMEOUT_S = 3.0
# Between two lines about how far it is.
_LOG_EVERY_S = 5.0
_MIB = 1 << 20
_MS_PER_S = 1_000


# Where the log of a master begins, in its answer.
LOG_START = "logStart"
# Where slaves connect.
HA_PORT = "haPort"


class Offer(Enum):
    """What a master answers when it is asked for whole files."""

    GIVEN = "given"
    UNKNOWN = "unknown"
    LATER = "later"


@dataclass(frozen=True, slots=True)
class Offered:
    """The answer of a master.

    Attributes:
        what: Whether it gives whole files.
        log_start: First physical offset of its log; 0 where the answer has none.
        ha_port: Where slaves connect; 0 where the answer has none.
    """

    what: Offer
    log_start: int = 0
    ha_port: int = 0


@dataclass(frozen=True, slots=True)
class RefillFigures:
    """How far a refill is.

    Attributes:
        total_bytes: Bytes of all whole files that are to come.
        done_bytes: Those that are in the log.
        bytes_per_second: The rate since it began.
    """

    total_bytes: int
    done_bytes: int
    bytes_per_second: int

    @property
    def percent(self) -> int:
        """Returns the share that is in the log."""
        return self.done_bytes * 100 // self.total_bytes if self.total_bytes else 100

    @property
    def left_s(self) -> int:
        """Returns how long it takes at this rate, in seconds."""
        return (self.total_bytes - self.done_bytes) // max(1, self.bytes_per_second)


async def offer_of(client: Client, address: str) -> Offered:
    """Asks a broker whether it gives whole files of its log.

    Args:
        client: What sends requests.
        address: Where the broker answers requests.

    Returns:
        Its answer: `UNKNOWN` of a broker of RocketMQ; `LATER` where it may give them in a while.
    """
    try:
        answer = await client.call(address, OwnRequestCode.REFILL_OFFER, timeout_s=_ASK_TIMEOUT_S)
    except MQError:
        return Offered(Offer.LATER)
    if answer.code == ResponseCode.SUCCESS:
        start, port = (_number(answer.ext.get(name, "")) for name in (LOG_START, HA_PORT))
        return Offered(Offer.GIVEN, start, port)
    is_late = answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    return Offered(Offer.LATER if is_late else Offer.UNKNOWN)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() else 0


class Refilling:
    """One refill of a store, from its begin to its end."""

    def __init__(self, store: Store, *, epochs: ReplicationEpochs | None, streams: int) -> None:
        """Prepares.

        Args:
            store: A store that follows a master.
            epochs: The epochs of its log, where it has some.
            streams: Connections over which files come at once.

        Raises:
            StoreError: Descriptors are exhausted.
        """
        self._refill = ReplicationRefill(store, epochs=epochs)
        self._streams = streams
        self._began_ms = 0

    @property
    def may_begin(self) -> bool:
        """Returns whether the log holds nothing, or ends with a file."""
        return self._refill.may_begin()

    @property
    def figures(self) -> RefillFigures:
        """Returns how far it is."""
        shown = self._refill.progress()
        total = max(0, shown.to - shown.began)
        took_ms = max(1, monotonic_ms() - self._began_ms)
        return RefillFigures(
            total_bytes=total,
            done_bytes=min(total, shown.log_end - shown.began),
            bytes_per_second=shown.received_bytes * _MS_PER_S // took_ms,
        )

    async def run(self, address: str, tls: ReplicationTls | None = None) -> str:
        """Copies all whole files; returns why that ended before, empty when it has all.

        Args:
            address: Where the master ships its log.
            tls: What protects the connections; None for plain ones.
        """
        self._began_ms = monotonic_ms()
        reasons = list[str]()
        try:
            for _stream in range(self._streams):
                socket = await connected(address)
                self._refill.add(socket.detach(), address, tls=tls)
            await self._all_ended(address, reasons)
        except OSError as error:
            return error.strerror or str(error) or "no connection in time"
        except MQError as error:
            return error.message
        finally:
            await asyncio.to_thread(self._refill.stop)
        shown = self._refill.progress()
        if not shown.is_over:
            return next(iter(reasons), "the master gives no more files")
        self._log_end(address, shown)
        return ""

    async def _all_ended(self, address: str, reasons: list[str]) -> None:
        """Waits until every connection has ended; appends why, of each that has a reason."""
        loop, is_news = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._refill.fileno(), is_news.set)
        try:
            open_streams, logged_s = self._streams, loop.time()
            while open_streams:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(logged_s + _LOG_EVERY_S):
                        await is_news.wait()
                is_news.clear()
                ended = self._refill.take_ended()
                open_streams -= len(ended)
                reasons += [link.why for link in ended if link.why]
                if loop.time() - logged_s >= _LOG_EVERY_S:
                    logged_s = loop.time()
                    self._log(address)
        finally:
            loop.remove_reader(self._refill.fileno())

    def _log(self, address: str) -> None:
        figures = self.figures
        _log.info(
            "whole files of the log of %s are copied: %d %% of %d MiB, %d MiB/s, %d s left",
            address,
            figures.percent,
            figures.total_bytes // _MIB,
            figures.bytes_per_second // _MIB,
            figures.left_s,
        )

    def _log_end(self, address: str, shown: RefillProgress) -> None:
        if shown.to == shown.began:
            return
        _log.info(
            "whole files of the log of %s are here: offsets %d to %d, %d MiB copied, %d MiB were "
            "there, in %d ms",
            address,
            shown.began,
            shown.to,
            shown.received_bytes // _MIB,
            shown.kept_bytes // _MIB,
            monotonic_ms() - self._began_ms,
        )
