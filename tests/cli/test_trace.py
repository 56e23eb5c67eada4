"""`mqcore msg trace` over a broker in this process: what clients reported, as one tree."""

import json
import time
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mqcore import (
    ConsumeFrom,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    TransactionProducer,
    TransactionState,
)
from mqcore.cli.main import commands
from mqcore.testing import Broker

FIRST = ConsumeFrom.FIRST_OFFSET


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"traceTopicEnable": "true"}) as running:
        yield running


def run(broker: Broker, *arguments: str) -> Result:
    environment = {"MQCORE_NAMESRV": broker.namesrv}
    return CliRunner().invoke(commands, ["msg", "trace", *arguments], env=environment)


def traces(broker: Broker, *arguments: str) -> list[dict[str, Any]]:
    # Returns when everything stored can be read: what is reported is in the key index then.
    assert broker.messages("RMQ_SYS_TRACE_TOPIC")
    result = run(broker, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_what_the_command_sent_is_traced_on_request(broker: Broker) -> None:
    environment = {"MQCORE_NAMESRV": broker.namesrv}
    line = ["produce", "traced", "-m", "one", "--trace", "--json"]
    sent = CliRunner().invoke(commands, line, env=environment)
    assert sent.exit_code == 0, sent.output
    (found,) = traces(broker, json.loads(sent.stdout)["message_id"])
    assert [each["is_ok"] for each in found["sends"]] == [True]


def test_a_message_that_was_tried_again_is_printed_as_a_tree(broker: Broker) -> None:
    failed, done = Event(), Event()

    def handle(message: ReceivedMessage) -> None:
        if not message.reconsume_times:
            failed.set()
            raise ValueError("not yet")
        done.set()

    with Producer(broker.namesrv, group="shop", trace=True) as producer:
        sent = producer.send(Message("orders", b"one", tags="new", keys="order-1"))
    consumer = PushConsumer(
        broker.namesrv,
        group="bills",
        topics="orders",
        handler=handle,
        consume_from=FIRST,
        trace=True,
    )
    with consumer:
        assert failed.wait(30)
        until_back(broker)
        broker.advance(10)
        assert done.wait(30)
    (found,) = traces(broker, sent.message_id)
    assert (found["topic"], found["tags"], found["keys"]) == ("orders", "new", ["order-1"])
    assert [(each["group"], each["is_ok"]) for each in found["sends"]] == [("shop", True)]
    assert [each["offset_id"] for each in found["stored"]] == [sent.offset_message_id]
    (group,) = found["groups"]
    assert group["group"] == "bills"
    assert [
        (each["retry_times"], each["is_ok"], each["result"]) for each in group["deliveries"]
    ] == [(0, False, "EXCEPTION"), (1, True, "SUCCESS")]
    assert [(each["topic"], each["reconsume_times"]) for each in group["copies"]] == [
        ("%RETRY%bills", 1)
    ]
    text = run(broker, sent.message_id).stdout
    starts = [line.lstrip("│├└─ ").split(" ", 1)[0] for line in text.splitlines()]
    wanted = ["message", "topic", "sent", "stored", "group", "try", "again", "try"]
    assert starts == wanted, text
    for part in ("by shop at 127.0.0.1", "group bills", "EXCEPTION", "SUCCESS", "%RETRY%bills"):
        assert part in text
    assert [each["message_id"] for each in traces(broker, "--key", "order-1")] == [sent.message_id]


def until_back(broker: Broker) -> None:
    """Returns when the message waits for its next try: only then is time to pass."""
    last_s = time.monotonic() + 30
    while not broker.messages("SCHEDULE_TOPIC_XXXX"):
        assert time.monotonic() < last_s, "it never came back"


def test_a_transaction_is_printed_with_the_check_of_the_broker(broker: Broker) -> None:
    asked = Event()

    def check(_message: ReceivedMessage) -> TransactionState:
        asked.set()
        return TransactionState.COMMIT

    producer = TransactionProducer(broker.namesrv, group="bank", check=check, trace=True)
    with producer:
        result = producer.send_in_transaction(
            Message("accounts", b"x"), lambda _message, _argument: TransactionState.UNKNOWN
        )
        broker.advance(60)
        assert asked.wait(30)
    (found,) = traces(broker, result.sent.message_id)
    assert [each["kind"] for each in found["sends"]] == ["half"]
    assert [(each["state"], each["is_from_check"]) for each in found["transaction_ends"]] == [
        ("UNKNOW", False),
        ("COMMIT_MESSAGE", True),
    ]
    assert (
        "COMMIT_MESSAGE by bank at 127.0.0.1, asked by the broker"
        in run(broker, result.sent.message_id).stdout
    )


def test_nothing_reported_is_a_finding(broker: Broker) -> None:
    result = run(broker, "7F000001000100000000000000000000")
    assert (result.exit_code, result.stdout) == (1, "")
    assert run(broker, "--key", "nobody").exit_code == 1
    assert run(broker).exit_code == 2
    assert run(broker, "x", "--key", "y").exit_code == 2
