"""The errors of the Spark side, below `mqcore.errors.MQError`. Imports no Spark."""

from mqcore.errors import MQError

__all__ = ["SparkError", "SparkSetupError"]


class SparkError(MQError):
    """Something between Spark and topics or stores failed, or cannot work as asked."""


class SparkSetupError(SparkError):
    """PySpark, PyArrow or Java is missing or too old; the text says how to get it."""
