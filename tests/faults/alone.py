"""One broker and its name servers as processes, on whatever disk, clock and memory a fault needs.

    with alone(tmp_path, {"flushDiskType": "SYNC_FLUSH"}, {Need.DISK}) as it:
        it.broker.kill()
        it.disk.lose_power()
        it.heal()                    # the broker runs, and all harm is taken back
        it.replicas()                # what the store holds, once the broker has stopped

Raises `LacksError` where this machine has not what is needed. Knows programs and files; nothing of
who sends and reads.
"""

import enum
import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from faults.disk.unsynced_disk import UnsyncedDisk, unsynced_disk
from faults.group import state_of
from faults.history import PowerLoss, Read, Replica
from faults.load import read_all
from faults.memory_limit import MemoryGroup, memory_group
from faults.proxy import Proxy
from faults.stepped_clock import SteppedClock, stepped_clock
from interop.earlier import EarlierMissingError, earlier_software
from interop.processes import free_port
from interop.registered import wait_until
from interop.replicated import SMALL
from interop.servers import OURS, Program, Servers, prepared

# Clients reach the broker here, where the proxy listens on the broker's port.
_PROXY_HOST = "127.0.0.2"
_KEYS = {
    "bindAddress": "127.0.0.1",
    "registerNameServerPeriod": "10000",
    "deduplicationWindowMinutes": "0",
    # What was written is looked for to the end.
    "cleanFileForciblyEnable": "false",
}
# What crowds of connections need here and there.
CROWD_DESCRIPTORS = 12_000


class Need(enum.Enum):
    """What a fault needs of the machine, with what has it elsewhere."""

    DISK = "/dev/fuse, and user namespaces"
    CLOCK = "a C compiler (cc)"
    MEMORY = "a control group of its own (root, or a delegated one)"
    PROXY = "addresses of 127.0.0.0/8"
    DESCRIPTORS = f"{CROWD_DESCRIPTORS} descriptors per process (ulimit -Hn)"
    NAMES = "two ports"
    EARLIER = "an earlier revision of mqcore in this repository, and cargo to build it"


class LacksError(Exception):
    """This machine has not what a fault needs; the text has what."""


@dataclass(slots=True)
class Alone:
    """The processes, and the means to harm them; who needs a means finds it there.

    Attributes:
        servers: The broker and the name server that it registers with.
        other_namesrv: A name server that the broker does not know, for clients; not started.
        store: The store as this process sees it.
        root: A directory for more.
    """

    servers: Servers
    other_namesrv: Program
    store: Path
    root: Path
    kept_disk: UnsyncedDisk | None = None
    kept_clock: SteppedClock | None = None
    kept_memory: MemoryGroup | None = None
    kept_proxy: Proxy | None = None
    namesrv: str = ""
    are_cut: bool = False
    # Losses of power (`time.monotonic`).
    losses: list[PowerLoss] = field(default_factory=list)
    # What was read meanwhile.
    reads: list[Read] = field(default_factory=list)

    @property
    def broker(self) -> Program:
        """The broker."""
        return self.servers.broker

    @property
    def address(self) -> str:
        """Where clients reach the broker."""
        return self.broker.address if self.kept_proxy is None else self.kept_proxy.address

    @property
    def disk(self) -> UnsyncedDisk:
        """The disk that can be harmed."""
        assert self.kept_disk is not None
        return self.kept_disk

    @property
    def clock(self) -> SteppedClock:
        """The broker's clock."""
        assert self.kept_clock is not None
        return self.kept_clock

    @property
    def memory(self) -> MemoryGroup:
        """The broker's control group."""
        assert self.kept_memory is not None
        return self.kept_memory

    @property
    def proxy(self) -> Proxy:
        """The way of clients to the broker."""
        assert self.kept_proxy is not None
        return self.kept_proxy

    @property
    def pid(self) -> int:
        """The broker's process."""
        assert self.broker.pid is not None
        return self.broker.pid

    def heal(self) -> None:
        """Takes all harm back, and lets everything run."""
        if self.kept_disk is not None:
            self.kept_disk.heal()
        if self.kept_clock is not None:
            self.kept_clock.reset()
        if self.kept_memory is not None:
            self.kept_memory.limit(None)
        if self.kept_proxy is not None:
            self.kept_proxy.heal()
        self.broker.resume()
        if self.broker.has_died:
            self.broker.kill()
        for program in (self.servers.namesrv, self.broker):
            if not program.is_running:
                program.start()

    @contextmanager
    def losing_power(self) -> Iterator[None]:
        """Takes what was not synced away; within, the broker is to end."""
        self.disk.lose_power()
        began = time.monotonic()
        yield
        self.losses.append(PowerLoss(began, time.monotonic()))

    def read_all(self) -> None:
        """Reads every queue, and keeps what it was given."""
        self.reads += read_all(self.broker.address)

    def settle(self) -> None:
        """Nothing follows one broker alone."""

    def stop(self) -> None:
        """Ends the broker cleanly."""
        self.broker.stop()

    def replicas(self) -> list[Replica]:
        """Returns what the store of the stopped broker holds."""
        return [state_of("broker", self.store, are_stopped=True)]


