"""What users write to get messages: handlers of one message, or of a list."""

import inspect
from collections.abc import Awaitable, Callable
from types import FunctionType, MethodType
from typing import TypeAlias

from mqcore.client.message import ReceivedMessage
from mqcore.client.outcomes import Reject, Retry
from mqcore.errors import UsageError

__all__ = ["BatchHandler", "Handler", "HandlerResult", "check_callback", "check_handler"]

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
    given = "a list of messages" if is_batch else "the message"
    check_callback("handler", handler, f"one argument, {given}")


def check_callback(what: str, callback: object, given: str, *, count: int = 1) -> None:
    """Checks what can be known of a function of a user before it is called.

    Args:
        what: The argument that it was given as.
        callback: What the user gave.
        given: What it is called with, for people.
        count: How many arguments that are.

    Raises:
        UsageError: It is no callable, cannot take so many arguments, or is a generator, whose body
            no call would run.
    """
    if not isinstance(callback, FunctionType | MethodType):
        # Other callables, such as mocks, may answer for anything that is asked of them.
        if not callable(callback):
            raise UsageError(f"{what}: a callable is expected, not {type(callback).__name__}")
        return
    name = callback.__name__
    if inspect.isgeneratorfunction(callback) or inspect.isasyncgenfunction(callback):
        raise UsageError(f"{what}: {name} has a yield, so that a call of it does nothing: return")
    try:
        inspect.signature(callback).bind(*[object()] * count)
    except TypeError as error:
        raise UsageError(
            f"{what}: it is called with {given}, which {name} does not take: {error}"
        ) from None
