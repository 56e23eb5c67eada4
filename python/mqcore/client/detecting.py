"""Tests brokers that are left alone, so that who answers again is used again.

After the official `ServiceDetector`: a cheap question with a short deadline.
"""

import asyncio
from typing import Final

from mqcore.client.instance import Instance
from mqcore.client.sender import Sender
from mqcore.clock import monotonic_ms
from mqcore.errors import RemotingError
from mqcore.remoting.codes import RequestCode

__all__ = ["detect"]

_ROUND_INTERVAL_S: Final = 3.0
# `detectTimeout`.
_ANSWER_TIMEOUT_S: Final = 0.2


async def detect(instance: Instance, sender: Sender) -> None:
    """Tests the brokers that the sender's fault strategy says are due, again and again."""
    while sender.faults is not None:
        await asyncio.sleep(_ROUND_INTERVAL_S)
        for name in sender.faults.due_for_detection(monotonic_ms()):
            address = instance.address_of(name)
            if address is None:
                sender.faults.forget(name)
            elif await _answers(instance, address, next(iter(sender.targets.topics), "TBW102")):
                sender.faults.detected(name)


async def _answers(instance: Instance, address: str, topic: str) -> bool:
    ext = {"topic": topic, "queueId": "0"}
    try:
        await instance.call(address, RequestCode.GET_MAX_OFFSET, ext, timeout_s=_ANSWER_TIMEOUT_S)
    except RemotingError:
        return False
    # Whatever it answered, it is there.
    return True
