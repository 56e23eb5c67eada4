"""Consumers that go on from the slave when the master is killed, and go back when it returns."""

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import mqcore
from interop.cases import name_of
from interop.driver import Driver
from interop.install import JavaMissingError, go_client
from interop.patience import eventually
from interop.processes import environment
from interop.replicated import TOPIC, Pair, pair
from interop.servers import OURS, Software, official_software

pytestmark = pytest.mark.java

# More than a consumer keeps in memory: the last of them are still on the broker when it is killed.
MANY = 6_000
FEW = 300
SLOW_MS = 5
# From the first of them on the slave has all: a fresh one begins with the last file of its master.
FIRST = 1
# Of 5.3, which sends consumers back to its master.
KEYS = {"slaveReadEnable": "true", "reportedVersion": "V5_3_0"}


def softwares_of(master: Software | str, slave: Software | str) -> tuple[Software, Software]:
    """Returns what a test names: a text is an official release."""
    named = [official_software(each) if isinstance(each, str) else each for each in (master, slave)]
    return named[0], named[1]


def keys_of(*softwares: Software) -> dict[str, str]:
    """Returns the settings of both brokers."""
    return KEYS if set(softwares) == {OURS} else {"slaveReadEnable": "true"}


def goes_on(both: Pair, got: Callable[[], list[int]]) -> None:
    """Kills the master in mid-consumption, and starts it again when all has come from the slave."""
    eventually(got, lambda seen: len(seen) >= FEW)
    both.wait_until_equal()
    before = len(set(got()))
    both.master.broker.kill()
    assert FEW <= before < MANY, "the master was killed in mid-consumption"
    everything = set(range(len(both.sent)))
    missing = everything - set(eventually(got, everything.issubset))
    assert not missing, f"{len(missing)} of {len(both.sent)} were not consumed"
    both.master.broker.start()
    both.send(FEW)
    everything = set(range(len(both.sent)))
    missing = everything - set(eventually(got, everything.issubset))
    assert not missing, f"{len(missing)} came after the return and were not consumed"
    # What was delivered and not committed may come again, once: nobody falls back to the begin.
    assert len(got()) < len(both.sent) + MANY // 2


def filled(both: Pair) -> None:
    """Sends what a consumer is to get."""
    both.send(FIRST)
    both.wait_until_equal()
    both.wait_until_known()
    both.send(MANY)


class Got:
    """Returns the numbers of the messages that a consumer got so far."""

    def __init__(self, driver: Driver, name: str) -> None:
        """Takes a push consumer of the official client."""
        self._driver = driver
        self._name = name

    def __call__(self) -> list[int]:
        """Returns them, repeated ones too."""
        items = self._driver.call("got", self._name, count=0)
        return [int(item["keys"].removeprefix("k")) for item in items]


class GoGot:
    """Returns the numbers of those that a consumer of the official Go client got so far."""

    def __init__(self, output: Path) -> None:
        """Takes the file that it prints keys to."""
        self._output = output

    def __call__(self) -> list[int]:
        """Returns them, repeated ones too."""
        keys = self._output.read_text("utf-8").split("\n")[:-1]
        return [int(key.removeprefix("k")) for key in keys]


@contextmanager
def of_go(namesrv: str, folder: Path) -> Iterator[GoGot]:
    """Starts a push consumer of the official Go client; it ends with its input."""
    try:
        program = go_client()
    except JavaMissingError as missing:
        pytest.fail(str(missing), pytrace=False)
    output = folder / "keys"
    with (
        output.open("wb") as keys,
        subprocess.Popen(
            [program, namesrv, TOPIC, "CG_go_follow", str(SLOW_MS)],
            stdin=subprocess.PIPE,
            stdout=keys,
            cwd=folder,
            env={**environment(), "HOME": str(folder), "user.home": str(folder)},
        ) as running,
    ):
        try:
            yield GoGot(output)
        finally:
            running.kill()


@contextmanager
def ours(namesrv: str) -> Iterator[Callable[[], list[int]]]:
    """Starts a push consumer of ours."""
    found: list[int] = []
    pause = threading.Event()

    def take(message: mqcore.ReceivedMessage) -> None:
        found.append(int(message.body[:7]))
        pause.wait(SLOW_MS / 1_000)

    with mqcore.PushConsumer(
        namesrv, group="ours", topics=TOPIC, handler=take, consume_from="earliest"
    ):
        yield lambda: list(found)


@pytest.mark.parametrize(
    ("master", "slave"),
    [
        pytest.param(OURS, OURS, id="ours-ours"),
        pytest.param("5.3.3", OURS, id="5.3.3-ours", marks=pytest.mark.matrix),
        pytest.param(OURS, "4.9.7", id="ours-4.9.7", marks=pytest.mark.matrix),
    ],
)
def test_our_consumer_goes_on_from_the_slave(
    master: Software | str, slave: Software | str, tmp_path: Path
) -> None:
    softwares = softwares_of(master, slave)
    with pair(*softwares, tmp_path, keys_of(*softwares)) as both:
        filled(both)
        with ours(both.master.namesrv.address) as got:
            goes_on(both, got)


@pytest.mark.parametrize(
    ("master", "slave"),
    [
        pytest.param(OURS, OURS, id="ours-ours"),
        pytest.param("5.3.3", OURS, id="5.3.3-ours", marks=pytest.mark.matrix),
        pytest.param(OURS, "5.3.3", id="ours-5.3.3", marks=pytest.mark.matrix),
    ],
)
def test_an_official_consumer_goes_on_from_the_slave(
    master: Software | str,
    slave: Software | str,
    driver_53: Driver,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    softwares = softwares_of(master, slave)
    name = name_of(request, "slave_reads")
    with pair(*softwares, tmp_path, keys_of(*softwares)) as both:
        filled(both)
        driver_53.call(
            "push",
            name,
            namesrv=both.master.namesrv.address,
            group=f"CG_{name}",
            topic=TOPIC,
            slow_ms=SLOW_MS,
        )
        try:
            goes_on(both, Got(driver_53, name))
        finally:
            driver_53.close(name)


@pytest.mark.parametrize(
    ("master", "slave"),
    [
        pytest.param(OURS, OURS, id="ours-ours"),
        pytest.param("5.3.3", OURS, id="5.3.3-ours", marks=pytest.mark.matrix),
    ],
)
def test_a_consumer_of_the_go_client_goes_on_from_the_slave(
    master: Software | str, slave: Software | str, tmp_path: Path
) -> None:
    softwares = softwares_of(master, slave)
    with pair(*softwares, tmp_path, keys_of(*softwares)) as both:
        filled(both)
        with of_go(both.master.namesrv.address, tmp_path) as got:
            goes_on(both, got)
