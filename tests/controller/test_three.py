"""Three controllers as processes go on without their leader; one that was killed catches up."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from controller.asking import CLUSTER, NAME
from interop.patience import eventually
from interop.processes import free_port
from loops import run_on
from mqcore.errors import MQError
from mqcore.native import Command
from mqcore.remoting import Client, RequestCode, ResponseCode

pytestmark = pytest.mark.slow


@dataclass
class Three:
    """Controllers n0, n1 and n2.

    Attributes:
        root: A directory of their own.
        ports: Their ports.
        running: Those that run.
    """

    root: Path
    ports: list[int]
    running: dict[int, subprocess.Popen[str]] = field(default_factory=dict)

    def start(self, number: int) -> None:
        """Starts one; returns when it listens."""
        peers = ";".join(f"n{each}-127.0.0.1:{port}" for each, port in enumerate(self.ports))
        settings = {
            "controllerDLegerPeers": peers,
            "controllerDLegerSelfId": f"n{number}",
            "controllerStorePath": str(self.root / f"n{number}"),
        }
        command = [sys.executable, "-m", "mqcore.cli.main", "controller"]
        command += [word for key in settings for word in ("--set", f"{key}={settings[key]}")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert "ready on" in process.stdout.readline()
        self.running[number] = process

    def kill(self, number: int) -> None:
        """Ends one with kill -9."""
        process = self.running.pop(number)
        process.kill()
        process.wait(60)
        if process.stdout is not None:
            process.stdout.close()

    def ask(
        self, number: int, code: RequestCode, ext: Mapping[str, str], body: bytes = b""
    ) -> Command | None:
        """Returns the answer of one; None where it does not answer."""

        async def work() -> Command:
            async with Client() as client:
                address = f"127.0.0.1:{self.ports[number]}"
                return await client.call(address, code, ext, body, timeout_s=10)

        try:
            return run_on("asyncio", work())
        except MQError:
            return None

    def metadata(self, number: int) -> dict[str, str]:
        """Returns who one takes for the leader."""
        answer = self.ask(number, RequestCode.CONTROLLER_GET_METADATA_INFO, {})
        return dict(answer.ext) if answer is not None else {}

    def leader(self) -> int:
        """Returns the leader that answers questions about brokers."""

        def look() -> int | None:
            for number in self.running:
                answer = self.ask(
                    number, RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, {"brokerName": NAME}
                )
                if answer is not None and answer.code == ResponseCode.SUCCESS:
                    return number
            return None

        found = eventually(look, lambda number: number is not None)
        assert found is not None, "nobody leads"
        return found

    def apply_id(self, number: int, broker_id: int) -> Command:
        """A broker applies for an id at one of them."""
        fields = {"clusterName": CLUSTER, "brokerName": NAME, "appliedBrokerId": str(broker_id)}
        fields["registerCheckCode"] = f"10.0.0.{broker_id}:1;1"
        answer = self.ask(number, RequestCode.CONTROLLER_APPLY_BROKER_ID, fields)
        assert answer is not None
        return answer

    def elected(self) -> int:
        """Gives out the id 1; returns the leader that did.

        A leader that the others hear late of is not it any more a moment later.
        """

        def gives() -> int | None:
            number = self.leader()
            return number if self.apply_id(number, 1).code == ResponseCode.SUCCESS else None

        found = eventually(gives, lambda number: number is not None)
        assert found is not None, "nobody gives an id"
        return found

    def brokers_at(self, number: int) -> set[int]:
        """Returns the ids of brokers that one knows; empty where it is not the leader."""
        body = json.dumps([NAME]).encode()
        answer = self.ask(number, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, {}, body)
        if answer is None or answer.code != ResponseCode.SUCCESS:
            return set()
        row = json.loads(answer.body)["replicasInfoTable"].get(NAME, {})
        return {each["brokerId"] for each in row.get("notInSyncReplicas", [])}


@contextmanager
def three(root: Path) -> Iterator[Three]:
    """Starts three controllers; ends them."""
    found = Three(root, [free_port() for _ in range(3)])
    try:
        for number in range(3):
            found.start(number)
        yield found
    finally:
        for number in list(found.running):
            found.kill(number)


def test_three_controllers_go_on_without_their_leader(tmp_path: Path) -> None:
    with three(tmp_path) as group:
        first = group.elected()
        other = next(number for number in range(3) if number != first)
        refused = group.apply_id(other, 2)
        assert refused.code == ResponseCode.CONTROLLER_NOT_LEADER
        leader = {"controllerLeaderId": f"n{first}", "isLeader": "false"}
        leader["controllerLeaderAddress"] = f"127.0.0.1:{group.ports[first]}"
        shown = eventually(
            lambda: group.metadata(other), lambda seen: leader.items() <= seen.items()
        )
        assert leader.items() <= shown.items()
        assert shown["peers"].count(";") == 3

        group.kill(first)
        second = group.leader()
        assert second != first
        assert group.brokers_at(second) == {1}
        assert group.apply_id(second, 2).code == 0

        # The one that was killed comes back, takes itself for the leader until it hears of the
        # other one, and answers nothing meanwhile.
        group.start(first)
        shown = eventually(
            lambda: group.metadata(first),
            lambda seen: seen.get("controllerLeaderId") == f"n{second}",
        )
        assert shown["controllerLeaderId"] == f"n{second}"
        group.kill(second)
        third = group.leader()
        assert group.brokers_at(third) == {1, 2}


def test_without_a_majority_nothing_is_answered(tmp_path: Path) -> None:
    with three(tmp_path) as group:
        first = group.elected()
        for number in range(3):
            if number != first:
                group.kill(number)
        body = json.dumps([NAME]).encode()
        answer = group.ask(first, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, {}, body)
        assert answer is not None
        assert answer.code == ResponseCode.CONTROLLER_NOT_LEADER
        assert group.apply_id(first, 2).code != 0


def test_a_controller_stops_cleanly(tmp_path: Path) -> None:
    with three(tmp_path) as group:
        group.leader()
        process = group.running.pop(0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        if process.stdout is not None:
            process.stdout.close()
        group.leader()
