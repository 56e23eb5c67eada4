"""Wrong requests get the codes that an official broker gives, but where it is meant otherwise."""

import random
from pathlib import Path

import pytest

from fuzz.differ import Agreed, Case, Difference, agreed, cases, differences, prepare
from interop.official import Official
from interop.servers import OURS, official_software, serving
from sampling import seed_of

pytestmark = pytest.mark.java

# What a run of `make test` has of some three thousand.
_SAMPLE = 300
_KEYS = {"brokerName": "b", "brokerClusterName": "c", "autoCreateTopicEnable": "false"}


def unexplained(root: Path, wanted: list[Case]) -> list[str]:
    """Returns the differences that no row explains."""
    rows = agreed()
    with (
        serving(OURS, root / "ours", _KEYS) as ours,
        serving(official_software("5.3.3"), root / "official", _KEYS) as official,
    ):
        prepare(ours.broker.address)
        prepare(official.broker.address)
        found = differences(ours.broker.address, official.broker.address, wanted)
    return [str(each) for each in found if not any(row.has(each) for row in rows)]


@pytest.mark.usefixtures("official_53")
def test_a_sample_of_wrong_requests_is_answered_alike(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed = seed_of(request.config.getoption("--seed"))
    all_ = cases()
    chosen = random.Random(seed).sample(range(len(all_)), _SAMPLE)
    # In their order: what no broker answers comes last.
    wanted = [all_[number] for number in sorted(chosen)]
    assert unexplained(tmp_path, wanted) == [], f"--seed={seed}"


@pytest.mark.matrix
@pytest.mark.timeout(1_800)
def test_every_wrong_request_is_answered_alike(official_53: Official, tmp_path: Path) -> None:
    assert official_53.version == "5.3.3"
    left = unexplained(tmp_path, cases())
    assert left == [], "\n".join(left)


def test_a_row_explains_what_it_names_and_nothing_else() -> None:
    found = Difference(Case(11, "topic", "x", {}, b""), "1", "17", "no topic")
    assert Agreed("11", "topic", "*", "1", "17", "why").has(found)
    assert not Agreed("11", "queueId", "*", "1", "17", "why").has(found)
    assert not Agreed("11", "topic", "*", "1", "1", "why").has(found)
    assert all(row.why for row in agreed())
