"""What a user, or the trace, hears of every call of a consumer's handler. Knows no queue's state.

After the official `ConsumeMessageHook`. Hooks run where the handler runs, in its thread or its
task, right before and right after it: what they set there (a context variable, a span) it sees.
"""

import inspect
import logging
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from mqcore.client.handler_jobs import is_coroutine_handler
from mqcore.client.message import ReceivedMessage
from mqcore.client.outcomes import Outcome, outcome_of, raised
from mqcore.clock import wall_ms

__all__ = ["ConsumeContext", "ConsumeHook", "ConsumeResult", "Hooks"]

_log = logging.getLogger(__name__)


class ConsumeResult(Enum):
    """How a call ended: the official `ConsumeReturnType`, with its ordinals."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURN_NULL = 3
    FAILED = 4


@dataclass(slots=True, eq=False)
class ConsumeContext:
    """One call of the handler.

    Attributes:
        group: The consumer's group, the namespace included.
        messages: What the handler gets; all of one queue.
        began_ms: When the call began, in ms since 1970.
        is_poll: Whether there is no handler: a poll gives the messages.
        took_ms: How long it took, in `after_consume`.
        result: How it ended, in `after_consume`: SUCCESS where the messages are done; TIME_OUT
            where it took longer than it may, even if it ended well; EXCEPTION where the handler
            raised; RETURN_NULL where it returned what is no answer; FAILED where it asked for the
            messages to come again, or to be put aside.
        is_done: Whether the messages need not come again, in `after_consume`.
        error: What the handler raised that is no answer, in `after_consume`.
        notes: Whatever a hook wants to remember between before and after.
    """

    group: str
    messages: Sequence[ReceivedMessage]
    began_ms: int
    is_poll: bool = False
    took_ms: int = 0
    result: ConsumeResult = ConsumeResult.SUCCESS
    is_done: bool = False
    error: BaseException | None = None
    notes: dict[str, Any] = field(default_factory=dict)


class ConsumeHook:
    """Hears of calls of a handler; derive and override. It must not wait: consuming waits for it.

    Hooks of a plain handler are called in its threads, several at once. What a hook raises is
    logged, and changes nothing.
    """

    def before_consume(self, context: ConsumeContext) -> None:
        """The handler is about to be called."""

    def after_consume(self, context: ConsumeContext) -> None:
        """The handler has ended."""


class Hooks:
    """The hooks of one consumer, in the order of their calls."""

    def __init__(self, group: str, hooks: Sequence[ConsumeHook], timeout_ms: float) -> None:
        """Takes them.

        Args:
            group: The consumer's group, the namespace included.
            hooks: Who hears of calls.
            timeout_ms: From how long on a call took too long; 0 for never.
        """
        self._group = group
        self._hooks = tuple(hooks)
        self._timeout_ms = timeout_ms

    def around(self, handler: Callable[[Any], Any], *, is_single: bool) -> Callable[[Any], Any]:
        """Returns a handler of the same kind that calls the hooks; itself where there are none.

        Args:
            handler: The handler.
            is_single: Whether it gets a message, not a list.
        """
        if not self._hooks:
            return handler

        def begun(argument: Any) -> ConsumeContext:
            return self._begun((argument,) if is_single else argument)

        async def awaited(context: ConsumeContext, work: Awaitable[Any]) -> Any:
            try:
                value = await work
            except BaseException as error:
                self._ended(context, raised(error))
                raise
            self._ended(context, outcome_of(value))
            return value

        async def called_in_task(argument: Any) -> Any:
            # The call itself belongs to the handler, too: what it raises is heard of.
            context = begun(argument)
            try:
                work = handler(argument)
            except BaseException as error:
                self._ended(context, raised(error))
                raise
            return await awaited(context, work)

        def called(argument: Any) -> Any:
            context = begun(argument)
            try:
                value = handler(argument)
            except BaseException as error:
                self._ended(context, raised(error))
                raise
            if inspect.isawaitable(value):
                return awaited(context, value)
            self._ended(context, outcome_of(value))
            return value

        return called_in_task if is_coroutine_handler(handler) else called

    def polled(self, messages: Sequence[ReceivedMessage]) -> None:
        """Calls the hooks for polled messages: before and after at once, as the official does."""
        if self._hooks:
            self._ended(self._begun(messages, is_poll=True), outcome_of(None))

    def _begun(
        self, messages: Sequence[ReceivedMessage], *, is_poll: bool = False
    ) -> ConsumeContext:
        context = ConsumeContext(self._group, messages, wall_ms(), is_poll)
        for hook in self._hooks:
            try:
                hook.before_consume(context)
            except Exception:
                _log.exception("%s.before_consume failed", type(hook).__name__)
        return context

    def _ended(self, context: ConsumeContext, outcome: Outcome) -> None:
        context.took_ms = max(wall_ms() - context.began_ms, 0)
        context.is_done = outcome.is_done
        context.error = outcome.error
        context.result = _result(outcome, self._timeout_ms, context.took_ms)
        for hook in self._hooks:
            try:
                hook.after_consume(context)
            except Exception:
                _log.exception("%s.after_consume failed", type(hook).__name__)


def _result(outcome: Outcome, timeout_ms: float, took_ms: int) -> ConsumeResult:
    """Returns how a call ended, in the order that `ConsumeRequest.run` looks."""
    is_overdue = 0 < timeout_ms <= took_ms
    # A coroutine that takes too long is cancelled: that is no failure of its own.
    if outcome.error is not None and not (is_overdue and isinstance(outcome.error, CancelledError)):
        return ConsumeResult.EXCEPTION
    if outcome.is_null:
        return ConsumeResult.RETURN_NULL
    if is_overdue:
        return ConsumeResult.TIME_OUT
    return ConsumeResult.SUCCESS if outcome.is_done else ConsumeResult.FAILED
