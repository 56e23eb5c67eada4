"""`mqcore broker drain`: producers leave, consumers read what is left, and it can be taken back."""

import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from loops import run_on
from mqcore import Message, Producer, PushConsumer
from mqcore.admin import Admin
from mqcore.admin.draining import Draining, DrainState
from mqcore.cli import broker_drain
from mqcore.cli.main import commands
from mqcore.errors import MQError
from mqcore.model.topics import TopicConfig
from mqcore.testing import Broker


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setattr(broker_drain, "_LOOK_S", 0.05)
    monkeypatch.setattr(broker_drain, "_QUIET_S", 0.2)
    with Broker() as running:
        running.create_topic("orders", queues=2)
        running.create_topic("read-only", queues=1)
        yield running


def run(broker: Broker, *words: str) -> Result:
    environment = {"MQCORE_NAMESRV": broker.namesrv}
    return CliRunner().invoke(commands, ["broker", *words], env=environment)


def looked(broker: Broker) -> DrainState:
    name = name_of(broker)

    async def look() -> DrainState:
        async with Admin(broker.namesrv) as admin:
            return await Draining(admin, name).look()

    return run_on("asyncio", look())


def name_of(broker: Broker) -> str:
    async def names() -> list[str]:
        async with Admin(broker.namesrv) as admin:
            return list((await admin.brokers.cluster()).brokers)

    (name,) = run_on("asyncio", names())
    return name


def permissions(broker: Broker) -> dict[str, int]:
    """Returns what the name server lets clients do with topics."""

    async def ask() -> dict[str, int]:
        async with Admin(broker.namesrv) as admin:
            (server,) = await admin.name_servers.addresses()
            return {
                topic: await admin.name_servers.permission_at(server, topic, name_of_all)
                for topic in ("orders", "read-only", "nothing")
            }

    name_of_all = name_of(broker)
    return run_on("asyncio", ask())


def make_read_only(broker: Broker) -> None:
    async def make() -> None:
        async with Admin(broker.namesrv) as admin:
            await admin.topics.put(TopicConfig("read-only", 1, 1, perm=4))

    run_on("asyncio", make())


def send(broker: Broker, count: int, **options: Any) -> None:
    with Producer(broker.namesrv, group="p") as producer:
        for number in range(count):
            producer.send(Message("orders", f"order {number}".encode(), **options))


def test_a_drain_waits_for_the_consumers_and_is_taken_back(broker: Broker) -> None:
    name = name_of(broker)
    make_read_only(broker)
    send(broker, 30)
    read = threading.Event()
    seen: list[bytes] = []

    def take(message: Any) -> None:
        read.wait()
        seen.append(bytes(message.body))

    outcome: list[Result] = []
    with PushConsumer(broker.namesrv, group="g", handler=take) as consumer:
        consumer.subscribe("orders")
        first = threading.Thread(target=lambda: outcome.append(run(broker, "drain", name, "--yes")))
        # A group that has committed nothing is none yet.
        read.set()
        until(lambda: len(seen) == 30 and looked(broker).lag == 0)
        read.clear()
        send(broker, 10)
        first.start()
        until(lambda: not looked(broker).takes_sends)
        state = looked(broker)
        assert (state.permission, state.writable_at, state.lag) == (4, (), 10)
        assert first.is_alive()
        with pytest.raises(MQError):
            send(broker, 1)
        read.set()
        first.join()
    (done,) = outcome
    assert done.exit_code == 0, done.output
    assert "orders: g has 10 to read" in done.output
    assert f"{name} is drained" in done.output
    assert permissions(broker) == {"orders": 4, "read-only": 4, "nothing": 0}
    # Again: nothing is left to do.
    again = run(broker, "drain", name, "--yes", "--json")
    assert (again.exit_code, json.loads(again.stdout)["isEmpty"]) == (0, True)
    assert run(broker, "undrain", name).exit_code == 0
    assert permissions(broker) == {"orders": 6, "read-only": 4, "nothing": 0}
    send(broker, 1)


def until(look: Any) -> None:
    """Returns when a look succeeds; the deadline of the test ends it otherwise."""
    never = threading.Event()
    last = time.monotonic() + 60
    while not look():
        assert time.monotonic() < last
        never.wait(0.05)


def test_what_is_pending_is_named_and_waited_for(broker: Broker, tmp_path: Path) -> None:
    name = name_of(broker)
    send(broker, 3, delay_level=16)
    until(lambda: looked(broker).pending == 3)
    plan = run(broker, "drain", name, "--dry-run", "--json")
    shown = json.loads(plan.stdout)
    assert (plan.exit_code, shown["delayed"] + sum(shown["timed"].values())) == (1, 3)
    assert shown["writableAt"]
    assert permissions(broker)["orders"] == 6
    short = run(broker, "drain", name, "--yes", "--timeout-minutes", "0.02")
    assert short.exit_code == 1, short.output
    marker = tmp_path / "stopped"
    command = f"{sys.executable} -c \"open('{marker}', 'w')\""
    done = run(broker, "drain", name, "--yes", "--ignore-pending", "--then", command)
    assert done.exit_code == 0, done.output
    assert marker.exists()


def test_who_is_sure_and_which_broker_is_asked(broker: Broker) -> None:
    assert "--yes" in run(broker, "drain", name_of(broker)).output
    unknown = run(broker, "drain", "nobody", "--yes")
    assert isinstance(unknown.exception, MQError)
    assert "no master of nobody" in unknown.exception.message


def test_looks_change_nothing(broker: Broker) -> None:
    send(broker, 5)
    before = permissions(broker)
    until(lambda: looked(broker).unread == {"orders": 5})
    state = looked(broker)
    assert not state.is_empty
    assert state.written_since(state) == {}
    assert permissions(broker) == before
