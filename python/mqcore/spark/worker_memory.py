"""What a worker process of Spark has loaded, out of the sight of Python's cyclic collector.

A worker has some ninety thousand objects of modules, which are there until it ends. PySpark
collects after every task, and each batch of a task brings a collection nearer: going through all of
them takes 50 ms, as long as it takes to read many thousand rows. Knows no row.
"""

import gc
from functools import cache

from pyspark import TaskContext

__all__ = ["set_apart"]


def set_apart() -> None:
    """Sets apart what is loaded, at the first task of a process; elsewhere it does nothing.

    What is made later is collected as ever, also that of other tasks of the worker.
    """
    if TaskContext.get() is not None:
        _freeze()


@cache
def _freeze() -> None:
    gc.freeze()
