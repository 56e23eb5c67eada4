"""Harm once a minute: one kind, drawn, to a group that is well; then the group heals.

The first broker, the controllers and the first name server are never killed, so that an hour of
their memory is an hour of one process; everything else happens to them too. Knows processes and
proxies; not who sends and reads meanwhile.
"""

import random
import time
from collections.abc import Callable

from faults.failovers import Failovers, elect
from faults.trio import Trio

__all__ = ["Chaos", "Harm"]


class Chaos:
    """Draws harm.

    Attributes:
        done: What was done, in order: seconds since the begin, for how long until all was well
            again, and what.
    """

    def __init__(self, all_: Trio, seed: int) -> None:
        """Prepares it.

        Args:
            all_: The group.
            seed: The same seed draws the same.
        """
        self.done: list[tuple[float, float, str]] = []
        self._all, self._dice = all_, random.Random(f"{seed} soak")
        self._began = time.monotonic()

    def once(self) -> str:
        """Does harm, and returns its name when all brokers are in sync again.

        Raises:
            AssertionError: They do not come there.
        """
        began = time.monotonic()
        harm = Harm(self._all, self._dice)
        what = self._dice.choice(harm.kinds())
        what()
        self._all.heal()
        self._all.wait_until_in_sync()
        name = getattr(what, "__name__", str(what))
        self.done.append((began - self._began, time.monotonic() - began, name))
        return name


class Harm(Failovers):
    """One time of harm: what it may do, and to whom."""

    def __init__(self, all_: Trio, dice: random.Random) -> None:
        """Draws whom it is about."""
        super().__init__(all_, dice)
        steady = all_.members[0]
        self._is_master_steady = self._master is steady
        if self._slave is steady:
            self._slave = next(each for each in self._slaves if each is not steady)

    def hand_over(self) -> None:
        """A person asks for another master."""
        elect(self._all, self._dice.choice(self._slaves))

    def kill_other_name_server(self) -> None:
        """The second name server dies."""
        namesrv = self._all.namesrvs[1]
        namesrv.kill()
        self._spell()
        namesrv.start()

    def kinds(self) -> list[Callable[[], None]]:
        """Returns everything that may be done now."""
        found = [
            self.kill_slave,
            self.pause_master,
            self.pause_slave,
            self.hand_over,
            self.cut_links,
            self.cut_link_at_a_byte,
            self.one_way_link,
            self.slow_link,
            self.cut_master_off,
            self.cut_slave_off,
            self.isolate_master,
            self.cut_connections_to_controllers,
            self.pause_controller,
            self.kill_other_name_server,
        ]
        if not self._is_master_steady:
            # Twice each: these are what a master's followers have most to do with.
            found += 2 * [self.kill_master, self.terminate_master]
        return found
