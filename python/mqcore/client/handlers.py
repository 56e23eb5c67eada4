"""What users write to get messages: handlers of one message, or of a list."""

import inspect
from collections.abc import Awaitable, Callable
from types import FunctionType, MethodType
from typing import TypeAlias

from mqcore.client.message import ReceivedMessage
from mqcore.client.outcomes import Reject, Retry
from mqcore.errors import UsageError

__all__ = ["BatchHandler", "Handler", "HandlerResult", "check_handler"]

# What a handler returns: done, again, dead letter (`outcomes.outcome_of`).
HandlerResult: TypeAlias = bool | Retry | Reject | None
# A plain function, or one made with `async def`.
Handler: TypeAlias = Callable[[ReceivedMessage], HandlerResult | Awaitable[HandlerResult]]
BatchHandler: TypeAlias = Callable[
    [list[ReceivedMessage]], HandlerResult | Awaitable[HandlerResult]
]


def check_handler(handler: object, *, is_batch: bool) -> None:
    """Checks what can be known of a handler before there is a message.

    Args:
        handler: What the user gave.
        is_batch: Whether it gets lists.

    Raises:
        UsageError: It is no callable, cannot take one argument, or is a generator, whose body no
            call would run.
    """
    if not isinstance(handler, FunctionType | MethodType):
        # Other callables, such as mocks, may answer for anything that is asked of them.
        if not callable(handler):
            raise UsageError(f"handler: a callable is expected, not {type(handler).__name__}")
        return
    name = handler.__name__
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise UsageError(f"handler: {name} has a yield, so that a call of it does nothing: return")
    given = "a list of messages" if is_batch else "the message"
    try:
        inspect.signature(handler).bind(object())
    except TypeError as error:
        raise UsageError(
            f"handler: it is called with one argument, {given}, which {name} does not take: {error}"
        ) from None
