"""Pushes a program's figures again and again, as its settings want them (`metricsExporterType`).

Gathering and sending are done in threads; the loop only waits. Knows no program: what gathers is
given. The library of OpenTelemetry is imported when pushing is wanted, and not before.
"""

import asyncio
import logging
import logging.handlers
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mqcore.config import PushSettings
from mqcore.errors import ConfigurationError, MQError, UsageError
from mqcore.metrics.text import SeriesBound, Snapshot
from mqcore.periodic import PeriodicTask

if TYPE_CHECKING:
    from mqcore.metrics.otlp import Points, Receiver

__all__ = ["Pusher", "pusher"]

_log = logging.getLogger("mqcore.metrics")
# Lines go here where no file is named.
_lines_log = logging.getLogger("mqcore.metrics.otlp")

_MS_PER_S: Final = 1_000
_NS_PER_MS: Final = 1_000_000
# However small the settings are, gathering leaves the loop some time.
_PERIOD_MIN_S: Final = 0.1
# A file of lines that gets another name, and how many are kept: those of the official log.
_FILE_BYTES_MAX: Final = 128 << 20
_FILES_KEPT: Final = 10
# What a program that ends gives the last request, at the most.
_LAST_MAX_S: Final = 5.0


class Pusher:
    """Pushes figures until it is stopped."""

    def __init__(
        self,
        settings: PushSettings,
        gather: Callable[[], Awaitable[Snapshot]],
        pause: Callable[[], None],
        points: "Points",
        receiver: "Receiver",
    ) -> None:
        """Prepares; `start` begins.

        Args:
            settings: The settings.
            gather: Returns the figures of this moment.
            pause: Called again and again by a thread that works, so that the loop may run.
            points: Makes data points.
            receiver: Takes them.
        """
        self._gather = gather
        self._pause = pause
        self._points = points
        self._receiver = receiver
        self._bound = SeriesBound(settings.series_max)
        self._last_s = min(_LAST_MAX_S, settings.timeout_ms / _MS_PER_S)
        period_s = max(_PERIOD_MIN_S, settings.interval_ms / _MS_PER_S)
        self._task = PeriodicTask("push figures", self.push, period_s=lambda: period_s)
        self._is_failing = False

    def start(self) -> None:
        """Begins, on the running loop; the first time is after one interval."""
        self._task.start()

    async def push(self) -> None:
        """Gathers and pushes once."""
        snapshot = await self._gather()
        has_arrived = await asyncio.to_thread(self._send, snapshot, time.time_ns())
        if has_arrived == self._is_failing:
            self._is_failing = not has_arrived
            if has_arrived:
                _log.info("figures arrive again")
            else:
                _log.warning("figures could not be pushed; it is tried again after each interval")

    async def stop(self) -> None:
        """Pushes a last time, in bounded time, and ends."""
        await self._task.stop()
        try:
            async with asyncio.timeout(self._last_s):
                await self.push()
        except (TimeoutError, MQError) as error:
            _log.warning("the last figures could not be pushed: %s", error or "it took too long")
        await self._close()

    async def kill(self) -> None:
        """Ends at once."""
        await self._task.stop()
        await self._close()

    async def _close(self) -> None:
        await asyncio.to_thread(self._receiver.close)

    def _send(self, snapshot: Snapshot, now_ns: int) -> bool:
        for request in self._points.requests(snapshot, self._bound, now_ns, self._pause):
            if not self._receiver.take(request.data):
                # The others would each wait as long.
                return False
            self._points.arrived(request, now_ns)
        return True


def pusher(
    settings: PushSettings,
    meter: str,
    begun_ms: int,
    gather: Callable[[], Awaitable[Snapshot]],
    pause: Callable[[], None],
) -> Pusher | None:
    """Returns what pushes figures; None where the settings name nobody to push to.

    Args:
        settings: The settings.
        meter: The name of the program's meter.
        begun_ms: Since when its counters count, Unix milliseconds.
        gather: Returns the figures of this moment.
        pause: Called again and again by a thread that works, so that the loop may run.

    Raises:
        ConfigurationError: OpenTelemetry is not installed, or the file cannot be written.
    """
    if not settings.has_lines and not settings.target:
        _log.error(
            "metricsExporterType=OTLP_GRPC without metricsGrpcExporterTarget: no figures are pushed"
        )
        return None
    try:
        from mqcore.metrics.otlp import Collector, JsonLines, Points
    except UsageError as error:
        raise ConfigurationError(error.message) from error
    receiver: Receiver
    if settings.has_lines:
        receiver = JsonLines(*_written(settings.lines_file))
    else:
        receiver = Collector(settings.target, settings.headers, timeout_ms=settings.timeout_ms)
    points = Points(meter, begun_ns=begun_ms * _NS_PER_MS, in_delta=settings.in_delta)
    return Pusher(settings, gather, pause, points, receiver)


def _written(lines_file: str) -> tuple[Callable[[str], None], Callable[[], None]]:
    """Returns what writes a line, and what ends that."""
    if not lines_file:
        return lambda line: _lines_log.info("%s", line), lambda: None
    path = Path(lines_file).expanduser()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.handlers.RotatingFileHandler(
            path, maxBytes=_FILE_BYTES_MAX, backupCount=_FILES_KEPT, encoding="utf-8"
        )
    except OSError as error:
        why = f"mqcoreMetricsLinesFile={path}: {error.strerror or error}"
        raise ConfigurationError(why) from error

    def write(line: str) -> None:
        handler.handle(logging.makeLogRecord({"msg": line, "levelno": logging.INFO}))

    return write, handler.close
