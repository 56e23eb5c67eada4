"""A queue as the protocol names it: topic, broker name, number. Pure values."""

from dataclasses import dataclass
from typing import Any, Self

from mqcore.model.reading import as_int, as_text


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """One queue of one broker.

    Attributes:
        topic: Its topic.
        broker_name: The broker that holds it.
        queue_id: Its number within topic and broker.
    """

    topic: str
    broker_name: str
    queue_id: int

    @classmethod
    def of_json(cls, value: Any) -> Self | None:
        """Returns the queue that a JSON object names, None where it names none."""
        if not isinstance(value, dict) or not value.get("topic"):
            return None
        return cls(
            topic=as_text(value.get("topic")),
            broker_name=as_text(value.get("brokerName")),
            queue_id=as_int(value.get("queueId")),
        )

    @property
    def label(self) -> str:
        """Its name for people: `orders, queue 1 of broker broker-a`."""
        return f"{self.topic}, queue {self.queue_id} of broker {self.broker_name}"

    def to_json(self) -> dict[str, Any]:
        """Returns its JSON object."""
        return {"brokerName": self.broker_name, "queueId": self.queue_id, "topic": self.topic}
