"""Leaves one of each row that our sink wrote more than once: `mqcore.spark.drop_repeats(df)`.

A task that is tried again sends its rows again, and so does a batch that is repeated after a crash.
Each attempt marks its rows (`mqcore.spark.topic_sink.marks`); what is left is one whole attempt of
every task, and of a request that was sent twice one copy.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from mqcore.spark.errors import SparkError
from mqcore.spark.topic_sink.marks import ROW_OF, ROWS, TASK

__all__ = ["drop_repeats"]

_PREFIX: Final = "__mqcore_"
_PART: Final = f"{_PREFIX}part"
_ATTEMPT: Final = f"{_PREFIX}attempt"
_ROW: Final = f"{_PREFIX}row"
_WINNER: Final = f"{_PREFIX}winner"
_COPY: Final = f"{_PREFIX}copy"


def drop_repeats(rows: DataFrame, *, within: str | None = None) -> DataFrame:
    """Returns the rows without those that a sink of ours sent again.

    Rows without marks stay. Of a DataFrame that is no stream one attempt of each task stays: the
    one that came to its end with the most rows. Rows of a task that came to its end in no attempt
    (it still runs, or was given up) do not. Ends are counted per topic, so read topics whole: a
    range that leaves out the end of an attempt leaves out the attempt.

    In a stream nobody knows which attempt will be whole: there the first copy of each row stays, by
    its number in its task. That needs tasks whose rows come in the same order when they are tried
    again, which holds for what was read from topics and files, and not behind a shuffle.

    Args:
        rows: Rows of `format("mqcore")`, with their `properties` (`includeProperties`) and `topic`;
            of a stream `storeTimestamp` as well.
        within: Of a stream, for how long copies may follow one another: the state is kept that
            long. `"1 hour"` when not given.

    Raises:
        SparkError: A column is missing.
    """
    needed = ["properties", "topic", *(["storeTimestamp"] if rows.isStreaming else [])]
    missing = [name for name in needed if name not in rows.columns]
    if missing:
        raise SparkError(
            f"drop_repeats needs the column {missing[0]}: read with "
            "option('includeProperties', 'true')"
        )
    marked = _marked(rows)
    if rows.isStreaming:
        late = marked.withWatermark("storeTimestamp", within or "1 hour")
        kept = late.dropDuplicatesWithinWatermark(["topic", _PART, _ROW])
    else:
        kept = _of_one_attempt(marked)
    return kept.select(*rows.columns)


def _marked(rows: DataFrame) -> DataFrame:
    """Returns the rows with part of the result, attempt and number beside them."""
    words = f.split(f.col("properties")[TASK], "/")
    return rows.withColumns(
        {
            _PART: f.array_join(f.slice(words, 1, 3), "/"),
            _ATTEMPT: f.get(words, f.lit(3)),
            # Rows without marks are distinguished by chance: no two of them are copies.
            _ROW: f.coalesce(f.col("properties")[ROW_OF], f.expr("uuid()"))
            if rows.isStreaming
            else f.col("properties")[ROW_OF],
        }
    )


def _of_one_attempt(marked: DataFrame) -> DataFrame:
    is_plain: Column = f.col(_PART).isNull()
    # All rows of an attempt's last request carry how many there were. A task whose JVM is lost sees
    # its input end like any other, so of several ends the one with the most rows is the whole one.
    count = f.col("properties")[ROWS].cast("long")
    whole = f.when(count.isNotNull(), f.struct(count, f.col(_ATTEMPT).alias(_ATTEMPT)))
    parts = Window.partitionBy("topic", _PART)
    copies = Window.partitionBy("topic", _PART, _ATTEMPT, _ROW).orderBy(f.lit(0))
    plain = marked.where(is_plain)
    sent = marked.where(~is_plain).withColumn(_WINNER, f.max(whole).over(parts)[_ATTEMPT])
    kept = (
        sent.where(f.col(_ATTEMPT) == f.col(_WINNER))
        .withColumn(_COPY, f.row_number().over(copies))
        .where(f.col(_COPY) == 1)
    )
    return plain.unionByName(kept.drop(_WINNER, _COPY))
