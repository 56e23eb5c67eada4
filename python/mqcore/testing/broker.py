"""A broker inside a test, in two faces with the same names: `Broker` waits, `AsyncBroker` awaits.

    with Broker() as broker:                    async with Broker() as broker:
        connect_to(broker.namesrv)                  await broker.restart()
        broker.restart()

Both only pass calls on to the loop, in a thread of its own, that the broker lives on: it goes on
while a test's own loop is busy, closed or another one.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from mqcore.config.keys import SPELLINGS, Program, keys_of, nearest
from mqcore.errors import UsageError
from mqcore.native import ReceivedMessage
from mqcore.remoting import ResponseCode
from mqcore.testing.embedded import Embedded
from mqcore.testing.logs import CapturedLogs
from mqcore.testing.loop_thread import LoopThread

__all__ = ["AsyncBroker", "Broker"]

_numbers = count(1)
_MS_PER_S = 1_000
_REFUSED = "[REJECTREQUEST]refused by a test"


def _ms(time: float | timedelta) -> int:
    """Returns a span as ms.

    Raises:
        UsageError: It is none.
    """
    seconds = time.total_seconds() if isinstance(time, timedelta) else time
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise UsageError(f"time: seconds, or a timedelta, are expected, not {time!r}")
    return round(seconds * _MS_PER_S)


def _checked(settings: Mapping[str, str | bool | int]) -> dict[str, str]:
    """Returns the keys that a test sets, with values as files have them.

    Raises:
        UsageError: There is no such key: one that is misspelt would have no effect. Or a value is
            no text, truth or whole number.
    """
    if not isinstance(settings, Mapping):
        raise UsageError(f"settings: a mapping is expected, not {type(settings).__name__}")
    found = {}
    for name, value in settings.items():
        if not isinstance(value, str | bool | int):
            raise UsageError(f"settings: {name}: a str, bool or int is expected, not {value!r}")
        if name not in SPELLINGS and not any(name in keys_of(program) for program in Program):
            near = nearest(name, Program.BROKER)
            hint = f": did you mean {near}?" if near else ""
            raise UsageError(f"settings: there is no key {name!r}{hint}")
        found[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


class _Face:
    """What both faces share: the broker, its loop, what it logged."""

    def __init__(self, body: Embedded, thread: LoopThread, logs: CapturedLogs) -> None:
        self._body = body
        self._thread = thread
        self._logs = logs

    def __repr__(self) -> str:
        """Returns its addresses and whether it runs."""
        name = type(self).__name__
        if not self.is_running:
            return f"<{name} not running>"
        return f"<{name} namesrv={self.namesrv!r} address={self.address!r} running>"

    @property
    def namesrv(self) -> str:
        """The address of the name server, for clients of any language."""
        return self._body.namesrv

    @property
    def address(self) -> str:
        """The address of the broker."""
        return self._body.address

    @property
    def directory(self) -> Path:
        """Where it stores."""
        return self._body.directory

    @property
    def is_running(self) -> bool:
        """Whether it serves."""
        return self._body.is_running

    @property
    def logs(self) -> list[logging.LogRecord]:
        """What the broker logged, oldest first."""
        return list(self._logs.records)

    @property
    def log_text(self) -> str:
        """What the broker logged, one line per record."""
        return self._logs.text

    async def _create_topic(self, topic: str, queues: int) -> None:
        # Imported here: a broker is there sooner without it.
        from mqcore.admin import Admin

        async with Admin(self.namesrv) as admin:
            await admin.topics.create(topic, queues=queues, brokers=[self.address])

    async def _ensure_topic(self, topic: str, queues: int) -> None:
        if not self._body.has_topic(topic):
            await self._create_topic(topic, queues)


class Broker(_Face):
    """A broker and its name server in this process, on free ports, with a temporary directory.

    Clients of any language reach it by `namesrv`. It writes the same files and speaks the same
    protocol as one in production; only its files are smaller. `async with` gives an `AsyncBroker`.
    """

    def __init__(
        self,
        settings: Mapping[str, str | bool | int] | None = None,
        *,
        directory: Path | None = None,
        namesrv: str | None = None,
        log_level: int | str = logging.INFO,
    ) -> None:
        """Prepares; `start`, or the context manager, starts.

        Args:
            settings: Official keys of `broker.conf`, such as `{"autoCreateTopicEnable": False}`;
                False and "false" are the same.
            directory: Where to store, kept at the end; a temporary directory without one.
            namesrv: Name servers to join; without it the broker has one of its own. Give it
                `other.namesrv` for a cluster of several brokers, each with a `brokerName`.
            log_level: Least level of what `logs` keeps, or its name: `"DEBUG"`.

        Raises:
            UsageError: There is no such key, or a value is neither text, truth nor whole number.
        """
        keys = _checked(settings or {})
        thread = LoopThread(f"mqcore-test-{next(_numbers)}.")
        body = Embedded(keys, directory, namesrv)
        super().__init__(body, thread, CapturedLogs(thread.name, log_level))

    def __enter__(self) -> Self:
        """Starts it."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes it."""
        self.close()

    async def __aenter__(self) -> "AsyncBroker":
        """Starts it; returns the face whose methods are awaited."""
        return await self.awaited.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes it."""
        await self.awaited.close()

    @property
    def awaited(self) -> "AsyncBroker":
        """The same broker, with methods that are awaited."""
        return AsyncBroker(self._body, self._thread, self._logs)

    def start(self) -> Self:
        """Starts it, on the ports that it had before; returns it. Does nothing while it runs.

        Raises:
            MQError: It cannot start; everything is closed.
        """
        self._logs.attach()
        try:
            self._thread.run(self._body.start())
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stops it and removes its temporary directory; closing again does nothing."""
        if self._thread.is_closed:
            return
        try:
            self._thread.run(self._body.remove())
        finally:
            self._thread.close()
            self._logs.detach()

    def restart(self) -> None:
        """Stops it as a signal does, or not at all where it was killed, and starts it.

        It has the same ports and the same directory.
        """
        self._thread.run(self._body.restart())

    def kill(self) -> None:
        """Ends it as `kill -9` ends a process; `restart` recovers what it stored.

        Connections break, sends under way are not answered, offsets since the last save (5 s) are
        lost, name servers are not notified, and the store is left unclean. What was acknowledged is
        in the page cache and comes back: only a power failure would take it. Its own name server
        dies with it; one that it joined lives on.
        """
        self._thread.run(self._body.kill())

    @contextmanager
    def partition(self) -> Iterator[None]:
        """Cuts it off from everybody, for the time of a `with`: nothing is read or answered.

        Connections stay, and new ones seem to be made: clients run into their time-outs. What they
        sent meanwhile arrives afterwards, as behind a network that was down for a while.
        """
        self._thread.run(self._body.deafen())
        try:
            yield
        finally:
            self._thread.run(self._body.hear())

    def drop_connections(self) -> None:
        """Breaks every connection once; clients may connect again."""
        self._thread.run(self._body.drop_connections())

    def fail_sends(
        self, times: int, *, code: int = ResponseCode.SYSTEM_BUSY, remark: str = _REFUSED
    ) -> None:
        """Refuses the next sends; nothing of them is stored.

        Args:
            times: How many; a batch counts as one, and so does each retry.
            code: The answer's code: busy, as of a broker that is overloaded.
            remark: The answer's text.
        """
        self._thread.run(self._body.fail_sends(times, code, remark))

    def advance(self, time: float | timedelta) -> None:
        """Lets time pass for messages that are delayed, and for those that wait for a retry.

        What is due then is delivered at once. Messages that are sent afterwards are not older.
        Transactions without an end are checked once, as if they were so much older. Nothing else
        gets older: heartbeats, locks and store times follow the wall clock.

        Args:
            time: How long, in seconds.
        """
        self._thread.run(self._body.advance(_ms(time)))

    def create_topic(self, topic: str, *, queues: int = 4) -> None:
        """Creates a topic; when it returns, routes know it."""
        self._thread.run(self._create_topic(topic, queues))

    def ensure_topic(self, topic: str, *, queues: int = 4) -> None:
        """Creates a topic that is not there yet."""
        self._thread.run(self._ensure_topic(topic, queues))

    def messages(self, topic: str) -> list[ReceivedMessage]:
        """Returns all that is stored of a topic, by queue and offset, as consumers get it."""
        return self._thread.run(self._body.messages(topic))

    def offsets(self, group: str, topic: str) -> dict[int, int]:
        """Returns how far a group has read a topic, as the broker has it: offsets by queue."""
        return self._thread.run(self._body.offsets(group, topic))


