"""Makes `format("mqcore")` and `format("mqcore-store")` known to a session.

Spark finds both by itself where this package is installed (the modules `pyspark_mqcore` and
`pyspark_mqcore_store`). Only an interpreter that cannot see installed packages needs this.
"""

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from mqcore.spark.store_source.store_format import StoreFormat
from mqcore.spark.topic_format import TopicFormat

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Registers the formats with a session; once more does no harm.

    Args:
        spark: The session.
    """
    for made in (TopicFormat, StoreFormat):
        try:
            spark.dataSource.register(made)
        except AnalysisException as error:
            # Spark 4.0 refuses a name that it has found by itself: then it is there.
            if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
                raise
