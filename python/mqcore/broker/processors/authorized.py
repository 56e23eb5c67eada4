"""What every handler is behind: a request whose body names topics or groups is checked by those.

The engine has checked signature and header before (`mqcore.native.Access`, in the fast path).
"""

import asyncio
from collections.abc import Awaitable

from mqcore.access import BODY_PAIRS, Pair
from mqcore.broker.access_pairs import StoredPairs, pairs_of_body
from mqcore.broker.state import BrokerState
from mqcore.remoting import BODY_BYTES_AT_ONCE, Answer, Handler, Request

__all__ = ["authorized"]


def authorized(code: int, handler: Handler, state: BrokerState, stored: StoredPairs) -> Handler:
    """Returns what serves a request whose user may do what its body asks for."""
    look = stored.looks.get(code)

    def decide(request: Request, pairs: list[Pair]) -> None:
        state.access.engine.decide(request.user, request.link.peer_host, pairs, code=code)

    if look is not None:
        looks = look

        async def looked_up(request: Request) -> Answer:
            decide(request, await looks(request.command))
            answer = handler(request)
            return await answer if isinstance(answer, Awaitable) else answer

        def serve_stored(request: Request) -> Answer | Awaitable[Answer]:
            if not state.access.authorizes:
                return handler(request)
            return looked_up(request)

        return serve_stored

    async def read_beside(request: Request) -> Answer:
        pairs = await asyncio.to_thread(pairs_of_body, request.command)
        decide(request, pairs or [])
        answer = handler(request)
        return await answer if isinstance(answer, Awaitable) else answer

    def serve(request: Request) -> Answer | Awaitable[Answer]:
        if state.access.authorizes:
            if code in BODY_PAIRS and len(request.body) > BODY_BYTES_AT_ONCE:
                return read_beside(request)
            pairs = pairs_of_body(request.command)
            if pairs is not None:
                decide(request, pairs)
        return handler(request)

    return serve
