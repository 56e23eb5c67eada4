"""One Spark session for all tests of this folder, and what else they share.

A session takes some ten seconds to its first result, so there is one. Everything that Spark writes
goes below a temporary directory; nothing of it listens beyond this machine.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import mqcore.spark
from mqcore.testing import Broker

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks this folder's tests: PySpark leaves sockets to the garbage collector."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


def spark_settings(directory: Path) -> dict[str, object]:
    """Returns the settings of a small session that leaves nothing outside of `directory`."""
    return {
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.sql.shuffle.partitions": 2,
        "spark.default.parallelism": 2,
        "spark.local.dir": directory / "local",
        "spark.sql.warehouse.dir": directory / "warehouse",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={directory / 'derby'}",
        # A test that lets a task fail wants to see what follows.
        "spark.task.maxFailures": 4,
    }


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Returns the session: two cores, and tasks that may fail three times."""
    directory = tmp_path_factory.mktemp("spark")
    os.environ["SPARK_LOCAL_DIRS"] = str(directory / "local")
    made = mqcore.spark.session(
        "mqcore tests", master="local[2, 4]", config=spark_settings(directory)
    )
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """Returns a broker for all tests; each takes topics of its own."""
    with Broker() as started:
        yield started
