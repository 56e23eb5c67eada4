"""Three brokers of one name under controllers, two name servers; every link may be cut.

    with trio(tmp_path, controllers=3) as all_:
        master = all_.master()               # as the controllers show it
        all_.members[0].links                # the proxy through which others copy its log
        all_.controllers[0].links            # the proxy in front of a controller
        all_.heal()                          # every process runs, every link carries
        all_.wait_until_whole()              # a master, three in sync, equal logs

Brokers advertise 127.0.0.2 for the log, controllers 127.0.0.3 for everything: there the proxies
are, and find by the kernel's lists whose a connection is. Knows programs, proxies, files; nothing
of what a test does to them.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.group import epochs_of, state_of
from faults.history import Replica
from faults.owners import owner_of
from faults.proxy import Proxy
from faults.small_disk import SmallDisk
from interop.patience import eventually
from interop.processes import free_port
from interop.replicated import SMALL
from interop.servers import BROKER_NAME, OURS, Program, prepared
from loops import run_on
from mqcore import Admin
from mqcore.errors import MQError
from mqcore.model.relaxed_json import parse_object
from mqcore.native import Command
from mqcore.remoting import Client, Credentials, RequestCode, ResponseCode, signed

_LOG_HOST, _CONTROLLER_HOST = "127.0.0.2", "127.0.0.3"
_ASK_TIMEOUT_S = 2.0
# Of what a broker has printed, where a test fails.
_SHOWN_LINES = 12
# What is acknowledged is on two replicas, and nobody is elected who does not have it.
SAFE = {"allAckInSyncStateSet": "true", "minInSyncReplicas": "2"}
# Who does not answer is given up within two seconds.
_MEMBER = {
    "enableControllerMode": "true",
    "brokerHeartbeatInterval": "300",
    "controllerHeartBeatTimeoutMills": "2000",
    "sendHeartbeatTimeoutMillis": "1000",
    "syncBrokerMetadataPeriod": "500",
    "syncControllerMetadataPeriod": "500",
    "checkSyncStateSetPeriod": "500",
    "registerNameServerPeriod": "10000",
    "haSendHeartbeatInterval": "500",
    "haHousekeepingInterval": "2000",
    "haMaxTimeSlaveNotCatchup": "2000",
    "slaveTimeout": "1000",
    "slaveReadEnable": "true",
    "deduplicationWindowMinutes": "0",
    # A disk that is full takes no file away that the checker wants to see.
    "cleanFileForciblyEnable": "false",
}
_CONTROLLER = {
    "controllerDLegerGroup": "group1",
    "scanNotActiveBrokerInterval": "300",
    "scanInactiveMasterInterval": "500",
    # Who left a set that was too small to acknowledge anything may be elected.
    "mqcoreMinInSyncReplicas": "2",
}


@dataclass(frozen=True, slots=True)
class Member:
    """A broker, and the way of the others to its log."""

    name: str
    broker: Program
    store: Path
    links: Proxy

    @property
    def address(self) -> str:
        """Where it answers requests."""
        return self.broker.address


@dataclass(frozen=True, slots=True)
class Elector:
    """A controller, and the way of everybody else to it."""

    name: str
    controller: Program
    links: Proxy

    @property
    def address(self) -> str:
        """Where it answers tests: beside the proxy."""
        return self.controller.address


@dataclass(frozen=True, slots=True)
class Trio:
    """Brokers of one name, their controllers and their name servers.

    Attributes:
        members: The brokers.
        controllers: Their controllers.
        namesrvs: Their name servers.
        who: Who asks the brokers, where access control is on.
    """

    members: list[Member] = field(default_factory=list)
    controllers: list[Elector] = field(default_factory=list)
    namesrvs: list[Program] = field(default_factory=list)
    who: Credentials | None = None

    @property
    def programs(self) -> list[Program]:
        """Every process."""
        brokers = [each.broker for each in self.members]
        return [*self.namesrvs, *(each.controller for each in self.controllers), *brokers]

    @property
    def namesrv_addresses(self) -> str:
        """The name servers, as clients are given them."""
        return ";".join(each.address for each in self.namesrvs)

    def pids(self) -> dict[str, int]:
        """Returns the processes that run, by the names of owners."""
        named = [(each.name, each.broker.pid) for each in self.members]
        named += [(each.name, each.controller.pid) for each in self.controllers]
        return {name: pid for name, pid in named if pid is not None}

    def heal(self) -> None:
        """Lets every link carry and every process run."""
        for member in self.members:
            member.links.heal()
        for elector in self.controllers:
            elector.links.heal()
        for program in self.programs:
            program.resume()
            if not program.is_running:
                program.start()

    def leader(self) -> Elector | None:
        """Returns the controller that leads."""
        for each in self.controllers:
            answer = asked(each.address, RequestCode.CONTROLLER_GET_METADATA_INFO)
            if answer is not None and answer.ext.get("isLeader") == "true":
                return each
        return None

    def state(self) -> dict[str, Any]:
        """Returns what the controllers know of the brokers (1006); empty while nobody answers."""
        body = b'["%s"]' % BROKER_NAME.encode()
        for each in self.controllers:
            answer = asked(each.address, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=body)
            if answer is not None and answer.code == ResponseCode.SUCCESS and answer.body:
                table = parse_object(answer.body).get("replicasInfoTable", {})
                row: dict[str, Any] = table.get(BROKER_NAME, {})
                return row
        return {}

    def master(self) -> Member:
        """Returns the master, as the controllers show it.

        Raises:
            AssertionError: There is none.
        """
        state = eventually(self.state, lambda found: bool(found.get("masterAddress")))
        address = state.get("masterAddress")
        assert address, f"nobody is master: {state}"
        return next(each for each in self.members if each.address == address)

    def slaves(self) -> list[Member]:
        """Returns who is not master."""
        master = self.master()
        return [each for each in self.members if each is not master]

    def wait_until_ready(self) -> None:
        """Returns when all are in sync and the name servers know the master.

        Raises:
            AssertionError: They do not come there.
        """
        self.wait_until_in_sync()
        master = self.master().address

        async def work() -> str:
            async with Client() as client:
                return await self.find_master(client)

        found = eventually(lambda: run_on("asyncio", work()), lambda address: address == master)
        assert found == master, f"the name servers know {found!r}, not {master}"

    def wait_until_in_sync(self) -> dict[str, Any]:
        """Returns what the controllers know, when all brokers are in sync.

        Raises:
            AssertionError: They do not come there.
        """
        count = len(self.members)
        state = eventually(self.state, lambda found: len(found.get("inSyncReplicas", [])) == count)
        known = state.get("inSyncReplicas", [])
        assert len(known) == count, f"{len(known)} are in sync: {state}\n{self.shown()}"
        return state

    def wait_until_whole(self) -> int:
        """Returns the end of all logs, when all are in sync and every log ends there.

        Raises:
            AssertionError: They do not come there.
        """
        state = self.wait_until_in_sync()

        def ends() -> list[int]:
            return [end_at(each.address, self.who) for each in self.members]

        found = eventually(ends, lambda all_: len(set(all_)) == 1 and all_[0] > 0)
        assert len(set(found)) == 1, f"the logs end at {found}: {state}\n{self.shown()}"
        return found[0]

    def create_topics(self, *names: str, queues: int = 4) -> None:
        """Creates topics at the master; returns when every broker knows them.

        Raises:
            AssertionError: A slave does not take them.
        """
        with Admin(self.namesrv_addresses, credentials=self.who) as admin:
            for name in names:
                admin.topics.create(name, queues=queues)

        def known() -> set[str]:
            all_ = (topics_at(each.address, self.who) for each in self.members)
            return set.intersection(*all_)

        found = eventually(known, lambda topics: topics >= set(names))
        assert found >= set(names), f"all know {found & set(names)}"

    def shown(self) -> str:
        """Returns what each broker has of epochs, and what it printed last, for messages."""
        lines = []
        for each in self.members:
            died = ", has died" if each.broker.has_died else ""
            lines.append(f"{each.name} {each.address}{died}: {epochs_of(each.store)}")
            lines += each.broker.printed().splitlines()[-_SHOWN_LINES:]
        return "\n".join(lines)

    def epochs(self) -> dict[str, list[tuple[int, int]]]:
        """Returns who wrote what of each log, for messages."""
        return {each.name: epochs_of(each.store) for each in self.members}

    def states(self, *, are_stopped: bool) -> list[Replica]:
        """Returns what each replica holds; see `Group.states`."""
        return [state_of(each.name, each.store, are_stopped=are_stopped) for each in self.members]

    def stop(self) -> None:
        """Ends the brokers cleanly."""
        for each in self.members:
            each.broker.stop()

    async def find_master(self, client: Client) -> str:
        """Returns the master that a name server names; empty while none does."""
        for namesrv in self.namesrvs:
            with contextlib.suppress(MQError):
                code = RequestCode.GET_BROKER_CLUSTER_INFO
                answer = await client.call(namesrv.address, code, timeout_s=_ASK_TIMEOUT_S)
                row = parse_object(answer.body)["brokerAddrTable"].get(BROKER_NAME, {})
                if address := row.get("brokerAddrs", {}).get("0"):
                    return str(address)
        return ""


def asked(
    address: str,
    code: RequestCode,
    ext: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    who: Credentials | None = None,
) -> Command | None:
    """Returns the answer to a request; None of who gives none within two seconds.

    Args:
        address: Who is asked.
        code: The request.
        ext: Its fields.
        body: Its body.
        who: Who signs it; None for nobody.
    """
    fields = dict(ext or {}) if who is None else signed(who, ext or {}, body)

    async def work() -> Command:
        async with Client() as client:
            return await client.call(address, code, fields, body, timeout_s=_ASK_TIMEOUT_S)

    with contextlib.suppress(MQError, asyncio.TimeoutError):
        return run_on("asyncio", work())
    return None


def end_at(address: str, who: Credentials | None = None) -> int:
    """Returns the end of a broker's log; -1 while it does not answer."""
    answer = asked(address, RequestCode.GET_BROKER_RUNTIME_INFO, who=who)
    if answer is None or answer.code != ResponseCode.SUCCESS:
        return -1
    return int(parse_object(answer.body)["table"]["commitLogMaxOffset"])


