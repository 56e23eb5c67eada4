"""Lets Spark find `format("mqcore")` by itself: it imports every installed module `pyspark_*`."""

from mqcore.spark.topic_format import TopicFormat as DefaultSource

__all__ = ["DefaultSource"]
