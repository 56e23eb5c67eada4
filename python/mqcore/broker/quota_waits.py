"""Quotas of requests that Python answers: they wait their time here, or are refused in words.

The buckets are those of the fast path (`mqcoreQuotas`), so that a user's messages count whichever
way they take. Runs on the event loop; keeps nothing.
"""

import asyncio
from collections.abc import Sequence

from mqcore.errors import RefusedError
from mqcore.native import FastPath, Message, QuotaWait
from mqcore.remoting import ResponseCode

__all__ = ["count_read", "wait_to_read", "wait_to_send"]

_MS_PER_S = 1_000


async def wait_to_send(
    fast_path: FastPath, user: str, topic: str, group: str, size_bytes: int
) -> None:
    """Returns when a message may be sent.

    Args:
        fast_path: Has the quotas.
        user: Who sends it; empty where nobody signs.
        topic: Where to.
        group: The group of producers.
        size_bytes: Of its body and properties.

    Raises:
        RefusedError: It would have to wait for more than half a second.
    """
    await _wait(fast_path.admit_send(user, topic, group, size_bytes))


async def wait_to_read(fast_path: FastPath, user: str, topic: str, group: str = "") -> None:
    """Returns when messages may be read: when nothing is owed.

    Raises:
        RefusedError: That is in more than half a second.
    """
    await _wait(fast_path.admit_read(user, topic, group))


def count_read(
    fast_path: FastPath, user: str, topic: str, messages: Sequence[Message], group: str = ""
) -> None:
    """Counts messages of a topic that were read."""
    size = sum(each.store_size_bytes for each in messages)
    fast_path.have_read(user, topic, group, len(messages), size)


async def _wait(wait: QuotaWait) -> None:
    if wait.wait_ms:
        await asyncio.sleep(wait.wait_ms / _MS_PER_S)
    if wait.refusal is not None:
        raise RefusedError(wait.refusal, code=ResponseCode.SYSTEM_BUSY)
