"""What happens to three brokers under controllers in one round: each kind of harm is a method.

Knows processes and proxies; not who sends, reads and checks meanwhile.
"""

import random
from collections.abc import Callable

from faults.proxy import Way
from faults.rounds import pass_s
from faults.small_disk import SmallDisk
from faults.trio import Elector, Member, Trio, asked
from interop.patience import eventually
from interop.servers import BROKER_NAME, CLUSTER
from mqcore.remoting import RequestCode

# For how long harm lasts: some of it beyond the silence after which a broker is dead, 2 s.
_SHORT_S = (0.05, 0.3, 1.0)
_SPELLS_S = (*_SHORT_S, 3.0)


class Failovers:
    """One round: what it does, and to whom, is drawn."""

    def __init__(self, all_: Trio, dice: random.Random, disk: SmallDisk | None = None) -> None:
        """Draws whom it is about.

        Args:
            all_: The brokers, all of them well.
            dice: What draws.
            disk: The disk of the first broker, where it can be filled.
        """
        self._all = all_
        self._dice = dice
        self._disk = disk
        self._master = all_.master()
        self._slaves = [each for each in all_.members if each is not self._master]
        self._slave = dice.choice(self._slaves)
        leader = all_.leader() or all_.controllers[0]
        self._elector = dice.choice([leader, *all_.controllers])

    # Processes.

    def kill_master(self) -> None:
        """The master dies."""
        self._again(self._master)

    def kill_slave(self) -> None:
        """A slave dies."""
        self._again(self._slave)

    def terminate_master(self) -> None:
        """The master is stopped as an operator does."""
        self._master.broker.stop()
        self._spell()
        self._master.broker.start()

    def kill_master_and_slave(self) -> None:
        """Two of three die: nobody is there to acknowledge anything."""
        self._master.broker.kill()
        self._slave.broker.kill()
        self._spell()
        self._slave.broker.start()
        self._spell()
        self._master.broker.start()

    def kill_all(self) -> None:
        """All three die."""
        members = [*self._all.members]
        self._dice.shuffle(members)
        for each in members:
            each.broker.kill()
        for each in members:
            each.broker.start()

    def kill_one_master_after_the_other(self) -> None:
        """The master dies, and the one that was elected too."""
        self._master.broker.kill()
        elected = self._other_master()
        pass_s(self._dice.choice(_SHORT_S))
        elected.broker.kill()
        self._spell()
        self._master.broker.start()
        elected.broker.start()

    def pause_master(self) -> None:
        """The master is paused, and goes on as if nothing had been."""
        self._master.broker.pause()
        self._spell()
        self._master.broker.resume()

    def pause_slave(self) -> None:
        """A slave is paused."""
        self._slave.broker.pause()
        self._spell()
        self._slave.broker.resume()

    def pause_master_and_slave(self) -> None:
        """Two are paused, and go on one after the other."""
        members = [self._master, self._slave]
        for each in members:
            each.broker.pause()
        self._spell()
        self._dice.shuffle(members)
        for each in members:
            each.broker.resume()
            pass_s(self._dice.choice(_SHORT_S))

    def elect_another(self) -> None:
        """A person asks for another master, again and again."""
        for _ in range(self._dice.randrange(1, 4)):
            elect(self._all, self._dice.choice(self._all.members))
            pass_s(self._dice.choice(_SHORT_S))

    # Links between brokers.

    def cut_links(self) -> None:
        """A slave's connection breaks, again and again."""
        for _ in range(self._dice.randrange(1, 6)):
            self._master.links.cut(self._whose())
            pass_s(self._dice.choice(_SHORT_S))

    def cut_link_at_a_byte(self) -> None:
        """A slave's connection breaks behind a byte; once more when there is another one."""
        most = self._dice.choice([12, 40, 200, 40_000])
        for _ in range(2):
            way, count = self._dice.choice(list(Way)), self._dice.randrange(1, most)
            self._master.links.change(way, owner=self._slave.name, cut_after=count)
            pass_s(0.5)

    def one_way_link(self) -> None:
        """What one side of a slave's connection sends is lost."""
        way = self._dice.choice(list(Way))
        self._master.links.change(way, owner=self._whose(), is_black=True)
        self._spell()

    def half_open_link_and_kill(self) -> None:
        """A slave's connection is half-open, and the slave dies."""
        for way in Way:
            self._master.links.change(way, owner=self._slave.name, is_black=True)
        self._again(self._slave)

    def slow_link(self) -> None:
        """A slave's connection is late and narrow."""
        self._master.links.change(
            Way.TO_CLIENT, owner=self._whose(), delay_s=0.05, bytes_per_second=100_000
        )
        pass_s(1.0)

    def hold_link_and_kill_master(self) -> None:
        """A slave is behind when the master dies."""
        self._master.links.change(Way.TO_CLIENT, owner=self._slave.name, is_paused=True)
        pass_s(self._dice.choice(_SHORT_S))
        self._again(self._master)

    # Links to controllers, and controllers.

    def cut_master_off(self) -> None:
        """No controller hears of the master, which goes on as such."""
        self._cut_off(self._master, list(Way))
        self._spell()

    def cut_slave_off(self) -> None:
        """No controller hears of a slave."""
        self._cut_off(self._slave, list(Way))
        self._spell()

    def one_way_to_controllers(self) -> None:
        """What goes one way between the master and controllers is lost."""
        self._cut_off(self._master, [self._dice.choice(list(Way))])
        self._spell()

    def isolate_master(self) -> None:
        """Clients alone reach the master: neither controllers nor slaves do."""
        self._cut_off(self._master, list(Way))
        for way in Way:
            self._master.links.change(way, is_black=True)
        self._spell()

    def cut_connections_to_controllers(self) -> None:
        """Every connection to a controller breaks, again and again."""
        for _ in range(self._dice.randrange(1, 4)):
            self._elector.links.cut()
            pass_s(self._dice.choice(_SHORT_S))

    def kill_controller(self) -> None:
        """A controller dies."""
        self._elector.controller.kill()
        self._spell()
        self._elector.controller.start()

    def pause_controller(self) -> None:
        """A controller is paused."""
        self._elector.controller.pause()
        self._spell()
        self._elector.controller.resume()

    def kill_controller_and_master(self) -> None:
        """Nobody elects anybody when the master dies; or another controller does."""
        self._elector.controller.kill()
        self._master.broker.kill()
        self._spell()
        starts: list[Callable[[], None]] = [
            self._elector.controller.start,
            self._master.broker.start,
        ]
        self._dice.shuffle(starts)
        for start in starts:
            start()

    def split_controllers(self) -> None:
        """A controller and the others do not hear of one another."""
        for each in self._others():
            for way in Way:
                each.links.change(way, owner=self._elector.name, is_black=True)
                self._elector.links.change(way, owner=each.name, is_black=True)
        self._spell()

    # Others.

    def kill_name_server(self) -> None:
        """A name server dies, and the master with it now and then."""
        namesrv = self._dice.choice(self._all.namesrvs)
        namesrv.kill()
        if self._dice.random() < 0.5:
            self._again(self._master)
        namesrv.start()

    def fill_disk(self) -> None:
        """The first broker's disk is full; it may die of it."""
        assert self._disk is not None
        self._disk.fill()
        pass_s(self._dice.choice([1.0, 3.0]))
        broker = self._all.members[0].broker
        if broker.has_died or self._dice.random() < 0.5:
            broker.kill()
        self._disk.empty()
        if not broker.is_running:
            broker.start()

    def kinds(self) -> list[Callable[[], None]]:
        """Returns everything that a round may do."""
        found = [
            self.kill_master,
            self.kill_slave,
            self.terminate_master,
            self.kill_master_and_slave,
            self.kill_all,
            self.kill_one_master_after_the_other,
            self.pause_master,
            self.pause_slave,
            self.pause_master_and_slave,
            self.elect_another,
            self.cut_links,
            self.cut_link_at_a_byte,
            self.one_way_link,
            self.half_open_link_and_kill,
            self.slow_link,
            self.hold_link_and_kill_master,
            self.cut_master_off,
            self.cut_slave_off,
            self.one_way_to_controllers,
            self.isolate_master,
            self.cut_connections_to_controllers,
            self.kill_controller,
            self.pause_controller,
            self.kill_controller_and_master,
            self.kill_name_server,
        ]
        if self._disk is not None:
            found.append(self.fill_disk)
        if len(self._all.controllers) > 1:
            found.append(self.split_controllers)
        return found

    # What several of them do.

    def _spell(self) -> None:
        pass_s(self._dice.choice(_SPELLS_S))

    def _again(self, member: Member) -> None:
        member.broker.kill()
        self._spell()
        member.broker.start()

    def _whose(self) -> str | None:
        """The drawn slave's connections, or those of both."""
        return self._dice.choice([self._slave.name, None])

    def _others(self) -> list[Elector]:
        return [each for each in self._all.controllers if each is not self._elector]

    def _cut_off(self, member: Member, ways: list[Way]) -> None:
        for each in self._all.controllers:
            for way in ways:
                each.links.change(way, owner=member.name, is_black=True)

    def _other_master(self) -> Member:
        old = self._master.address
        found = eventually(
            lambda: self._all.state().get("masterAddress") or "", lambda new: new not in ("", old)
        )
        assert found not in ("", old), f"nobody is elected: {self._all.state()}"
        return next(each for each in self._all.members if each.address == found)


def elect(all_: Trio, member: Member) -> bool:
    """Has a controller elect a member; returns whether it is master now."""
    rows = all_.state().get("inSyncReplicas", [])
    ids = [row["brokerId"] for row in rows if row["brokerAddress"] == member.address]
    leader = all_.leader()
    if leader is None or not ids:
        return False
    ext = {"clusterName": CLUSTER, "brokerName": BROKER_NAME, "brokerId": str(ids[0])}
    answer = asked(
        leader.address, RequestCode.CONTROLLER_ELECT_MASTER, {**ext, "designateElect": "true"}
    )
    return answer is not None and answer.code == 0
