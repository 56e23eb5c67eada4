"""Two masters with a slave each (2M-2S) of one name server, each slave acting for its master.

    with two_pairs(OURS, OURS, tmp_path, official_software("5.3.3")) as cluster:
        cluster.first, cluster.second            # a `Pair` each, of different names
        cluster.first.master.broker.kill()
        cluster.wait_until_acting(cluster.first)

Knows programs, routes and tables; nothing of what clients do with them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from interop.patience import eventually
from interop.processes import free_port
from interop.registered import wait_until
from interop.replicated import SMALL, TOPIC, Pair, ask, asked, followed
from interop.servers import Program, Software, prepared
from mqcore import Admin
from mqcore.model.relaxed_json import parse_object
from mqcore.remoting import RequestCode

NAMES = ("broker-a", "broker-b")
QUEUES = 4
KEYS = {
    **SMALL,
    "enableSlaveActingMaster": "true",
    "totalReplicas": "2",
    # An official master waits for a connection from the host that its slave has registered.
    "brokerIP2": "127.0.0.1",
    "brokerNotActiveTimeoutMillis": "5000",
    # An official master that comes back asks its slaves for their timers.
    "timerWheelEnable": "true",
    "reportedVersion": "V5_3_0",
}


def broker_name(both: Pair) -> str:
    """Returns the name that a master and its slave have in common."""
    return both.master.broker.settings["brokerName"]


def offsets_at(program: Program, group: str) -> dict[int, int]:
    """Returns where a group goes on in the queues of the topic, by queue."""
    table = ask(program.address, RequestCode.GET_ALL_CONSUMER_OFFSET)["offsetTable"]
    assert isinstance(table, dict)
    return {int(queue): offset for queue, offset in table.get(f"{TOPIC}@{group}", {}).items()}


@dataclass(frozen=True, slots=True)
class TwoPairs:
    """A name server and two groups of brokers.

    Attributes:
        namesrv: The name server.
        first: A master with its slave.
        second: Another one.
    """

    namesrv: Program
    first: Pair
    second: Pair

    @property
    def pairs(self) -> tuple[Pair, Pair]:
        """Both."""
        return self.first, self.second

    def route(self) -> dict[str, dict[str, str]]:
        """Returns the addresses by id, by broker name, that clients are given for the topic."""
        ext = {"topic": TOPIC, "acceptStandardJsonOnly": "true"}
        answer = asked(self.namesrv.address, RequestCode.GET_ROUTEINFO_BY_TOPIC, ext)
        rows = parse_object(answer.body)["brokerDatas"] if answer.code == 0 else []
        return {row["brokerName"]: row["brokerAddrs"] for row in rows}

    def wait_until_whole(self) -> None:
        """Returns when the name server shows both masters with their slaves."""
        whole = {
            broker_name(each): {"0": each.master.broker.address, "1": each.slave.address}
            for each in self.pairs
        }
        wait_until(self.namesrv.address, lambda found: found == whole)

    def wait_until_acting(self, both: Pair) -> None:
        """Returns when clients are given a slave in the place of its master.

        Raises:
            AssertionError: They are not.
        """
        name, wanted = broker_name(both), {"0": both.slave.address}
        found = eventually(self.route, lambda route: route.get(name) == wanted)
        assert found.get(name) == wanted, found

    def start(self) -> None:
        """Starts all; returns when every broker has the topic, and clients are given all of them.

        The slaves start behind it: an official one of 5.3 takes tables a minute after its start,
        and then once a minute.
        """
        self.namesrv.start()
        for each in self.pairs:
            each.master.broker.start()
        wait_until(self.namesrv.address, lambda found: set(found) == set(NAMES))
        with Admin(self.namesrv.address) as admin:
            admin.topics.create(TOPIC, queues=QUEUES)
        for each in self.pairs:
            each.slave.start()
        for each in self.pairs:
            each.wait_until_known()
        self.wait_until_whole()
        found = eventually(self.route, lambda route: set(route) == set(NAMES))
        assert set(found) == set(NAMES)

    def end(self) -> None:
        """Ends all where nobody asks how."""
        for each in self.pairs:
            each.slave.end()
            each.master.broker.end()
        self.namesrv.end()


@contextmanager
def two_pairs(
    master: Software, slave: Software, root: Path, namesrv: Software
) -> Iterator[TwoPairs]:
    """Starts a name server, two masters of one kind and their slaves of one kind; ends them."""
    kept = {"kvConfigPath": str(root / "namesrv" / "kvConfig.json"), "supportActingMaster": "true"}
    names = Program(namesrv, "namesrv", root / "namesrv", free_port(), kept)
    pairs = []
    for name in NAMES:
        keys = {**KEYS, "brokerName": name, "namesrvAddr": names.address}
        servers = replace(prepared(master, root / name / "master", keys), namesrv=names)
        pairs.append(followed(servers, slave, root / name / "slave"))
    cluster = TwoPairs(names, *pairs)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
