"""The types of what users write to get messages: handlers of one message, or of a list."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from mqcore.client.message import ReceivedMessage
from mqcore.client.outcomes import Reject, Retry

__all__ = ["BatchHandler", "Handler", "HandlerResult"]

# What a handler returns: done, again, dead letter (`outcomes.outcome_of`).
HandlerResult: TypeAlias = bool | Retry | Reject | None
# A plain function, or one made with `async def`.
Handler: TypeAlias = Callable[[ReceivedMessage], HandlerResult | Awaitable[HandlerResult]]
BatchHandler: TypeAlias = Callable[
    [list[ReceivedMessage]], HandlerResult | Awaitable[HandlerResult]
]
