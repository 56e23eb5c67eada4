"""`mqcore topic create` on a topic that is there: what it hides is shown and asked about."""

from collections.abc import Iterator

import pytest

from cli.test_cluster_commands import run, run_json
from mqcore import Message, Producer
from mqcore.testing import Broker

COUNT = 8


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("orders", queues=4)
        with Producer(running.namesrv, group="p") as producer:
            for number in range(COUNT):
                producer.send(Message("orders", f"order {number}"))
        running.messages("orders")
        yield running


def test_fewer_queues_are_asked_about(broker: Broker) -> None:
    refused = run(broker, "topic", "create", "orders", "--queues", "1")
    assert refused.exit_code == 2
    assert "4 -> 1 queues" in refused.output
    assert "6 messages can no longer be read" in refused.output
    assert "--yes" in refused.output
    assert run_json(broker, "topic", "describe", "orders")["read_queues"] == 4


def test_what_was_hidden_is_in_the_answer(broker: Broker) -> None:
    done = run(broker, "topic", "create", "orders", "--read-queues", "0", "--yes")
    assert done.exit_code == 0, done.output
    assert "4 -> 0 read and 4 write queues" in done.output
    assert f"{COUNT} messages can no longer be read" in done.output
    shown = run(broker, "topic", "create", "orders", "--queues", "4")
    assert "0 read and 4 write -> 4 queues" in shown.output
    assert len(broker.messages("orders")) == COUNT


def test_a_topic_without_queues_needs_the_options_for_it(broker: Broker) -> None:
    refused = run(broker, "topic", "create", "orders", "--queues", "0", "--yes")
    assert refused.exit_code == 2
    assert "0 is not in the range 1<=x<=65536" in refused.output
    no_queues = ["--read-queues", "0", "--write-queues", "0"]
    done = run(broker, "topic", "create", "orders", *no_queues, "-y")
    assert "4 -> 0 queues" in done.output


def test_what_is_not_given_stays(broker: Broker) -> None:
    run_json(broker, "topic", "create", "orders", "--ordered", "--perm", "w", "-y")
    seen = run_json(broker, "topic", "create", "orders", "--queues", "6")
    (change,) = seen["brokers"]
    assert change["before"]["read_queues"] == 4
    after = {"read_queues": 6, "write_queues": 6, "perm": "-W-", "is_ordered": True}
    assert change["after"] == after


def test_attributes_are_shown_and_their_form_is_explained(broker: Broker) -> None:
    made = run(broker, "topic", "create", "fifo", "-a", "+message.type=FIFO")
    assert made.exit_code == 0, made.output
    assert run_json(broker, "topic", "describe", "fifo")["attributes"] == {"message.type": "FIFO"}
    assert "message.type  FIFO" in run(broker, "topic", "describe", "fifo").stdout
    refused = run(broker, "topic", "create", "other", "-a", "message.type=FIFO")
    assert refused.exit_code == 2
    assert "'message.type=FIFO': +KEY=VALUE or -KEY expected" in refused.output


def test_reading_is_not_taken_away_unasked(broker: Broker) -> None:
    refused = run(broker, "topic", "create", "orders", "--perm", "w")
    assert (refused.exit_code, "RW- -> -W-" in refused.output) == (2, True)
    assert f"{COUNT} messages can no longer be read" in refused.output
