"""Commands that ask a cluster, over a broker in this process: tables, JSON, exit codes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mqcore import Producer, PushConsumer, aio
from mqcore.cli.main import commands
from mqcore.client.message import Message
from mqcore.client.results import SendResult
from mqcore.model.groups import GroupConfig
from mqcore.testing import Broker

COUNT = 5


@pytest.fixture(scope="module")
def sent() -> list[SendResult]:
    return []


@pytest.fixture(scope="module")
def broker(sent: list[SendResult]) -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("orders", queues=2)
        sent += asyncio.run(filled(running))
        yield running


async def filled(broker: Broker) -> list[SendResult]:
    """Sends a few messages, and makes a group that has read nothing."""
    from mqcore.admin import Admin

    async with Admin(broker.namesrv) as admin:
        await admin.groups.put(GroupConfig("readers"))
    async with aio.Producer(broker.namesrv, group="p") as producer:
        return [
            await producer.send(
                Message("orders", f"order {n} ü", tags="new", keys=[f"k{n}", "all"])
            )
            for n in range(COUNT)
        ]


def run(broker: Broker, *arguments: str, stdin: str = "") -> Result:
    environment = {"MQCORE_NAMESRV": broker.namesrv}
    return CliRunner().invoke(commands, arguments, env=environment, input=stdin)


def run_json(broker: Broker, *arguments: str) -> Any:
    result = run(broker, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_topics_are_listed(broker: Broker) -> None:
    rows = run_json(broker, "topic", "list")
    assert [row["topic"] for row in rows if row["topic"] == "orders"] == ["orders"]
    assert "TBW102" not in {row["topic"] for row in rows}
    assert "TBW102" in {row["topic"] for row in run_json(broker, "topic", "list", "--all")}
    (row,) = (row for row in run_json(broker, "topic", "list", "-l") if row["topic"] == "orders")
    assert row["messages"] == COUNT
    assert "orders" in run(broker, "topic", "list", "-l").stdout


def test_a_topic_lives(broker: Broker) -> None:
    made = run_json(broker, "topic", "create", "short", "-q", "3", "--ordered", "--perm", "r")
    (change,) = made["brokers"]
    assert (change["broker"], change["before"]) == (broker.address, None)
    seen = run_json(broker, "topic", "describe", "short")
    assert (seen["read_queues"], seen["perm"], len(seen["queues"])) == (3, "R--", 3)
    assert "no group has read it" in run(broker, "topic", "describe", "short").stdout
    assert run_json(broker, "topic", "delete", "short", "--yes")["topic"] == "short"
    assert "short" not in {row["topic"] for row in run_json(broker, "topic", "list")}


def test_what_cannot_be_taken_back_is_asked(broker: Broker) -> None:
    result = run(broker, "topic", "delete", "orders")
    assert result.exit_code == 2
    assert "--yes" in result.output
    assert len(broker.messages("orders")) == COUNT


def test_a_group_is_described_and_moved(broker: Broker) -> None:
    assert "readers" in {row["group"] for row in run_json(broker, "group", "list")}
    assert "it has committed no offset yet" in run(broker, "group", "describe", "readers").stdout
    ends = {
        str(row["queue"]): row["max_offset"]
        for row in run_json(broker, "topic", "describe", "orders")["queues"]
    }
    planned = run_json(broker, "group", "reset", "readers", "orders", "--to", "end", "--dry-run")
    assert {str(row["queue"]): row["to"] for row in planned["queues"]} == ends
    assert run_json(broker, "group", "describe", "readers")["queues"] == []
    run_json(broker, "group", "reset", "readers", "orders", "--to", "end", "-y")
    assert run_json(broker, "group", "describe", "readers")["lag"] == 0
    run_json(broker, "group", "reset", "readers", "orders", "--to", "1h", "-y")
    assert run_json(broker, "group", "describe", "readers")["lag"] == COUNT
    one = ["--queue", "broker-test:1", "--offset", "1"]
    run_json(broker, "group", "reset", "readers", "orders", *one, "-y")
    assert broker.offsets("readers", "orders") == {0: 0, 1: 1}
    run_json(broker, "group", "reset", "readers", "orders", "--by", "1", "-y")
    assert broker.offsets("readers", "orders") == {0: 1, 1: 2}
    run_json(broker, "group", "reset", "readers", "orders", "--by", "-2", *one[:2], "-y")
    assert broker.offsets("readers", "orders") == {0: 1, 1: 0}
    planned = run_json(broker, "group", "reset", "readers", "orders", "--by", "-9", "--dry-run")
    assert {row["to"] for row in planned["queues"]} == {0}
    run_json(broker, "group", "reset", "readers", "orders", "--by", "900", "-y")
    assert run_json(broker, "group", "describe", "readers")["lag"] == 0
    run_json(broker, "group", "reset", "readers", "orders", "--to", "start", "-y")
    run_json(broker, "group", "reset", "readers", "orders", *one, "-y")
    result = run(broker, "group", "reset", "nobody", "orders", "--by", "1", "-y")
    assert "there is no group nobody" in str(result.exception)
    lags = run_json(broker, "topic", "describe", "orders")["groups"]
    assert lags == {"readers": COUNT - 1}
    assert "readers" in run(broker, "group", "describe", "readers").stdout


def test_members_that_want_different_messages_are_shown(broker: Broker) -> None:
    def consumer(tags: str) -> PushConsumer:
        topics = {"orders": tags}
        # Silent: what is printed meanwhile would be taken for the command's.
        handler: list[object] = []
        return PushConsumer(broker.namesrv, group="divided", topics=topics, handler=handler.append)

    with consumer("new") as one:
        assert run_json(broker, "group", "describe", "divided")["inconsistent"] == {}
        with consumer("old") as other:
            seen = run_json(broker, "group", "describe", "divided")["inconsistent"]
            wanted = {one.client_id: {"orders": "new"}, other.client_id: {"orders": "old"}}
            assert seen == wanted
            output = run(broker, "group", "describe", "divided").stdout
            assert "want different messages" in output


def test_an_offset_that_is_not_there_is_refused(broker: Broker) -> None:
    queue = ["--queue", "broker-test:0", "--offset", "999"]
    result = run(broker, "group", "reset", "readers", "orders", *queue, "-y")
    assert "not in consume queue range" in str(result.exception)


@pytest.mark.parametrize(
    "arguments",
    [
        ["group", "reset", "g", "orders", "-y"],
        ["group", "reset", "g", "orders", "--to", "end", "--offset", "1", "-y"],
        ["group", "reset", "g", "orders", "--by", "1", "--to", "end", "-y"],
        ["group", "reset", "g", "orders", "--to", "end", "--queue", "b:0", "-y"],
        ["group", "reset", "g", "orders", "--offset", "1", "-y"],
        ["group", "reset", "g", "orders", "--offset", "1", "--queue", "nonsense", "-y"],
        ["group", "reset", "g", "orders", "--to", "soon", "-y"],
        ["msg", "get"],
        ["msg", "get", "X", "--offset", "1"],
        ["msg", "get", "--queue", "b:0", "--offset", "1"],
        ["topic", "list", "--access-key", "a"],
    ],
)
def test_wrong_usage_is_reported(broker: Broker, arguments: list[str]) -> None:
    result = run(broker, *arguments)
    assert result.exit_code == 2
    assert "Error:" in result.output


def test_a_message_is_found_by_each_of_its_names(broker: Broker, sent: list[SendResult]) -> None:
    first = sent[0]
    queue = ["-t", "orders", "--queue", f"broker-test:{first.queue.queue_id}"]
    for arguments in (
        [first.offset_message_id],
        [first.message_id, "-t", "orders"],
        [*queue, "--offset", str(first.queue_offset)],
    ):
        seen = run_json(broker, "msg", "get", *arguments)
        assert (seen["message_id"], seen["body"]) == (first.message_id, "order 0 ü")
        assert seen["keys"] == ["k0", "all"]
    assert "order 0 ü" in run(broker, "msg", "get", first.offset_message_id).stdout


def test_messages_are_found_by_key(broker: Broker) -> None:
    result = run(broker, "msg", "query", "orders", "all", "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted(row["body"] for row in rows) == [f"order {n} ü" for n in range(COUNT)]
    assert len(run_json(broker, "msg", "query", "orders", "k3")["keys"]) == 2
    assert "k1 all" in run(broker, "msg", "query", "orders", "all").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "orders", "none"],
        ["query", "orders", "all", "--until", "1h"],
        ["get", "-t", "orders", "FFFF"],
        ["get", "-t", "orders", "--queue", "broker-test:0", "--offset", "99"],
    ],
)
def test_nothing_found_is_exit_code_1(broker: Broker, arguments: list[str]) -> None:
    result = run(broker, "msg", *arguments)
    assert (result.exit_code, result.stdout) == (1, "")


def test_a_producers_id_wants_its_topic(broker: Broker, sent: list[SendResult]) -> None:
    result = run(broker, "msg", "get", sent[0].message_id)
    assert result.exit_code == 2
    assert "--topic" in result.output


def test_a_body_that_is_no_text_is_base64(broker: Broker) -> None:
    async def send() -> SendResult:
        async with aio.Producer(broker.namesrv, group="p") as producer:
            return await producer.send(Message("raw", b"\xff\x00"))

    offset_id = asyncio.run(send()).offset_message_id
    assert run_json(broker, "msg", "get", offset_id)["body_base64"] == "/wA="
    assert "2 bytes that are no text" in run(broker, "msg", "get", offset_id).stdout


def test_top_shows_topics_and_groups(broker: Broker) -> None:
    seen = run_json(broker, "top", "--count", "1", "-i", "0.1")
    (topic,) = (row for row in seen["topics"] if row["topic"] == "orders")
    assert (topic["messages"], topic["queues"]) == (COUNT, 2)
    assert "readers" in {row["group"] for row in seen["groups"]}
    assert "orders" in run(broker, "top", "--count", "1", "-i", "0.1").stdout


def mqcore(broker: Broker, *arguments: str) -> subprocess.Popen[str]:
    """Runs the command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "mqcore.cli.main", *arguments],
        env=os.environ | {"MQCORE_NAMESRV": broker.namesrv},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ctrl_c_ends_top_cleanly(broker: Broker) -> None:
    with mqcore(broker, "top", "-i", "0.1", "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr.read() == ""


def test_a_failure_is_one_line(broker: Broker) -> None:
    with mqcore(broker, "topic", "describe", "nowhere") as process:
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (2, "")
    assert err.count("\n") == 1
    assert "mqcore topic create nowhere" in err


def test_no_name_server_is_one_line(broker: Broker) -> None:
    with mqcore(broker, "topic", "list", "-n", "127.0.0.1:1") as process:
        _, err = process.communicate(timeout=30)
    assert process.returncode == 2
    assert err.count("\n") == 1
    assert "no name server answered" in err


def requests_of(found: list[dict[str, Any]], topic: str) -> list[dict[str, Any]]:
    return [each for each in found if each["topic"] == topic]


def test_slow_requests_are_shown_with_their_stages(broker: Broker) -> None:
    shown = run_json(broker, "broker", "slow", "--count", "10000")
    assert (shown["address"], shown["is_timed"]) == (broker.address, True)
    sends = requests_of(shown["requests"], "orders")
    # Others are the requests that made the topic, and sends that were refused.
    sends = [each for each in sends if each["kind"] == "send"]
    assert sends
    assert all({"appended", "answered"} <= set(each["stages"]) for each in sends)
    totals = [each["total_us"] for each in shown["requests"]]
    assert totals == sorted(totals, reverse=True)
    one = run_json(broker, "broker", "slow", "-b", broker.address, "-c", "1")
    assert [each["mark"] for each in one["requests"]] == [shown["requests"][0]["mark"]]
    assert one["broker"] == ""
    table = run(broker, "broker", "slow", "-c", "10000").stdout
    assert "orders" in table
    assert "appended" in table
    stages = run(broker, "broker", "slow", "--stages").stdout
    assert "p99.9 ms" in stages
    assert "appended" in stages
    assert "orders" not in stages


def test_quotas_are_shown_with_whom_they_hold_back(broker: Broker) -> None:
    rule = "topic:held-*=producer_message_rate:1000"
    line = ("admin", "updateBrokerConfig", "-b", broker.address, "-k", "mqcoreQuotas", "-v")
    run(broker, *line, rule)
    try:
        shown = run_json(broker, "broker", "quotas")
        (quota,) = shown["quotas"]
        assert quota["rule"] == "topic:held-*"
        assert quota["limits"] == {"producer_message_rate": 1000}
        assert shown["connections_per_address"] == 1000
        table = run(broker, "broker", "quotas", "-b", broker.address).stdout
        assert "topic:held-*" in table
        assert "1000 per address" in table
    finally:
        run(broker, *line, "")


@pytest.mark.parametrize("as_json", [False, True])
def test_slow_requests_are_followed_without_those_before(broker: Broker, as_json: bool) -> None:
    topic = f"followed-{as_json}"
    broker.create_topic(topic, queues=1)

    seen = threading.Event()

    def send() -> None:
        # What came before the first question is not followed: another one comes.
        with Producer(broker.namesrv, group="p") as producer:
            while not seen.is_set():
                producer.send(Message(topic, b"seen"))
                seen.wait(0.2)

    sender = threading.Thread(target=send)
    arguments = ["broker", "slow", "--follow", "-c", "10000", *(["--json"] if as_json else [])]
    with mqcore(broker, *arguments) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = ""
        while not as_json and "client" not in line:
            # The head of the table of those before.
            line = process.stdout.readline()
        sender.start()
        try:
            while topic not in line:
                line = process.stdout.readline()
        finally:
            seen.set()
            sender.join()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr.read() == ""
    if as_json:
        found = json.loads(line)
        assert found["topic"] == topic
        assert {"broker", "address", "total_us", "stages", "mark"} <= set(found)
    else:
        assert "appended" in line


def test_slow_requests_of_nobody_are_a_line(broker: Broker) -> None:
    with mqcore(broker, "broker", "slow", "-b", "127.0.0.1:1") as process:
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (2, "")
    assert err.count("\n") == 1
    assert "127.0.0.1:1" in err
