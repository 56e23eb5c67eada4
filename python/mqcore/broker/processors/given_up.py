"""Half messages that nobody ended and that were given up: asked about again, as a tool wants it."""

import asyncio
from collections.abc import Mapping
from typing import Final

from mqcore.broker.state import BrokerState
from mqcore.errors import MQError, RefusedError
from mqcore.model.message_ids import parse_offset_id
from mqcore.model.topics import CHECK_MAX_TIME_TOPIC
from mqcore.native import Command
from mqcore.remoting import Handler, Request, RequestCode, ResponseCode

# Official remarks.
_FAILED: Final = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."
_UNREADABLE: Final = "Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC."


class GivenUp:
    """Serves the request about half messages that were given up."""

    def __init__(self, state: BrokerState) -> None:
        """Takes what it works on."""
        self._state = state

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {RequestCode.RESUME_CHECK_HALF_MESSAGE: self.resume}

    async def resume(self, request: Request) -> Command:
        """323: stores it anew as a half message that nobody was asked about yet."""
        named = parse_offset_id(request.field("msgId"))
        state = self._state
        if named is None or named.physical_offset < 0:
            raise RefusedError(_UNREADABLE, code=ResponseCode.SYSTEM_ERROR)
        if not state.role.is_master:
            raise RefusedError(
                f"{_FAILED} This broker is no master.", code=ResponseCode.SYSTEM_ERROR
            )
        halves = state.fast_path.half_messages
        try:
            done = await asyncio.to_thread(halves.resume, named.physical_offset)
            if done.end is not None:
                await state.store.durable(done.end, needs_replica=state.role.waits_for_slaves)
        except MQError as error:
            remark = f"{_FAILED} {error.message}"
            raise RefusedError(remark, code=ResponseCode.SYSTEM_ERROR) from error
        if done.found_in is not None:
            raise RefusedError(
                f"{_FAILED} The message is in topic {done.found_in[:80]}: only what is in "
                f"{CHECK_MAX_TIME_TOPIC} was given up",
                code=ResponseCode.SYSTEM_ERROR,
            )
        if done.end is None:
            raise RefusedError(_UNREADABLE, code=ResponseCode.SYSTEM_ERROR)
        return request.answer()
