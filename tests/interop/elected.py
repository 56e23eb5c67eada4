"""A controller, a name server and brokers of one name as processes, each ours or an official one.

    with group([OURS, OURS, official], tmp_path, controller=official) as them:
        master = them.master()          # the broker that the controller shows as master
        them.send(master, 200)          # acknowledged bodies are in them.sent
        master.program.kill()
        them.wait_for_another_master(master)

Knows requests and files; nothing of how a controller decides.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from interop.patience import eventually
from interop.processes import free_port
from interop.replicated import SMALL, asked, end_of, log_of, send_one
from interop.servers import BROKER_NAME, OURS, Program, Software, prepared
from loops import run_on
from mqcore.errors import MQError
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.remoting import Client, RequestCode

# What makes an acknowledgement safe: nobody is elected who does not have it.
SAFE = {"allAckInSyncStateSet": "true", "minInSyncReplicas": "2"}
# A failover within seconds, and a broker that is back soon in the name servers.
QUICK = {
    "enableControllerMode": "true",
    "controllerHeartBeatTimeoutMills": "3000",
    "syncBrokerMetadataPeriod": "1000",
    "syncControllerMetadataPeriod": "1000",
    "checkSyncStateSetPeriod": "1000",
    "registerNameServerPeriod": "10000",
    "slaveReadEnable": "true",
    # An official slave waits for its heartbeats before it reports.
    "haSendHeartbeatInterval": "1000",
}
_CONTROLLER = {
    "controllerDLegerGroup": "group1",
    "controllerDLegerSelfId": "n0",
    "scanNotActiveBrokerInterval": "1000",
    "scanInactiveMasterInterval": "1000",
}
# A send that waits for a slave which is just killed takes as long as `slaveTimeout`.
_SEND_TIMEOUT_S = 6.0


@dataclass
class Broker:
    """One broker of the group."""

    program: Program
    store: Path

    @property
    def address(self) -> str:
        """Where it answers requests."""
        return self.program.address


@dataclass
class Group:
    """The brokers of one name, their controller and their name server.

    Attributes:
        controller: The controller.
        namesrv: The name server.
        brokers: The brokers, in the order of their start.
        sent: Bodies of messages that were acknowledged.
        tried: How many messages were sent at all: each body once.
    """

    controller: Program
    namesrv: Program
    brokers: list[Broker]
    sent: list[bytes] = field(default_factory=list)
    tried: int = 0

    def replicas(self) -> dict[str, object]:
        """Returns what the controller knows of the group (1006); empty while it does not answer."""
        try:
            answer = asked(
                self.controller.address,
                RequestCode.CONTROLLER_GET_SYNC_STATE_DATA,
                {},
                compact([BROKER_NAME]),
            )
        except MQError:
            return {}
        table = parse_object(answer.body).get("replicasInfoTable") if answer.body else None
        found = table.get(BROKER_NAME) if isinstance(table, dict) else None
        return found if isinstance(found, dict) else {}

    def master_address(self) -> str:
        """Returns the address of the master, as the controller knows it; empty for none."""
        return str(self.replicas().get("masterAddress") or "")

    def in_sync(self) -> int:
        """Returns how many replicas the controller takes for in sync."""
        found = self.replicas().get("inSyncReplicas")
        return len(found) if isinstance(found, list) else 0

    def master(self, *besides: Broker) -> Broker:
        """Returns the master that takes sends, when there is one besides those that are named."""
        others = {each.address for each in besides}

        def found() -> Broker | None:
            address = self.master_address()
            if not address or address in others:
                return None
            known = next(each for each in self.brokers if each.address == address)
            return known if self.takes_sends(known) else None

        master = eventually(found, lambda each: each is not None)
        assert master is not None, f"nobody is master: {self.replicas()}"
        return master

    def takes_sends(self, broker: Broker) -> bool:
        """Returns whether a broker acknowledges a send now."""
        return self.send(broker, 1) == 1

    def send(self, broker: Broker, count: int) -> int:
        """Sends messages of many lengths, a few at once; returns how many were acknowledged."""
        acknowledged = 0

        async def one(client: Client, number: int) -> None:
            nonlocal acknowledged
            self.sent.append(await send_one(client, broker.address, number, _SEND_TIMEOUT_S))
            acknowledged += 1

        async def work() -> None:
            begin, self.tried = self.tried, self.tried + count
            async with Client() as client:
                for first in range(begin, begin + count, 8):
                    last = min(first + 8, begin + count)
                    calls = [one(client, each) for each in range(first, last)]
                    for error in await asyncio.gather(*calls, return_exceptions=True):
                        if error is not None and not isinstance(error, MQError):
                            raise error

        run_on("asyncio", work())
        return acknowledged

    def wait_for_in_sync(self, count: int) -> None:
        """Returns when so many replicas are in sync."""
        found = eventually(self.in_sync, lambda number: number == count)
        assert found == count, f"{found} replicas are in sync, not {count}: {self.replicas()}"

    def wait_until_equal(self) -> int:
        """Returns the end of all logs, when they have the same; the bytes below it are compared."""

        def ends() -> list[int]:
            return [end_of(each.program) for each in self.brokers]

        found = eventually(ends, lambda all_: len(set(all_)) == 1 and all_[0] > 0)
        assert len(set(found)) == 1, f"the logs end at {found}"
        assert found[0] > 0
        first, *others = [log_of(each.store) for each in self.brokers]
        for other in others:
            for name in first.keys() & other.keys():
                below = max(0, found[0] - int(name))
                assert first[name][:below] == other[name][:below], name
        return found[0]

    def ends(self) -> None:
        """Ends everything where nobody asks how."""
        for each in self.brokers:
            each.program.end()
        self.namesrv.end()
        self.controller.end()


@contextmanager
def group(
    softwares: Sequence[Software],
    root: Path,
    keys: Mapping[str, str] | None = None,
    *,
    controller: Software,
    is_inside: bool = False,
) -> Iterator[Group]:
    """Starts a controller, a name server of ours, and brokers one after the other; ends them.

    Args:
        softwares: Whose brokers.
        root: A directory of their own.
        keys: Settings of the brokers over `QUICK`.
        controller: Whose controller.
        is_inside: Whether it is in its name server's process.
    """
    them = prepared_group(softwares, root, keys, controller=controller, is_inside=is_inside)
    try:
        if not is_inside:
            them.controller.start()
        them.namesrv.start()
        for each in them.brokers:
            each.program.start()
        yield them
    finally:
        them.ends()


def prepared_group(
    softwares: Sequence[Software],
    root: Path,
    keys: Mapping[str, str] | None = None,
    *,
    controller: Software,
    is_inside: bool = False,
) -> Group:
    """Returns a group that is not started yet, on ports that are free now."""
    port = free_port()
    settings = {
        **_CONTROLLER,
        "controllerDLegerPeers": f"n0-127.0.0.1:{port}",
        "controllerStorePath": str(root / "controller" / "store"),
    }
    leader = Program(controller, "controller", root / "controller", port, settings)
    namesrv, brokers = None, []
    for number, software in enumerate(softwares):
        home = root / f"broker{number}"
        config = {**SMALL, **QUICK, "controllerAddr": leader.address, **(keys or {})}
        servers = prepared(software, home, config)
        if namesrv is None:
            namesrv = servers.namesrv
            namesrv.become(controller if is_inside else OURS)
            if is_inside:
                namesrv.settings |= {**settings, "enableControllerInNamesrv": "true"}
        servers.broker.settings["namesrvAddr"] = namesrv.address
        # A controller gives the id; the port for slaves is next to the broker's.
        servers.broker.settings.pop("haListenPort")
        servers.broker.settings.pop("brokerId")
        brokers.append(Broker(servers.broker, servers.store))
    assert namesrv is not None
    return Group(leader, namesrv, brokers)
