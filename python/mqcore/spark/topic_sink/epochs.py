"""What is decided of an epoch: which half messages are committed, and its form as a message.

An epoch is a batch of a streaming query. Its decision is written before the first commit; from then
on whoever commits does what it contains, and everything else of the epoch is rolled back. Pure.
"""

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Self

from mqcore.model.queues import MessageQueue
from mqcore.model.relaxed_json import compact

__all__ = ["Decision", "HalfLocation", "epoch_of"]

_VERSION: Final = 1
# Parts of a mark: query, batch, partition, attempt.
_MARK_PARTS: Final = 4


@dataclass(frozen=True, slots=True)
class HalfLocation:
    """A half message, and the rows in it.

    Attributes:
        queue: Where its rows go.
        half_offset: Its first offset in the broker's queue of half messages.
        physical_offset: The same in the log.
        task: The mark that its rows carry.
        first_row: The number of the first row in its task.
        last_row: The number of the last one.
        rows: How many rows.
    """

    queue: MessageQueue
    half_offset: int
    physical_offset: int
    task: str
    first_row: int
    last_row: int
    rows: int

    @property
    def key(self) -> tuple[str, int]:
        """What distinguishes it in a cluster: its broker, and its offset there."""
        return self.queue.broker_name, self.half_offset


def epoch_of(task: str) -> tuple[str, int] | None:
    """Returns query and batch of a mark that rows carry; None for a text that is none.

    Args:
        task: The value of `SPARK_TASK`.
    """
    words = task.split("/")
    if len(words) != _MARK_PARTS or not words[1].isdecimal():
        return None
    return words[0], int(words[1])


@dataclass(frozen=True)
class Decision:
    """Which half messages of an epoch are committed.

    Attributes:
        query: The query's mark.
        batch: The batch.
        group: The producer group that sent them, its namespace included.
        halves: They, in the order in which those of one queue are committed.
        starts: Where each of their queues ended before any of them was committed.
    """

    query: str
    batch: int
    group: str
    halves: tuple[HalfLocation, ...]
    starts: dict[MessageQueue, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The key of its message."""
        return f"{self.query}/{self.batch}"

    @property
    def brokers(self) -> list[str]:
        """The names of the brokers that have the half messages."""
        return sorted({half.queue.broker_name for half in self.halves})

    def half_at(self, broker_name: str, half_offset: int) -> HalfLocation | None:
        """Returns the half message at an offset, None where none of them is."""
        return self._by_key.get((broker_name, half_offset))

    @cached_property
    def _by_key(self) -> dict[tuple[str, int], HalfLocation]:
        return {half.key: half for half in self.halves}

    def encode(self) -> bytes:
        """Returns the body of its message: JSON, queues and tasks by their numbers."""
        queues = sorted({half.queue for half in self.halves} | self.starts.keys())
        tasks = list(dict.fromkeys(half.task for half in self.halves))
        queue_numbers = {queue: at for at, queue in enumerate(queues)}
        task_numbers = {task: at for at, task in enumerate(tasks)}
        return compact(
            {
                "version": _VERSION,
                "query": self.query,
                "batch": self.batch,
                "group": self.group,
                "queues": [
                    [each.topic, each.broker_name, each.queue_id, self.starts.get(each, 0)]
                    for each in queues
                ],
                "tasks": tasks,
                "halves": [
                    [
                        queue_numbers[half.queue],
                        half.half_offset,
                        half.physical_offset,
                        task_numbers[half.task],
                        half.first_row,
                        half.last_row,
                        half.rows,
                    ]
                    for half in self.halves
                ],
            }
        )

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Returns the decision in a message.

        Raises:
            ValueError: It is none of this version.
        """
        try:
            found: dict[str, Any] = json.loads(body)
            if found["version"] != _VERSION:
                raise ValueError(f"version {found['version']}")
            return cls._of(found)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise ValueError(f"no decision: {error!r}") from error

    @classmethod
    def _of(cls, found: dict[str, Any]) -> Self:
        starts = {
            MessageQueue(topic, broker_name, queue_id): start
            for topic, broker_name, queue_id, start in found["queues"]
        }
        queues, tasks = list(starts), found["tasks"]
        halves = tuple(
            HalfLocation(queues[queue], offset, physical, tasks[task], first, last, rows)
            for queue, offset, physical, task, first, last, rows in found["halves"]
        )
        return cls(found["query"], found["batch"], found["group"], halves, starts)
