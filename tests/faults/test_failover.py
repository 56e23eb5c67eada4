"""Three brokers under controllers, as processes, with kills, pauses and cut links under load.

Each round does harm, heals, and lets the checker look at everything that was seen so far. How many
rounds there are, and what they do: `rounds.py`. How to read one that failed:
`docs/maintainers/simulation.md`.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from faults.clients import Clients
from faults.failovers import Failovers
from faults.history import History, Outcome
from faults.load import Load, read_all
from faults.rounds import Chapter, chapters
from faults.small_disk import small_disk
from faults.trio import Trio, trio

# Messages that are acknowledged before and behind the harm of a round.
_CALM = 30
# Between two sends of one of eight producers: what a chapter stores is looked at after each round.
_PAUSE_S = 0.01
_DISK_MEGABYTES = 256


def read_everywhere(all_: Trio, history: History) -> None:
    """Reads every queue from every broker that answers."""
    for each in all_.members:
        history.reads += read_all(each.address)


def check(history: History, all_: Trio, what: str, *, are_stopped: bool) -> None:
    """Lets the checker look at everything that was seen so far."""
    history.replicas = all_.states(are_stopped=are_stopped)
    violations = history.violations()
    text = f"{what}: {len(violations)}, the first: {violations[:5]}\n{all_.epochs()}"
    assert not violations, text


def one_chapter(root: Path, chapter: Chapter, controllers: int, seen: Counter[Outcome]) -> None:
    """Makes the rounds of a chapter, and checks after each, and at the end."""
    history, dice = History(are_cut=True), chapter.dice
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(root / "broker0" / "store", _DISK_MEGABYTES))
        all_ = stack.enter_context(trio(root, controllers=controllers, disk=disk))
        all_.wait_until_ready()
        for number in range(chapter.count):
            one = Failovers(all_, dice, disk)
            harm = dice.choice(one.kinds())
            what = f"{chapter.again}, round {number}, {harm.__name__}"
            print(what, flush=True)
            one_round(all_, history, harm, number)
            all_.wait_until_whole()
            read_everywhere(all_, history)
            check(history, all_, what, are_stopped=False)
        all_.stop()
        check(history, all_, f"{chapter.again}, the end", are_stopped=True)
    seen.update(send.outcome for send in history.sends)
    assert history.reads


def one_round(all_: Trio, history: History, harm: Callable[[], None], number: int) -> None:
    """Does harm under load, and heals."""
    address = all_.master().address
    with (
        Load(address, f"{number:02x}", find=all_.find_master, pause_s=_PAUSE_S) as load,
        Clients(all_.namesrv_addresses, f"c{number:02x}") as clients,
    ):
        load.wait_for(_CALM, Outcome.ACKNOWLEDGED)
        harm()
        all_.heal()
        load.wait_for(_CALM, Outcome.ACKNOWLEDGED)
    history.sends += [*load.sends, *clients.sends]
    history.reads += clients.reads


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    ("controllers", "few", "percent"),
    [
        pytest.param(1, 7, 40, id="one-controller"),
        pytest.param(3, 5, 30, id="three-controllers"),
    ],
)
def test_rounds_of_failovers_break_no_promise(
    tmp_path: Path, controllers: int, few: int, percent: int
) -> None:
    seen: Counter[Outcome] = Counter()
    rounds = 0
    for chapter in chapters(f"{controllers} controllers", few, percent):
        rounds += chapter.count
        one_chapter(tmp_path / chapter.name, chapter, controllers, seen)
    print(f"{rounds} rounds, {seen[Outcome.ACKNOWLEDGED]} acknowledged messages, {dict(seen)}")
    assert seen[Outcome.ACKNOWLEDGED] >= 2 * _CALM * rounds