class AsyncBroker(_Face):
    """The same broker with methods that are awaited; `async with Broker()` gives one."""

    async def start(self) -> Self:
        """See `Broker.start`."""
        self._logs.attach()
        try:
            await self._thread.awaited(self._body.start())
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """See `Broker.close`."""
        if self._thread.is_closed:
            return
        try:
            await self._thread.awaited(self._body.remove())
        finally:
            await asyncio.to_thread(self._thread.close)
            self._logs.detach()

    async def restart(self) -> None:
        """See `Broker.restart`."""
        await self._thread.awaited(self._body.restart())

    async def kill(self) -> None:
        """See `Broker.kill`."""
        await self._thread.awaited(self._body.kill())

    @asynccontextmanager
    async def partition(self) -> AsyncIterator[None]:
        """See `Broker.partition`."""
        await self._thread.awaited(self._body.deafen())
        try:
            yield
        finally:
            await self._thread.awaited(self._body.hear())

    async def drop_connections(self) -> None:
        """See `Broker.drop_connections`."""
        await self._thread.awaited(self._body.drop_connections())

    async def fail_sends(
        self, times: int, *, code: int = ResponseCode.SYSTEM_BUSY, remark: str = _REFUSED
    ) -> None:
        """See `Broker.fail_sends`."""
        await self._thread.awaited(self._body.fail_sends(times, code, remark))

    async def advance(self, time: float | timedelta) -> None:
        """See `Broker.advance`."""
        await self._thread.awaited(self._body.advance(_ms(time)))

    async def create_topic(self, topic: str, *, queues: int = 4) -> None:
        """See `Broker.create_topic`."""
        await self._thread.awaited(self._create_topic(topic, queues))

    async def ensure_topic(self, topic: str, *, queues: int = 4) -> None:
        """See `Broker.ensure_topic`."""
        await self._thread.awaited(self._ensure_topic(topic, queues))

    async def messages(self, topic: str) -> list[ReceivedMessage]:
        """See `Broker.messages`."""
        return await self._thread.awaited(self._body.messages(topic))

    async def offsets(self, group: str, topic: str) -> dict[int, int]:
        """See `Broker.offsets`."""
        return await self._thread.awaited(self._body.offsets(group, topic))