def topics_at(address: str, who: Credentials | None = None) -> set[str]:
    """Returns the topics that a broker knows; none while it does not answer."""
    answer = asked(address, RequestCode.GET_ALL_TOPIC_CONFIG, who=who)
    if answer is None or answer.code != ResponseCode.SUCCESS:
        return set()
    return set(parse_object(answer.body)["topicConfigTable"])


def _elector(stack: ExitStack, all_: Trio, root: Path, ports: list[int], number: int) -> Elector:
    def owner(port: int) -> str:
        return owner_of(port, all_.pids())

    name, port = f"n{number}", ports[number]
    peers = (f"n{at}-{_CONTROLLER_HOST}:{each}" for at, each in enumerate(ports))
    settings = {
        **_CONTROLLER,
        "controllerDLegerPeers": ";".join(peers),
        "controllerDLegerSelfId": name,
        "controllerStorePath": str(root / name / "store"),
    }
    target = f"127.0.0.1:{port}"
    links = stack.enter_context(Proxy(target, port, host=_CONTROLLER_HOST, owner_of=owner))
    return Elector(name, Program(OURS, "controller", root / name, port, settings), links)


def _member(
    stack: ExitStack, all_: Trio, home: Path, keys: Mapping[str, str], disk: SmallDisk | None
) -> Member:
    def owner(port: int) -> str:
        return owner_of(port, all_.pids())

    software = OURS if disk is None else disk.within(OURS)
    servers = prepared(software, home, {**SMALL, **_MEMBER, **keys})
    program, log_port = servers.broker, servers.broker.settings["haListenPort"]
    del program.settings["brokerId"]
    program.settings |= {
        "brokerIP2": _LOG_HOST,
        "namesrvAddr": all_.namesrv_addresses,
        "controllerAddr": ";".join(each.links.address for each in all_.controllers),
    }
    target = f"127.0.0.1:{log_port}"
    links = stack.enter_context(Proxy(target, int(log_port), host=_LOG_HOST, owner_of=owner))
    store = servers.store if disk is None else disk.seen
    return Member(home.name, program, store, links)


