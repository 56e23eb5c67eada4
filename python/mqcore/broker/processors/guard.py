"""What all handlers have in common: errors with a cause become refusals, slow requests are logged.

A handler that is a plain function stays one: most answers need no task.
"""

import inspect
import logging
from collections.abc import Awaitable

from mqcore.broker.state import BrokerState
from mqcore.clock import monotonic_ms
from mqcore.errors import BadJsonError, MQError, RefusedError, StoreError
from mqcore.remoting import Answer, Handler, Request, ResponseCode, code_name

_log = logging.getLogger("mqcore.broker")


def guarded(handler: Handler, state: BrokerState) -> Handler:
    """Returns a handler whose errors are refusals with a remark; its slow calls are logged."""

    async def awaited(request: Request, work: Awaitable[Answer], began_ms: int) -> Answer:
        try:
            return await work
        except MQError as error:
            raise _counted(_refusal(request, error), state) from error
        finally:
            _log_slow(request, began_ms, state)

    def serve(request: Request) -> Answer | Awaitable[Answer]:
        began_ms = monotonic_ms()
        try:
            outcome = handler(request)
        except MQError as error:
            raise _counted(_refusal(request, error), state) from error
        if inspect.isawaitable(outcome):
            return awaited(request, outcome, began_ms)
        _log_slow(request, began_ms, state)
        return outcome

    return serve


def _refusal(request: Request, error: MQError) -> MQError:
    """Returns the error for the client; what is the store's fault is logged, without a trace."""
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, BadJsonError):
        return RefusedError(f"the body: {error.message}", code=ResponseCode.SYSTEM_ERROR)
    if isinstance(error, StoreError):
        _log.error("%s of %s: %s", code_name(request.code), request.link.peer, error.message)
        return RefusedError(error.message, code=ResponseCode.SYSTEM_ERROR)
    return error


def _counted(error: MQError, state: BrokerState) -> MQError:
    """Counts a refusal by the name of its code, for the figures."""
    code = error.code if isinstance(error, RefusedError) else ResponseCode.SYSTEM_ERROR
    try:
        name = ResponseCode(code).name.lower()
    except ValueError:
        name = "other"
    state.refusals[name] = state.refusals.get(name, 0) + 1
    return error


def _log_slow(request: Request, began_ms: int, state: BrokerState) -> None:
    took_ms = monotonic_ms() - began_ms
    if took_ms > state.settings.slow_operation_ms:
        _log.warning(
            "slow: %s of %s took %d ms", code_name(request.code), request.link.peer, took_ms
        )
