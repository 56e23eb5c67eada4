"""Clusters that are empty, silent, wrong or large: pages hold their time and name the fault."""

import asyncio
import json
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from console_running import running, visitor
from console_visits import Visitor
from mqcore.console import Console
from mqcore.console.pages.brokers import TABS as BROKER_TABS
from mqcore.console.routes import MENU
from mqcore.namesrv import NameServer
from mqcore.remoting import Client, RequestCode, expect
from mqcore.testing import Broker
from mqcore.testing.loop_thread import LoopThread
from namesrv.asking import CLUSTER, registration_body, rows, settings_of

TOPICS = 10_000
GROUPS = 1_000
USERS = 10_000
ROUNDS = 5
PAGES = [path for path, _ in MENU]
# What a page may take on a machine that does nothing else, and what it may ask.
PAGE_S = 0.3
# One page of topics: the cluster, its table, and a question per row.
REQUESTS_MAX = 60


@contextmanager
def name_server(directory: Path) -> Iterator[tuple[LoopThread, str]]:
    """Runs a name server alone."""
    thread = LoopThread("name server")

    async def started() -> tuple[NameServer, str]:
        made = NameServer(settings_of(directory))
        return made, str(await made.start())

    server, address = thread.run(started())
    try:
        yield thread, address
    finally:
        thread.run(server.stop())
        thread.close()


def test_an_empty_cluster_is_described(tmp_path: Path) -> None:
    with name_server(tmp_path / "n") as (_, address), running(address, tmp_path / "c") as console:
        admin = visitor(console)
        for path in PAGES:
            admin.page(path)
        assert "No broker is registered" in admin.page("/").document.text
        assert "mqcore broker" in admin.page("/brokers").document.text
        assert "No topic yet" in admin.page("/topics").document.text
        assert admin.plan("/topics", name="t").status == 400


def test_a_name_server_that_is_gone_is_named(tmp_path: Path) -> None:
    with running("127.0.0.1:9", tmp_path) as console:
        admin = visitor(console)
        answer = admin.get("/topics")
        assert answer.status == 503
        assert "127.0.0.1:9" in answer.document.text
        assert answer.document.faults == []
        admin.page("/help")


@pytest.mark.slow
def test_a_broker_that_hangs_costs_one_deadline(broker: Broker, tmp_path: Path) -> None:
    broker.ensure_topic("there", queues=1)
    settings = {"brokerName": "broker-hanging"}
    with (
        Broker(settings, namesrv=broker.namesrv) as hanging,
        running(broker.namesrv, tmp_path, question_s=1.0, page_s=2.0) as console,
    ):
        admin = visitor(console)
        hanging.ensure_topic("only-there", queues=1)
        assert "only-there" in admin.page("/topics").document.text
        with hanging.partition():
            _look_at_the_silent(admin, hanging)


