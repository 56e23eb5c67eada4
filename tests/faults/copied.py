"""Replicated brokers as the list of faults uses them: a pair, and three under controllers.

    with copied(tmp_path) as it:         # it.group: a synchronous master and its slave
    with elected(tmp_path) as it:        # it.trio: three brokers and a controller

Both are used as `Alone` is. Knows which of them wait for what.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from faults.failovers import Failovers
from faults.group import Group, group
from faults.history import PowerLoss, Read, Replica
from faults.load import read_all
from faults.small_disk import SmallDisk
from faults.test_live import Round
from faults.trio import Trio, trio


@dataclass(slots=True)
class Copied:
    """A synchronous master and a slave."""

    group: Group
    are_cut: bool = False
    losses: list[PowerLoss] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)

    @property
    def address(self) -> str:
        """The master's."""
        return self.group.master.address

    @property
    def namesrv(self) -> str:
        """The name server's address."""
        return self.group.servers.namesrv.address

    def heal(self) -> None:
        """Lets every link carry and every process run."""
        self.group.heal()

    def settle(self) -> None:
        """Returns when the slave has what the master has."""
        self.group.wait_until_equal()
        for program in (self.group.master, *(each.broker for each in self.group.slaves)):
            self.reads += read_all(program.address)

    def stop(self) -> None:
        """Ends the brokers cleanly."""
        for program in (self.group.master, *(each.broker for each in self.group.slaves)):
            program.stop()

    def replicas(self) -> list[Replica]:
        """Returns what the stores of stopped brokers hold."""
        return self.group.states(are_stopped=True)


@dataclass(slots=True)
class Elected:
    """Three brokers under controllers, of which the controllers make one master."""

    trio: Trio
    disk: SmallDisk | None = None
    are_cut: bool = True
    losses: list[PowerLoss] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)

    @property
    def address(self) -> str:
        """The master's, now."""
        return self.trio.master().address

    @property
    def namesrv(self) -> str:
        """The name servers' addresses."""
        return self.trio.namesrv_addresses

    def heal(self) -> None:
        """Lets every link carry and every process run."""
        self.trio.heal()

    def settle(self) -> None:
        """Returns when all are in sync and have the same."""
        self.trio.wait_until_whole()
        for each in self.trio.members:
            self.reads += read_all(each.address)

    def stop(self) -> None:
        """Ends the brokers cleanly."""
        self.trio.stop()

    def replicas(self) -> list[Replica]:
        """Returns what the stores of stopped brokers hold."""
        return self.trio.states(are_stopped=True)


@contextmanager
def copied(root: Path) -> Iterator[Copied]:
    """Starts a name server, a master and a slave; ends them."""
    with group(root, 1, {"flushDiskType": "ASYNC_FLUSH"}) as all_:
        yield Copied(all_)


@contextmanager
def elected(root: Path, controllers: int = 1) -> Iterator[Elected]:
    """Starts name servers, controllers and three brokers; ends them."""
    with trio(root, controllers=controllers) as all_:
        all_.wait_until_ready()
        yield Elected(all_)


def some_harm_to_a_pair(it: Copied, dice: random.Random) -> None:
    """One of the kinds of `test_live.py`: kills, pauses, links cut, half-open, one way, slow."""
    dice.choice(Round(it.group, dice).kinds())()


def some_harm_to_three(it: Elected, dice: random.Random) -> None:
    """One of the kinds of `failovers.py`."""
    dice.choice(Failovers(it.trio, dice, it.disk).kinds())()
