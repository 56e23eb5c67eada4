"""Figures of faults: what is counted, what a table shows, and what asynchronous flush may lose."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from faults.figures import BEGIN, END, PAGE, Figures, keep, kept_figures, with_table
from faults.history import History, Outcome, PowerLoss, Queue, Read, Replica, Send
from faults.list import FAULTS
from faults.running import forgive
from faults.stepped_clock import stepped_clock
from interop.servers import OURS

_Q: Queue = ("T", 0)


def send(number: int, at_s: float) -> Send:
    """Returns an acknowledged message that has its number as offset."""
    return Send("p", f"m{number}", _Q, Outcome.ACKNOWLEDGED, number, at_s - 0.1, at_s)


def history(count: int, kept: int) -> History:
    """Returns one message a second, of which the first ones are there."""
    sends = [send(number, float(number)) for number in range(count)]
    replica = Replica("b", {_Q: {number: f"m{number}" for number in range(kept)}})
    return History(sends=sends, replicas=[replica])


def test_broken_promises_are_counted_by_their_kinds() -> None:
    it = history(4, 3)
    it.reads = [Read(_Q, 3, "m3")]
    it.replicas[0].queues[_Q][5] = "m0"  # type: ignore[index]
    figures = Figures("f", "what")
    figures.count(it)
    assert (figures.acknowledged, figures.lost, figures.doubled) == (4, 2, 1)
    assert figures.others == {"hole": 1}
    assert not figures.is_green


def test_stalls_are_measured_between_acknowledgements() -> None:
    figures = Figures("f", "what")
    figures.time([send(1, 1.0), send(2, 1.5), send(3, 6.0)], healed=5.0)
    assert (figures.stall_s, figures.recovered_s) == (4.5, 1.0)
    figures.time([send(4, 7.0), send(5, 7.2)], healed=6.9)
    assert figures.stall_s == 4.5


def test_the_end_of_a_queue_may_be_lost_with_power_and_nothing_else() -> None:
    it = history(10, 8)
    assert forgive(it, [PowerLoss(8.5, 9.5)], 2.2) == 2
    assert it.violations() == []
    too_early = history(10, 4)
    assert forgive(too_early, [PowerLoss(8.5, 9.5)], 2.2) == 3
    assert len(too_early.violations()) == 3
    with_a_hole = history(10, 10)
    with_a_hole.replicas[0].queues[_Q].pop(7)  # type: ignore[attr-defined]
    assert forgive(with_a_hole, [PowerLoss(8.5, 9.5)], 2.2) == 0
    assert with_a_hole.violations()


def test_figures_are_kept_over_those_of_an_earlier_run(tmp_path: Path) -> None:
    path = tmp_path / "kept" / "faults.json"
    first = Figures("one", "what", rounds=1, others={"logs": 1})
    for each in (first, Figures("two", "what"), replace(first, rounds=2)):
        keep(each, path)
    assert [(each.name, each.rounds) for each in kept_figures(path)] == [("one", 2), ("two", 0)]


def test_a_page_has_the_table_between_its_marks() -> None:
    page = f"before\n\n{BEGIN}\n\nold\n\n{END}\n\nbehind\n"
    rows = [
        Figures("one", "what", rounds=2, acknowledged=1_200, stall_s=1.25),
        Figures("two", "what", lacks="a disk", again="make it"),
    ]
    found = with_table(page, rows)
    assert "| **one**: what | 2 | 1,200 | 0 | 0 | 0 | 1.2 | 0.0 |" in found
    assert "needs a disk; elsewhere `make it`" in found
    assert "1 faults, 2 rounds, 1,200 acknowledged messages, 0 of them lost" in found
    assert "old" not in found
    assert found.startswith("before")
    assert found.endswith("behind\n")
    assert with_table(found, rows) == found


def test_the_page_has_every_fault_of_the_list_and_nothing_lost() -> None:
    page = PAGE.read_text(encoding="utf-8")
    shown = page.partition(BEGIN)[2].partition(END)[0]
    rows = [line for line in shown.splitlines() if line.startswith("| **")]
    names = [line.removeprefix("| **").partition("**")[0] for line in rows]
    assert names == [each.name for each in FAULTS]
    assert all(f"**{each.name}**: {each.what} |" in shown for each in FAULTS)
    assert ", 0 of them lost." in shown


def test_a_clock_is_stepped_and_slewed_for_one_program_alone(tmp_path: Path) -> None:
    found = stepped_clock(tmp_path)
    if found is None:
        pytest.skip("no C compiler")
    clock = found

    def shown() -> tuple[float, float]:
        prefix = clock.within(OURS).namesrv(tmp_path / "x.conf", tmp_path)[:3]
        ask = "import time; print(time.time(), time.monotonic())"
        done = subprocess.run(
            [*prefix, sys.executable, "-c", ask], capture_output=True, text=True, check=True
        )
        wall, monotonic = map(float, done.stdout.split())
        return wall, monotonic

    before, first = shown()
    clock.step(86_400.0)
    ahead, second = shown()
    assert ahead - before == pytest.approx(86_400.0 + second - first, abs=0.05)
    clock.slew(1.0)
    one, third = shown()
    other, fourth = shown()
    assert other - one == pytest.approx(2 * (fourth - third), abs=0.05)
    clock.reset()
    now, last = shown()
    assert now - before == pytest.approx(last - first, abs=0.05)
