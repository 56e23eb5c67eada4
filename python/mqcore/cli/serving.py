"""Runs a long-running program: an event loop, a ready line, and a clean end at a signal.

    serve(options, "namesrv", lambda: NameServer(settings), about=about_namesrv(settings))

Knows of a program that it starts and stops, and nothing else.
"""

import asyncio
import faulthandler
import gc
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

import click

from mqcore.cli.logs import reopen_log_files
from mqcore.cli.program import ProgramOptions
from mqcore.clock import monotonic_ms
from mqcore.config.allowed import available_processors
from mqcore.native import bound_allocator, name_failed_reads
from mqcore.occupancy.giving_back import GivingBack
from mqcore.periodic import PeriodicTask
from mqcore.remoting import raised_descriptors

__all__ = ["Served", "serve"]

_log = logging.getLogger("mqcore.program")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Who sets one of these has decided how memory is allocated.
_ALLOCATOR_SET = (
    *("GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"),
)
# Distance of two looks whether the process has grown by memory that is free.
_GIVE_BACK_PERIOD_S = 60.0
# By number: what is at `sys.stderr` need not be a file.
_STANDARD_ERROR = 2


class Served(Protocol):
    """A program that can be started once and stopped once, on one event loop."""

    @property
    def ports(self) -> Mapping[str, int]:
        """What it listens on, by name; of use once it has started."""

    async def start(self) -> object:
        """Returns when it serves; what it returns is shown in the ready line."""

    async def stop(self) -> None:
        """Returns when everything is closed."""


Program = TypeVar("Program", bound=Served)


def serve(
    options: ProgramOptions,
    name: str,
    make: Callable[[], Program],
    *,
    about: str,
    leave: Callable[[Program], Awaitable[None]] | None = None,
    refused: Callable[[Program], Awaitable[str | None]] | None = None,
) -> None:
    """Runs a program until a signal ends it; a second signal ends it at once.

    Args:
        options: Write the chosen ports.
        name: What to call it.
        make: Makes it, with the event loop running.
        about: What else the ready line has: its store, and when a send is safe.
        leave: What it does after the signal while it still serves.
        refused: Returns why it cannot go on, once it cannot; None where that never happens.

    Raises:
        click.ClickException: It could not go on.
    """
    _report_before_dying()
    is_bounded = not any(name in os.environ for name in _ALLOCATOR_SET)
    if is_bounded:
        bound_allocator(available_processors())
    descriptors = raised_descriptors()
    _log.info("%d descriptors allowed", descriptors)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(options, name, make, about, leave, refused, gives_back=is_bounded))


def _report_before_dying() -> None:
    """Lets a signal that ends the process without an exception show where it was.

    Standard error has the threads' Python frames, and before them the file of a failed read.
    """
    faulthandler.enable(file=_STANDARD_ERROR)
    # Behind it: the handler that is set last is called first, and goes on to the one before.
    name_failed_reads()


async def _serve(
    options: ProgramOptions,
    name: str,
    make: Callable[[], Program],
    about: str,
    leave: Callable[[Program], Awaitable[None]] | None,
    refused: Callable[[Program], Awaitable[str | None]] | None,
    *,
    gives_back: bool,
) -> None:
    began_ms = monotonic_ms()
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, _stop, number, stopping)
    # Without a handler a hang-up, which log rotation sends, would end the program.
    loop.add_signal_handler(signal.SIGHUP, _reopen)
    memory = GivingBack()

    async def give_back() -> None:
        await asyncio.to_thread(memory.look)

    giving_back = PeriodicTask("memory", give_back, period_s=lambda: _GIVE_BACK_PERIOD_S)
    program = make()
    try:
        shown = await program.start()
        # What is there now stays: looking through it for garbage again and again is lost time.
        gc.collect()
        gc.freeze()
        if gives_back:
            giving_back.start()
        options.write_ports(program.ports)
        took_ms = monotonic_ms() - began_ms
        click.echo(f"mqcore {name} ready on {shown} after {took_ms} ms: {about}")
        why = await _ending(stopping, None if refused is None else refused(program))
        if why is None and leave is not None:
            await leave(program)
        began_ms = monotonic_ms()
    finally:
        await giving_back.stop()
        await program.stop()
        options.forget_ports()
    _log.info("%s stopped after %d ms", name, monotonic_ms() - began_ms)
    if why is not None:
        raise click.ClickException(why)


async def _ending(stopping: asyncio.Event, refused: Awaitable[str | None] | None) -> str | None:
    """Returns at a signal, or why the program cannot go on."""

    async def refusal() -> str | None:
        return None if refused is None else await refused

    signalled = asyncio.ensure_future(stopping.wait())
    refusing = asyncio.ensure_future(refusal())
    try:
        await asyncio.wait({signalled, refusing}, return_when=asyncio.FIRST_COMPLETED)
        if not signalled.done() and refusing.result() is None:
            await signalled
        return None if signalled.done() else refusing.result()
    finally:
        for each in (signalled, refusing):
            each.cancel()
        await asyncio.gather(signalled, refusing, return_exceptions=True)


def _reopen() -> None:
    count = reopen_log_files()
    _log.info("SIGHUP: %s", "the log file is opened anew" if count else "there is no log file")


def _stop(number: signal.Signals, stopping: asyncio.Event) -> None:
    _log.info("%s: stopping", signal.Signals(number).name)
    stopping.set()
    # Whoever asks twice does not want to wait.
    asyncio.get_running_loop().remove_signal_handler(number)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Returns uvloop's where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
