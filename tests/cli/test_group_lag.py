"""Lags of groups that have committed nothing: what waits for them, or a dash; never 0."""

from collections.abc import Iterator

import pytest

from cli.test_cluster_commands import run, run_json
from mqcore import ConsumeFrom, Message, Producer, PullConsumer
from mqcore.testing import Broker

COUNT = 6


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("orders", queues=2)
        with Producer(running.namesrv, group="p") as producer:
            for number in range(COUNT):
                producer.send(Message("orders", f"order {number}"))
        assert len(running.messages("orders")) == COUNT
        run_json(running, "group", "create", "new")
        yield running


def row_of(broker: Broker, *command: str) -> dict[str, object]:
    rows = run_json(broker, *command)
    rows = rows["groups"] if isinstance(rows, dict) else rows
    (row,) = (each for each in rows if each["group"] == "new")
    found: dict[str, object] = row
    return found


def test_nobody_knows_where_an_offline_group_begins(broker: Broker) -> None:
    assert row_of(broker, "group", "list")["lag"] is None
    assert row_of(broker, "top", "--count", "1", "-i", "0.1")["lag"] is None
    assert run_json(broker, "group", "describe", "new")["lag"] is None
    assert run_json(broker, "group", "lag", "new") == {
        "group": "new",
        "lag": None,
        "topics": [],
        "queues": [],
    }
    shown = run(broker, "group", "lag", "new").stdout.splitlines()
    assert shown == ["group  new", "lag    -", "it has committed no offset yet"]
    listed = run(broker, "group", "list").stdout.splitlines()
    assert ["new", "0", "-", "0.0"] in [line.split() for line in listed]


@pytest.mark.parametrize("begin", [ConsumeFrom.FIRST_OFFSET, ConsumeFrom.LAST_OFFSET])
def test_a_group_that_is_online_has_the_lag_of_its_rule(broker: Broker, begin: ConsumeFrom) -> None:
    # Brokers begin a new group at the first message while it is in memory, whatever it asks for.
    with PullConsumer(
        broker.namesrv, group="new", topics="orders", consume_from=begin, auto_commit=False
    ) as consumer:
        # A poll waits until the group has its queues, and commits nothing.
        assert consumer.poll(30.0)
        seen = run_json(broker, "group", "lag", "new")
        assert seen["lag"] == COUNT
        assert [row["lag"] for row in seen["topics"]] == [COUNT]
        rows = [(row["next"], row["is_committed"]) for row in seen["queues"]]
        assert rows == [(0, False)] * 2
        assert row_of(broker, "group", "list")["lag"] == COUNT
        assert run_json(broker, "topic", "describe", "orders")["groups"] == {"new": COUNT}


def test_a_committed_lag_is_by_topic_and_queue(broker: Broker) -> None:
    run_json(broker, "group", "reset", "new", "orders", "--to", "start", "-y")
    seen = run_json(broker, "group", "lag", "new")
    (topic,) = seen["topics"]
    assert (topic["topic"], topic["queues"], topic["lag"]) == ("orders", 2, COUNT)
    assert seen["lag"] == COUNT
    assert all(row["is_committed"] for row in seen["queues"])
    lines = run(broker, "group", "lag", "new", "--long").stdout.splitlines()
    assert [line.split()[:3] for line in lines if "orders" in line] == [
        ["orders", "broker-test", str(queue_id)] for queue_id in range(2)
    ]
