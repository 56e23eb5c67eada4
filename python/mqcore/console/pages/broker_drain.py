"""What is left on a broker that is taken out of use, and which step of its drain comes next.

The page waits for nothing: who drains loads it again, and `mqcore broker drain` does the waiting.
"""

from typing import Any, Final

from mqcore.admin.draining import Draining, DrainState
from mqcore.console.asking import BrokerAt
from mqcore.console.views import Asked

__all__ = ["drain_tab"]

_ROWS_MAX: Final = 50
# Every topic is asked for.
_LOOK_S: Final = 3.0


async def drain_tab(asked: Asked, at: BrokerAt) -> dict[str, Any]:
    """Returns what is left on a broker, and which step comes next."""
    asks = asked.questions
    draining = Draining(asks.admin, at.name)
    state = await asks.ask(at.address, "what is left", draining.look, deadline_s=_LOOK_S)
    if state is None:
        return {"drain": None}
    return {
        "drain": {
            **state.to_json(),
            "takes_sends": state.takes_sends,
            "pending": state.pending,
            "timed_total": sum(state.timed.values()),
            "lags": state.lags[:_ROWS_MAX],
            "lags_more": max(0, len(state.lags) - _ROWS_MAX),
            "unread": sorted(state.unread.items())[:_ROWS_MAX],
            "dead": sorted(state.dead.items())[:_ROWS_MAX],
            "step": _step(state),
        }
    }


def _step(state: DrainState) -> str:
    """Returns how far a drain is: `use`, `wiped`, `refusing` or `empty`."""
    if state.is_empty:
        return "empty"
    if not state.takes_sends:
        return "refusing"
    return "use" if state.writable_at else "wiped"
