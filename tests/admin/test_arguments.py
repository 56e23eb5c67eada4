"""Arguments that cannot work are refused in words, with both APIs, before anything is sent."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

import mqcore
from mqcore import Message, QueueRef, aio
from mqcore.admin import LATEST_MS, GroupConfig, TopicConfig
from mqcore.errors import MQError, NameServerError, NoRouteError, UsageError, UsageReason
from mqcore.model.topics import QUEUES_MAX
from mqcore.testing import Broker, Inbox

# Nobody listens there: whatever is sent fails otherwise.
NOWHERE = "127.0.0.1:1"
QUEUE = QueueRef("orders", "broker-a", 0)
NAIVE = datetime(2026, 11, 24, 10, 30)
LETTER_BY_LETTER = r'several are expected, not one str: {}=\["{}"\]'
Call = Callable[[Any], Any]

REFUSED: list[tuple[str, Call, str]] = [
    (
        "brokers of a topic",
        lambda admin: admin.topics.create("t", brokers="vm:10911"),
        LETTER_BY_LETTER.format("brokers", "vm:10911"),
    ),
    (
        "brokers of a topic's configuration",
        lambda admin: admin.topics.put(TopicConfig("t"), brokers="vm"),
        LETTER_BY_LETTER.format("brokers", "vm"),
    ),
    (
        "brokers of a group",
        lambda admin: admin.groups.create("g", brokers="vm"),
        LETTER_BY_LETTER.format("brokers", "vm"),
    ),
    ("no brokers", lambda admin: admin.groups.create("g", brokers=None), "not NoneType"),
    ("numbers", lambda admin: admin.groups.create("g", brokers=[1]), "a str is expected, not 1"),
    (
        "changes",
        lambda admin: admin.topics.put(TopicConfig("t"), changes="+a=b"),
        r'not one str: changes=\["\+a=b"\]',
    ),
    (
        "changes by name",
        lambda admin: admin.topics.put(TopicConfig("t"), changes={"a": "b"}),
        r'such as changes=\["\.\.\."\], not dict',
    ),
    (
        "ids",
        lambda admin: admin.dead_letters.resend_all("g", ids="AC1100"),
        LETTER_BY_LETTER.format("ids", "AC1100"),
    ),
    ("no queues", lambda admin: admin.topics.create("t", queues=0), "queues: 0 is below 1"),
    ("queues below", lambda admin: admin.topics.create("t", queues=-8), "queues: -8 is below 1"),
    (
        "too many queues",
        lambda admin: admin.topics.create("t", queues=QUEUES_MAX + 1),
        f"queues: {QUEUES_MAX + 1} is above {QUEUES_MAX}",
    ),
    ("a text", lambda admin: admin.topics.create("t", queues="8"), "an int is expected, not '8'"),
    (
        "a truth",
        lambda admin: admin.topics.create("t", queues=True),
        "queues: an int is expected, not True",
    ),
    (
        "order",
        lambda admin: admin.topics.create("t", ordered="no"),
        "order: True or False is expected, not 'no'",
    ),
    (
        "permission",
        lambda admin: admin.topics.put(TopicConfig("t", perm="rw")),  # type: ignore[arg-type]
        "perm: an int is expected, not 'rw'",
    ),
    ("no topic", lambda admin: admin.topics.put("t"), "topic: a TopicConfig is expected, not 't'"),
    ("a space", lambda admin: admin.topics.create("a b"), "topic 'a b': .* illegal characters"),
    ("blank", lambda admin: admin.topics.create(" "), "topic ' ': .* is blank"),
    ("too long", lambda admin: admin.topics.create("t" * 128), "longer than topic max length 127"),
    ("a blank topic", lambda admin: admin.topics.delete(""), "topic '': .* is blank"),
    ("None", lambda admin: admin.topics.stats(None), "topic: a str is expected, not None"),
    ("retries", lambda admin: admin.groups.create("g", retries=-1), "retries: -1 is below 0"),
    (
        "retries as text",
        lambda admin: admin.groups.create("g", retries="3"),
        "retries: an int is expected, not '3'",
    ),
    ("group", lambda admin: admin.groups.put("g"), "group: a GroupConfig is expected, not 'g'"),
    (
        "a queue's name",
        lambda admin: admin.topics.offset_at("orders", 0),
        "a mqcore.QueueRef is expected, .* not str",
    ),
    # A broker takes it for none, and moves all queues to the end.
    (
        "an offset below 0",
        lambda admin: admin.groups.reset_queue("g", QUEUE, -1),
        "offset: -1 is below 0",
    ),
    ("limit", lambda admin: admin.messages.at(QUEUE, 0, -1), "limit: -1 is below 1"),
    ("limit of a key", lambda admin: admin.messages.by_key("t", "k", limit=0), "limit: 0 is below"),
    (
        "limit of dead letters",
        lambda admin: admin.dead_letters.resend_all("g", limit=0),
        "limit: 0 is below 1",
    ),
    ("address", lambda admin: admin.brokers.runtime(None), "address: a str is expected, not None"),
    (
        "settings",
        lambda admin: admin.brokers.change_config(NOWHERE, "key=value"),
        'changes: a mapping such as {"key": "value"} is expected, not str',
    ),
    (
        "settings of two lines",
        lambda admin: admin.brokers.change_config(NOWHERE, {"key": "value\nother=1"}),
        "has a line break",
    ),
]
# What takes a time, and the name of the parameter.
TIMED: list[tuple[str, Callable[..., Any]]] = [
    ("time_ms", lambda admin, at: admin.groups.reset_to_time("g", "t", at)),
    ("time_ms", lambda admin, at: admin.topics.offset_at(QUEUE, at)),
    ("begin_ms", lambda admin, at: admin.messages.by_key("t", "k", begin_ms=at)),
    ("end_ms", lambda admin, at: admin.messages.by_key("t", "k", end_ms=at)),
    ("begin_ms", lambda admin, at: admin.dead_letters.of_group("g", begin_ms=at)),
    ("end_ms", lambda admin, at: admin.dead_letters.resend_all("g", end_ms=at)),
    ("begin_ms", lambda admin, at: admin.traces.by_id("id", begin_ms=at)),
    ("end_ms", lambda admin, at: admin.traces.by_key("key", end_ms=at)),
]


def called_in_both(call: Call) -> list[MQError]:
    """Calls with both APIs; returns what they raised."""

    async def work() -> None:
        async with aio.Admin(NOWHERE) as admin:
            await call(admin)

    raised = []
    with mqcore.Admin(NOWHERE) as admin:
        for each in (lambda: call(admin), lambda: asyncio.run(work())):
            with pytest.raises(MQError) as found:
                each()
            raised.append(found.value)
    return raised


@pytest.mark.parametrize(
    ("call", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_cannot_work_is_refused(call: Call, words: str) -> None:
    for error in called_in_both(call):
        assert isinstance(error, UsageError), error
        assert error.reason is UsageReason.ARGUMENT
        with pytest.raises(UsageError, match=words):
            raise error


@pytest.mark.parametrize(
    "call",
    [
        lambda admin: admin.groups.create("a b"),
        lambda admin: admin.groups.put(GroupConfig("a b")),
        lambda admin: admin.groups.clone("billing", "a b"),
    ],
)
def test_an_illegal_group_is_refused(call: Call) -> None:
    for error in called_in_both(call):
        assert isinstance(error, UsageError)
        assert (error.reason, error.group) == (UsageReason.GROUP, "a b")
        assert "illegal characters" in error.message


@pytest.mark.parametrize(("name", "call"), TIMED)
def test_a_time_is_a_number_or_has_a_zone(name: str, call: Callable[..., Any]) -> None:
    wrong = {
        NAIVE: rf"{name}: 2026-11-24T10:30:00 has no time zone: `\.astimezone\(\)`",
        1_764_000_000.5: rf"{name}: Unix ms as an int, .* not 1764000000\.5",
        "2026-11-24": f"{name}: .* not '2026-11-24'",
        date(2026, 11, 24): f"{name}: .* not date",
        True: f"{name}: .* not True",
        -2: f"{name}: -2 is below",
    }
    for value, words in wrong.items():
        for error in called_in_both(partial(call, at=value)):
            with pytest.raises(UsageError, match=words):
                raise error
    # What can work is sent, to nobody here.
    for value in (0, NAIVE.replace(tzinfo=UTC)):
        for error in called_in_both(partial(call, at=value)):
            assert isinstance(error, NameServerError)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def admin(broker: Broker) -> Iterator[mqcore.Admin]:
    with mqcore.Admin(broker.namesrv) as made:
        yield made


def test_a_moment_is_the_same_as_its_number(admin: mqcore.Admin, broker: Broker) -> None:
    broker.create_topic("timed", queues=1)
    with mqcore.Producer(broker.namesrv, group="p") as producer:
        sent = [producer.send(Message("timed", b"x", keys="k")) for _ in range(2)]
    queue = sent[0].queue
    with Inbox(broker.namesrv, "timed") as inbox:
        # What was taken can be read, and is found by its time.
        inbox.take(2)
    admin.groups.create("billing")
    (stored,) = admin.messages.at(queue, 0)
    # Exactly that ms, in a zone that is not this machine's.
    zone = timezone(timedelta(hours=5, minutes=45))
    first = datetime.fromtimestamp(0, zone) + timedelta(milliseconds=stored.store_timestamp_ms)
    later = first + timedelta(hours=1)
    assert admin.topics.offset_at(queue, first) == 0
    assert admin.topics.offset_at(queue, later) == 2
    assert admin.groups.reset_to_time("billing", "timed", later) == {queue: 2}
    assert admin.groups.reset_to_time("billing", "timed", first) == {queue: 0}
    assert admin.groups.reset_to_time("billing", "timed", LATEST_MS) == {queue: 2}
    assert admin.messages.by_key("timed", "k", begin_ms=later) == []
    assert admin.dead_letters.of_group("billing", begin_ms=first, end_ms=later) == []


def test_several_brokers_may_come_from_any_iterable(admin: mqcore.Admin, broker: Broker) -> None:
    addresses = admin.brokers.cluster().masters().values()
    for brokers in (addresses, set(addresses), iter(addresses)):
        assert admin.groups.create("iterated", brokers=brokers) == [broker.address]
    assert admin.topics.create("most", queues=1, brokers=(broker.address,)) == [broker.address]


def test_the_progress_of_an_unknown_group_is_an_error(admin: mqcore.Admin, broker: Broker) -> None:
    admin.groups.create("idle")
    broker.ensure_topic("unread", queues=1)
    for wanted, queues in ((None, 0), ("unread", 1)):
        found = admin.groups.progress("idle", topic=wanted)
        assert (len(found.queues), found.lag) == (queues, 0)
        with pytest.raises(MQError, match="there is no group misspelt: see `mqcore group list`"):
            admin.groups.progress("misspelt", topic=wanted)
    with pytest.raises(NoRouteError, match="topic absent is not known"):
        admin.groups.progress("idle", topic="absent")
    assert admin.groups.progress("misspelt", must_exist=False).queues == ()

    async def ask() -> None:
        async with aio.Admin(broker.namesrv) as asynchronous:
            await asynchronous.groups.progress("misspelt")

    with pytest.raises(MQError, match="there is no group misspelt"):
        asyncio.run(ask())


def test_names_that_nobody_knows_are_errors(admin: mqcore.Admin, broker: Broker) -> None:
    broker.ensure_topic("unread", queues=1)
    admin.groups.create("idle")
    with pytest.raises(MQError, match="there is no group misspelt"):
        admin.groups.clone("misspelt", "idle")
    # A group that nobody made has offsets, and is known by them.
    with mqcore.Producer(broker.namesrv, group="p") as producer:
        queue = producer.send(Message("unread", b"x")).queue
    admin.groups.reset_queue("idle", queue, 0)
    admin.groups.clone("idle", "copied")
    admin.groups.clone("copied", "copied-again")
    for wanted in (None, "unread"):
        assert admin.groups.progress("copied-again", topic=wanted).lag == 1
    with pytest.raises(NoRouteError, match="topic absent"):
        admin.groups.clone("idle", "other", "absent")
    with pytest.raises(MQError, match="no broker of cluster elsewhere"):
        admin.topics.of_cluster("elsewhere")
    (cluster,) = admin.brokers.cluster().clusters
    assert "unread" in admin.topics.of_cluster(cluster)


def test_one_broker_and_one_queue_are_asked(admin: mqcore.Admin, broker: Broker) -> None:
    broker.ensure_topic("single", queues=1)
    admin.groups.create("reader")
    config = admin.topics.config_at(broker.address, "single")
    assert config is not None
    assert config.read_queues == 1
    assert admin.topics.config_at(broker.address, "absent") is None
    with mqcore.Producer(broker.namesrv, group="p") as producer:
        queue = producer.send(Message("single", b"x")).queue
    admin.groups.reset_queue("reader", queue, 1)
    assert admin.groups.next_offset("reader", queue) == 1
