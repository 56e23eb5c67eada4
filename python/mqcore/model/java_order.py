"""The order in which Java sorts texts and queues: every member of a group must sort alike.

Pure functions. Knows nothing of who sorts.
"""

from mqcore.model.queues import MessageQueue

__all__ = ["queue_key", "text_key"]


def text_key(text: str) -> bytes:
    """Returns what sorts as Java's `String.compareTo`: by UTF-16 units, not by code points."""
    return text.encode("utf-16-be", "surrogatepass")


def queue_key(queue: MessageQueue) -> tuple[bytes, bytes, int]:
    """Returns what sorts as Java's `MessageQueue.compareTo`: topic, broker name, number."""
    return text_key(queue.topic), text_key(queue.broker_name), queue.queue_id
