"""One store directory and one broker.conf, served in turns by an official broker and by ours.

The same official clients go on through all turns; brokers end cleanly or by kill -9.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.cases import Case, bodies
from interop.driver import Driver, Item
from interop.patience import eventually
from interop.servers import OURS, QUICK_STOP, Servers, official_software, prepared

pytestmark = pytest.mark.java

# Every version ends both ways.
TURNS = [
    pytest.param(version, how, id=f"{version}-{ended}")
    for version in ("5.3.3", "4.9.7", "5.5.0")
    for how, ended in (("stop", "stopped"), ("kill", "killed"))
]
SENT = 24
DELAY_LEVEL_10_S = 3


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Returns our name server, running, and a broker that waits to be somebody's."""
    servers = prepared(OURS, tmp_path, QUICK_STOP)
    servers.namesrv.start()
    yield servers
    servers.end()


class Turns:
    """The clients of a case, and what they have sent through all turns.

    Each turn leaves a delayed message behind, which the next broker has to deliver.
    """

    def __init__(self, case: Case) -> None:
        """Starts a producer."""
        self._case = case
        self._producer = case.producer()
        self._consumed: set[str] = set()
        self._due: list[Item] = []
        self._late: list[Item] = []
        self._all_late: set[str] = set()

    def goes_on(self, turn: str, *, is_exact: bool) -> None:
        """Sends, consumes as the group that consumed in the turns before, looks back.

        Args:
            turn: The beginning of the bodies of this turn.
            is_exact: Whether the offsets of the turn before were written at its end: then nothing
                comes twice.
        """
        case = self._case
        sent = case.send_through(
            self._producer, SENT, body=turn, keys=turn, how="selector", tags="A,B"
        )
        late_before = set(bodies(self._late))
        self._due += [*self._late, *sent]
        self._late = case.send(self._producer, body=f"{turn}-late", delay=DELAY_LEVEL_10_S)
        self._all_late |= set(bodies(self._late))
        consumer = case.push()
        # What was late may have come while the consumer of the turn before was shutting down: that
        # it was delivered, is seen in the queues.
        wanted = set(bodies(self._due)) - self._all_late
        got = eventually(
            lambda: self._consumed | set(bodies(case.driver.call("got", consumer, count=0))),
            wanted.issubset,
        )
        assert got - self._all_late == wanted
        if is_exact:
            again = self._consumed & set(bodies(case.driver.call("got", consumer, count=0)))
            assert again == set()
        # Shut down, a consumer commits its offsets.
        case.close(consumer)
        self._consumed = wanted
        assert late_before <= eventually(
            lambda: set(bodies(case.pull())), lambda pulled: late_before <= pulled
        )
        self._looks_back(sent[0], is_exact=is_exact)

    def _looks_back(self, item: Item, *, is_exact: bool) -> None:
        case = self._case
        late = set(bodies(self._late))
        stored = Counter({body: n for body, n in bodies(case.pull()).items() if body not in late})
        if not is_exact:
            # How far a level is delivered is written every ten seconds: after a kill some of what
            # was late is delivered again.
            stored = Counter({body: 1 if "-late-" in body else n for body, n in stored.items()})
        assert stored == bodies(self._due)
        for there in (self._due[0], item):
            found = eventually(
                lambda there=there: case.driver.call(  # type: ignore[misc]
                    "query", self._producer, topic=case.topic, key=there["body"]
                ),
                lambda items: len(items) == 1,
            )
            assert [each["msg_id"] for each in found] == [there["msg_id"]]
            (viewed,) = case.driver.call(
                "view", self._producer, topic=case.topic, id=there["offset_msg_id"]
            )
            assert viewed["body"] == there["body"]


@pytest.mark.sampled
@pytest.mark.parametrize(("version", "how"), TURNS)
def test_brokers_take_over_in_turns(
    servers: Servers, driver_53: Driver, version: str, how: str
) -> None:
    official = official_software(version)
    case = Case(driver_53, servers, f"turns_{version}_{how}".replace(".", "_"))
    servers.broker.become(official)
    servers.broker.start()
    try:
        case.create()
        turns = Turns(case)
        turns.goes_on("first", is_exact=True)
        for turn, software in enumerate((OURS, official, OURS)):
            # A broker writes offsets every five seconds, and at its end if it has one.
            getattr(servers.broker, how)()
            servers.broker.become(software)
            servers.broker.start()
            turns.goes_on(f"turn{turn}", is_exact=how == "stop")
    finally:
        case.close()
