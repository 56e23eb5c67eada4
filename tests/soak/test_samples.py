"""Slopes of samples find what grows, across restarts, and nothing in what is flat."""

import math
import os
import subprocess
import sys

from loops import run_on, until
from soak.samples import Sampler, Series

_MIB = 1 << 20


def series(growth_per_hour: float, *, life_s: int = 600, swing: float = 0.0) -> Series:
    """An hour of a process that is started again every `life_s`, and begins at its own height."""
    found = Series()
    for second in range(3_600):
        life, age_s = divmod(second, life_s)
        height = 50 * _MIB + life * _MIB + growth_per_hour * age_s / 3_600
        height += swing * math.sin(second / 17)
        # What a start fills is not growth.
        height -= 20 * _MIB if age_s < 50 else 0
        found.add(
            float(second), life + 1, {"memory": height, "descriptors": 40, "threads": 9, "disk": 0}
        )
    return found


def test_a_leak_is_found_across_restarts() -> None:
    slope = series(6 * _MIB).slope("memory", settle_s=600)
    assert slope is not None
    assert abs(slope.per_hour - 6 * _MIB) < 0.01 * _MIB


def test_what_is_flat_has_no_slope_however_high_each_process_begins() -> None:
    found = series(0.0, swing=_MIB)
    assert found.lives == 6
    for name in ("memory", "descriptors", "threads"):
        slope = found.slope(name, settle_s=600)
        assert slope is not None
        assert abs(slope.per_hour) < 0.3 * _MIB


def test_too_few_samples_have_no_slope() -> None:
    assert series(0.0, life_s=80).slope("memory", settle_s=0) is None


def test_the_sampler_follows_a_process_to_its_end() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    pids = {"own": os.getpid(), "other": process.pid}
    with Sampler(lambda: pids) as sampler:

        async def seen() -> None:
            await until(lambda: "other" in sampler.series)
            process.communicate(b"\n")
            before = len(sampler.series["own"].seconds)
            await until(lambda: len(sampler.series["own"].seconds) >= before + 2)

        run_on("asyncio", seen())
    assert sampler.failed == []
    assert sampler.series["other"].values["memory"][0] > 0
    assert len(sampler.series["other"].seconds) < len(sampler.series["own"].seconds)
