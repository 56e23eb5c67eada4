"""`mqcore consume` and `mqcore bench`, as processes over a broker in this one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mqcore import Message, Producer, SendResult
from mqcore.cli.latencies import Latencies
from mqcore.testing import Broker

pytestmark = pytest.mark.slow

COUNT = 6


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


# Asked for by name where the results are not looked at.
filled = pytest.mark.usefixtures("sent")


@pytest.fixture(scope="module")
def sent(broker: Broker) -> list[SendResult]:
    broker.create_topic("orders", queues=2)
    with Producer(broker.namesrv) as producer:
        return [
            producer.send(Message("orders", b"%d" % n, tags="odd" if n % 2 else "even", keys="k"))
            for n in range(COUNT)
        ]


def started(broker: Broker, *arguments: str, **how: Any) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "mqcore.cli.main", *arguments],
        env=os.environ | {"MQCORE_NAMESRV": broker.namesrv},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **how,
    )


def output(broker: Broker, *arguments: str) -> bytes:
    with started(broker, *arguments) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    return out


def consumed(broker: Broker, topic: str, *arguments: str) -> list[bytes]:
    return sorted(output(broker, "consume", topic, "-e", *arguments).splitlines())


@filled
def test_everything_is_printed(broker: Broker) -> None:
    assert consumed(broker, "orders") == [b"%d" % n for n in range(COUNT)]
    # Nobody noticed: the next one gets it again.
    assert len(consumed(broker, "orders")) == COUNT


@filled
def test_only_some_tags(broker: Broker) -> None:
    assert consumed(broker, "orders", "-t", "odd || none") == [b"1", b"3", b"5"]


def test_an_offset_to_begin_at(broker: Broker, sent: list[SendResult]) -> None:
    assert consumed(broker, "orders", "--since", "end") == []
    assert len(consumed(broker, "orders", "--since", "1h")) == COUNT
    one = [result for result in sent if result.queue.queue_id == 1]
    options = ["--queue", "broker-test:1", "--offset", "1"]
    assert len(consumed(broker, "orders", *options)) == len(one) - 1


@filled
def test_it_ends_after_a_count(broker: Broker) -> None:
    assert len(output(broker, "consume", "orders", "-c", "2").splitlines()) == 2


@pytest.mark.parametrize("form", ["line", "json", "card", "raw"])
def test_each_form_has_the_body(broker: Broker, sent: list[SendResult], form: str) -> None:
    out = output(broker, "consume", "orders", "-e", "-f", form)
    assert all(b"%d" % n in out for n in range(COUNT))
    if form == "json":
        rows = [json.loads(line) for line in out.splitlines()]
        assert {row["message_id"] for row in rows} == {result.message_id for result in sent}
        assert {row["broker"] for row in rows} == {"broker-test"}
    if form == "line":
        assert b"broker-test:0/0" in out


@filled
def test_a_group_goes_on_where_it_was(broker: Broker) -> None:
    assert len(consumed(broker, "orders", "-g", "some", "-c", "4")) == 4
    assert len(consumed(broker, "orders", "-g", "some")) == COUNT - 4
    assert consumed(broker, "orders", "-g", "some") == []
    assert sum(broker.offsets("some", "orders").values()) == COUNT


@filled
def test_a_group_is_filtered_by_the_broker(broker: Broker) -> None:
    assert consumed(broker, "orders", "-g", "odd", "-t", "odd") == [b"1", b"3", b"5"]


def test_what_comes_is_printed_until_ctrl_c(broker: Broker) -> None:
    broker.create_topic("live", queues=1)
    with started(broker, "consume", "live") as process, Producer(broker.namesrv) as producer:
        assert process.stdout is not None
        assert process.stderr is not None
        producer.send(Message("live", b"first"))
        assert process.stdout.readline() == b"first\n"
        producer.send(Message("live", b"second"))
        assert process.stdout.readline() == b"second\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr.read() == b""


def test_ctrl_c_commits_what_was_printed(broker: Broker) -> None:
    broker.create_topic("committed", queues=1)
    with Producer(broker.namesrv) as producer:
        producer.send(Message("committed", b"one"))
    with started(broker, "consume", "committed", "-g", "c") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert broker.offsets("c", "committed") == {0: 1}


def test_a_reader_that_has_enough_ends_it(broker: Broker) -> None:
    broker.create_topic("enough")
    with started(broker, "consume", "enough") as process, Producer(broker.namesrv) as producer:
        producer.send(Message("enough", b"first"))
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        last_s = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < last_s:
            producer.send(Message("enough", b"more"))
        assert process.wait(30) == 0
        assert process.stderr.read() == b""


def test_a_group_consumes_by_an_expression() -> None:
    with Broker({"enablePropertyFilter": "true"}) as broker:
        with Producer(broker.namesrv) as producer:
            for n in range(COUNT):
                producer.send(Message("flights", b"%d" % n, properties={"delay": str(n)}))
        arguments = ["-g", "late", "-c", "2", "--sql", "delay >= 4"]
        assert consumed(broker, "flights", *arguments) == [b"4", b"5"]


def test_what_was_printed_can_be_sent(broker: Broker) -> None:
    with Producer(broker.namesrv) as producer:
        producer.send(
            Message("from", b"\xff", tags="t", keys=["a", "b"], properties={"p": "ü"}, flag=0)
        )
    line = output(broker, "consume", "from", "-e", "--json")
    again = [sys.executable, "-m", "mqcore.cli.main", "produce", "to", "-f", "json"]
    environment = os.environ | {"MQCORE_NAMESRV": broker.namesrv}
    subprocess.run(again, env=environment, input=line, check=True, timeout=60)
    (message,) = broker.messages("to")
    assert (message.body, message.tags, message.keys) == (b"\xff", "t", ("a", "b"))
    assert message.properties["p"] == "ü"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--offset", "1"],
        ["-g", "g", "--queue", "b:0"],
        ["--sql", "a = 1"],
        ["--tags", "a > 1", "--exit-at-end"],
        ["--since", "soon"],
        ["--queue", "broker-test:77"],
    ],
)
@filled
def test_wrong_usage_is_reported(broker: Broker, arguments: list[str]) -> None:
    with started(broker, "consume", "orders", *arguments) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert b"Traceback" not in err


def test_a_topic_that_is_not_there_is_reported(broker: Broker) -> None:
    with started(broker, "consume", "nowhere") as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err.count(b"\n") == 1


def test_bench_prints_rates(broker: Broker) -> None:
    arguments = ["-d", "0.3", "--size", "100", "--in-flight", "4", "--json"]
    report = json.loads(output(broker, "bench", "produce", "measured", *arguments))
    assert report["messages"] > 0
    assert 0 < report["p50_us"] <= report["p99_us"] <= report["max_us"]
    assert len(broker.messages("measured")) == report["messages"] + 1
    got = json.loads(output(broker, "bench", "consume", "measured", "-d", "0.3", "--json"))
    assert 0 < got["messages"] <= report["messages"] + 1


def test_latencies_are_within_three_percent() -> None:
    latencies = Latencies()
    assert latencies.percentile_us(0.5) == 0
    for value in range(10_000):
        latencies.note(value)
    for part in (0.01, 0.5, 0.9, 0.99):
        exact = part * 10_000
        assert exact * 0.97 <= latencies.percentile_us(part) <= exact * 1.04
    assert latencies.summary_us()["max"] == 9_999
    assert latencies.percentile_us(1.0) == 9_999