@contextmanager
def trio(
    root: Path,
    *,
    controllers: int = 1,
    keys: Mapping[str, str] | None = None,
    disk: SmallDisk | None = None,
    who: Credentials | None = None,
) -> Iterator[Trio]:
    """Starts two name servers, controllers and three brokers; ends them.

    Args:
        root: A directory of their own.
        controllers: How many.
        keys: Settings of the brokers over the usual ones.
        disk: The disk of the first broker's store, at `broker0/store` of the directory.
        who: Who asks the brokers, where access control is on.
    """
    all_ = Trio(who=who)
    with ExitStack() as stack:
        for number in range(2):
            home = root / f"namesrv{number}"
            kept = {"kvConfigPath": str(home / "kvConfig.json")}
            all_.namesrvs.append(Program(OURS, "namesrv", home, free_port(), kept))
        ports = [free_port() for _ in range(controllers)]
        for number in range(controllers):
            all_.controllers.append(_elector(stack, all_, root, ports, number))
        for number in range(3):
            its_disk = disk if number == 0 else None
            settings = {**SAFE, **(keys or {})}
            all_.members.append(_member(stack, all_, root / f"broker{number}", settings, its_disk))
        for program in all_.programs:
            stack.callback(program.kill)
            stack.callback(program.resume)
        start_all(all_.programs)
        yield all_


def start_all(programs: list[Program]) -> None:
    """Starts programs side by side; returns when all serve."""

    async def work() -> None:
        await asyncio.gather(*(asyncio.to_thread(each.start) for each in programs))

    run_on("asyncio", work(), deadline_s=120.0)
