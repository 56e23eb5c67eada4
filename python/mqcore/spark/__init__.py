"""Topics and whole stores as Spark DataFrames: `format("mqcore")`, `format("mqcore-store")`.

    spark = mqcore.spark.session()
    flights = spark.read.format("mqcore").option("namesrv", "...").option("subscribe", "flights")

The only package that imports pyspark and pyarrow, and this file imports neither: what is missing is
reported when a name is first used. Names come from the files that hold them, on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mqcore.spark.catalog import lag, topics
    from mqcore.spark.lag_listener import attach_lag
    from mqcore.spark.register import register
    from mqcore.spark.repeats import drop_repeats
    from mqcore.spark.session import session

__all__ = ["attach_lag", "drop_repeats", "lag", "register", "session", "topics"]

# The module of each name.
_MODULES = {
    "attach_lag": "mqcore.spark.lag_listener",
    "drop_repeats": "mqcore.spark.repeats",
    "lag": "mqcore.spark.catalog",
    "register": "mqcore.spark.register",
    "session": "mqcore.spark.session",
    "topics": "mqcore.spark.catalog",
}


def __getattr__(name: str) -> Any:
    """Imports a name's module when it is first used.

    Raises:
        SparkSetupError: PySpark or PyArrow is missing, or too old.
    """
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mqcore.spark.setup import need_spark

    need_spark()
    found = getattr(importlib.import_module(module), name)
    # A module of the same name was bound here by its import; what it holds is meant.
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Returns the names that it offers."""
    return sorted(__all__)
