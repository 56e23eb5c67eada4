"""What a send gives back, and the names of queues. Pure values."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from mqcore.model.queues import MessageQueue
from mqcore.remoting.response_codes import ResponseCode

__all__ = ["STATUS_OF_CODE", "QueueRef", "SendResult", "SendStatus"]

# One queue of one broker: topic, broker_name, queue_id; sorts as Java sorts.
QueueRef: TypeAlias = MessageQueue


class SendStatus(Enum):
    """How well a message that was stored is kept."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


# The answers that mean "stored".
STATUS_OF_CODE = {
    int(ResponseCode.SUCCESS): SendStatus.SEND_OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
}


@dataclass(slots=True)
class SendResult:
    """Where a message went.

    Attributes:
        status: How well it is kept.
        message_id: Its unique id, made here; of a batch all of them, joined by commas.
        queue: Where it was sent.
        queue_offset: Its offset in the queue; of a batch the first one's, of a delayed or half
            message its offset in the broker's own queue.
        offset_message_id: The broker's id, which names store address and physical offset.
        transaction_id: The id of the transaction, where it is one.
        recall_handle: What takes a timed message back (5.3.2 and later), or None.
        attempts: How many sends it took.
        region_id: The region that the broker reports.
        is_trace_on: Whether the broker wants traces.
        batch_id: The unique id that the broker keeps a batch under, where it keeps it as one
            record; None where each message is a record.
    """

    status: SendStatus
    message_id: str
    queue: QueueRef
    queue_offset: int
    offset_message_id: str
    transaction_id: str | None = None
    recall_handle: str | None = None
    attempts: int = 1
    region_id: str = "DefaultRegion"
    is_trace_on: bool = True
    batch_id: str | None = None

    def __repr__(self) -> str:
        """Returns what became of it and where it is, on one line."""
        first, *others = self.message_id.split(",")
        more = f" and {len(others)} more" if others else ""
        tries = f", {self.attempts} tries" if self.attempts > 1 else ""
        queue = self.queue
        return (
            f"SendResult({self.status.value}, {queue.topic!r}, {queue.broker_name}/"
            f"{queue.queue_id} at {self.queue_offset}, {first}{more}{tries})"
        )

    @property
    def is_ok(self) -> bool:
        """Whether it is kept as the broker promises; False where a replica or a sync is late."""
        return self.status is SendStatus.SEND_OK
