"""What a broker over a mounted store does not do: whatever changes topics, settings or files."""

from typing import Final

from mqcore.broker.state import BrokerState
from mqcore.errors import RefusedError
from mqcore.remoting import Answer, Handler, Request, RequestCode, ResponseCode

__all__ = ["refused_when_mounted"]

# Groups and their offsets are the mount's own, and may change.
_REFUSED: Final = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        RequestCode.CLEAN_UNUSED_TOPIC,
        RequestCode.DELETE_EXPIRED_COMMITLOG,
        RequestCode.RESUME_CHECK_HALF_MESSAGE,
    }
)


def refused_when_mounted(code: int, handler: Handler, state: BrokerState) -> Handler:
    """Returns what serves a request: a refusal where it would change a mounted store."""
    source = state.settings.mounted_dir
    if not source or code not in _REFUSED:
        return handler

    def refuse(_request: Request) -> Answer:
        raise RefusedError(
            f"the broker serves {source} for reading alone: nothing of it is changed",
            code=ResponseCode.NO_PERMISSION,
        )

    return refuse
