"""Every fault of the list (`list.py`) against real processes under load: no promise is broken.

`MQCORE_FAULTS=300` makes three times the rounds of `make faults`, `MQCORE_FAULTS_SEED` draws what
they do; a run of one fault is named by its test. The figures of whole rounds are kept in
`target/faults.json` (`figures.py`). A sample is drawn for `make test`, of few rounds each.
"""

import os
from pathlib import Path

import pytest

from faults.figures import keep, table
from faults.list import FAULTS, Fault
from faults.rounds import SEED
from faults.running import run

_PERCENT = float(os.environ.get("MQCORE_FAULTS", "100"))
_Q = ("T", 0)


def _marked(faults: tuple[Fault, ...]) -> list[object]:
    java = pytest.mark.java
    return [
        pytest.param(
            each,
            id=each.name.replace(" ", "-").replace(",", ""),
            marks=[java] if each.needs_java or each.needs_client else [],
        )
        for each in faults
    ]


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("fault", _marked(FAULTS))
def test_no_promise_is_broken_by(
    fault: Fault, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    rounds = max(1, round(fault.rounds * _PERCENT / 100))
    again = f"MQCORE_FAULTS_SEED={SEED} .venv/bin/pytest --matrix -s '{request.node.nodeid}'"
    figures = run(fault, tmp_path, rounds, SEED, again)
    keep(figures)
    print(table([figures]))
    if figures.lacks:
        pytest.skip(f"needs {figures.lacks}")
    assert figures.is_green, f"{again}: {figures}"


@pytest.mark.slow
@pytest.mark.sampled(count=3)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", _marked(tuple(each for each in FAULTS if each.few)))
def test_a_sample_breaks_no_promise(fault: Fault, tmp_path: Path) -> None:
    figures = run(fault, tmp_path, fault.few, SEED)
    if figures.lacks:
        pytest.skip(f"needs {figures.lacks}")
    assert figures.is_green, figures
    assert figures.acknowledged > 0
