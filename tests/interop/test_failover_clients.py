"""Official clients through failovers: a master of three is killed while they send and consume.

The brokers are ours, or ours and an official one; so is the controller. Whatever was acknowledged
is given to the consumer and is on every broker. How long nothing was acknowledged is printed.
"""

import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop.driver import Driver
from interop.elected import SAFE, Group, group
from interop.install import JavaMissingError, go_client
from interop.mqadmin import create_topic
from interop.patience import eventually
from interop.processes import environment
from interop.servers import OURS, official_software
from interop.test_elected import OFFICIAL, softwares
from mqcore import Inspection

pytestmark = pytest.mark.java
matrix = pytest.mark.matrix

TOPIC = "T_failover"
_COUNT = 200
# An official producer tries a send three times at the most: each may be stored.
_TRIES = 3
# How often official clients ask for routes where nobody sets it.
_POLL_MS = 30_000
_END_S = 60.0


@dataclass
class Flood:
    """An official producer that sends in the background.

    Attributes:
        count: Returns how many messages were acknowledged until now.
        end: Ends it; returns the bodies that were acknowledged.
    """

    count: Callable[[], int]
    end: Callable[[], list[str]]


@contextmanager
def java_flood(driver: Driver, namesrv: str, topic: str, **options: object) -> Iterator[Flood]:
    """A producer of the driving JVM."""
    driver.call("producer", "p", group="PG", namesrv=namesrv, **options)

    def count() -> int:
        (item,) = driver.call("acknowledged", "p", count=0)
        found: int = item["count"]
        return found

    def end() -> list[str]:
        return [item["body"] for item in driver.call("flooded", "p")]

    try:
        driver.call("flood", "p", topic=topic, body="java", threads=2, pause_ms=5)
        yield Flood(count, end)
    finally:
        driver.close("p")


@contextmanager
def go_flood(home: Path, namesrv: str) -> Iterator[Flood]:
    """A producer of the official Go client."""
    try:
        program = go_client()
    except JavaMissingError as missing:
        pytest.fail(str(missing), pytrace=False)
    with subprocess.Popen(
        [program, namesrv, TOPIC, "PG_go", "go", "flood"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=home,
        env={**environment(), "HOME": str(home), "user.home": str(home)},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout, lines = process.stdin, process.stdout, list[str]()

        def read() -> None:
            for line in stdout:
                if line.startswith("sent "):
                    lines.append(line.split()[1])

        reader = threading.Thread(target=read, name="acknowledged")
        reader.start()

        def end() -> list[str]:
            stdin.close()
            process.wait(_END_S)
            reader.join(_END_S)
            return lines

        try:
            yield Flood(lambda: len(lines), end)
        finally:
            process.kill()
            reader.join(_END_S)


def acknowledged(flood: Flood, more: int, known: int | None = None) -> int:
    """Returns how many messages were acknowledged, when there are so many more."""
    wanted = (flood.count() if known is None else known) + more
    found = eventually(flood.count, lambda count: count >= wanted)
    assert found >= wanted, f"{found} acknowledged, not {wanted}"
    return found


def fail_over(them: Group, flood: Flood) -> float:
    """Kills the master under load; returns for how many seconds nothing was acknowledged."""
    master = them.master()
    them.wait_for_in_sync(len(them.brokers))
    acknowledged(flood, _COUNT)
    master.program.kill()
    began = time.monotonic()
    # Answers that were on their way.
    counts = [flood.count(), flood.count()]
    while counts[-1] != counts[-2]:
        counts.append(flood.count())
    acknowledged(flood, 1, counts[-1])
    seconds = time.monotonic() - began
    acknowledged(flood, _COUNT)
    master.program.start()
    them.wait_for_in_sync(len(them.brokers))
    acknowledged(flood, _COUNT)
    return seconds


def check(them: Group, bodies: list[str], given: Counter[str]) -> None:
    """Checks that what was acknowledged is on every broker, and was given to the consumer."""
    assert len(set(bodies)) == len(bodies) >= 3 * _COUNT
    missing = set(bodies) - given.keys()
    assert not missing, f"{len(missing)} acknowledged messages came to nobody"
    them.wait_until_equal()
    for each in them.brokers:
        found = Counter(
            message.body.decode()
            for batch in Inspection(each.store).scan(topics=[TOPIC])
            for message in batch
        )
        lost = set(bodies) - found.keys()
        assert not lost, f"{len(lost)} acknowledged messages are not at {each.address}"
        assert max(found.values()) <= _TRIES
        assert given.keys() <= found.keys()


@pytest.mark.parametrize(
    ("whose", "controller", "options"),
    [
        pytest.param("ooo", "ours", {"poll_ms": 1_000}, id="ours-polled-each-second"),
        pytest.param("ooo", "ours", {"poll_ms": _POLL_MS}, id="ours-as-usual", marks=matrix),
        pytest.param("oxo", "ours", {"poll_ms": 1_000}, id="one-official", marks=matrix),
        pytest.param("oox", "official", {"poll_ms": 1_000}, id="under-official", marks=matrix),
    ],
)
def test_official_java_clients_lose_nothing_in_a_failover(
    driver_53: Driver, tmp_path: Path, whose: str, controller: str, options: dict[str, int]
) -> None:
    elects = OURS if controller == "ours" else official_software(OFFICIAL)
    with group(softwares(whose), tmp_path, SAFE, controller=elects) as them:
        master = them.master()
        them.wait_for_in_sync(len(whose))
        namesrv = them.namesrv.address
        create_topic(driver_53, namesrv, TOPIC)
        assert master is them.master()
        driver_53.call("push", "c", group="CG", namesrv=namesrv, topic=TOPIC, **options)
        try:
            with java_flood(driver_53, namesrv, TOPIC, timeout_ms=3_000, **options) as flood:
                seconds = fail_over(them, flood)
                bodies = flood.end()
            print(f"{whose}, {options}: nothing acknowledged for {seconds:.2f} s")
            given = Counter(item["body"] for item in driver_53.got("c", len(bodies)))
        finally:
            driver_53.close("c")
        check(them, bodies, given)


@matrix
def test_the_official_go_client_loses_nothing_in_a_failover(
    driver_53: Driver, tmp_path: Path
) -> None:
    with group(softwares("ooo"), tmp_path, SAFE, controller=OURS) as them:
        them.master()
        them.wait_for_in_sync(3)
        namesrv = them.namesrv.address
        create_topic(driver_53, namesrv, TOPIC)
        driver_53.call("push", "c", group="CG", namesrv=namesrv, topic=TOPIC)
        try:
            with go_flood(tmp_path, namesrv) as flood:
                seconds = fail_over(them, flood)
                bodies = flood.end()
            print(f"Go: nothing acknowledged for {seconds:.2f} s")
            given = Counter(item["body"] for item in driver_53.got("c", len(bodies)))
        finally:
            driver_53.close("c")
        check(them, bodies, given)
