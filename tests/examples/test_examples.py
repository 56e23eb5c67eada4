"""The examples, run as people run them, over a broker in this process."""

import ast
import importlib
import importlib.util
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from mqcore.testing import Broker

EXAMPLES = Path(__file__).parents[2] / "examples"
COPYABLE_LINES_MAX = 40


@pytest.fixture
def broker(mqcore_broker: Broker) -> Broker:
    return mqcore_broker


@contextmanager
def running(name: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Runs an example in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLES / name), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def lines(process: "subprocess.Popen[str]", count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().rstrip() for _ in range(count)]


def until_reported(process: "subprocess.Popen[str]", wanted: set[str]) -> None:
    """Reads until all lines came; the library's own warnings may be between them."""
    missing = set(wanted)
    while missing:
        (line,) = lines(process, 1)
        assert line, f"it ended without {missing}"
        missing.discard(line)


def until_stored(broker: Broker, topic: str) -> None:
    last_s = time.monotonic() + 30
    while not broker.messages(topic):
        assert time.monotonic() < last_s, f"nothing came into {topic}"


def imported(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_script_to_copy_is_short() -> None:
    for name in ("producer.py", "consumer.py", "publish_flights.py", "read_flights.py"):
        assert len((EXAMPLES / name).read_text().splitlines()) < COPYABLE_LINES_MAX


def test_every_example_shows_how_it_is_run() -> None:
    for path in EXAMPLES.glob("*.py"):
        assert "examples" in (ast.get_docstring(ast.parse(path.read_text())) or ""), path


def test_the_producer_and_the_consumer_meet(broker: Broker) -> None:
    with running("producer.py", broker.namesrv) as producer:
        out, err = producer.communicate(timeout=60)
    assert (producer.returncode, err) == (0, "")
    assert len(out.splitlines()) == 10
    assert len(broker.messages("orders")) == 10
    with running("consumer.py", broker.namesrv) as consumer:
        seen = lines(consumer, 10)
        consumer.send_signal(signal.SIGINT)
        out, err = consumer.communicate(timeout=60)
    assert sorted(seen) == sorted(f"order {number} attempt 1" for number in range(10))
    assert (consumer.returncode, out, err) == (0, "bye\n", "")


def test_flights_are_published_and_read(broker: Broker, tmp_path: Path) -> None:
    source, acks, seen = (tmp_path / name for name in ("flights", "acks", "seen"))
    plane = {"carrier": "UA", "flight": "1545", "tailnum": "", "origin": "EWR", "dep_delay": "2"}
    source.write_text("".join(json.dumps({"number": n, **plane}) + "\n" for n in range(500)))
    broker.fail_sends(3)
    with running("publish_flights.py", broker.namesrv, str(source), str(acks)) as publisher:
        assert publisher.wait(60) == 0
    assert sorted(map(int, acks.read_text().split())) == list(range(500))
    with running("read_flights.py", broker.namesrv, str(seen)) as reader:
        last_s = time.monotonic() + 60
        while not seen.is_file() or len(set(seen.read_text().split())) < 500:
            assert time.monotonic() < last_s, "not every flight was read"
        reader.send_signal(signal.SIGTERM)
        assert reader.wait(60) == 0


def test_a_worker_does_its_tasks(broker: Broker) -> None:
    from mqcore import Producer

    worker = imported("worker")
    with Producer(broker.namesrv) as producer:
        worker.delay(producer, "add", 1, 2)
        worker.delay(producer, "unknown")
        with running("worker.py", broker.namesrv) as process:
            # In any order: what was sent before is waiting.
            until_reported(process, {"working", "1 + 2 = 3"})
            worker.delay(producer, "add", 3, 4)
            until_reported(process, {"3 + 4 = 7"})
            until_stored(broker, "%DLQ%workers")
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


def test_logged_records_are_published(broker: Broker) -> None:
    with running("log_records.py", broker.namesrv) as process:
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    rows = [json.loads(message.body) for message in broker.messages("logs")]
    assert {row["message"] for row in rows} == {"the program begins", "and fails"}
    assert any("ValueError" in row.get("exception", "") for row in rows)


def test_a_web_application_publishes(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    testclient = importlib.import_module("fastapi.testclient")
    monkeypatch.setenv("MQCORE_NAMESRV", broker.namesrv)
    application = imported("fastapi_app").app
    with testclient.TestClient(application) as client:
        answer = client.post("/orders", content=b'{"id": 1}')
        assert answer.status_code == 202
        (message,) = broker.messages("orders")
        assert message.message_id == answer.json()["id"]
        broker.fail_sends(100)
        assert client.post("/orders", content=b"x").status_code == 503


def test_a_flash_sale_sells_cancels_and_looks_at_dead_letters(broker: Broker) -> None:
    with running("flash_sale.py", broker.namesrv) as sale:
        until_reported(sale, {"sold to ann, bob, cid", "cid has paid", "somebody should call bob"})
        last_s = time.monotonic() + 30
        while len(broker.messages("SCHEDULE_TOPIC_XXXX")) < 3:
            assert time.monotonic() < last_s, "not every order has its reminder"
        # Nobody waits for the five seconds that an order may stay unpaid.
        broker.advance(5)
        until_reported(sale, {"ann did not pay in time", "bob did not pay in time"})
        until_reported(sale, {"paid: ['cid']; cancelled: ['ann', 'bob']"})
        assert sale.wait(60) == 0
    # What was rolled back was never seen.
    buyers = {json.loads(message.body)["buyer"] for message in broker.messages("orders")}
    assert buyers == {"ann", "bob", "cid"}
