"""A streaming query with a task that stops, so that Spark runs it a second time beside it.

    python -m spark.speculative_query ARGUMENTS.json

The first attempt of one task stops in the middle of its rows until the second attempt has read all
of its own; then both go on, and Spark takes one of them.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

import mqcore.spark
from spark.sink_query import Arguments, rows_of

SLOW_PARTITION = 1
# Of ten. Buffers between Spark and its workers hold back 64 KiB, some three batches: by the eighth
# the sink of the first attempt has got rows to send.
LAST_BATCH = 7


def run(arguments: Arguments) -> None:
    """Runs the query to its end."""
    directory = Path(arguments.directory)
    spark = mqcore.spark.session(
        "speculative",
        master=arguments.master,
        config={
            "spark.ui.enabled": False,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.cores": 1,
            "spark.local.dir": directory / "local",
            "spark.sql.warehouse.dir": directory / "warehouse",
            "spark.sql.execution.arrow.maxRecordsPerBatch": 100,
            "spark.speculation": True,
            "spark.speculation.interval": "100ms",
            "spark.speculation.quantile": 0.5,
            "spark.speculation.multiplier": 1.1,
            "spark.speculation.minTaskRuntime": "100ms",
        },
    )
    both = str(directory / "both")

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        is_slow = context.partitionId() == SLOW_PARTITION
        batch_id = context.getLocalProperty("streaming.sql.batchId")
        pipe = directory / f"pipe-{batch_id}"
        for number, batch in enumerate(batches):
            yield batch
            if is_slow and context.attemptNumber() == 0 and number == LAST_BATCH:
                os.mkfifo(pipe)
                # Opens when the other attempt opens it to write.
                pipe.open("rb").close()
        if is_slow and context.attemptNumber() > 0:
            # Where Spark has killed the first attempt already nobody reads.
            with suppress(OSError):
                os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            Path(f"{both}-{batch_id}").touch()

    rows = rows_of(spark, arguments.source)
    query = (
        rows.mapInArrow(slow, rows.schema)
        .writeStream.format("mqcore")
        .options(
            namesrv=arguments.namesrv,
            topic=arguments.topic,
            checkpointLocation=arguments.checkpoint,
            batchBytes="4k",
            delivery=arguments.delivery,
        )
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    run(Arguments(**json.loads(Path(sys.argv[1]).read_text("utf-8"))))
