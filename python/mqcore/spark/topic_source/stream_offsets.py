"""The offsets of a stream as Spark keeps them in its checkpoint: JSON, and what is in it.

    {"v": 1, "q": {"orders@broker-a:0": 123}, "init": {...}, "fresh": true, "group": [...]}

`q` is the next offset of each queue. `init` has where queues begin that the offset before does not
have: Spark asks anew where a query begins whenever its first batch is run again, and the answer
must not move (`fresh` marks that answer). `group` and name servers let a listener of the driver
mirror the progress. Key order is stable, since Spark compares texts. Pure functions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mqcore.model.queues import MessageQueue
from mqcore.spark.errors import SparkError
from mqcore.spark.topic_source.queue_json import key_of, queue_of

__all__ = ["StreamOffset"]

_VERSION: Final = 1

QueueOffsets = dict[MessageQueue, int]


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """How far a stream has come.

    Attributes:
        next: The next offset of each queue.
        init: Where queues begin that the offset before does not have.
        is_fresh: Whether it is the answer to where a query begins.
        mirror: Name servers and group to which the progress is committed; None for nobody.
    """

    next: QueueOffsets
    init: QueueOffsets = field(default_factory=dict)
    is_fresh: bool = False
    mirror: tuple[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns what Spark keeps."""
        found: dict[str, Any] = {"v": _VERSION, "q": _by_key(self.next)}
        if self.init:
            found["init"] = _by_key(self.init)
        if self.is_fresh:
            found["fresh"] = True
        if self.mirror is not None:
            found["group"] = list(self.mirror)
        return found

    @classmethod
    def of_json(cls, value: Any) -> "StreamOffset":
        """Returns what Spark kept.

        Raises:
            SparkError: It is none of ours, or of a newer version.
        """
        version = value.get("v") if isinstance(value, Mapping) else None
        if not isinstance(value, Mapping) or version != _VERSION:
            raise SparkError(
                f"the checkpoint has an offset of version {version!r}, and this mqcore reads "
                f"{_VERSION}: was it written by another source, or a newer mqcore?"
            )
        try:
            mirror = value.get("group")
            return cls(
                next={queue_of(key): int(offset) for key, offset in value["q"].items()},
                init={queue_of(key): int(at) for key, at in value.get("init", {}).items()},
                is_fresh=bool(value.get("fresh", False)),
                mirror=(str(mirror[0]), str(mirror[1])) if mirror else None,
            )
        except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
            raise SparkError(
                f"the checkpoint has an offset that cannot be read: {error}"
            ) from error

    def start_for(self, end: "StreamOffset") -> QueueOffsets:
        """Returns where the queues of `end` begin, when this offset is before it.

        A queue that neither has is not in the answer.
        """
        begun = {} if self.is_fresh else self.next
        found: QueueOffsets = {}
        for queue in end.next:
            offset = begun.get(queue, end.init.get(queue, self.next.get(queue)))
            if offset is not None:
                found[queue] = offset
        return found


def _by_key(by_queue: QueueOffsets) -> dict[str, int]:
    return {key_of(queue): offset for queue, offset in sorted(by_queue.items())}
