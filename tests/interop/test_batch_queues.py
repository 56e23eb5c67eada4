"""A topic of batch queues in one store, served in turns by us and by the official broker of 5.3.

The official client of 5.3 sends batches, which both keep as one record each, and messages alone; a
new group of it reads everything from the first offset on in every turn.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.cases import Case, name_of
from interop.driver import Driver
from interop.patience import eventually
from interop.servers import CLUSTER, OURS, QUICK_STOP, Servers, official_software, prepared
from mqcore import Inspection

pytestmark = pytest.mark.java

BATCH = 5
ENDS = ["stop", pytest.param("kill", marks=pytest.mark.matrix)]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Returns our name server, running, and a broker that waits to be somebody's."""
    servers = prepared(OURS, tmp_path, QUICK_STOP)
    servers.namesrv.start()
    yield servers
    servers.end()


@pytest.mark.parametrize("how", ENDS)
def test_a_topic_of_batch_queues_goes_to_and_fro(
    servers: Servers, driver_53: Driver, how: str
) -> None:
    official = official_software("5.3.3")
    case = Case(driver_53, servers, f"batch_queues_{how}")
    wanted: list[tuple[int, str]] = []
    try:
        producer = case.producer()
        for turn, software in enumerate((OURS, official, OURS, official, OURS)):
            servers.broker.become(software)
            servers.broker.start()
            if turn == 0:
                line = ("-n", case.namesrv, "-c", CLUSTER, "-t", case.topic, "-r", "1", "-w", "1")
                case.driver.mqadmin("updateTopic", *line, "-a", "+queue.type=BatchCQ")
                case.until_routed()
            case.send_through(producer, BATCH, body=f"{turn}-batch", how="batch")
            case.send(producer, body=f"{turn}-one")
            sent = [*(f"{turn}-batch-{at}" for at in range(BATCH)), f"{turn}-one-0"]
            wanted += [(len(wanted) + at, body) for at, body in enumerate(sent)]
            consumer = case.push(group=f"{case.group}_{turn}")
            got = case.driver.got(consumer, len(wanted))
            # (The official broker gives a batch once more to who asks from its middle on.)
            assert sorted({(item["queue_offset"], item["body"]) for item in got}) == wanted
            case.close(consumer)
            getattr(servers.broker, how)()
        queues = servers.store / "batchconsumequeue" / case.topic
        assert [queue.name for queue in queues.iterdir()] == ["0"]
        assert not (servers.store / "consumequeue" / case.topic).exists()
    finally:
        case.close()
    assert Inspection(servers.store).verify().problems == []


def test_both_brokers_answer_alike(
    side_by_side: dict[str, Servers], driver_53: Driver, request: pytest.FixtureRequest
) -> None:
    answers = {}
    for whose, servers in side_by_side.items():
        case = Case(driver_53, servers, name_of(request, "batch_alike"))
        try:
            line = ("-n", case.namesrv, "-c", CLUSTER, "-t", case.topic, "-r", "1", "-w", "1")
            case.driver.mqadmin("updateTopic", *line, "-a", "+queue.type=BatchCQ")
            case.until_routed()
            producer = case.producer()
            sent = [
                *case.send(producer, body="a", count=3, how="batch"),
                *case.send(producer, body="b"),
                *case.send(producer, body="c", count=2, how="batch"),
            ]
            offsets = [item["queue_offset"] for item in sent]
            ids = [len(item["offset_msg_id"].split(",")) for item in sent]
            queues = eventually(
                lambda case=case: case.driver.mqadmin(  # type: ignore[misc]
                    "topicStatus", "-n", case.namesrv, "-t", case.topic
                ).split(),
                lambda words: "6" in words,
            )
            answers[whose] = (offsets, ids, queues[queues.index("6") - 1])
        finally:
            case.close()
    assert answers["ours"] == answers["official"]
    assert answers["ours"] == ([0, 3, 4], [1, 1, 1], "0")
