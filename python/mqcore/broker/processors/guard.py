"""What all handlers have in common: errors with a cause become refusals, slow requests are logged.

A handler that is a plain function stays one: most answers need no task.
"""

import inspect
import logging
from collections.abc import Awaitable

from mqcore.broker.state import BrokerState
from mqcore.clock import monotonic_s
from mqcore.errors import BadJsonError, MQError, RefusedError, StoreError
from mqcore.remoting import Answer, Handler, Request, ResponseCode, code_name

_log = logging.getLogger("mqcore.broker")
_MS_PER_S = 1_000


def guarded(handler: Handler, state: BrokerState) -> Handler:
    """Returns a handler whose errors are refusals with a remark; its slow calls are logged."""

    async def awaited(request: Request, work: Awaitable[Answer], began_s: float) -> Answer:
        response: int = ResponseCode.SYSTEM_ERROR
        try:
            answer = await work
            response = ResponseCode.SUCCESS if answer is None else answer.code
        except MQError as error:
            refusal = _counted(_refusal(request, error), state)
            response = _code_of(refusal)
            raise refusal from error
        else:
            return answer
        finally:
            _note(request, response, began_s, state)

    def serve(request: Request) -> Answer | Awaitable[Answer]:
        began_s = monotonic_s()
        try:
            outcome = handler(request)
        except MQError as error:
            refusal = _counted(_refusal(request, error), state)
            _note(request, _code_of(refusal), began_s, state)
            raise refusal from error
        if inspect.isawaitable(outcome):
            return awaited(request, outcome, began_s)
        response = ResponseCode.SUCCESS if outcome is None else outcome.code
        _note(request, response, began_s, state)
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
    try:
        name = ResponseCode(_code_of(error)).name.lower()
    except ValueError:
        name = "other"
    state.refusals[name] = state.refusals.get(name, 0) + 1
    return error


def _code_of(error: MQError) -> int:
    return int(error.code) if isinstance(error, RefusedError) else ResponseCode.SYSTEM_ERROR


def _note(request: Request, response: int, began_s: float, state: BrokerState) -> None:
    """Counts what a request took; logs it where that was long."""
    took_ms = (monotonic_s() - began_s) * _MS_PER_S
    state.durations.note(request.code, response, took_ms)
    if took_ms > state.settings.slow_operation_ms:
        _log.warning(
            "slow: %s of %s took %d ms", code_name(request.code), request.link.peer, took_ms
        )
