"""The archive pipeline: a store to Parquet (zstd) on two cores of Spark, rows and bytes per second.

Needs the built extension, PySpark and Java.
"""

from __future__ import annotations

import shutil
import sys
import time

from scan_rows import OUT, filled

import mqcore.spark
from mqcore.spark.pipelines.archive import archive

# A JVM, and workers that have not imported anything yet, are slow at first.
ROUNDS = 4


def main() -> int:
    """Measures bodies of 256 and 1,024 bytes: the last of some archives, each to a new place."""
    config = {"spark.ui.enabled": False, "spark.ui.showConsoleProgress": False}
    spark = mqcore.spark.session(
        master="local[2]",
        config=config | {"spark.sql.warehouse.dir": OUT / "spark" / "warehouse"},
    )
    spark.sparkContext.setLogLevel("ERROR")
    for body_len_bytes in (256, 1024):
        store, count = filled(body_len_bytes)
        target = OUT / "stores" / "archive"
        took_s = 0.0
        for _ in range(ROUNDS):
            shutil.rmtree(target, ignore_errors=True)
            began = time.perf_counter()
            archive(spark, f"store:{store}", str(target))
            took_s = time.perf_counter() - began
        kept_bytes = sum(path.stat().st_size for path in target.rglob("*.parquet"))
        shutil.rmtree(target, ignore_errors=True)
        shutil.rmtree(store, ignore_errors=True)
        rows, mb = count / took_s, count * body_len_bytes / took_s / 1e6
        print(
            f"archive, {body_len_bytes} B: {rows:,.0f} rows/s, {mb:,.0f} MB/s of bodies, "
            f"{kept_bytes / 1e6:,.0f} MB of Parquet",
            flush=True,
        )
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
