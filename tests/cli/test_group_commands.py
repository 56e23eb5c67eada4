"""Commands about groups over a broker in this process: settings, modes, dead letters sent again."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cli.test_cluster_commands import run, run_json
from mqcore import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage, Reject
from mqcore.testing import Broker, Inbox

COUNT = 3
GROUP = "picky"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("orders", queues=2)
        yield running


def test_a_group_is_made_and_changed(broker: Broker) -> None:
    made = run_json(broker, "group", "create", "made", "--retries", "3", "--pause-first", "4s")
    assert made == {"group": "made", "brokers": [broker.address]}
    (seen,) = run_json(broker, "group", "settings", "made").values()
    policy = {"initial": 4_000, "max": 7_200_000, "multiplier": 2}
    assert (seen["retryMaxTimes"], seen["groupRetryPolicy"]["exponentialRetryPolicy"]) == (
        3,
        policy,
    )
    run_json(broker, "group", "update", "made", "--no-broadcast", "--slow-broker", "2")
    (changed,) = run_json(broker, "group", "settings", "made").values()
    assert changed == seen | {"consumeBroadcastEnable": False, "whichBrokerWhenConsumeSlowly": 2}
    run_json(broker, "group", "update", "made", "--pauses", "1s,2s,500ms,1m30s")
    shown = run(broker, "group", "settings", "made").stdout
    assert "CUSTOMIZED, s: 0.5, 90, 90" in shown


@pytest.mark.parametrize(
    "line",
    [
        ["create", "made twice", "--retries", "x"],
        ["create", "new", "--retries", "-1"],
        ["create", "new", "--pauses", "1s,soon"],
        ["create", "new", "--pauses", "1s", "--pause-max", "1h"],
        ["update", "new"],
    ],
)
def test_what_makes_no_sense_is_a_usage_error(broker: Broker, line: list[str]) -> None:
    result = run(broker, "group", *line)
    assert result.exit_code == 2, result.output


def test_groups_that_are_there_or_not(broker: Broker) -> None:
    run_json(broker, "group", "create", "once")
    assert "update" in str(run(broker, "group", "create", "once").exception)
    once = ["--retries", "1"]
    errors = {
        str(run(broker, *line, "nobody", *more).exception)
        for line, more in (
            (["group", "delete"], ["-y"]),
            (["group", "describe"], []),
            (["group", "lag"], []),
            (["group", "mode"], ["orders", "pop"]),
            (["group", "reset"], ["orders", "--to", "start", "-y"]),
            (["group", "settings"], []),
            (["group", "update"], once),
            (["dlq", "list"], []),
            (["dlq", "resend"], ["-y"]),
        )
    }
    (error,) = errors
    assert "there is no group nobody: see `mqcore group list`" in error
    assert "no dead letters" in run(broker, "dlq", "list", "once").stdout


def test_a_group_is_set_to_pop(broker: Broker) -> None:
    run_json(broker, "group", "create", "poppers")
    made = run_json(broker, "group", "mode", "poppers", "orders", "pop", "--share", "2")
    assert made == {"group": "poppers", "brokers": [broker.address]}
    path = broker.directory / "config" / "messageRequestMode.json"
    wanted = {"consumerGroup": "poppers", "mode": "POP", "popShareQueueNum": 2, "topic": "orders"}
    assert json.loads(path.read_text())["messageRequestModeMap"]["orders"]["poppers"] == wanted
    assert "not exist" in str(run(broker, "group", "mode", "poppers", "nowhere", "pop").exception)


@pytest.fixture(scope="module")
def dead(broker: Broker) -> list[str]:
    """Returns the ids of messages that are dead letters now."""
    with Producer(broker.namesrv, group="p") as producer:
        sent = [
            producer.send(
                Message(
                    "orders",
                    f"order {number}",
                    tags="new",
                    keys=f"k{number}",
                    properties={"shop": "west"},
                )
            )
            for number in range(COUNT)
        ]

    def rejects(message: ReceivedMessage) -> Reject:
        del message
        return Reject()

    letters = f"%DLQ%{GROUP}"
    broker.ensure_topic(letters, queues=1)
    first = ConsumeFrom.FIRST_OFFSET
    with (
        PushConsumer(
            broker.namesrv, group=GROUP, topics="orders", handler=rejects, consume_from=first
        ),
        Inbox(broker.namesrv, letters) as inbox,
    ):
        inbox.take(COUNT)
    return [each.message_id for each in sent]


def listed(broker: Broker, *options: str) -> list[dict[str, Any]]:
    result = run(broker, "dlq", "list", GROUP, *options, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_dead_letters_are_listed(broker: Broker, dead: list[str]) -> None:
    rows = listed(broker)
    assert sorted(row["message_id"] for row in rows) == sorted(dead)
    assert {(row["origin_topic"], row["tags"]) for row in rows} == {("orders", "new")}
    assert len(listed(broker, "--limit", "2")) == 2
    assert listed(broker, "--since", "now") == listed(broker, "--until", "1h") == []
    shown = run(broker, "dlq", "list", GROUP).stdout
    assert all(each in shown for each in dead)


def test_nothing_is_sent_in_a_dry_run(broker: Broker, dead: list[str]) -> None:
    before = len(broker.messages("orders"))
    planned = run_json(broker, "dlq", "resend", GROUP, "--dry-run", "--limit", "2")
    assert len(planned["messages"]) == 2
    assert {row["message_id"] for row in planned["messages"]} <= set(dead)
    assert "nothing was sent" in run(broker, "dlq", "resend", GROUP, "--dry-run").stdout
    asked = run(broker, "dlq", "resend", GROUP)
    assert (asked.exit_code, "--yes" in asked.output) == (2, True)
    assert len(broker.messages("orders")) == before


@pytest.mark.usefixtures("dead")
@pytest.mark.parametrize("choice", [["--dry-run"], ["-y"]])
def test_a_dead_letter_that_is_not_there_is_a_finding(broker: Broker, choice: list[str]) -> None:
    result = run(broker, "dlq", "resend", GROUP, "--id", "ABC", *choice)
    assert (result.exit_code, result.stderr) == (1, f"group {GROUP} has no dead letter ABC\n")
    (letter, *_) = run(broker, "dlq", "list", GROUP, "--json").stdout.splitlines()
    names = [json.loads(letter)[key] for key in ("message_id", "offset_id")]
    for name in names:
        assert run_json(broker, "dlq", "resend", GROUP, "--dry-run", "--id", name)["messages"]


def test_a_dry_run_shows_no_queue_that_nobody_knows_yet(broker: Broker, dead: list[str]) -> None:
    shown = run(broker, "dlq", "resend", GROUP, "--dry-run").stdout
    assert "went to" not in shown
    assert f"{len(dead)} would be sent again, nothing was sent" in shown


def test_dead_letters_go_to_their_topic_again(broker: Broker, dead: list[str]) -> None:
    run_json(broker, "dlq", "resend", GROUP, "-y", "--id", dead[1])
    found = [each for each in broker.messages("orders") if each.message_id == dead[1]]
    assert len(found) == 2
    first, again = sorted(found, key=lambda each: each.physical_offset)
    assert (again.body, again.tags, again.keys) == (first.body, first.tags, first.keys)
    assert again.properties["shop"] == "west"
    assert again.properties["DLQ_ORIGIN_MESSAGE_ID"] == first.offset_message_id
    assert "RETRY_TOPIC" not in again.properties


def test_dead_letters_go_to_their_group_alone(broker: Broker, dead: list[str]) -> None:
    before = len(broker.messages("orders"))
    sent = run_json(broker, "dlq", "resend", GROUP, "-y", "--only-group")
    assert {row["topic"] for row in sent["messages"]} == {f"%RETRY%{GROUP}"}
    assert len(broker.messages("orders")) == before
    with Inbox(broker.namesrv, "orders", group=GROUP) as inbox:
        came = inbox.take(COUNT)
    assert sorted(each.message_id for each in came) == sorted(dead)
    assert {each.topic for each in came} == {"orders"}


def test_what_cannot_be_sent_again_is_reported(broker: Broker) -> None:
    letters = "%DLQ%odd"
    broker.ensure_topic(letters, queues=1)
    run_json(broker, "group", "create", "odd")
    with Producer(broker.namesrv, group="p") as producer:
        producer.send(Message(letters, "from nowhere"))
    with Inbox(broker.namesrv, letters) as inbox:
        inbox.take(1)
    result = run(broker, "dlq", "resend", "odd", "-y", "--json")
    assert result.exit_code == 1
    (row,) = json.loads(result.stdout)["messages"]
    assert "not known" in row["error"]


def test_a_group_is_deleted_when_it_is_confirmed(broker: Broker) -> None:
    run_json(broker, "group", "create", "gone")
    assert run(broker, "group", "delete", "gone").exit_code == 2
    assert run(broker, "group", "settings", "gone").exit_code == 0
    assert run_json(broker, "group", "delete", "gone", "--yes") == {
        "group": "gone",
        "brokers": [broker.address],
    }
    assert "there is no group gone" in str(run(broker, "group", "settings", "gone").exception)
