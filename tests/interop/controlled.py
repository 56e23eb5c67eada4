"""Brokers of one name under a controller as processes, and what is asked of the controller.

    with group(OURS, official_software("5.3.3"), tmp_path) as brokers:
        brokers.start(1)                        # returns when it is master, or follows one
        brokers.start(2)
        brokers.until_in_sync({1, 2})
        brokers.kill(1)
        brokers.until_master(2)

Knows requests; nothing of how a controller decides.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interop.patience import eventually
from interop.processes import free_port
from interop.replicated import SMALL, TOPIC, asked
from interop.servers import OURS, Program, Software, prepared
from loops import run_on
from mqcore.errors import MQError
from mqcore.model.relaxed_json import parse_object
from mqcore.remoting import Client, Credentials, RequestCode, ResponseCode

NAME = "broker-c"
# Brokers look after their sets often, so that a test need not wait.
_CONTROLLED = {
    **SMALL,
    "brokerName": NAME,
    "brokerRole": "SLAVE",
    "brokerId": "-1",
    "enableControllerMode": "true",
    "allAckInSyncStateSet": "true",
    "checkSyncStateSetPeriod": "1000",
    "syncBrokerMetadataPeriod": "1000",
    "syncControllerMetadataPeriod": "2000",
    "registerNameServerPeriod": "10000",
    "slaveReadEnable": "true",
}


@dataclass
class Group:
    """A name server, controllers and brokers of one name.

    Attributes:
        namesrv: The name server; the controller may be in it.
        controllers: The controllers' processes, by the address where each is asked.
        software: Whose brokers.
        root: A directory of their own.
        brokers: The brokers by the number that a test gives them; their ids in the order of starts.
        sent: Bodies of messages that were acknowledged.
        keys: More settings of the brokers.
        who: Who asks the controllers; nobody where nobody has to sign.
    """

    namesrv: Program
    controllers: dict[str, Program]
    software: Software
    root: Path
    brokers: dict[int, Program] = field(default_factory=dict)
    sent: list[bytes] = field(default_factory=list)
    keys: Mapping[str, str] = field(default_factory=dict)
    who: Credentials | None = None

    @property
    def address(self) -> str:
        """Where the leader of the controllers is asked."""
        if len(self.controllers) == 1:
            return next(iter(self.controllers))
        found = eventually(self._leader, lambda address: address != "")
        assert found, "no controller leads"
        return found

    def _leader(self) -> str:
        for address in self.controllers:
            try:
                code = RequestCode.CONTROLLER_GET_METADATA_INFO
                answer = asked(address, code, {}, who=self.who)
            except MQError:
                continue
            if answer.ext.get("isLeader") == "true":
                return address
        return ""

    def start(self, number: int) -> Program:
        """Starts a broker, or starts it again; returns when the controller takes it for alive."""
        broker = self.brokers.get(number)
        if broker is None:
            store = self.root / f"broker-{number}" / "store"
            port = free_port()
            servers = prepared(self.software, self.root / f"broker-{number}", _CONTROLLED)
            settings = {
                **servers.broker.settings,
                "controllerAddr": ";".join(self.controllers),
                "namesrvAddr": self.namesrv.address,
                "haListenPort": str(port + 1),
                "storePathRootDir": str(store),
                "storePathCommitLog": str(store / "commitlog"),
                **self.keys,
            }
            home = self.root / f"broker-{number}"
            broker = Program(self.software, "broker", home, port, settings)
            self.brokers[number] = broker
        broker.start()
        living = eventually(self.living, lambda found: number in found)
        assert number in living, broker.start_error(f"broker {number} is not alive: {living}")
        return broker

    def kill(self, number: int) -> None:
        """Ends a broker with kill -9."""
        self.brokers[number].kill()

    def state(self) -> dict[str, Any]:
        """Returns what the controller knows of the brokers; empty where it knows nothing."""
        body = json.dumps([NAME]).encode()
        try:
            code = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
            answer = asked(self.address, code, {}, body, who=self.who)
        except MQError:
            return {}
        if answer.code != ResponseCode.SUCCESS:
            return {}
        table: dict[str, Any] = parse_object(answer.body)["replicasInfoTable"]
        row: dict[str, Any] = table.get(NAME, {})
        return row

    def living(self) -> set[int]:
        """Returns the ids of brokers that the controller takes for alive."""
        state = self.state()
        rows = state.get("inSyncReplicas", []) + state.get("notInSyncReplicas", [])
        return {int(row["brokerId"]) for row in rows if row["alive"]}

    def until_in_sync(self, ids: set[int]) -> dict[str, Any]:
        """Returns the state once the set has exactly these members."""

        def is_so(state: dict[str, Any]) -> bool:
            return {row["brokerId"] for row in state.get("inSyncReplicas", [])} == ids

        state = eventually(self.state, is_so)
        assert is_so(state), state
        return state

    def until_master(self, broker_id: int) -> dict[str, Any]:
        """Returns the state once a broker is master and takes messages."""
        state = eventually(self.state, lambda found: found.get("masterBrokerId") == broker_id)
        assert state.get("masterBrokerId") == broker_id, state
        return state

    def send(self, count: int) -> None:
        """Has messages acknowledged by whoever is master; tries again what was refused."""

        async def work() -> None:
            async with Client() as client:
                for number in range(len(self.sent), len(self.sent) + count):
                    body = b"%07d" % number + b"x" * (number * 37 % 3_000)
                    await self._send_one(client, number, body)
                    self.sent.append(body)

        run_on("asyncio", work())

    async def _send_one(self, client: Client, number: int, body: bytes) -> None:
        properties = f"KEYS\x01k{number}\x02UNIQ_KEY\x01u{number}\x02"
        ext = {"a": "pg", "b": TOPIC, "c": "TBW102", "d": "4", "e": str(number % 4)}
        ext |= {"f": "0", "g": "1700000000000", "h": "0", "i": properties, "j": "0"}
        ext |= {"k": "false", "m": "false"}
        last = ""
        async with asyncio.timeout(90):
            while True:
                address = str((await asyncio.to_thread(self.state)).get("masterAddress", ""))
                try:
                    code = RequestCode.SEND_MESSAGE_V2
                    answer = await client.call(address, code, ext, body, timeout_s=5)
                    if answer.code == ResponseCode.SUCCESS:
                        return
                    last = f"{answer.code} {answer.remark}"
                except MQError as error:
                    last = str(error)
                await asyncio.sleep(0.1)  # the broker changes its role meanwhile
        raise AssertionError(last)

    def end(self) -> None:
        """Ends everything."""
        for broker in self.brokers.values():
            broker.kill()
        for controller in self.controllers.values():
            controller.end()
        self.namesrv.end()


def controller_settings(root: Path, ports: list[int], number: int) -> dict[str, str]:
    """Returns the settings of a controller, as official ones have them."""
    peers = (f"n{each}-127.0.0.1:{port}" for each, port in enumerate(ports))
    return {
        "controllerDLegerGroup": "group1",
        "controllerDLegerPeers": ";".join(peers),
        "controllerDLegerSelfId": f"n{number}",
        "controllerStorePath": str(root / f"controller-{number}" / "store"),
        "mappedFileSize": str(16 << 20),
    }


@contextmanager
def group(
    controller: Software,
    brokers: Software,
    root: Path,
    *,
    in_namesrv: bool = False,
    count: int = 1,
    guard: Mapping[str, str] | None = None,
    keys: Mapping[str, str] | None = None,
    who: Credentials | None = None,
) -> Iterator[Group]:
    """Starts a name server and controllers; ends them with all brokers.

    Args:
        controller: Whose controller.
        brokers: Whose brokers.
        root: A directory of their own.
        in_namesrv: Whether the controller runs inside the name server, which is then of the same.
        count: How many controllers.
        guard: More settings of name server and controllers.
        keys: More settings of the brokers.
        who: Who asks the controllers.
    """
    ports, beside = [free_port() for _ in range(count)], free_port()
    kept = {"kvConfigPath": str(root / "namesrv" / "kvConfig.json"), **(guard or {})}
    if in_namesrv:
        own = controller_settings(root, ports, 0)
        both = {**kept, **own, "enableControllerInNamesrv": "true"}
        namesrv = Program(controller, "namesrv", root / "namesrv", beside, both)
        controllers = {f"127.0.0.1:{ports[0]}": namesrv}
    else:
        namesrv = Program(OURS, "namesrv", root / "namesrv", beside, kept)
        controllers = {}
        for number, port in enumerate(ports):
            own = controller_settings(root, ports, number) | dict(guard or {})
            home = root / f"controller-{number}"
            controllers[f"127.0.0.1:{port}"] = Program(controller, "controller", home, port, own)
    found = Group(namesrv, controllers, brokers, root, keys=keys or {}, who=who)
    try:
        namesrv.start()
        for each in controllers.values():
            if each is not namesrv:
                each.start()
        yield found
    finally:
        found.end()
