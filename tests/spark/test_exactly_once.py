"""Exactly once, epoch by epoch: who reads finds every row once, whoever is killed and whenever."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from interop.patience import eventually
from mqcore.errors import MQError, UnsupportedError
from mqcore.model.queues import MessageQueue
from mqcore.spark.errors import SinkError, SparkError
from mqcore.spark.topic_sink import settling
from mqcore.spark.topic_sink.epochs import Decision, HalfLocation
from mqcore.spark.topic_sink.options import read_options
from mqcore.spark.topic_sink.planning import batch_writer, stream_writer
from mqcore.spark.topic_sink.settling import Settling
from mqcore.testing import Broker
from spark.exact_sink import (
    DECISIONS,
    GIVEN_UP,
    Driver,
    check,
    crashing,
    driver,
    is_all_ended,
    read,
    rows_of,
    until_ended,
)

# Rounds come when a test asks for them.
SETTINGS = {"transactionCheckInterval": "86400000", "transactionCheckMax": "3"}
BODY = StructType().add("body", "string")


def schema_of(columns: str) -> StructType:
    """Returns a schema of names and types, without a JVM to read it."""
    schema = StructType()
    for column in columns.split(", "):
        name, kind = column.split(" ")
        schema.add(name, kind)
    return schema


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """Returns a broker for one test, with the topic of decisions."""
    with Broker(SETTINGS, directory=tmp_path / "store") as started:
        started.create_topic(DECISIONS, queues=1)
        started.create_topic("rows")
        yield started


def counted(*epochs: int, times: int = 1) -> Counter[str]:
    return Counter({row: times for epoch in epochs for row in rows_of(epoch)})


def test_rows_are_read_when_their_epoch_is_committed_and_once(broker: Broker) -> None:
    with driver(broker, "rows") as query:
        for batch in (0, 1):
            reports = query.tasks(batch, rows_of(batch))
            assert read(broker, "rows") == counted(*range(batch)), "nobody sees them before"
            query.epochs.commit(reports, batch)
            assert read(broker, "rows") == counted(*range(batch + 1))
        query.epochs.commit(reports, 1)
        # Spark repeats the last batch when it crashed before it had noted it.
        query.epochs.commit(query.tasks(1, rows_of(1)), 1)
    assert read(broker, "rows") == counted(0, 1)
    check(broker)
    assert is_all_ended(broker), "what was sent again is rolled back"
    last = broker.messages("rows")[-1].properties
    assert last["SPARK_TASK"].startswith("q/1/")
    assert {"TRAN_MSG", "MQCORE_HALF_BATCH", "PGROUP"}.isdisjoint(last)
    assert len({message.message_id for message in broker.messages("rows")}) == 400


def test_only_the_attempts_that_count_are_read(broker: Broker) -> None:
    with driver(broker, "rows") as query:
        first, second = query.tasks(0, rows_of(0))
        query.task(0, 0, rows_of(0)[0:100:2])
        speculative = query.task(0, 1, rows_of(0)[1::2], number=1)
        query.epochs.commit([first, speculative], 0)
        assert read(broker, "rows") == counted(0)
        check(broker)
        until_ended(broker)
        assert read(broker, "rows") == counted(0)
    assert second.rows == speculative.rows


STEPS = ("tasks", "decided", "one committed", "half committed", "committed")


def crash_at(step: str, query: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs epoch 1 up to a step, where its driver ends."""
    reports = query.tasks(1, rows_of(1))
    halves = sum(len(report.halves) for report in reports)
    assert halves > 4
    if step == "tasks":
        return
    if step == "committed":
        query.epochs.commit(reports, 1)
        return
    after = {"decided": 0, "one committed": 1, "half committed": halves // 2}[step]
    query.epochs._settling._options = read_options(
        {"namesrv": query.options.client.namesrv, "retries": "0"}
    )
    with monkeypatch.context() as patch:
        patch.setattr(Settling, "_ask", crashing(after, lambda: None))
        with pytest.raises(SinkError, match="is decided and not committed yet"):
            query.epochs.commit(reports, 1)


@pytest.mark.parametrize(
    ("step", "has_broker_crashed"),
    [
        *((step, True) for step in STEPS),
        *(pytest.param(step, False, marks=pytest.mark.matrix) for step in STEPS),
    ],
)
def test_an_epoch_whose_driver_was_killed_is_read_once(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, step: str, has_broker_crashed: bool
) -> None:
    with driver(broker, "rows") as killed:
        killed.epochs.commit(killed.tasks(0, rows_of(0)), 0)
        crash_at(step, killed, monkeypatch)
    if has_broker_crashed:
        broker.kill()
        broker.restart()
    with driver(broker, "rows") as query:
        reports = query.tasks(1, rows_of(1))
        query.epochs.commit(reports, 1)
        assert read(broker, "rows") == counted(0, 1)
        query.epochs.commit(query.tasks(2, rows_of(2)), 2)
        # What the first driver left is asked about, and comes to nothing.
        until_ended(broker)
        assert read(broker, "rows") == counted(0, 1, 2)


@pytest.mark.parametrize("after", [0, 1, 5])
def test_a_broker_that_is_killed_in_a_commit_has_every_row_once(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    def crash() -> None:
        broker.kill()
        broker.restart()

    with driver(broker, "rows") as query:
        monkeypatch.setattr(Settling, "_ask", crashing(after, crash))
        query.epochs.commit(query.tasks(0, rows_of(0)), 0)
        assert read(broker, "rows") == counted(0)
        query.epochs.commit(query.tasks(1, rows_of(1)), 1)
        until_ended(broker)
    assert read(broker, "rows") == counted(0, 1)


def test_who_is_asked_commits_what_was_decided(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with driver(broker, "rows") as killed:
        crash_at("one committed", killed, monkeypatch)
    broker.kill()
    broker.restart()
    with driver(
        broker,
        "rows",
    ) as other:
        # It writes something else; the broker knows it as a member of the group.
        other.task(7, 0, rows_of(7)[:1])
        until = Counter(rows_of(1))
        # A half message that is asked about more often than `transactionCheckMax` is given up:
        # the answers of a round are waited for before the next one.
        for _ in range(int(SETTINGS["transactionCheckMax"])):
            check(broker)
            found = eventually(lambda: read(broker, "rows"), until.__eq__, patience_s=20)
            if found == until:
                break
        assert found == until


def test_what_was_given_up_is_committed_when_the_query_comes_back(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with driver(broker, "rows") as killed:
        crash_at("one committed", killed, monkeypatch)
    for _ in range(10):
        check(broker)
    assert is_all_ended(broker)
    assert broker.messages(GIVEN_UP), "nobody was there to be asked"
    broker.kill()
    broker.restart()
    with driver(broker, "rows") as query:
        query.epochs.commit(query.tasks(1, rows_of(1)), 1)
    assert read(broker, "rows") == counted(1)


def test_a_commit_that_power_loss_has_torn_is_made_whole(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with driver(broker, "rows") as query:
        query.epochs.commit(query.tasks(0, rows_of(0)), 0)
    asked: list[dict[str, str]] = []
    original = Settling._ask

    async def noted(self: Settling, link: Any, fields: dict[str, str]) -> None:
        asked.append(fields)
        await original(self, link, fields)

    monkeypatch.setattr(Settling, "_ask", noted)
    stored = settling.stored_of

    def torn(cluster: Any, decision: Decision) -> dict[HalfLocation, int]:
        found = stored(cluster, decision)
        return {half: min(count, 3) for half, count in found.items()}

    monkeypatch.setattr(settling, "stored_of", torn)
    with driver(broker, "rows") as query:
        query.epochs.commit(query.tasks(0, rows_of(0)), 0)
    # The broker knows by itself that it had committed them; it is asked for what is missing.
    assert {
        fields.get("mqcoreStored") for fields in asked if fields["commitOrRollback"] == "8"
    } == {"3"}
    assert read(broker, "rows") == counted(0)


def test_the_first_decision_counts(broker: Broker) -> None:
    with driver(broker, "rows") as one, driver(broker, "rows") as other:
        reports = one.tasks(0, rows_of(0)), other.tasks(0, rows_of(0))
        one.epochs.commit(reports[0], 0)
        other.epochs.commit(reports[1], 0)
        one.epochs.commit(reports[0], 0)
    assert read(broker, "rows") == counted(0)
    assert len(broker.messages(DECISIONS)) == 1


def test_an_epoch_that_is_given_up_is_rolled_back(broker: Broker) -> None:
    with driver(broker, "rows") as query:
        reports = query.tasks(0, rows_of(0))
        query.epochs.abort(reports[:1], 0, is_whole=False)
        query.epochs.abort(reports, 0, is_whole=True)
        query.epochs.commit(query.tasks(0, rows_of(0)), 0)
        until_ended(broker)
    assert read(broker, "rows") == counted(0)


def test_decisions_of_many_epochs_are_found(broker: Broker) -> None:
    queue = MessageQueue("rows", "broker-test", 0)
    with driver(broker, "rows") as query:
        decisions = query.epochs._decisions
        for batch in range(40):
            half = HalfLocation(queue, batch, 10 * batch, f"a/{batch}/0/0-x", 0, 9, 10)
            for name in ("a", "b"):
                made = Decision(name, batch, "g", (half,), {queue: batch})
                decisions.write(query.client, made)
        again = Decision("a", 39, "h", (), {})
        decisions.write(query.client, again)
        for batch in (0, 7, 38, 39):
            found = decisions.find("a", batch)
            assert found is not None
            assert (found.batch, found.group, found.starts) == (batch, "g", {queue: batch})
            assert found.half_at("broker-test", batch) == found.halves[0]
        assert decisions.find("a", 40) is None
        assert decisions.find("c", 0) is None


def test_a_body_that_is_no_decision_is_refused() -> None:
    for body in (b"", b"[]", b"{}", b'{"version":2}', b'{"version":1,"query":"a"}'):
        with pytest.raises(ValueError, match=r".*"):
            Decision.parse(body)


@pytest.mark.parametrize(
    ("columns", "options", "why"),
    [
        ("body string, delayLevel integer", {}, "cannot be delayed"),
        ("body string, deliverTimestamp timestamp", {}, "cannot be delayed"),
        ("body string", {"marks": "false"}, "marks"),
        ("body string", {"decisionTopic": "missing"}, "create it once, with one queue"),
        ("body string", {"decisionTopic": "rows"}, "has 4 queues at 1 brokers"),
        ("body string", {"delivery": "twice"}, "at-least-once"),
    ],
)
def test_what_cannot_be_exact_is_refused_when_it_is_planned(
    broker: Broker, columns: str, options: dict[str, str], why: str
) -> None:
    given = {"namesrv": broker.namesrv, "topic": "rows", "delivery": "exactly-once", "retries": "0"}
    schema = schema_of(columns)
    with pytest.raises(SparkError, match=why):
        stream_writer(given | options, schema, overwrite=False)


def test_a_batch_write_is_not_exact(broker: Broker) -> None:
    given = {"namesrv": broker.namesrv, "topic": "rows", "delivery": "exactly-once"}
    with pytest.raises(SparkError, match="which a streaming query has"):
        batch_writer(given, BODY, overwrite=False)


def test_a_broker_that_does_not_know_such_half_messages_is_refused(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqcore.client.instance.HALF_BATCHES_FIELD", "of another one")
    with driver(broker, "rows") as query, pytest.raises(MQError, match="which delivery 'exactly-"):
        query.task(0, 0, ["1"])
    assert issubclass(UnsupportedError, MQError)
