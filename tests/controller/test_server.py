"""A running controller behind a real socket, and the commands that run one."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.asking import CLUSTER, NAME, settings_of
from loops import FACTORIES, run_on, until
from mqcore.controller import Controller
from mqcore.errors import ConfigurationError
from mqcore.native import Command
from mqcore.remoting import (
    Client,
    Dispatcher,
    Request,
    RequestCode,
    Server,
    TcpAddress,
    expect,
)

pytestmark = pytest.mark.parametrize("loop", sorted(FACTORIES))


class Broker:
    """A broker that talks to a controller, and is notified of its master."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.notices: list[tuple[dict[str, str], dict[str, object]]] = []
        self.client = Client()
        self.server = Server(Dispatcher({RequestCode.NOTIFY_BROKER_ROLE_CHANGED: self._take}))
        self.address = ""

    def _take(self, request: Request) -> Command:
        self.notices.append((dict(request.ext), json.loads(request.body)))
        return request.answer()

    async def join(self, controller: str) -> None:
        """Gets its id, registers and lives."""
        self.address = str(await self.server.listen(TcpAddress("127.0.0.1", 0)))
        names = {"clusterName": CLUSTER, "brokerName": NAME}
        code = f"{self.address};1"
        fields = {**names, "appliedBrokerId": str(self.broker_id), "registerCheckCode": code}
        await self.ask(controller, RequestCode.CONTROLLER_APPLY_BROKER_ID, fields)
        fields = {**names, "brokerId": str(self.broker_id), "brokerAddress": self.address}
        await self.ask(controller, RequestCode.CONTROLLER_REGISTER_BROKER, fields)
        await self.beat(controller)

    async def beat(self, controller: str) -> None:
        """Reports that it lives."""
        fields = {
            "clusterName": CLUSTER,
            "brokerName": NAME,
            "brokerAddr": self.address,
            "brokerId": str(self.broker_id),
            "maxOffset": "7",
            "epoch": "1",
        }
        await self.ask(controller, RequestCode.BROKER_HEARTBEAT, fields)

    async def elect(self, controller: str) -> None:
        """Asks for a master."""
        fields = {"clusterName": CLUSTER, "brokerName": NAME, "brokerId": str(self.broker_id)}
        fields["designateElect"] = "false"
        await self.ask(controller, RequestCode.CONTROLLER_ELECT_MASTER, fields)

    async def ask(
        self, controller: str, code: RequestCode, fields: dict[str, str], body: bytes = b""
    ) -> Command:
        """Returns the answer to a request that succeeds."""
        answer = await self.client.call(controller, code, fields, body, timeout_s=30)
        return expect(answer, controller)

    async def end(self) -> None:
        """Goes."""
        await self.client.close()
        await self.server.close()


def test_brokers_are_notified_of_their_master_and_of_the_next_one(
    loop: str, tmp_path: Path
) -> None:
    async def work() -> None:
        controller = Controller(settings_of(tmp_path))
        address = str(await controller.start())
        one, two = Broker(1), Broker(2)
        await one.join(address)
        await one.elect(address)
        await until(lambda: len(one.notices) == 1)
        header, body = one.notices[0]
        assert header == {
            "masterAddress": one.address,
            "masterBrokerId": "1",
            "masterEpoch": "1",
            "syncStateSetEpoch": "1",
        }
        assert body == {"syncStateSet": [1], "syncStateSetEpoch": 1}
        await two.join(address)
        fields = {"brokerName": NAME, "masterBrokerId": "1", "masterEpoch": "1"}
        grown = b'{"syncStateSet":[1,2],"syncStateSetEpoch":1}'
        await one.ask(address, RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, fields, grown)
        await one.end()
        await until(lambda: len(two.notices) == 1)
        assert two.notices[0][0]["masterBrokerId"] == "2"
        await two.end()
        await controller.stop()

    run_on(loop, work())


def test_a_controller_goes_on_after_a_restart_on_its_port(loop: str, tmp_path: Path) -> None:
    async def work() -> None:
        controller = Controller(settings_of(tmp_path))
        address = str(await controller.start())
        assert controller.ports == {"controller": int(address.rpartition(":")[2])}
        broker = Broker(1)
        await broker.join(address)
        await broker.elect(address)
        await controller.stop()
        peers = f"n0-{address}"
        again = Controller(settings_of(tmp_path, controllerDLegerPeers=peers))
        assert str(await again.start()) == address
        answer = await broker.ask(
            address, RequestCode.CONTROLLER_GET_REPLICA_INFO, {"brokerName": NAME}
        )
        assert answer.ext["masterBrokerId"] == "1"
        await broker.end()
        await again.stop()

    run_on(loop, work())


