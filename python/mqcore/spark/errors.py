"""The errors of the Spark side, below `mqcore.errors.MQError`. Imports no Spark."""

from mqcore.errors import MQError

__all__ = ["RowRefusedError", "SinkError", "SparkError", "SparkSetupError"]


class SparkError(MQError):
    """Something between Spark and topics or stores failed, or cannot work as asked."""


class SparkSetupError(SparkError):
    """PySpark, PyArrow or Java is missing or too old; the text contains how to get it."""


class SinkError(SparkError):
    """Rows were not written: a request was not acknowledged, or a topic is not there."""


class RowRefusedError(SinkError):
    """A row cannot be sent.

    Attributes:
        partition: Whose task it is in.
        row: Its number in the task's input, from 0.
        why: Why.
    """

    partition: int
    row: int
    why: str