@contextmanager
def alone(root: Path, keys: Mapping[str, str], needs: frozenset[Need]) -> Iterator[Alone]:
    """Starts a name server and a broker; ends them.

    Args:
        root: A directory of their own.
        keys: Settings of the broker over the usual ones.
        needs: What else is to be there.

    Raises:
        LacksError: The machine has it not.
    """
    with ExitStack() as stack:
        software, disk, clock, memory = OURS, None, None, None
        if Need.DESCRIPTORS in needs:
            _raise_descriptors()
        if Need.EARLIER in needs:
            _build_earlier()
        if Need.CLOCK in needs:
            clock = stepped_clock(root / "clock")
            software = software if clock is None else clock.within(software)
        if Need.DISK in needs:
            disk = stack.enter_context(unsynced_disk(root / "broker" / "store"))
            software = software if disk is None else disk.within(software)
        if Need.MEMORY in needs:
            memory = stack.enter_context(memory_group(root.name))
            software = software if memory is None else memory.within(software)
        found = {Need.CLOCK: clock, Need.DISK: disk, Need.MEMORY: memory}
        for need, it in found.items():
            if need in needs and it is None:
                raise LacksError(need.value)
        servers = prepared(software, root / "broker", {**SMALL, **_KEYS, **keys})
        # A name server has neither the disk nor the clock of the broker.
        servers.namesrv.become(OURS)
        kept = {"kvConfigPath": str(root / "other" / "kvConfig.json")}
        other = Program(OURS, "namesrv", root / "other", free_port(), kept)
        proxy = None
        if Need.PROXY in needs:
            port = int(servers.broker.settings["listenPort"])
            target = servers.broker.address
            proxy = stack.enter_context(Proxy(target, port, host=_PROXY_HOST))
            servers.broker.settings["brokerIP1"] = _PROXY_HOST
        it_ = Alone(servers, other, servers.store if disk is None else disk.seen, root)
        it_.kept_disk, it_.kept_clock, it_.kept_memory = disk, clock, memory
        it_.kept_proxy = proxy
        it_.namesrv = servers.namesrv.address
        if Need.NAMES in needs:
            it_.namesrv += f";{other.address}"
        for program in (other, servers.namesrv, servers.broker):
            stack.callback(program.kill)
            stack.callback(program.resume)
        servers.namesrv.start()
        servers.broker.start()
        wait_until(servers.namesrv.address, bool)
        yield it_


def _build_earlier() -> None:
    """Builds what takes minutes before anything runs."""
    try:
        earlier_software()
    except EarlierMissingError as missing:
        raise LacksError(f"{Need.EARLIER.value}: {missing}") from missing


def _raise_descriptors() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < CROWD_DESCRIPTORS:
        raise LacksError(Need.DESCRIPTORS.value)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < CROWD_DESCRIPTORS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (CROWD_DESCRIPTORS, hard))


def descriptors(pid: int) -> int:
    """Returns how many descriptors a process has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
