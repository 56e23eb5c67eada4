"""Synchronous masters and slaves as processes, with kills, pauses and cut links under load.

Each round does harm, heals, and lets the checker look at everything that was seen so far. How many
rounds there are, and what they do: `rounds.py`.
"""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.group import Group, group
from faults.history import History, Outcome
from faults.load import Load, read_all
from faults.proxy import Way
from faults.rounds import Chapter, chapters, pass_s

# For how long harm lasts: some of it beyond the silence that ends a link, 2 s.
_SPELLS_S = (0.05, 0.3, 1.0, 3.0)
# Messages that are acknowledged before and behind the harm of a round.
_CALM = 50


class Round:
    """One round: what it does is drawn."""

    def __init__(self, all_: Group, dice: random.Random) -> None:
        self._all = all_
        self._dice = dice
        self._slave = dice.choice(all_.slaves)

    def kill_master(self) -> None:
        self._all.master.kill()
        pass_s(self._dice.choice(_SPELLS_S[:2]))
        self._all.master.start()

    def kill_slave(self) -> None:
        self._slave.broker.kill()
        pass_s(self._dice.choice(_SPELLS_S))
        self._slave.broker.start()

    def kill_both(self) -> None:
        self._slave.broker.kill()
        self._all.master.kill()
        self._slave.broker.start()
        self._all.master.start()

    def pause_master(self) -> None:
        self._all.master.pause()
        pass_s(self._dice.choice(_SPELLS_S))
        self._all.master.resume()

    def pause_slave(self) -> None:
        self._slave.broker.pause()
        pass_s(self._dice.choice(_SPELLS_S))
        self._slave.broker.resume()

    def cut_links(self) -> None:
        for _ in range(self._dice.randrange(1, 6)):
            self._slave.proxy.cut()
            pass_s(self._dice.choice(_SPELLS_S[:2]))

    def cut_link_at_a_byte(self) -> None:
        way = self._dice.choice(list(Way))
        most = self._dice.choice([8, 20, 40_000])
        self._slave.proxy.change(way, cut_after=self._dice.randrange(1, most))
        pass_s(1.0)

    def one_way_cut(self) -> None:
        self._slave.proxy.change(self._dice.choice(list(Way)), is_black=True)
        pass_s(self._dice.choice(_SPELLS_S))

    def half_open_and_kill(self) -> None:
        for way in Way:
            self._slave.proxy.change(way, is_black=True)
        self.kill_slave()

    def slow_link(self) -> None:
        self._slave.proxy.change(Way.TO_CLIENT, delay_s=0.05, bytes_per_second=100_000)
        pass_s(1.0)

    def hold_link(self) -> None:
        self._slave.proxy.change(self._dice.choice(list(Way)), is_paused=True)
        pass_s(self._dice.choice(_SPELLS_S))

    def kinds(self) -> list[Callable[[], None]]:
        """Returns everything that a round may do."""
        return [
            self.kill_master,
            self.kill_slave,
            self.kill_both,
            self.pause_master,
            self.pause_slave,
            self.cut_links,
            self.cut_link_at_a_byte,
            self.one_way_cut,
            self.half_open_and_kill,
            self.slow_link,
            self.hold_link,
        ]


def read_everywhere(all_: Group, history: History) -> None:
    """Reads every queue from the master and from each slave."""
    for program in (all_.master, *(slave.broker for slave in all_.slaves)):
        history.reads += read_all(program.address)


def check(history: History, all_: Group, what: str, *, are_stopped: bool) -> None:
    """Lets the checker look at everything that was seen so far."""
    history.replicas = all_.states(are_stopped=are_stopped)
    violations = history.violations()
    assert not violations, f"{what}: {len(violations)}, the first: {violations[:5]}"


def one_chapter(
    root: Path, chapter: Chapter, slaves: int, keys: dict[str, str], seen: Counter[Outcome]
) -> None:
    """Makes the rounds of a chapter, and checks after each, and at the end."""
    history, dice = History(), chapter.dice
    with group(root, slaves, keys) as all_:
        for number in range(chapter.count):
            one = Round(all_, dice)
            harm = dice.choice(one.kinds())
            what = f"{chapter.again}, round {number}, {harm.__name__}"
            print(what, flush=True)
            with Load(all_.master.address, f"{number:03x}") as load:
                load.wait_for(_CALM, Outcome.ACKNOWLEDGED)
                harm()
                read_everywhere(all_, history)
                all_.heal()
                load.wait_for(_CALM, Outcome.ACKNOWLEDGED)
            history.sends += load.sends
            read_everywhere(all_, history)
            all_.wait_until_equal()
            check(history, all_, what, are_stopped=False)
        for program in (all_.master, *(slave.broker for slave in all_.slaves)):
            program.stop()
        check(history, all_, f"{chapter.again}, the end", are_stopped=True)
    seen.update(send.outcome for send in history.sends)
    assert history.reads


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    ("slaves", "keys"),
    [
        pytest.param(1, {"flushDiskType": "ASYNC_FLUSH"}, id="pair"),
        pytest.param(
            2, {"flushDiskType": "SYNC_FLUSH", "inSyncReplicas": "3"}, id="two-slaves-synced"
        ),
    ],
)
def test_rounds_of_faults_break_no_promise(
    tmp_path: Path, slaves: int, keys: dict[str, str]
) -> None:
    seen: Counter[Outcome] = Counter()
    rounds = 0
    for chapter in chapters(f"{slaves} slaves", 3, 12):
        rounds += chapter.count
        one_chapter(tmp_path / chapter.name, chapter, slaves, keys, seen)
    assert seen[Outcome.ACKNOWLEDGED] >= 2 * _CALM * rounds
