"""Rolling restarts: each broker of a group is ended by SIGTERM and started again, under load.

No send is refused, whatever is acknowledged is there, and the logs are equal in the end. Clients of
ours, and unmodified official ones with their own settings.
"""

import json
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from interop.driver import Driver
from interop.elected import SAFE, Broker, Group, group
from interop.install import go_client
from interop.patience import eventually
from interop.processes import environment
from interop.registered import brokers
from interop.replicated import TOPIC, pulled
from interop.servers import BROKER_NAME, OURS, Software, official_software
from mqcore import Message, Producer
from mqcore.errors import MQError

OFFICIAL = "5.3.3"
# Clients of ours look for a route after a failure, and none of them needs as long as official ones.
SOON = {"handOverStopForwardMs": "3000", "handOverForwardMs": "3000"}
# A client of ours that fails is not refused by chance: its first try is all that it has.
_PAUSE_S = 0.005


class OurSenders:
    """Threads that send one message after the other, each tried as usual, and note what failed."""

    def __init__(self, namesrv: str, count: int = 2) -> None:
        self.sent: list[bytes] = []
        self.failures: list[str] = []
        self._namesrv = namesrv
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(at,)) for at in range(count)]

    def start(self) -> None:
        """Begins."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Ends when the last send is answered."""
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, at: int) -> None:
        with Producer(self._namesrv, group=f"ours-{at}") as producer:
            number = 0
            while not self._is_over.wait(_PAUSE_S):
                body = b"ours-%d-%05d" % (at, number)
                number += 1
                try:
                    producer.send(Message(TOPIC, body))
                    self.sent.append(body)
                except MQError as error:
                    self.failures.append(f"{body!r}: {error}")


@contextmanager
def our_senders(namesrv: str) -> Iterator[OurSenders]:
    """Sends meanwhile."""
    senders = OurSenders(namesrv)
    senders.start()
    try:
        yield senders
    finally:
        senders.end()


