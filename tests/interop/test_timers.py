"""Timed and delayed messages with the official clients; stores that change hands while they wait.

The same cases run against the official broker with --official=5.3.3.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop.cases import Case, bodies
from interop.driver import Driver, Item
from interop.install import OfficialError
from interop.official import NEWEST
from interop.patience import eventually
from interop.servers import OURS, QUICK_STOP, Servers, Software, official_software, serving

pytestmark = pytest.mark.java

# `reportedVersion` is ours alone: 5.3 tools ask more of a broker that reports such a version.
CONFIG = {"recallMessageEnable": "true", **QUICK_STOP}
STEP_MS = 1_000
# What the official dequeue may be late on a busy machine.
LATE_MAX_MS = 30_000


@pytest.fixture(scope="module")
def timed_servers(
    sample_software: Software, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """Yields servers that allow recalls; all cases share them."""
    with serving(sample_software, tmp_path_factory.mktemp("timed"), CONFIG) as servers:
        yield servers


def due_ms(deliver_ms: int) -> int:
    """Returns when the official rule lets a message go."""
    return -(-deliver_ms // STEP_MS) * STEP_MS


def entered(store: Path) -> int:
    """Returns how many messages the timers of a store have entered, as in their check point."""
    check_point = store / "config" / "timercheck"
    if not check_point.exists():
        return 0
    return int.from_bytes(check_point.read_bytes()[16:24])


def assert_in_time(items: list[Item], wanted: dict[str, int]) -> None:
    """Asserts that each body came once, not before its time."""
    found = {item["body"].removesuffix("-0"): item for item in items}
    assert sorted(found) == sorted(wanted)
    assert set(bodies(items).values()) == {1}
    for body, item in found.items():
        late_ms = item["store_timestamp"] - due_ms(wanted[body])
        assert 0 <= late_ms < LATE_MAX_MS, item


def test_the_official_client_times_delays_and_recalls(
    driver_53: Driver, timed_servers: Servers
) -> None:
    case = Case(driver_53, timed_servers, "timers")
    case.create()
    producer = case.producer()
    now_ms = time.time_ns() // 1_000_000
    case.send(producer, body="at", deliver_ms=now_ms + 2_500)
    case.send(producer, body="s", delay_s=2)
    case.send(producer, body="ms", delay_ms=1_700)
    case.send(producer, body="level", delay=1)
    (sent,) = case.send(producer, body="recalled", delay_ms=6_000)
    (past,) = case.send(producer, body="past", deliver_ms=now_ms - 1)
    assert past["recall_handle"] is None
    (recalled,) = driver_53.call("recall", producer, topic=case.topic, handle=sent["recall_handle"])
    assert recalled["msg_id"] == sent["msg_id"]
    case.send(producer, body="last", delay_ms=8_000)
    got = case.pulled(6)
    wanted = {"at": now_ms + 2_500, "s": now_ms + 2_000, "ms": now_ms + 1_700}
    wanted |= {"level": now_ms + 1_000 - STEP_MS, "past": now_ms - STEP_MS, "last": now_ms + 8_000}
    assert_in_time(got, wanted)
    case.close()


@pytest.mark.parametrize(
    ("field", "value"),
    [("delay_ms", str(1_000 * 366 * 86_400_000)), ("property", "TIMER_DELAY_MS:soon")],
)
def test_bad_times_are_refused_in_the_official_words(
    driver_53: Driver, timed_servers: Servers, field: str, value: str
) -> None:
    case = Case(driver_53, timed_servers, f"bad_{field}")
    case.create()
    producer = case.producer()
    with pytest.raises(OfficialError, match="CODE: 13  DESC: timer message illegal, the delay"):
        case.send(producer, **{field: value})
    case.close()


@dataclass(frozen=True, slots=True)
class Pending:
    """A store that changed hands with timers and delays in it, served by who has it now.

    Attributes:
        case: The case whose messages they are.
        wanted: When each body is due, in milliseconds.
    """

    case: Case
    wanted: dict[str, int]


@contextmanager
def changing_hands(
    driver: Driver, root: Path, version: str, first: str, ended: str
) -> Iterator[Pending]:
    """Fills a store of `first`, ends its broker, starts the other; the messages are pending."""
    official = official_software(version)
    # 5.5 looks for the unique key alone, unless it has this setting.
    config = CONFIG | {"appendTopicForTimerDeleteKey": str(version != NEWEST).lower()}
    one, other = (OURS, official) if first == "ours" else (official, OURS)
    with serving(one, root, config) as servers:
        case = Case(driver, servers, f"hands_{first}_{ended}")
        case.create()
        producer = case.producer()
        now_ms = time.time_ns() // 1_000_000
        wanted = {f"m{at}": now_ms + 20_000 + at * 300 for at in range(20)}
        for body, deliver_ms in wanted.items():
            case.send(producer, body=body, deliver_ms=deliver_ms)
        (sent,) = case.send(producer, body="recalled", deliver_ms=now_ms + 21_000)
        driver.call("recall", producer, topic=case.topic, handle=sent["recall_handle"])
        # The fourth level is thirty seconds.
        case.send(producer, body="level", delay=4)
        wanted["level"] = now_ms + 30_000 - STEP_MS
        eventually(lambda: entered(servers.store), lambda count: count >= len(wanted))
        (servers.broker.stop if ended == "stop" else servers.broker.kill)()
        servers.broker.become(other)
        servers.broker.start()
        case.send_through(producer, 1, body="after", delay_ms=2_000)
        yield Pending(case, wanted)
        case.close()


@pytest.mark.sampled
@pytest.mark.parametrize("ended", ["stop", "kill"])
@pytest.mark.parametrize("first", ["ours", "official"])
@pytest.mark.parametrize("version", ["5.3.3", NEWEST])
def test_pending_timers_and_delays_change_hands(
    driver_53: Driver, tmp_path: Path, version: str, first: str, ended: str
) -> None:
    with changing_hands(driver_53, tmp_path, version, first, ended) as pending:
        case, wanted = pending.case, dict(pending.wanted)
        found = case.pulled(len(wanted) + 1)
        found.sort(key=lambda item: item["body"].startswith("after"))
        wanted["after"] = found[-1]["store_timestamp"] - STEP_MS
        assert_in_time(found, wanted)
