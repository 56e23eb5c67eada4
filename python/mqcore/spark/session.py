"""A Spark session in which our formats work: the right Python, and a Java.

Spark finds the formats by itself where this package is installed. Knows how Spark is started, and
nothing of topics or stores.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from mqcore.spark.bundled_java import bundled_java_home
from mqcore.spark.errors import SparkSetupError
from mqcore.spark.lag_listener import attach_lag
from mqcore.spark.setup import find_java

__all__ = ["BUNDLED_JAVA", "session"]

# The runtime of the `jre` extra.
BUNDLED_JAVA: Final = "bundled"
# Of a session that runs in this process: nothing of it listens to other machines.
_LOCAL_CONFIG: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def session(
    app_name: str = "mqcore",
    *,
    master: str | None = None,
    java: str | Path | None = None,
    config: Mapping[str, object] | None = None,
) -> SparkSession:
    """Returns the running session, or starts one in which our formats work.

    Spark's workers and planner run this very interpreter unless PYSPARK_PYTHON names another one:
    by itself Spark takes `python3` of the PATH, which knows nothing of an environment that is not
    activated. On a cluster that path must exist on every node.

    Args:
        app_name: What Spark's pages call it.
        master: Where it runs; what spark-submit and Spark's own files set when not given, which is
            `local[*]` where they set nothing.
        java: A Java home, or `"bundled"` for the one of `pip install "mqcore[jre]"`; JAVA_HOME or
            the PATH's when not given.
        config: Spark's settings.

    Raises:
        SparkSetupError: There is no fit Java.
    """
    settings = {name: _text(value) for name, value in (config or {}).items()}
    running = SparkSession.getActiveSession()
    if running is None:
        _choose_java(java)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        settings["spark.master"] = master
    if settings.get("spark.master", "").startswith("local"):
        settings = {**_LOCAL_CONFIG, **settings}
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    attach_lag(spark)
    return spark


def _text(value: object) -> str:
    """Returns a setting as Spark reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _choose_java(java: str | Path | None) -> None:
    """Points JAVA_HOME at what was asked for, and checks what Spark will find.

    Raises:
        SparkSetupError: It is no Java, or too old.
    """
    if java == BUNDLED_JAVA:
        os.environ["JAVA_HOME"] = str(bundled_java_home())
    elif java is not None:
        if not Path(java).is_dir():
            raise SparkSetupError(f"java: {java} is no directory; a Java home is expected")
        os.environ["JAVA_HOME"] = str(java)
    find_java(os.environ)
