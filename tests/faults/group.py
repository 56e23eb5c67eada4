"""A synchronous master and its slaves as processes, each slave behind a cutting proxy.

    with group(tmp_path, slaves=2, keys={...}) as all_:
        all_.master, all_.slaves[0].broker, all_.slaves[0].proxy
        all_.heal()                  # every process runs, every link carries
        all_.wait_until_equal()      # every slave has what the master has
        all_.states()                # what each replica holds, for the checker

Knows programs, proxies and files; nothing of what a test does to them.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from faults.history import Queue, Reign, Replica
from faults.proxy import Proxy
from interop.patience import eventually
from interop.processes import free_port
from interop.replicated import SMALL, end_of, log_of
from interop.servers import OURS, Program, Servers, prepared
from mqcore import Inspection
from mqcore.model.relaxed_json import parse_object

TOPIC = "Faults"
# Bytes of a body that are its id.
ID_BYTES = 8
# Links that carry nothing are given up within seconds.
QUICK = {
    "haSendHeartbeatInterval": "500",
    "haHousekeepingInterval": "2000",
    "slaveTimeout": "1000",
    "deduplicationWindowMinutes": "0",
}


@dataclass(frozen=True, slots=True)
class Slave:
    """A slave and its way to the master."""

    broker: Program
    proxy: Proxy
    store: Path


@dataclass(frozen=True, slots=True)
class Group:
    """A master, with its name server, and its slaves."""

    servers: Servers
    slaves: list[Slave]

    @property
    def master(self) -> Program:
        """The master."""
        return self.servers.broker

    def heal(self) -> None:
        """Lets every link carry and every process run."""
        for slave in self.slaves:
            slave.proxy.heal()
        for program in (self.master, *(slave.broker for slave in self.slaves)):
            program.resume()
            if not program.is_running:
                program.start()

    def wait_until_equal(self) -> int:
        """Returns the end of all logs, when every slave has everything.

        Raises:
            AssertionError: One of them does not come there.
        """

        def ends() -> list[int]:
            programs = (self.master, *(slave.broker for slave in self.slaves))
            return [end_of(program) for program in programs]

        found = eventually(ends, lambda all_: len(set(all_)) == 1 and all_[0] > 0)
        assert len(set(found)) == 1, f"the logs end at {found}"
        return found[0]

    def states(self, *, are_stopped: bool) -> list[Replica]:
        """Returns what each replica holds.

        Args:
            are_stopped: Whether the programs have ended, so that queues are whole on the disk.
        """
        stores = [("master", self.servers.store)]
        stores += [(f"slave {at}", slave.store) for at, slave in enumerate(self.slaves, 1)]
        return [state_of(name, store, are_stopped=are_stopped) for name, store in stores]


def state_of(name: str, store: Path, *, are_stopped: bool) -> Replica:
    """Returns what a store holds, read without a broker."""
    queues: dict[Queue, dict[int, str]] = {}
    inspection = Inspection(store)
    epochs = epochs_of(store)
    begins = [begin for _, begin in epochs]
    writers: dict[int, set[str]] = {epoch: set() for epoch, _ in epochs}
    for batch in inspection.scan():
        rows = zip(
            batch.topics,
            batch.queue_ids,
            batch.queue_offsets,
            batch.stored_bodies,
            batch.physical_offsets,
            strict=True,
        )
        for at, (topic, queue_id, offset, body, position) in enumerate(rows):
            queues.setdefault((topic, queue_id), {})[offset] = body[:ID_BYTES].decode("latin-1")
            # What brokers write by themselves has the address of who took it first.
            if epochs and topic == TOPIC:
                epoch, _ = epochs[bisect_right(begins, position) - 1]
                writers[epoch].add(batch[at].store_host)
    end = inspection.log_range.end
    log = {}
    for file_name, content in log_of(store).items():
        begin = int(file_name)
        if begin < end:
            log[begin] = hashlib.sha256(content[: end - begin]).hexdigest()
    problems = list(map(str, inspection.verify().problems)) if are_stopped else []
    offsets = offsets_of(store) if are_stopped else {}
    reigns = {epoch: Reign(begin, frozenset(writers[epoch])) for epoch, begin in epochs}
    return Replica(name, queues, log, problems, offsets=offsets, reigns=reigns)


def offsets_of(store: Path) -> dict[tuple[str, Queue], int]:
    """Returns the offsets that consumers have committed, as a stopped broker has written them."""
    try:
        text = (store / "config" / "consumerOffset.json").read_bytes()
    except FileNotFoundError:
        return {}
    found = {}
    for key, queues in parse_object(text)["offsetTable"].items():
        topic, _, group = key.partition("@")
        if topic == TOPIC:
            found.update({(group, (topic, int(at))): offset for at, offset in queues.items()})
    return found


def epochs_of(store: Path) -> list[tuple[int, int]]:
    """Returns the epochs of a log with their begins; none without a controller."""
    try:
        lines = (store / "epochFileCheckpoint").read_text(encoding="ascii").splitlines()[2:]
    except FileNotFoundError:
        return []
    return [(int(epoch), int(begin)) for epoch, begin in (line.split("-") for line in lines)]


def _slave(stack: ExitStack, servers: Servers, root: Path, broker_id: int) -> Slave:
    master = servers.broker.settings
    proxy = stack.enter_context(Proxy(f"127.0.0.1:{master['haListenPort']}"))
    port, store = free_port(), root / "store"
    settings = {
        **master,
        "brokerRole": "SLAVE",
        "brokerId": str(broker_id),
        "slaveReadEnable": "true",
        "haMasterAddress": proxy.address,
        "haListenPort": str(port + 1),
        "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
    }
    return Slave(Program(OURS, "broker", root, port, settings), proxy, store)


@contextmanager
def group(root: Path, slaves: int, keys: Mapping[str, str]) -> Iterator[Group]:
    """Starts a name server, a master and so many slaves; ends them.

    Args:
        root: A directory of their own.
        slaves: How many.
        keys: Settings of all over the usual ones.
    """
    settings = {**SMALL, **QUICK, "brokerRole": "SYNC_MASTER", **keys}
    servers = prepared(OURS, root / "master", settings)
    with ExitStack() as stack:
        members = [_slave(stack, servers, root / f"slave-{at}", at) for at in range(1, slaves + 1)]
        stack.callback(servers.end)
        servers.namesrv.start()
        servers.broker.start()
        for member in members:
            stack.callback(member.broker.kill)
            member.broker.start()
        yield Group(servers, members)
