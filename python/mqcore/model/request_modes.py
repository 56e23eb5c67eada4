"""How a group asks for a topic's messages: by pull, or by pop. Pure values.

After `SetMessageRequestModeRequestBody` of 5.x.
"""

from dataclasses import dataclass
from typing import Any, Final, Self

from mqcore.model.reading import as_dict, as_int, as_text

PULL: Final = "PULL"
POP: Final = "POP"
MODES: Final = (PULL, POP)


@dataclass(frozen=True, slots=True)
class RequestMode:
    """How one group asks for one topic.

    Attributes:
        topic: The topic.
        group: The consumer group.
        mode: `PULL` or `POP`.
        share_queues: Of pop: how many members a queue is shared with beyond its own; 0 or less for
            all of them.
    """

    topic: str
    group: str
    mode: str = PULL
    share_queues: int = 0

    @classmethod
    def of_json(cls, value: Any) -> Self | None:
        """Returns the mode in a JSON object; None without topic, group or a mode that exists."""
        found = as_dict(value)
        topic, group = as_text(found.get("topic")), as_text(found.get("consumerGroup"))
        mode = as_text(found.get("mode"), PULL)
        if not topic or not group or mode not in MODES:
            return None
        return cls(topic, group, mode, as_int(found.get("popShareQueueNum")))

    def to_json(self) -> dict[str, Any]:
        """Returns its JSON object."""
        return {
            "consumerGroup": self.group,
            "mode": self.mode,
            "popShareQueueNum": self.share_queues,
            "topic": self.topic,
        }
