"""Official push consumers of 5.3 that pop: what they get must be the same from every broker.

The group's mode is set with `mqadmin setConsumeMode`, as an operator does it; the consumer lets the
broker assign (`setClientRebalance(false)`).
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.cases import Case, bodies
from interop.driver import Driver, Item
from interop.patience import eventually
from interop.servers import CLUSTER, OURS, Servers, Software, official_software, serving

pytestmark = pytest.mark.java
matrix = pytest.mark.matrix

# Whose broker.
BROKERS = [
    pytest.param(OURS, id="ours"),
    pytest.param("5.3.3", id="official-5.3.3", marks=matrix),
]
ALL_QUEUES = 0
# The least that the official client takes.
INVISIBLE_MS = 5_000
CONFIG = {
    # Sooner than by default: who waits for a retry waits for this scan.
    "reviveInterval": "500",
    "reviveScanTime": "1000",
    "popCkStayBufferTime": "2000",
    "popCkStayBufferTimeOut": "1000",
    "reviveQueueNum": "1",
}


class Popping(Case):
    """A case whose group pops."""

    def pops(self, share: int = ALL_QUEUES, group: str | None = None) -> None:
        """Sets the mode of the group; it is known to the broker from here on."""
        group = group or self.group
        made = self.driver.mqadmin("updateSubGroup", "-n", self.namesrv, "-c", CLUSTER, "-g", group)
        assert "success" in made, made
        line = ("setConsumeMode", "-n", self.namesrv, "-c", CLUSTER, "-t", self.topic, "-g", group)
        printed = self.driver.mqadmin(*line, "-m", "POP", "-q", str(share))
        assert "success" in printed, printed

    def pop(self, **settings: object) -> str:
        """Starts a consumer that pops; returns its name."""
        return self.push(server_rebalance=1, **settings)

    def outcome(self, *consumers: str) -> dict[str, list[int]]:
        """Returns how often each body was tried before, delivery by delivery."""
        tries: dict[str, list[int]] = {}
        for item in self.got_by(*consumers):
            tries.setdefault(item["body"], []).append(item["reconsume_times"])
        return {body: sorted(times) for body, times in tries.items()}

    def got_by(self, *consumers: str) -> list[Item]:
        """Returns what consumers got until now."""
        return [item for each in consumers for item in self.driver.call("got", each, count=0)]


def whose(software: Software | str) -> Software:
    """Returns the programs; an official release is named by its version."""
    return official_software(software) if isinstance(software, str) else software


@pytest.fixture(scope="module", params=BROKERS)
def poppable(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """Returns servers that the cases share which leave them running."""
    with serving(whose(request.param), tmp_path_factory.mktemp("pop"), CONFIG) as servers:
        yield servers


@pytest.fixture
def case(driver_53: Driver, poppable: Servers, request: pytest.FixtureRequest) -> Iterator[Popping]:
    case = Popping(driver_53, poppable, request.node.originalname.removeprefix("test_"))
    yield case
    case.close()


def test_every_message_is_popped_once(case: Popping) -> None:
    case.create()
    case.pops()
    consumer = case.pop()
    sent = case.send(case.producer(), how="selector", count=60, keys="k", tags="A")
    case.driver.got(consumer, 60)
    assert bodies(case.got_by(consumer)) == bodies(sent)
    assert set(map(tuple, case.outcome(consumer).values())) == {(0,)}
    # They come as they were sent: topic, queue offset, keys, tags.
    by_offset = {(item["queue_id"], item["queue_offset"]): item for item in sent}
    for item in case.got_by(consumer):
        there = by_offset[item["queue_id"], item["queue_offset"]]
        assert (item["body"], item["msg_id"]) == (there["body"], there["msg_id"])
        assert (item["topic"], item["tags"]) == (case.topic, "A")


def test_what_failed_comes_again(case: Popping) -> None:
    case.create(1)
    case.pops()
    consumer = case.pop(fail=2)
    sent = case.send(case.producer(), count=4)
    wanted = {item["body"]: [0, 1, 2] for item in sent}
    assert eventually(lambda: case.outcome(consumer), lambda seen: seen == wanted) == wanted
    assert {item["topic"] for item in case.got_by(consumer)} == {case.topic}


def test_a_slow_handler_loses_its_hold(case: Popping) -> None:
    """Longer than the message was invisible: it comes again; the late acknowledgement is void."""
    case.create(1)
    case.pops()
    consumer = case.pop(invisible_ms=INVISIBLE_MS, slow_ms=INVISIBLE_MS + 3_000)
    (sent,) = case.send(case.producer())
    wanted = {sent["body"]: [0, 1]}
    assert eventually(lambda: case.outcome(consumer), lambda seen: seen == wanted) == wanted


def test_only_what_is_subscribed_is_popped(case: Popping) -> None:
    case.create(1)
    case.pops()
    consumer = case.pop(expr="A || C")
    case.send(case.producer(), count=30, tags="A,B,C")
    wanted = bodies(item for item in case.pulled(30) if item["tags"] in ("A", "C"))
    assert len(wanted) == 20
    case.driver.got(consumer, 20)
    assert bodies(case.got_by(consumer)) == wanted


def test_a_message_that_always_fails_ends(case: Popping) -> None:
    """The client ends it: it acknowledges what failed too often, and no dead letter is left."""
    case.create(1)
    case.pops()
    consumer = case.pop(fail=-1, max_reconsume=2)
    (sent,) = case.send(case.producer())
    tries = eventually(
        lambda: case.outcome(consumer).get(sent["body"], []), lambda seen: len(seen) >= 3
    )
    assert tries[:3] == [0, 1, 2]
    (last,) = case.send(case.producer(), body="last")
    eventually(lambda: case.outcome(consumer), lambda seen: last["body"] in seen)
    listed = case.driver.mqadmin("topicList", "-n", case.namesrv)
    assert f"%DLQ%{case.group}" not in listed


def test_members_share_every_queue(case: Popping) -> None:
    case.create(2)
    case.pops()
    members = [case.pop() for _ in range(3)]
    for each in members:
        # Every queue of the broker, by the one name that means any.
        assert case.allocated(each, 1) == {-1}
    producer = case.producer()
    sent: list[Item] = []
    seen: dict[str, Counter[str]] = {}

    def shared() -> bool:
        sent.extend(case.send(producer, body=f"r{len(sent)}", count=30, how="selector"))
        total = len(sent)
        eventually(lambda: len(case.got_by(*members)), lambda count: count >= total)
        seen.update({each: bodies(case.got_by(each)) for each in members})
        return all(seen.values())

    assert eventually(shared, bool)
    assert sum(seen.values(), Counter()) == bodies(sent)


def test_two_groups_pop_for_themselves(case: Popping) -> None:
    case.create(2)
    other = f"{case.group}_other"
    case.pops()
    case.pops(group=other)
    consumers = [case.pop(), case.pop(group=other)]
    sent = case.send(case.producer(), how="selector", count=20)
    for each in consumers:
        case.driver.got(each, 20)
        assert bodies(case.got_by(each)) == bodies(sent)


@pytest.mark.parametrize("software", BROKERS)
@pytest.mark.parametrize("how", ["kill", pytest.param("stop", marks=matrix)])
def test_pops_outlive_the_broker(
    driver_53: Driver, software: Software | str, how: str, tmp_path: Path
) -> None:
    """What was popped and not acknowledged comes again; nothing is lost."""
    with serving(whose(software), tmp_path, CONFIG) as servers:
        case = Popping(driver_53, servers, f"pop_outlives_{how}")
        case.create(2)
        case.pops()
        producer = case.producer()
        before = case.send(producer, body="before", how="selector", count=20)
        consumer = case.pop(fail=1, invisible_ms=INVISIBLE_MS)
        case.driver.got(consumer, 20)
        getattr(servers.broker, how)()
        servers.broker.start()
        after = case.send_through(producer, 20, body="after", how="selector")
        # Each failed once, so each has to come a second time.
        wanted = set(bodies([*before, *after]))
        tried = eventually(
            lambda: case.outcome(consumer),
            lambda seen: all(len(seen.get(body, [])) >= 2 for body in wanted),
        )
        assert set(tried) == wanted
        assert min(map(len, tried.values())) >= 2
        case.close()


def test_a_group_goes_from_pull_to_pop(case: Popping) -> None:
    case.create(2)
    producer = case.producer()
    consumer = case.pop()
    pulled = case.send(producer, body="pulled", how="selector", count=10)
    case.driver.got(consumer, 10)
    assert case.allocated(consumer, 2) == {0, 1}
    case.pops()
    assert case.allocated(consumer, 1) == {-1}
    popped = case.send(producer, body="popped", how="selector", count=10)
    case.driver.got(consumer, 20)
    assert set(bodies(case.got_by(consumer))) == set(bodies([*pulled, *popped]))