class GoSender:
    """The official Go client, which sends one message after the other with its own settings."""

    def __init__(self, namesrv: str, home: Path) -> None:
        """Begins."""
        self._process = subprocess.Popen(
            [go_client(), namesrv, TOPIC, "go", "go", "flood"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=home,
            env={**environment(), "HOME": str(home), "user.home": str(home)},
        )

    def end(self) -> tuple[list[bytes], list[str]]:
        """Ends it; returns what was acknowledged, and what failed."""
        printed, _ = self._process.communicate("", timeout=60)
        lines = [line for line in printed.splitlines() if line.startswith(("sent ", "failed "))]
        sent = [line.split()[1].encode() for line in lines if line.startswith("sent ")]
        return sent, [line for line in lines if line.startswith("failed ")]


def roll(them: Group, broker: Broker) -> None:
    """Ends a broker as an operator does, and starts it again."""
    them.wait_for_in_sync(len(them.brokers))
    broker.program.stop()
    broker.program.start()
    them.wait_for_in_sync(len(them.brokers))


def counted(address: str) -> Counter[bytes]:
    """Returns how often each message is at a broker."""
    return Counter(pulled(address))


def check(them: Group, sent: list[bytes]) -> None:
    """Checks that all replicas have the same, and what was acknowledged is among it, once each."""
    them.wait_until_equal()
    for each in them.brokers:
        # Readers of a slave see what its master has confirmed, a moment later.
        found = eventually(partial(counted, each.address), lambda bodies: set(sent) <= set(bodies))
        missing = set(sent) - set(found)
        assert missing == set(), f"{len(missing)} of {len(sent)} are not at {each.address}"
        doubles = [body for body in sent if found[body] > 1]
        assert doubles == [], f"{len(doubles)} of {len(sent)} twice: {doubles[:5]}"


def master_of(them: Group) -> str:
    """Returns the address of the master as name servers know it."""
    return str(brokers(them.namesrv.address).get(BROKER_NAME, {}).get("0", ""))


def hand_over(them: Group, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs `mqcore cluster hand-over`."""
    line = ["cluster", "hand-over", "-n", them.namesrv.address, BROKER_NAME, *arguments]
    command = [sys.executable, "-m", "mqcore.cli.main", *line]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_rolling_restart_refuses_no_send_of_our_clients(tmp_path: Path) -> None:
    with group([OURS] * 3, tmp_path, SAFE | SOON, controller=OURS) as them:
        them.master()
        them.wait_for_in_sync(3)
        with our_senders(them.namesrv.address) as senders:
            eventually(lambda: len(senders.sent), lambda count: count > 50)
            for broker in them.brokers:
                roll(them, broker)
        assert senders.failures == []
        check(them, senders.sent)


def test_the_command_hands_over_and_prints_the_steps(tmp_path: Path) -> None:
    with group([OURS] * 2, tmp_path, SOON, controller=OURS) as them:
        first = them.master()
        them.wait_for_in_sync(2)
        (other,) = (each for each in them.brokers if each is not first)
        eventually(lambda: master_of(them), lambda address: address == first.address)
        planned = json.loads(hand_over(them, "--dry-run", "--json").stdout)
        assert (planned["from"], planned["to"]) == (first.address, other.address)
        with our_senders(them.namesrv.address) as senders:
            eventually(lambda: len(senders.sent), lambda count: count > 20)
            done = hand_over(them, "--to", other.address)
            assert done.returncode == 0, done.stderr
            assert f"{other.address} is master in epoch 2" in done.stdout
            eventually(lambda: master_of(them), lambda address: address == other.address)
            them.wait_for_in_sync(2)
        assert senders.failures == []
        check(them, senders.sent)
        failed = hand_over(them, "--to", "127.0.0.1:1")
        assert failed.returncode == 2
        assert "no living member" in failed.stderr


@pytest.mark.java
@pytest.mark.matrix
@pytest.mark.parametrize("whose", ["ours", "official"])
def test_a_rolling_restart_refuses_no_send_of_official_clients(
    whose: str, driver_53: Driver, tmp_path: Path
) -> None:
    controller: Software = OURS if whose == "ours" else official_software(OFFICIAL)
    with group([OURS] * 3, tmp_path, SAFE, controller=controller) as them:
        them.master()
        them.wait_for_in_sync(3)
        namesrv = them.namesrv.address
        # With what official clients have by default: they look for routes every 30 s.
        usual = {"timeout_ms": 3_000, "retries": 2, "poll_ms": 30_000}
        driver_53.call("producer", "rolled", group="PG", namesrv=namesrv, **usual)
        try:
            go = GoSender(namesrv, tmp_path)
            with our_senders(namesrv) as senders:
                driver_53.call("flood", "rolled", topic=TOPIC, body="java", threads=2, pause_ms=5)
                driver_53.call("acknowledged", "rolled", count=100)
                for broker in them.brokers:
                    roll(them, broker)
            failures = driver_53.call("failures", "rolled")
            java = [item["body"].encode() for item in driver_53.call("flooded", "rolled")]
        finally:
            driver_53.close("rolled")
        by_go, failures_of_go = go.end()
        # The same master for the controller, by the official tool, and for name servers.
        shown = driver_53.mqadmin(
            "getSyncStateSet", "-a", them.controller.address, "-b", BROKER_NAME
        )
        assert re.search(rf"#MasterAddr\s+{re.escape(master_of(them))}\s", shown), shown
        assert failures == []
        assert failures_of_go == []
        assert senders.failures == []
        assert len(by_go) > 100
        check(them, senders.sent + java + by_go)


@pytest.mark.java
@pytest.mark.matrix
def test_an_official_slave_takes_the_role_over(tmp_path: Path) -> None:
    official = official_software(OFFICIAL)
    keys = SOON | {"allAckInSyncStateSet": "true", "handOverForwardMs": "20000"}
    with group([OURS, official], tmp_path, keys, controller=official) as them:
        ours, theirs = them.brokers
        assert them.master() is ours
        them.wait_for_in_sync(2)
        eventually(lambda: master_of(them), lambda address: address == ours.address)
        with our_senders(them.namesrv.address) as senders:
            eventually(lambda: len(senders.sent), lambda count: count > 50)
            done = hand_over(them)
            assert done.returncode == 0, done.stderr
            sent = len(senders.sent)
            eventually(lambda: len(senders.sent), lambda count: count > sent + 50)
            eventually(lambda: master_of(them), lambda address: address == theirs.address)
            them.wait_for_in_sync(2)
        assert senders.failures == []
        check(them, senders.sent)
