"""What was taken of a query's filters. Knows no Spark: its filter classes came with PySpark 4.1."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pushed:
    """What was taken from Spark; None and open bounds where nothing was.

    Attributes:
        topics: Only these.
        tags: Only these.
        queue_ids: Only these.
        start_ms: Stored then or later.
        end_ms: Stored before.
        start_queue_offset: This queue offset or behind.
        end_queue_offset: Before this queue offset.
        start_physical: This physical offset or behind.
        end_physical: Before this physical offset.
    """

    topics: frozenset[str] | None = None
    tags: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    start_queue_offset: int | None = None
    end_queue_offset: int | None = None
    start_physical: int | None = None
    end_physical: int | None = None

    @property
    def wants_nothing(self) -> bool:
        """Whether filters contradict one another."""
        sets = (self.topics, self.tags, self.queue_ids)
        return any(values is not None and not values for values in sets)
