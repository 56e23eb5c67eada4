"""The page of Spark: its code runs unchanged, in order, in the session of the tests."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

from mqcore.testing import Broker

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
# What the page calls the name server.
ADDRESS = "127.0.0.1:9876"


def test_the_code_of_the_page_runs(spark: SparkSession, broker: Broker) -> None:
    code = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert code
    names: dict[str, object] = {"spark": spark}
    for block in code:
        exec(compile(block.replace(ADDRESS, broker.namesrv), PAGE.name, "exec"), names)
    assert names["spark"] is not None
    tags = sorted(message.tags or "" for message in broker.messages("orders"))
    assert tags == ["eu", "eu", "us"]
