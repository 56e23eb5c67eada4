"""The examples of docs/producing.md run as they stand, against a broker of ours."""

import re
from pathlib import Path

import pytest

from client.serving import Cluster

PAGE = Path(__file__).parents[2] / "docs" / "producing.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(cluster: Cluster, number: int) -> None:
    source = EXAMPLES[number].replace("127.0.0.1:9876", cluster.namesrv)
    exec(compile(source, f"{PAGE.name}, example {number + 1}", "exec"), {"__name__": "__main__"})
