"""Lets Spark find `format("mqcore-store")` by itself: it imports every installed `pyspark_*`."""

from mqcore.spark.store_source.store_format import StoreFormat as DefaultSource

__all__ = ["DefaultSource"]
