"""What a broker over a mounted store does not do: whatever changes topics, settings or files.

Which requests these are is declared in the table of request codes. Groups and their offsets are the
mount's own, and may change.
"""

from mqcore.broker.state import BrokerState
from mqcore.errors import RefusedError
from mqcore.remoting import CODES, Answer, Handler, Request, ResponseCode

__all__ = ["refused_when_mounted"]


def refused_when_mounted(code: int, handler: Handler, state: BrokerState) -> Handler:
    """Returns what serves a request: a refusal where it would change a mounted store."""
    source = state.settings.mounted_dir
    if not source or CODES[code].row.on_mounted:
        return handler

    def refuse(_request: Request) -> Answer:
        raise RefusedError(
            f"the broker serves {source} for reading alone: nothing of it is changed",
            code=ResponseCode.NO_PERMISSION,
        )

    return refuse
