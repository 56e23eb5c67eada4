"""A short soak: every kind of message, access control, replication, harm (`make soak`)."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from soak.chart import chart
from soak.run import Plan, shown, soak
from soak.traffic import NAMES


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_is_lost_in_a_short_soak(tmp_path: Path) -> None:
    plan = Plan(seconds=10, rate=300, chaos_s=4, seed=3)
    result, sampler = soak(tmp_path, plan)
    assert result.faults == [], "\n".join(shown(result))
    assert set(result.works) == set(NAMES)
    assert len(result.harm) >= 1
    assert {"broker0", "broker1", "broker2", "n0", "namesrv0", "namesrv1"} <= set(sampler.series)
    assert ET.fromstring(chart(sampler, result.harm)).tag.endswith("svg")
