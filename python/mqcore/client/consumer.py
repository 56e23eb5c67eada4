"""What both asyncio consumers share as users see them: client, hooks and trace, start and end.

Knows no handler and no poll; what runs is the engine's of each.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from mqcore.client.consume_hooks import ConsumeHook, Hooks
from mqcore.client.joining import ConsumerJoin
from mqcore.client.namespaces import check_group
from mqcore.client.pull_engine import PullEngine
from mqcore.client.push_engine import PushEngine
from mqcore.client.results import QueueRef
from mqcore.client.shown import shown
from mqcore.client.trace import ConsumeTraceHook, Tracer
from mqcore.errors import ClosedError, UsageError, UsageReason
from mqcore.model.topics import RETRY_PREFIX

__all__ = ["Consumer"]

_MS_PER_S: Final = 1000

_EngineT = TypeVar("_EngineT", PushEngine, PullEngine)


class Consumer(ABC, Generic[_EngineT]):
    """A member of a group that is started and closed.

    Attributes:
        group: Its group, as the user calls it.
        tracer: Gathers the message trace, or None.
    """

    _engine: _EngineT

    def __init__(
        self,
        namesrv: str | Sequence[str] | None,
        group: str,
        join: ConsumerJoin,
        *,
        timeout_s: float,
    ) -> None:
        """Takes the client that it belongs to, or makes one of its own.

        Args:
            namesrv: Name servers.
            group: Its group.
            join: Its client, hooks and trace.
            timeout_s: From how long on a call of the handler took too long; 0 for never.

        Raises:
            AddressError: A name server's address is none.
            UsageError: The group's name is illegal.
        """
        self._owns_instance = join.instance is None
        self._instance = join.own_or(namesrv)
        full_group = check_group(self._instance.full_name(group))
        self.group = group
        self.tracer = Tracer(self._instance, group, role="CONSUME") if join.trace else None
        hooks: tuple[ConsumeHook, ...] = tuple(join.hooks)
        if self.tracer is not None:
            hooks = (*hooks, ConsumeTraceHook(self.tracer))
        if join.spans:
            # Imported here: OpenTelemetry is for those who ask for it.
            from mqcore.client.spans import ConsumeSpans

            hooks = (ConsumeSpans(), *hooks)
        self._hooks = Hooks(full_group, hooks, timeout_s * _MS_PER_S)
        self._is_started = False
        self._closing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        """Returns its group, topics, name servers and state."""
        topics = self._engine.subscriptions.consumed
        return shown(
            self,
            self._instance,
            group=self.group,
            topics=[self._instance.short_name(t) for t in topics if not t.startswith(RETRY_PREFIX)],
            is_started=self._is_started,
            is_closed=self.is_closed,
        )

    async def __aenter__(self) -> Self:
        """Starts it."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes it."""
        await self.close()

    async def start(self, *, timeout_s: float | None = None) -> None:
        """Joins the group and begins to consume. Starting again does nothing.

        Args:
            timeout_s: For how long to wait for a name server. When not given, a name server, broker
                or topic that is not there is waited for in the background; the log reports it.

        Raises:
            ClosedError: It was closed.
            UsageError: Its client has such a consumer already.
            ResponseError: A broker cannot filter by an expression.
            NameServerError: None answered within `timeout_s`; it may be started again.
        """
        self._check_open()
        if self._is_started:
            return
        await self._instance.start(timeout_s=timeout_s)
        self._is_started = True
        if self.tracer is not None:
            self.tracer.start()
        try:
            await self._begin()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Saves offsets and leaves the group. Who closes again waits for the same end."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    @property
    def client_id(self) -> str:
        """Who brokers and tools know this member as."""
        return self._instance.client_id

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or is being closed."""
        return self._closing is not None

    @abstractmethod
    async def _begin(self) -> None:
        """Starts the engine."""

    async def _close(self) -> None:
        # The last first: handlers end, what the trace heard of them is sent, connections close.
        async with AsyncExitStack() as closing:
            if self._owns_instance:
                closing.push_async_callback(self._instance.close)
            if self.tracer is not None:
                closing.push_async_callback(self.tracer.close)
            if self._is_started:
                closing.push_async_callback(self._engine.stop)

    def _short(self, queue: QueueRef) -> QueueRef:
        """Returns a queue as the user calls its topic."""
        return replace(queue, topic=self._instance.short_name(queue.topic))

    def _check_open(self) -> None:
        if self._closing is not None:
            raise ClosedError(f"consumer {self.group} is closed: make another one")

    def _check_started(self) -> None:
        if not self._is_started:
            self._check_open()
            raise UsageError(
                f"consumer {self.group} is not started: call start(), or use it "
                "as a context manager",
                reason=UsageReason.NOT_STARTED,
            )