def _look_at_the_silent(admin: Visitor, hanging: Broker) -> None:
    took = []
    for path in ("/", *PAGES):
        began = time.monotonic()
        page = admin.page(path).document
        took.append(time.monotonic() - began)
    assert max(took) < 3.5, took
    # Left alone for a while after the first page, it delays no other one.
    assert sorted(took)[len(took) // 2] < 1.0, took
    rows_by_name = {row["name"]: row for row in admin.json("/brokers")["brokers"]}
    assert not rows_by_name["broker-hanging"]["answers"]
    assert "did not answer" in rows_by_name["broker-hanging"]["silent"]
    assert rows_by_name["broker-test"]["answers"]
    page = admin.page("/topics").document
    assert "there" in page.text
    assert "without an answer" in page.text
    assert hanging.address in page.text
    # What it had before it fell silent.
    assert "only-there" in page.text
    assert "shown as of" in page.text


GARBAGE: Mapping[str, Any] = {
    "no frame": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a frame without end": struct.pack(">I", 0x7FFFFFFF),
    "no JSON": b"nonsense",
    "other types": json.dumps(
        {
            "topicConfigTable": 7,
            "subscriptionGroupTable": ["x"],
            "consumeStatsList": [{"g": [{"offsetTable": {"{}": 7}}]}, 3],
            "table": [1],
            "data": {"g": [None, 3, {"clientId": 4}]},
            "timingCount": "x",
            "offsetTable": [1, 2],
        }
    ).encode(),
    "script": json.dumps(
        {
            "topicConfigTable": {
                "<script>alert(1)</script>": {
                    "perm": "<script>alert(2)</script>",
                    "readQueueNums": -5,
                }
            },
            "subscriptionGroupTable": {"<script>alert(3)</script>": {"retryMaxTimes": 10**40}},
            "table": {"putTps": "<script>alert(4)</script>", "bootTimestamp": "9" * 400},
        }
    ).encode(),
    "deep": b'{"table":' + b"[" * 50_000,
}


async def _wrong_broker(body: bytes) -> asyncio.Server:
    """Returns a server that answers every request with some bytes, in a frame or bare."""
    is_bare = body.startswith((b"HTTP", b"\x7f"))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (length,) = struct.unpack(">I", await reader.readexactly(4))
                frame = await reader.readexactly(length)
                (head,) = struct.unpack(">I", frame[:4])
                kind, size = head >> 24, head & 0xFFFFFF
                assert kind == 0
                opaque = json.loads(frame[4 : 4 + size])["opaque"]
                header = json.dumps(
                    {"code": 0, "flag": 1, "language": "JAVA", "opaque": opaque, "version": 1}
                ).encode()
                answer = (
                    struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body
                )
                writer.write(body if is_bare else answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


@pytest.mark.parametrize("kind", GARBAGE)
def test_a_broker_that_talks_nonsense_ends_no_page(tmp_path: Path, kind: str) -> None:
    with name_server(tmp_path / "n") as (thread, address):

        async def registered() -> asyncio.Server:
            server = await _wrong_broker(GARBAGE[kind])
            at = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            fields = {
                "brokerName": "broker-wrong",
                "brokerAddr": at,
                "clusterName": CLUSTER,
                "haServerAddr": at,
                "brokerId": "0",
            }
            async with Client() as client:
                body = registration_body(rows("T", "U"))
                answer = await client.call(
                    address, RequestCode.REGISTER_BROKER, fields, body, timeout_s=30
                )
            expect(answer, address)
            return server

        server = thread.run(registered())
        try:
            with running(address, tmp_path / "c", question_s=1.0, page_s=2.0) as console:
                admin = visitor(console)
                paths = [*PAGES, "/brokers/broker-wrong/0", "/clients?kind=consumers"]
                paths += [f"/brokers/broker-wrong/0?tab={tab}" for tab in BROKER_TABS]
                for path in paths:
                    answer = admin.get(path)
                    assert answer.status in (200, 404), (path, answer.text[-500:])
                    assert answer.document.faults == [], path
                    assert "<script>alert" not in answer.text, path
        finally:
            server.close()


def _group(name: str) -> dict[str, object]:
    return {"groupName": name, "consumeEnable": True, "retryMaxTimes": 16, "retryQueueNums": 1}


def _users() -> list[dict[str, str]]:
    return [
        {"username": f"user-{n:05}", "password": "x", "userType": "Normal", "userStatus": "enable"}
        for n in range(USERS)
    ]


def _policies() -> list[dict[str, Any]]:
    entry = {"resource": "Topic:orders*", "actions": ["Pub"], "decision": "Allow"}
    policies = [{"policyType": "Custom", "entries": [entry]}]
    return [{"subject": f"User:user-{n:05}", "policies": policies} for n in range(0, USERS, 10)]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Console, Visitor]]:
    """A broker with ten thousand topics and a thousand groups, and a console over it."""
    directory = tmp_path_factory.mktemp("large")
    (directory / "config").mkdir()
    table = {
        f"topic-{number:05}": {
            "topicName": f"topic-{number:05}",
            "readQueueNums": 4,
            "writeQueueNums": 4,
            "perm": 6,
        }
        for number in range(TOPICS)
    }
    names = [f"group-{number:04}" for number in range(GROUPS)]
    offsets = {f"topic-{number:05}@{name}": {"0": 0, "1": 0} for number, name in enumerate(names)}
    for name, rows_of in (("users", _users()), ("acls", _policies())):
        (directory / "config" / f"{name}.json").write_text(json.dumps({name: rows_of}))
    for file, kept in (
        ("topics", {"topicConfigTable": table}),
        ("subscriptionGroup", {"subscriptionGroupTable": {n: _group(n) for n in names}}),
        ("consumerOffset", {"offsetTable": offsets}),
    ):
        (directory / "config" / f"{file}.json").write_text(json.dumps(kept))
    with (
        Broker(directory=directory) as broker,
        running(broker.namesrv, tmp_path_factory.mktemp("console")) as console,
    ):
        yield console, visitor(console)


# Beside the menu: what is sorted, filtered, or far back, and pages of one thing.
MANY = (
    *("/topics?page=77&sort=-queues", "/topics?q=topic-0999", "/groups?sort=-lag&page=9"),
    *("/topics/topic-00007", "/groups/group-0007", "/clients?kind=consumers"),
    *("/access?q=user-0999&kind=Normal", "/access/user-00010"),
    *(f"/brokers/broker-test/0?tab={tab}" for tab in BROKER_TABS),
)


@pytest.mark.slow
@pytest.mark.parametrize("path", [*PAGES, *MANY])
def test_ten_thousand_topics_and_a_thousand_groups_are_shown_in_time(
    large: tuple[Console, Visitor], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    console, admin = large
    asked = []
    transport = console.state.admin.topics._transport
    original = transport.ask

    async def counted(*arguments: Any, **named: Any) -> Any:
        asked.append(arguments[1])
        return await original(*arguments, **named)

    admin.page(path)
    monkeypatch.setattr(transport, "ask", counted)
    took = []
    for _ in range(ROUNDS):
        # Of console, broker and visitor together: other processes of the machine do not count.
        began = time.process_time()
        admin.page(path)
        took.append(time.process_time() - began)
    assert min(took) < PAGE_S, took
    assert len(asked) <= ROUNDS * REQUESTS_MAX, len(asked)
    for table in (RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG):
        assert asked.count(table) <= ROUNDS


@pytest.mark.slow
def test_ten_thousand_topics_are_counted_and_listed(large: tuple[Console, Visitor]) -> None:
    _, admin = large
    assert admin.json("/topics")["list"]["of"] >= TOPICS
    assert admin.json("/groups?type=all")["list"]["of"] >= GROUPS
