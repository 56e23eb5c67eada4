"""The JSON of a request's body, read so that the event loop serves others meanwhile.

Knows no request: how long a body may be is `mqcore.remoting.body_limits`.
"""

import asyncio
from collections.abc import Sized
from typing import Any

from mqcore.broker.limits import refused
from mqcore.model.relaxed_json import parse_object
from mqcore.remoting import BODY_BYTES_AT_ONCE, Request

__all__ = ["object_of", "too_many_of"]


async def object_of(request: Request) -> dict[str, Any]:
    """Returns the object in a body; a long one is read in a thread.

    Raises:
        BadJsonError: It is no JSON, or another value.
    """
    if len(request.body) <= BODY_BYTES_AT_ONCE:
        return parse_object(request.body)
    return await asyncio.to_thread(parse_object, request.body)


def too_many_of(rows: Sized, what: str, key: str, limit: int) -> None:
    """Refuses a list that is longer than the table it is for, before its rows are looked at.

    Args:
        rows: The list.
        what: What it has.
        key: The setting that bounds the table.
        limit: Its value.

    Raises:
        RefusedError: It is.
    """
    if len(rows) > limit:
        raise refused(f"a list of {len(rows)} {what}", key, limit)
