"""Static topics: official tools and clients with our brokers, ours with official ones, and mixed.

What is sent through moves of the queues is consumed once, with offsets that go on; both kinds of
brokers keep the same mappings.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from interop.driver import Driver, driving
from interop.official import NEWEST, Official
from interop.patience import eventually
from interop.servers import OURS, Software, official_software
from interop.static_cluster import FIRST, SECOND, TwoBrokers, two_brokers
from mqcore.broker.static_topics import StaticTopicTable
from mqcore.cli.main import commands
from mqcore.model.relaxed_json import parse_object
from mqcore.model.static_topics import GLOBAL_SCOPE, StaticTopic

pytestmark = pytest.mark.java

TOPIC = "TopicStatic"
GROUP = "CG_static"
QUEUES = 4
# Acknowledged between two moves.
BATCH = 30
_POLL_MS = 1_000

Item = dict[str, Any]
Tool = Callable[..., str]


def ours(*line: str) -> str:
    """Runs `mqcore admin`."""
    result = CliRunner().invoke(commands, ["admin", *line])
    assert result.exit_code == 0, f"{line}: {result.output}{result.exception}"
    return result.output


@dataclass(frozen=True, slots=True)
class Clients:
    """A producer that floods the topic and a consumer of it, of an official release."""

    driver: Driver
    namesrv: str
    number: int
    body: str = "m"
    is_orderly: bool = False

    @property
    def producer(self) -> str:
        """The producer's name."""
        return f"static-p{self.number}"

    @property
    def consumer(self) -> str:
        """The consumer's name."""
        return f"static-c{self.number}"

    def start(self) -> None:
        """Begins to send and to consume."""
        asked = {"namesrv": self.namesrv, "poll_ms": _POLL_MS}
        self.driver.call("producer", self.producer, group="PG_static", **asked)
        order = int(self.is_orderly)
        self.driver.call("push", self.consumer, group=GROUP, topic=TOPIC, order=order, **asked)
        body = self.body
        self.driver.call("flood", self.producer, topic=TOPIC, body=body, threads=2, pause_ms=20)

    def wait_for_more(self, part: int) -> None:
        """Returns when a batch more was acknowledged, some of it in that part of a queue."""
        eventually(
            lambda: self.driver.got(self.consumer, 0),
            lambda got: any(item["queue_offset"] // 10_000 == part for item in got),
        )
        (seen,) = self.driver.call("acknowledged", self.producer, count=0)
        self.driver.call("acknowledged", self.producer, count=seen["count"] + BATCH)

    def end(self) -> tuple[list[str], list[Item]]:
        """Returns what was acknowledged, and every delivery."""
        sent = [item["body"] for item in self.driver.call("flooded", self.producer)]
        got = self.driver.got(self.consumer, len(sent))
        self.driver.close(self.consumer, self.producer)
        return sent, got


def moved_while_used(cluster: TwoBrokers, clients: Clients, tool: Tool) -> None:
    """Moves the queues to and fro below clients, and checks what they got."""
    namesrv = ("-n", cluster.namesrv.address)
    tool("updateStaticTopic", "-t", TOPIC, "-qn", str(QUEUES), "-b", FIRST, *namesrv)
    clients.start()
    clients.wait_for_more(0)
    tool("remappingStaticTopic", "-t", TOPIC, "-b", SECOND, *namesrv)
    clients.wait_for_more(1)
    tool("remappingStaticTopic", "-t", TOPIC, "-c", "DefaultCluster", *namesrv)
    clients.wait_for_more(2)
    sent, got = clients.end()
    if clients.is_orderly:
        got = in_order(got)
    counted = Counter(item["body"] for item in got)
    assert set(sent) <= counted.keys()
    assert {body: count for body, count in counted.items() if count > 1} == {}
    where = {(item["queue_id"], item["queue_offset"]) for item in got}
    assert len(where) == len(got)
    assert {queue for queue, _offset in where} == set(range(QUEUES))
    # Each part of a queue begins behind the one before.
    assert {offset // 10_000 for _queue, offset in where} == {0, 1, 2}
    # Each of the two threads of the flood has its messages in their order, in each queue.
    for thread in ("m-0-", "m-1-"):
        for queue in range(QUEUES):
            found = [item for item in got if item["queue_id"] == queue]
            found = [item for item in found if item["body"].startswith(thread)]
            found.sort(key=lambda item: item["queue_offset"])
            numbers = [int(item["body"].removeprefix(thread)) for item in found]
            assert numbers == sorted(numbers)


def in_order(got: list[Item]) -> list[Item]:
    """Returns what an orderly consumer got, without what it got again; checks its order.

    A move takes a queue from one lock to another: what was not committed then comes again, as
    officially. Whatever comes for the first time comes behind everything before it in its queue.
    """
    firsts = {(item["queue_id"], item["queue_offset"]): item for item in reversed(got)}
    seen: dict[int, int] = {}
    for item in got:
        queue, offset = item["queue_id"], item["queue_offset"]
        if firsts[queue, offset] is item:
            assert offset > seen.get(queue, -1), (queue, offset, seen[queue])
            seen[queue] = offset
    return [item for item in got if firsts[item["queue_id"], item["queue_offset"]] is item]


def mapping_of(cluster: TwoBrokers, broker: str) -> StaticTopic:
    """Returns the topic in the file of a broker, which is written again as it was."""
    path = cluster.broker(broker).store / "config" / "topicQueueMapping.json"
    table = StaticTopicTable(0)
    table.load(path.read_bytes())
    # 5.5 breaks lines elsewhere; the bytes of 5.3 are in `tests/broker`.
    assert parse_object(table.text()()) == parse_object(path.read_bytes())
    found = table.find(TOPIC)
    assert found is not None
    return found


def check_mappings(cluster: TwoBrokers) -> None:
    """Checks the files of both brokers against what was done."""
    first, second = (mapping_of(cluster, name) for name in (FIRST, SECOND))
    assert (first.epoch, first.total, first.scope) == (second.epoch, QUEUES, GLOBAL_SCOPE)
    assert second.total == QUEUES
    led = [{queue for queue in range(QUEUES) if each.leads(queue)} for each in (first, second)]
    assert len(led[0]) == len(led[1]) == QUEUES // 2
    assert led[0] | led[1] == set(range(QUEUES))
    for leader, queues in zip((first, second), led, strict=True):
        for queue in queues:
            items = leader.queues[queue]
            brokers = [FIRST, SECOND] if leader is second else [FIRST, SECOND, FIRST]
            assert [item.broker for item in items] == brokers
            assert [item.logic_offset // 10_000 for item in items] == list(range(len(items)))


def test_official_tools_and_clients_move_queues_of_our_brokers(
    driver_53: Driver, tmp_path: Path
) -> None:
    with two_brokers(OURS, tmp_path) as cluster:
        clients = Clients(driver_53, cluster.namesrv.address, 1)
        moved_while_used(cluster, clients, driver_53.mqadmin)
        check_mappings(cluster)


def test_an_orderly_consumer_keeps_the_order_through_moves(
    driver_53: Driver, tmp_path: Path
) -> None:
    with two_brokers(OURS, tmp_path) as cluster:
        moved_while_used(
            cluster, Clients(driver_53, cluster.namesrv.address, 3, is_orderly=True), ours
        )


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("version", ["5.3.3", NEWEST])
@pytest.mark.parametrize("whose", ["ours", "theirs", "mixed"])
def test_orderly_consumers_of_every_release_keep_the_order(
    tmp_path: Path, version: str, whose: str
) -> None:
    theirs = official_software(version)
    first = theirs if whose == "theirs" else OURS
    other = OURS if whose == "ours" else theirs
    with driving(version) as driver, two_brokers(first, tmp_path, other=other) as cluster:
        clients = Clients(driver, cluster.namesrv.address, 60, is_orderly=True)
        moved_while_used(cluster, clients, ours)
        check_mappings(cluster)


@pytest.mark.slow
def test_our_tool_moves_queues_of_official_brokers(
    driver_53: Driver, official_53: Official, tmp_path: Path
) -> None:
    with two_brokers(official_software(official_53.version), tmp_path) as cluster:
        moved_while_used(cluster, Clients(driver_53, cluster.namesrv.address, 2), ours)
        check_mappings(cluster)


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("tool", ["official", "ours"])
@pytest.mark.parametrize("order", [(OURS, None), (None, OURS)], ids=["ours first", "theirs first"])
def test_queues_move_between_our_broker_and_an_official_one(
    driver_53: Driver,
    official_53: Official,
    tmp_path: Path,
    order: tuple[Software | None, Software | None],
    tool: str,
) -> None:
    theirs = official_software(official_53.version)
    first, second = (each or theirs for each in order)
    with two_brokers(first, tmp_path, other=second) as cluster:
        number = 10 + 2 * (tool == "ours") + (first is OURS)
        clients = Clients(driver_53, cluster.namesrv.address, number)
        moved_while_used(cluster, clients, driver_53.mqadmin if tool == "official" else ours)
        check_mappings(cluster)


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "theirs"])
def test_the_newest_release_moves_queues(is_ours: bool, tmp_path: Path) -> None:
    software = OURS if is_ours else official_software(NEWEST)
    with driving(NEWEST) as driver, two_brokers(software, tmp_path) as cluster:
        clients = Clients(driver, cluster.namesrv.address, 20)
        moved_while_used(cluster, clients, driver.mqadmin if is_ours else ours)
        check_mappings(cluster)


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("version", ["5.3.3", NEWEST])
@pytest.mark.parametrize("is_ours_first", [True, False], ids=["ours-first", "theirs-first"])
def test_brokers_take_over_stores_with_mappings(
    driver_53: Driver, tmp_path: Path, version: str, is_ours_first: bool
) -> None:
    theirs = official_software(version)
    turns = [OURS, theirs, OURS] if is_ours_first else [theirs, OURS, theirs]
    with two_brokers(turns[0], tmp_path) as cluster:
        namesrv = ("-n", cluster.namesrv.address)
        ours("updateStaticTopic", "-t", TOPIC, "-qn", str(QUEUES), "-b", FIRST, *namesrv)
        number = 30 + 10 * is_ours_first + 20 * (version == NEWEST)
        for turn, software in enumerate(turns):
            if turn:
                for each in (cluster.first, cluster.second):
                    each.broker.stop()
                    each.broker.become(software)
                    each.broker.start()
                cluster.wait_until_registered()
            clients = Clients(driver_53, cluster.namesrv.address, number + turn, f"m{turn}")
            clients.start()
            clients.wait_for_more(turn)
            to = SECOND if turn % 2 == 0 else FIRST
            ours("remappingStaticTopic", "-t", TOPIC, "-b", to, *namesrv)
            clients.wait_for_more(turn + 1)
            sent, got = clients.end()
            counted = Counter(item["body"] for item in got if item["body"].startswith(f"m{turn}-"))
            assert set(sent) <= counted.keys()
            assert {body: count for body, count in counted.items() if count > 1} == {}
            for name in (FIRST, SECOND):
                led = mapping_of(cluster, name)
                leads = [queue for queue in range(QUEUES) if led.leads(queue)]
                assert leads == (list(range(QUEUES)) if name == to else [])
