"""Flights as a stream, each once: python examples/flight_delays.py NAMESRV DIRECTORY."""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import mqcore.spark

NUMBERS = ("number", "month", "hour", "dep_delay", "distance")
# All members are texts; an unknown delay is an empty one.
BODY = ", ".join(f"{name} STRING" for name in ("carrier", "origin", *NUMBERS))


def flights(spark: SparkSession, namesrv: str) -> DataFrame:
    """The messages of the topic as columns."""
    bodies = (
        spark.readStream.format("mqcore")
        .schema("body binary")
        .options(namesrv=namesrv, subscribe="flights", startingOffsets="earliest")
        .load()
    )
    parsed = bodies.select(F.from_json(F.col("body").cast("string"), BODY).alias("flight"))
    numbers = {name: F.col(name).try_cast("int") for name in NUMBERS}
    # A producer sends again what was not acknowledged: a number counts once.
    return parsed.select("flight.*").withColumns(numbers).dropDuplicates(["number"])


def write(spark: SparkSession, namesrv: str, directory: str) -> None:
    """Writes what is there as Parquet; run it again, and it goes on where it was."""
    writing = flights(spark, namesrv).writeStream.format("parquet")
    writing = writing.option("checkpointLocation", f"{directory}/checkpoint")
    writing.trigger(availableNow=True).start(f"{directory}/flights").awaitTermination()


if __name__ == "__main__":
    spark = mqcore.spark.session("flight delays")
    write(spark, *sys.argv[1:])
    rows = spark.read.parquet(f"{sys.argv[2]}/flights")
    mean = F.round(F.avg("dep_delay"), 1).alias("mean_delay_min")
    rows.groupBy("carrier").agg(F.count("*").alias("flights"), mean).orderBy("carrier").show()
    spark.stop()