def test_peers_that_cannot_be_understood_are_refused(loop: str, tmp_path: Path) -> None:
    del loop
    for peers, why in (
        ("n0-127.0.0.1", "ID-HOST:PORT expected"),
        ("n0-h:99999", "below 65536"),
        ("n1-h:1", "is none of them"),
        ("n0-h:1;n0-h:2", "is there twice"),
        (";".join(f"n{n}-h:{n}" for n in range(10)), "10 are too many"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            Controller(settings_of(tmp_path, controllerDLegerPeers=peers))


@contextmanager
def process(
    folder: Path, program: str, *lines: str, file: Path | None = None
) -> Iterator[tuple[dict[str, int], str]]:
    """Runs a program for the length of the block; gives its ports and its ready line."""
    ports = folder / "ports.json"
    command = [sys.executable, "-m", "mqcore.cli.main", program, "--port-file", str(ports)]
    command += ["-c", str(file)] if file is not None else []
    command += [word for line in lines for word in ("--set", line)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        ready = running.stdout.readline()
        assert "ready on" in ready
        try:
            yield json.loads(ports.read_text()), ready
        finally:
            running.send_signal(signal.SIGTERM)
            assert running.wait(60) == 0


def leader_of(loop: str, port: int) -> str:
    """Returns the leader's address, as a controller names it."""

    async def work() -> str:
        async with Client() as client:
            code = RequestCode.CONTROLLER_GET_METADATA_INFO
            answer = await client.call(f"127.0.0.1:{port}", code, timeout_s=30)
            return answer.ext["controllerLeaderAddress"]

    return run_on(loop, work())


def test_the_command_runs_one(loop: str, tmp_path: Path) -> None:
    store = f"controllerStorePath={tmp_path / 'c'}"
    with process(tmp_path, "controller", "listenPort=0", store) as (ports, ready):
        assert f"masters and sets in {tmp_path / 'c'}" in ready
        assert leader_of(loop, ports["controller"]) == f"127.0.0.1:{ports['controller']}"


def test_a_name_server_has_one_in_it_on_a_port_of_its_own(loop: str, tmp_path: Path) -> None:
    lines = (
        "listenPort=0",
        "enableControllerInNamesrv=true",
        "controllerDLegerPeers=n0-127.0.0.1:0",
        f"controllerStorePath={tmp_path / 'c'}",
        f"kvConfigPath={tmp_path / 'kv.json'}",
    )
    with process(tmp_path, "namesrv", *lines) as (ports, ready):
        assert set(ports) == {"namesrv", "controller"}
        assert leader_of(loop, ports["controller"]) == f"127.0.0.1:{ports['controller']}"
        assert "controller 127.0.0.1:" in ready


def test_changes_of_both_are_kept_in_their_one_file(loop: str, tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text(
        "listenPort=0\nenableControllerInNamesrv=true\n"
        "controllerDLegerPeers=n0-127.0.0.1:0\n"
        f"controllerStorePath={tmp_path / 'c'}\nkvConfigPath={tmp_path / 'kv.json'}\n"
    )
    changes = {
        "namesrv": (RequestCode.UPDATE_NAMESRV_CONFIG, "waitSecondsForService=7"),
        "controller": (RequestCode.UPDATE_CONTROLLER_CONFIG, "enableElectUncleanMaster=true"),
    }

    async def change(ports: dict[str, int]) -> None:
        async with Client() as client:
            asked = []
            for program, (code, line) in changes.items():
                at = f"127.0.0.1:{ports[program]}"
                asked.append(client.call(at, code, {}, line.encode(), timeout_s=30))
            for answer in await asyncio.gather(*asked):
                expect(answer, "both")

    with process(tmp_path, "namesrv", file=file) as (ports, _):
        run_on(loop, change(ports))
    lines = file.read_text().splitlines()
    assert {line for _, line in changes.values()} <= set(lines)
    assert "listenPort=0" in lines


def test_a_stop_during_an_election_waits_for_nothing(loop: str, tmp_path: Path) -> None:
    async def work() -> None:
        controller = Controller(settings_of(tmp_path))
        address = str(await controller.start())
        broker = Broker(1)
        await broker.join(address)
        await broker.elect(address)
        await asyncio.gather(broker.end(), controller.stop())

    run_on(loop, work())
