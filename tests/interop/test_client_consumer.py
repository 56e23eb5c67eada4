"""Our consumers against the official brokers, beside the official consumers of the same release."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Any

import pytest

import mqcore
from interop.cases import Case, bodies, by_queue, name_of
from interop.driver import Driver, Item
from interop.patience import PATIENCE_S, eventually
from interop.servers import CLUSTER, MACHINE_ROOM, REFERENCE_CONFIG, Servers
from mqcore import ConsumeFrom, Message, ReceivedMessage, Reject, Retry, Sql
from mqcore.admin import Admin
from mqcore.model.allocation import (
    Averagely,
    AveragelyByCircle,
    ByConfig,
    ByMachineRoom,
    ConsistentHash,
    MachineRoomNearby,
    Strategy,
    allocated,
)
from mqcore.model.queues import MessageQueue
from mqcore.model.topics import TRACE_TOPIC
from mqcore.model.traces import MessageTrace

pytestmark = pytest.mark.java

FIRST = ConsumeFrom.FIRST_OFFSET
QUEUES = 8


class Received:
    """What a handler got; safe between threads."""

    def __init__(self) -> None:
        self.messages: list[ReceivedMessage] = []
        self._changed = threading.Condition()

    def add(self, message: ReceivedMessage) -> None:
        with self._changed:
            self.messages.append(message)
            self._changed.notify_all()

    @property
    def bodies(self) -> Counter[str]:
        with self._changed:
            return Counter(message.body_text() for message in self.messages)

    def holds(self, count: int) -> list[ReceivedMessage]:
        with self._changed:
            self._changed.wait_for(lambda: len(self.messages) >= count, PATIENCE_S)
        assert len(self.messages) >= count, [message.body for message in self.messages]
        return self.messages


@pytest.fixture
def case(driver: Driver, reference: Servers, request: pytest.FixtureRequest) -> Iterator[Case]:
    name = name_of(request, request.node.name[:50], driver.version)
    case = Case(driver, reference, f"cons_{name}")
    yield case
    case.close()


def push(case: Case, handler: Any, **changes: Any) -> mqcore.PushConsumer:
    options: dict[str, Any] = {"group": case.group, "topics": case.topic, "consume_from": FIRST}
    return mqcore.PushConsumer(case.namesrv, handler=handler, **options | changes)


def send(case: Case, count: int, **options: Any) -> None:
    with mqcore.Producer(case.namesrv, group="PG_py") as producer:
        for at in range(count):
            producer.send(Message(case.topic, f"m-{at}", **options))


def _machine_room_of_queue(queue: MessageQueue) -> str:
    return str(queue.queue_id % 3)


def _machine_room_of_client(client_id: str) -> str:
    # As java/mqcore/interop/Strategies.java has it: the third machine room has no client.
    return "0" if client_id.endswith("0") else "1"


STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "AVG": Averagely,
    "AVG_BY_CIRCLE": AveragelyByCircle,
    "CONSISTENT_HASH": ConsistentHash,
    "MACHINE_ROOM": lambda: ByMachineRoom([MACHINE_ROOM]),
    "MACHINE_ROOM_NEARBY-AVG": lambda: MachineRoomNearby(
        Averagely(), _machine_room_of_queue, _machine_room_of_client
    ),
}


class Group:
    """Two official consumers and two of ours in one group, all with one strategy.

    Attributes:
        java: The names of the official ones.
        python: Ours.
    """

    def __init__(self, case: Case, received: Received, opened: ExitStack, strategy: str) -> None:
        """Starts them; `opened` closes ours."""
        self._case = case
        self._listed = [
            [
                MessageQueue(case.topic, REFERENCE_CONFIG["brokerName"], at)
                for at in range(member, QUEUES, 4)
            ]
            for member in range(4)
        ]
        self._strategies = [
            ByConfig(listed) if strategy == "CONFIG" else STRATEGIES[strategy]()
            for listed in self._listed
        ]
        self.java = [
            case.push(
                strategy=strategy,
                machine_room=MACHINE_ROOM,
                broker=REFERENCE_CONFIG["brokerName"],
                listed=",".join(str(queue.queue_id) for queue in listed),
            )
            for listed in self._listed[:2]
        ]
        self.python = [
            self._opened(opened, received, f"{case.topic}-{at}", chosen)
            for at, chosen in enumerate(self._strategies[2:])
        ]

    def _opened(
        self, opened: ExitStack, received: Received, name: str, strategy: Strategy
    ) -> mqcore.PushConsumer:
        client = opened.enter_context(mqcore.Client(self._case.namesrv, instance_name=name))
        return opened.enter_context(
            client.push_consumer(
                group=self._case.group,
                topics=self._case.topic,
                handler=received.add,
                consume_from=FIRST,
                strategy=strategy,
            )
        )

    @property
    def expected(self) -> list[list[int]]:
        """The queues of each member, by the strategy as we compute it."""
        address = self.python[0].client_id.split("@")[0]
        clients = [f"{address}@{name}" for name in self.java]
        clients += [consumer.client_id for consumer in self.python]
        queues = list(chain(*self._listed))
        return [
            sorted(queue.queue_id for queue in allocated(strategy, client, queues, clients))
            for strategy, client in zip(self._strategies, clients, strict=True)
        ]

    def of_java(self) -> list[list[int]]:
        """Returns the queues of each official consumer."""
        asked = {"topic": self._case.topic, "timeout": 0}
        held = [self._case.driver.call("allocated", name, **asked) for name in self.java]
        return [sorted(item["queue_id"] for item in items) for items in held]

    def shares(self) -> list[list[int]]:
        """Returns the queues of each member."""
        held = [sorted(queue.queue_id for queue in consumer.queues) for consumer in self.python]
        return [*self.of_java(), *held]


@pytest.mark.sampled("strategy")
@pytest.mark.parametrize("strategy", [*STRATEGIES, "CONFIG"])
def test_java_and_python_share_queues_without_overlap(case: Case, strategy: str) -> None:
    case.create(QUEUES)
    every = list(range(QUEUES))
    received = Received()
    with ExitStack() as opened:
        group = Group(case, received, opened, strategy)
        expected = group.expected
        assert sorted(chain(*expected)) == every
        assert eventually(group.shares, lambda found: found == expected) == expected
        send(case, 40)

        def got() -> list[Item]:
            return [item for name in group.java for item in case.driver.call("got", name, count=0)]

        java = eventually(got, lambda items: len(bodies(items) | received.bodies) >= 40)
        # Nothing is lost; a member that is late on a busy machine may bring something twice.
        assert set(bodies(java) | received.bodies) == {f"m-{at}" for at in range(40)}
        assert eventually(group.shares, lambda found: found == expected) == expected
    if strategy != "CONFIG":
        # Who is left takes all.
        left = eventually(group.of_java, lambda found: sorted(chain(*found)) == every)
        assert sorted(chain(*left)) == every


def test_what_java_sends_python_reads(case: Case) -> None:
    case.create(1)
    received = Received()
    producer = case.producer(compress_over=100)
    case.send(producer, body="größe 漢字 😀", tags="täg", keys="schlüssel")
    case.send(producer, body="big", size=5000)
    case.send(producer, body="batch", count=5, how="batch")
    with push(case, received.add):
        one, big, *batch = received.holds(7)
    assert one.body_text() == "größe 漢字 😀-0"
    assert (one.tags, one.keys) == ("täg", ("schlüssel-0",))
    assert one.properties["number"] == "0"
    assert (len(big.body), big.body[:5]) == (5000, b"big-0")
    assert big.record.stored_body_len_bytes < 200
    assert [message.body for message in batch] == [b"batch-%d" % at for at in range(5)]


def test_batches_that_are_one_record_come_as_messages(case: Case) -> None:
    # 4.9 keeps every message of a batch as a record.
    batching = () if case.driver.version.startswith("4") else ("-a", "+queue.type=BatchCQ")
    line = "updateTopic", "-n", case.namesrv, "-c", CLUSTER, "-t", case.topic, "-r", "1", "-w", "1"
    case.driver.mqadmin(*line, *batching)
    case.until_routed()
    producer = case.producer()
    for body in ("first", "second"):
        case.send(producer, body=body, count=5, how="batch", tags="A,B", keys="k")
    received = Received()
    with push(case, received.add):
        messages = received.holds(10)
    assert [message.body_text() for message in messages] == [
        f"{body}-{at}" for body in ("first", "second") for at in range(5)
    ]
    assert [message.queue_offset for message in messages] == list(range(10))
    assert [(m.tags, m.keys) for m in messages] == [
        ("AB"[at % 2], (f"k-{at}",)) for at in range(5)
    ] * 2
    # Of one record, where the topic keeps batches so.
    physical_offsets = {message.physical_offset for message in messages}
    assert len(physical_offsets) == (2 if batching else 10)
    # Its broker filters such a record by the tag that it has not.
    tagged = {item["body"] for item in case.pull(expr="B")}
    whole = {f"{body}-{at}" for body in ("first", "second") for at in (1, 3)}
    assert tagged == (set() if batching else whole)
    with mqcore.PullConsumer(case.namesrv, group=f"{case.group}_at") as consumer:
        (queue,) = consumer.topic_queues(case.topic)
        consumer.seek(queue, 3)
        consumer.assign([queue])
        # From the middle of a batch on, though the broker gives all of it.
        (first, *_) = consumer.poll(PATIENCE_S)
        assert (first.queue_offset, first.body) == (3, b"first-3")


def test_failures_come_again_and_rejects_are_dead(case: Case) -> None:
    case.create(2)
    received = Received()

    def handler(message: ReceivedMessage) -> Any:
        received.add(message)
        if message.body == b"m-0":
            return Reject()
        return None if message.attempt > 2 else Retry(delay=1)

    with push(case, handler):
        send(case, 2)
        messages = received.holds(4)
    assert sorted((m.body, m.attempt) for m in messages) == [
        (b"m-0", 1),
        (b"m-1", 1),
        (b"m-1", 2),
        (b"m-1", 3),
    ]
    assert {message.topic for message in messages} == {case.topic}
    dead = case.pulled(1, topic=f"%DLQ%{case.group}")
    assert bodies(dead) == {"m-0": 1}


def test_an_orderly_group_of_java_and_python_keeps_the_order(case: Case) -> None:
    case.create(4)
    received = Received()
    java = case.push(order=1)
    with push(case, received.add, orderly=True) as consumer:
        eventually(lambda: len(consumer.queues), lambda count: count == 2)
        send(case, 40)
        got = eventually(
            lambda: case.driver.call("got", java, count=0),
            lambda items: len(items) + len(received.messages) >= 40,
        )
    ours = by_queue(
        {"queue_id": message.queue.queue_id, "queue_offset": message.queue_offset}
        for message in received.messages
    )
    theirs = by_queue(got)
    assert len(ours) == len(theirs) == 2
    assert not ours.keys() & theirs.keys()
    for offsets in [*ours.values(), *theirs.values()]:
        assert offsets == list(range(10))


def test_the_broker_filters_by_sql(case: Case) -> None:
    case.create(1)
    received = Received()
    with mqcore.Producer(case.namesrv, group="PG_py") as producer:
        for at in range(10):
            producer.send(Message(case.topic, f"m-{at}", properties={"n": str(at)}))
    with push(case, received.add, topics={case.topic: Sql("n BETWEEN 3 AND 5")}):
        received.holds(3)
    assert [message.body for message in received.messages] == [b"m-3", b"m-4", b"m-5"]


def test_mqadmin_sees_our_consumer_and_resets_it(case: Case) -> None:
    case.create(1)
    received = Received()
    send(case, 3)
    with push(case, received.add, persist_interval_s=0.2) as consumer:
        received.holds(3)
        consumer.commit()
        asked = "-n", case.namesrv, "-g", case.group
        assert "PYTHON" in case.driver.mqadmin("consumerConnection", *asked)
        printed = case.driver.mqadmin("consumerStatus", *asked, "-i", consumer.client_id)
        assert "CONSUME_PASSIVELY" in printed
        assert case.topic in printed
        progress = "consumerProgress", "-n", case.namesrv, "-g", case.group
        assert "Diff Total: 0" in eventually(
            lambda: case.driver.mqadmin(*progress), lambda text: "Diff Total: 0" in text
        )
        line = "resetOffsetByTime", "-n", case.namesrv, "-g", case.group, "-t", case.topic
        case.driver.mqadmin(*line, "-s", "0", "-f", "true")
        # A held pull sees a reset at the broker when it is sent again.
        send(case, 1)
        messages = received.holds(7)
    assert sorted(message.body for message in messages[:7]).count(b"m-1") == 2


def test_a_pull_consumer_reads_and_commits(case: Case) -> None:
    case.create(2)
    send(case, 10)
    with mqcore.PullConsumer(
        case.namesrv, group=case.group, topics=case.topic, consume_from=FIRST
    ) as consumer:
        seen: list[bytes] = []
        for message in consumer:
            seen.append(message.body)
            if len(seen) == 10:
                break
        consumer.commit()
        for queue in consumer.queues:
            assert consumer.committed(queue) == consumer.bounds(queue)[1]
    assert sorted(seen) == [b"m-%d" % at for at in range(10)]


# What differs from call to call, by the kind of a line: times, ids of calls, and the group.
_CHANGING = {"SubBefore": (1, 3, 4), "SubAfter": (1, 3, 7, 8)}


def trace_lines(case: Case, group: str, count: int) -> list[list[str]]:
    """Returns so many lines that the trace holds of a group, as the fields that do not change."""
    group_at = {"SubBefore": 3, "SubAfter": 8}
    found: list[list[str]] = []
    with mqcore.PullConsumer(
        case.namesrv, group=f"{group}_reads", topics=TRACE_TOPIC, consume_from=FIRST
    ) as consumer:
        while len(found) < count and (batch := consumer.poll(PATIENCE_S)):
            for line in chain(*(message.body_text().split("\x02") for message in batch)):
                fields = line.split("\x01")
                kind = fields[0]
                if kind in group_at and fields[group_at[kind]] == group:
                    kept = (at for at in range(len(fields)) if at not in _CHANGING[kind])
                    found.append([fields[at] for at in kept])
    return sorted(found)


def is_traced(case: Case) -> None:
    """Sends and consumes traced messages, and has the official tool show both halves."""
    case.create(1)
    received = Received()

    def handler(message: ReceivedMessage) -> Any:
        received.add(message)
        return message.body != b"m-1" or message.attempt > 1

    with mqcore.Producer(case.namesrv, group="PG_traced", trace=True) as producer:
        sent = [producer.send(Message(case.topic, f"m-{at}", keys=["k"])) for at in range(2)]
    with push(case, handler, trace=True):
        received.holds(3)
    with push(case, received.add, trace=True, orderly=True, group=f"{case.group}_2"):
        received.holds(5)
    with mqcore.PullConsumer(
        case.namesrv,
        group=f"{case.group}_3",
        topics=case.topic,
        consume_from=FIRST,
        trace=True,
    ) as consumer:
        assert consumer.poll(PATIENCE_S)
    line = "queryMsgTraceById", "-n", case.namesrv, "-i"
    expected = [["Pub", "PG_traced", "success"]] + [
        ["Sub", group, "success"] for group in (case.group, f"{case.group}_2", f"{case.group}_3")
    ]

    def shown(at: int) -> list[list[str]]:
        printed = case.driver.mqadmin(*line, sent[at].message_id).splitlines()
        rows = (row.split() for row in printed if row.startswith(("Pub ", "Sub ")))
        return sorted([row[0], row[1], row[-1]] for row in rows)

    assert eventually(lambda: shown(0), lambda rows: len(rows) >= 4) == expected
    # What failed is shown beside what came of it later.
    failed = [["Sub", case.group, "failed"]]
    assert eventually(lambda: shown(1), lambda rows: len(rows) >= 5) == sorted(expected + failed)


def test_the_trace_of_both_halves_is_found_by_the_official_tool(case: Case) -> None:
    is_traced(case)
    # The official consumer writes the same lines.
    java = case.push(traced=1, group=f"{case.group}_4")
    # (Not closed before they are there: what it has not sent then may be lost.)
    case.driver.got(java, 2)
    ours = trace_lines(case, f"{case.group}_2", 4)
    assert len(ours) == 4
    assert trace_lines(case, f"{case.group}_4", 4) == ours


def test_the_trace_is_found_at_our_broker_too(driver: Driver, servers: Servers) -> None:
    case = Case(driver, servers, f"cons_traced_by_ours_{driver.version.replace('.', '_')}")
    is_traced(case)
    # Consumers of 5.x trace a message only when its broker has named a region.
    java = case.push(traced=1, group=f"{case.group}_4")
    got = case.driver.got(java, 2)
    ours = trace_lines(case, f"{case.group}_2", 4)
    assert len(ours) == 4
    assert trace_lines(case, f"{case.group}_4", 4) == ours
    trace = asyncio.run(tree_of(case.namesrv, got[0]["msg_id"]))
    assert [each.line.group for each in trace.sends] == ["PG_traced"]
    groups = [f"{case.group}{end}" for end in ("", "_2", "_3", "_4")]
    assert [each.group for each in trace.groups] == groups
    assert all(each.deliveries[-1].result == "SUCCESS" for each in trace.groups)
    assert [each.topic for each in trace.copies] == [case.topic]
    case.close()


async def tree_of(namesrv: str, message_id: str) -> MessageTrace:
    """Returns what clients of all kinds traced of a message."""
    async with Admin(namesrv) as admin:
        found = await admin.traces.by_id(message_id)
    assert found is not None
    return found
