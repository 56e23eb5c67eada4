"""Tests brokers that are left alone, so that who answers again is used again.

After the official `ServiceDetector`: a cheap question with a short deadline.
"""

from typing import Final

from mqcore.client.faults import FaultStrategy
from mqcore.client.instance import Instance
from mqcore.client.sender import Sender
from mqcore.clock import monotonic_ms
from mqcore.errors import RemotingError
from mqcore.model.topics import AUTO_CREATE_TOPIC
from mqcore.periodic import PeriodicTask
from mqcore.remoting.request_codes import RequestCode

__all__ = ["detect_once", "detector"]

_ROUND_INTERVAL_S: Final = 3.0
# `detectTimeout`.
_ANSWER_TIMEOUT_S: Final = 0.2


def detector(instance: Instance, sender: Sender, faults: FaultStrategy) -> PeriodicTask:
    """Returns what tests the brokers that are due, again and again; its owner starts it."""
    return PeriodicTask(
        "detect brokers",
        lambda: detect_once(instance, sender, faults),
        period_s=lambda: _ROUND_INTERVAL_S,
    )


async def detect_once(instance: Instance, sender: Sender, faults: FaultStrategy) -> None:
    """Tests the brokers that are due now."""
    topic = next(iter(sender.targets.topics), AUTO_CREATE_TOPIC)
    for name in faults.due_for_detection(monotonic_ms()):
        address = instance.address_of(name)
        if address is None:
            faults.forget(name)
        elif await _answers(instance, address, topic):
            faults.detected(name)


async def _answers(instance: Instance, address: str, topic: str) -> bool:
    ext = {"topic": topic, "queueId": "0"}
    try:
        await instance.call(address, RequestCode.GET_MAX_OFFSET, ext, timeout_s=_ANSWER_TIMEOUT_S)
    except RemotingError:
        return False
    # Whatever it answered, it is there.
    return True
