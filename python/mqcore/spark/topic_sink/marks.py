"""What rows carry so that a reader can find repeats: names of properties and the form of values.

    SPARK_TASK  5d41402abc4b2a76/17/3/0-9f86d081    query, batch, partition, attempt
    SPARK_ROW   1234                                the row's number in its task, from 0
    SPARK_ROWS  5000                                in a task's last request of a topic: how many
                                                    rows of the topic the task had

Query, batch and partition name a part of the result, whichever attempt made it. A task's last
request of a topic leaves when all others are acknowledged, so that an attempt with SPARK_ROWS has
that many rows in the topic. Its input may have ended early all the same: Arrow's stream of a JVM
that is lost ends as any other. Another attempt of the same part has more rows then.
Pure functions of values; `mqcore.spark.repeats` reads what is written here.
"""

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["LAST_RESERVE_BYTES", "ROWS", "ROW_OF", "TASK", "TaskMark", "query_mark", "run_fault"]

TASK: Final = "SPARK_TASK"
# Written in Rust, beside each row's unique id: `ROW_MARK` of rust/packing/src/text.rs.
ROW_OF: Final = "SPARK_ROW"
ROWS: Final = "SPARK_ROWS"
# Space for SPARK_ROWS with the longest number.
LAST_RESERVE_BYTES: Final = len(ROWS) + 2 + 20
# Half of a UUID: enough to distinguish queries of one topic, and it is stored with every row.
_QUERY_DIGITS: Final = 16
_RUN_ID: Final = re.compile(r"[\w.:-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class TaskMark:
    """Which part of which result a task makes.

    Attributes:
        query: The streaming query or the run of a batch write.
        batch: The batch of the query; 0 for a batch write.
        partition: The partition.
        attempt: Which attempt, unlike all others: its number and some chance.
    """

    query: str
    batch: int
    partition: int
    attempt: str

    def __str__(self) -> str:
        """Returns it as rows carry it."""
        return f"{self.query}/{self.batch}/{self.partition}/{self.attempt}"

    @property
    def shared_text(self) -> str:
        """The property that all rows of the task share."""
        return f"{TASK}\x01{self}\x02"

    @staticmethod
    def last_text(topic_rows: int) -> str:
        """Returns what a task's last request of a topic has besides.

        Args:
            topic_rows: How many rows of the topic the task had.
        """
        return f"{ROWS}\x01{topic_rows}\x02"


def query_mark(query_id: str) -> str:
    """Returns what names a streaming query: the first half of its id.

    Args:
        query_id: The id, a UUID; it stays when the query starts again on its checkpoint.
    """
    return query_id.replace("-", "")[:_QUERY_DIGITS].lower()


def run_fault(run_id: str) -> str | None:
    """Returns why a text cannot name a batch write; None where it can.

    Args:
        run_id: The option `runId`.
    """
    if _RUN_ID.fullmatch(run_id):
        return None
    return "1 to 64 letters, digits and . _ : - are expected"
