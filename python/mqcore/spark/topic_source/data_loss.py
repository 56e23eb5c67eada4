"""What it means that offsets are gone, and how it is reported: exact ranges, and how to go on.

Pure functions; whether loss ends a query or is skipped is the option `failOnDataLoss`.
"""

import logging
from collections.abc import Mapping
from typing import Final

from mqcore.model.queues import MessageQueue
from mqcore.spark.errors import SparkError
from mqcore.spark.topic_source.cluster import QueueBounds

__all__ = ["DataLossError", "Loss", "LossRule", "mended"]

_log = logging.getLogger(__name__)

_HOW_TO_GO_ON: Final = (
    "Messages may have been deleted by retention before they were read, or the topic was deleted "
    "and made again, or a broker was restored from a backup. To go on behind the gap set "
    "failOnDataLoss to false."
)


class DataLossError(SparkError):
    """Messages that were to be read are gone.

    Attributes:
        losses: What is gone, one sentence each.
    """

    losses: tuple[str, ...]


class Loss:
    """Sentences of loss."""

    @staticmethod
    def expired(queue: MessageQueue, start: int, low: int) -> str:
        """The first offsets wanted were deleted."""
        return f"{_named(queue)}: offsets {start} to {low - 1} are gone (the oldest is {low})"

    @staticmethod
    def truncated(queue: MessageQueue, wanted: int, high: int) -> str:
        """The queue ends before an offset that was there once."""
        return (
            f"{_named(queue)}: offset {wanted} was reached before, and the queue ends at {high} "
            "now (restored from a backup, or made anew)"
        )

    @staticmethod
    def vanished(queue: MessageQueue, at: int) -> str:
        """The queue is not there."""
        return f"{_named(queue)}: the queue is gone; it was read up to offset {at}"

    @staticmethod
    def hole(queue: MessageQueue, start: int, end: int, count: int) -> str:
        """Fewer messages than offsets."""
        return f"{_named(queue)}: {count} of the offsets {start} to {end - 1} have no message"

    @staticmethod
    def backwards(queue: MessageQueue, start: int, end: int) -> str:
        """An end before its start."""
        return f"{_named(queue)}: the end {end} lies before the start {start}"


class LossRule:
    """What happens when something is lost.

    Attributes:
        is_fatal: Whether it ends the query.
    """

    def __init__(self, *, is_fatal: bool) -> None:
        """Takes the rule."""
        self.is_fatal = is_fatal

    def report(self, *losses: str) -> None:
        """Ends the query, or warns.

        Raises:
            DataLossError: Loss is fatal.
        """
        if not losses:
            return
        text = "; ".join(losses)
        if self.is_fatal:
            raise DataLossError(f"data was lost: {text}. {_HOW_TO_GO_ON}", losses=losses)
        _log.warning("data was lost, going on behind it: %s", text)


def mended(
    offsets: Mapping[MessageQueue, int], bounds: Mapping[MessageQueue, QueueBounds]
) -> tuple[dict[MessageQueue, int], list[str]]:
    """Returns offsets that can be read from, and what was lost where one could not.

    A queue that is gone keeps its offset: should it come back it goes on there.

    Args:
        offsets: The next offset of each queue.
        bounds: What the queues hold now.
    """
    found: dict[MessageQueue, int] = {}
    losses: list[str] = []
    for queue, offset in offsets.items():
        held = bounds.get(queue)
        found[queue] = offset
        if held is None:
            losses.append(Loss.vanished(queue, offset))
        elif offset < held.min:
            losses.append(Loss.expired(queue, offset, held.min))
            found[queue] = held.min
        elif offset > held.max:
            losses.append(Loss.truncated(queue, offset, held.max))
            found[queue] = held.max
    return found, losses


def _named(queue: MessageQueue) -> str:
    return f"topic {queue.topic}, broker {queue.broker_name}, queue {queue.queue_id}"
