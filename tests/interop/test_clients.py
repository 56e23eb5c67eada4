"""Unmodified official clients of 4.9 and 5.3 against our name server and broker.

`--official=VERSION` runs the same cases against the official servers: what fails there is a fault
of the case, not ours.
"""

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from interop.cases import Case, bodies, by_queue, digests, is_total, name_of
from interop.driver import Driver, Item
from interop.patience import eventually
from interop.servers import Servers

pytestmark = pytest.mark.java

# Below the 4 MiB at which clients refuse, with space for properties.
LARGE_BYTES = (4 << 20) - 4096
COMPRESSED_FLAG = 1


@pytest.fixture
def case(driver: Driver, servers: Servers, request: pytest.FixtureRequest) -> Iterator[Case]:
    case = Case(driver, servers, name_of(request, request.node.originalname, driver.version))
    yield case
    case.close()


@pytest.mark.parametrize("how", ["sync", "async", "selector"])
def test_what_is_acknowledged_is_pulled(case: Case, how: str) -> None:
    case.topic += f"_{how}"
    case.create()
    sent = case.send(case.producer(), how=how, count=40, keys="k", tags="A,B")
    pulled = case.pulled(40)
    by_offset = {(item["queue_id"], item["queue_offset"]): item for item in pulled}
    assert len(pulled) == len(by_offset) == 40
    for item in sent:
        there = by_offset[item["queue_id"], item["queue_offset"]]
        for name in ("msg_id", "offset_msg_id", "body"):
            assert there[name] == item[name]
        number = int(there["number"])
        assert (there["keys"], there["tags"]) == (f"k-{number}", "AB"[number % 2])
    if how == "selector":
        assert {item["queue_id"]: int(item["number"]) % 4 for item in pulled} == dict(
            zip(range(4), range(4), strict=True)
        )


def test_oneway_sends_arrive(case: Case) -> None:
    case.create()
    case.send(case.producer(), how="oneway", count=20)
    assert bodies(case.pulled(20)) == Counter(f"m-{i}" for i in range(20))


def test_a_topic_is_created_by_the_first_send(case: Case) -> None:
    (sent,) = case.send(case.producer())
    (pulled,) = case.pulled(1)
    assert pulled["msg_id"] == sent["msg_id"]


def test_a_batch_arrives_in_order_in_one_queue(case: Case) -> None:
    case.create()
    (sent,) = case.send(case.producer(), how="batch", count=30, tags="A")
    pulled = case.pulled(30)
    assert [item["body"] for item in pulled] == [f"m-{i}" for i in range(30)]
    assert {item["queue_id"] for item in pulled} == {sent["queue_id"]}
    # (The client of 5.3.3 numbers the messages of a batch twice: its SendResult has other ids.)
    assert sent["offset_msg_id"].split(",") == [item["offset_msg_id"] for item in pulled]


def test_large_messages_arrive_whole(case: Case) -> None:
    case.create()
    consumer = case.push()
    sent = case.send(case.producer(), count=3, size=LARGE_BYTES, fill="random")
    assert digests(case.driver.got(consumer, 3)) == digests(sent)


def test_compressed_messages_arrive_whole(case: Case) -> None:
    case.create()
    consumer = case.push()
    sent = case.send(case.producer(compress_over=4096), count=5, size=200_000)
    got = case.driver.got(consumer, 5)
    assert digests(got) == digests(sent)
    assert {item["body_length"] for item in got} == {200_000}


def test_tags_choose_what_is_delivered(case: Case) -> None:
    case.create()
    producer = case.producer()
    consumer = case.push(expr="A || 标签")
    case.send(producer, count=30, tags="A,B,标签")
    got = case.driver.got(consumer, 20)
    assert Counter(item["tags"] for item in got) == {"A": 10, "标签": 10}
    assert Counter(item["tags"] for item in case.pull(expr="B")) == {"B": 10}


def test_push_concurrently(case: Case) -> None:
    case.create()
    consumer = case.push()
    producer = case.producer()
    sent = case.send(producer, count=100) + case.send(producer, body="n", count=100, how="async")
    got = case.driver.got(consumer, 200)
    assert bodies(got) == bodies(sent)
    assert {item["topic"] for item in got} == {case.topic}


def test_push_orderly_keeps_the_order_of_each_queue(case: Case) -> None:
    case.create()
    consumer = case.push(order=1, fail=1)
    case.send(case.producer(), how="selector", count=40)
    # Every message fails once, on the spot: its successor waits.
    got = eventually(lambda: case.driver.got(consumer, 40), lambda items: len(items) >= 80)
    assert by_queue(got) == {queue: [n // 2 for n in range(20)] for queue in range(4)}


def test_a_lite_pull_consumer_subscribes(case: Case) -> None:
    case.create()
    consumer = case.lite(expr="A")
    sent = case.send(case.producer(), count=40, tags="A,B")
    got = case.driver.got(consumer, 20)
    assert bodies(got) == bodies(sent[::2])


def test_a_lite_pull_consumer_assigns_and_seeks(case: Case) -> None:
    case.create()
    case.send(case.producer(), how="selector", count=40)
    case.pulled(40)
    # A pull under way during a seek may still give what lies before: all is read first.
    consumer = case.lite(assign=1, before=40, seek=4)
    got = case.driver.got(consumer, 24)
    assert by_queue(got) == {queue: list(range(4, 10)) for queue in range(4)}


def test_broadcasting_gives_every_consumer_everything(case: Case) -> None:
    case.create()
    consumers = [case.push(broadcast=1) for _ in range(2)]
    for consumer in consumers:
        case.allocated(consumer, 4)
    sent = case.send(case.producer(), count=20)
    for consumer in consumers:
        assert bodies(case.driver.got(consumer, 20)) == bodies(sent)


def test_what_fails_comes_again(case: Case) -> None:
    case.create()
    consumer = case.push(fail=1)
    sent = case.send(case.producer(), count=5, keys="k")
    got = eventually(lambda: case.driver.got(consumer, 5), lambda items: len(items) >= 10)
    assert bodies(got) == Counter({item["body"]: 2 for item in sent})
    assert Counter(item["reconsume_times"] for item in got) == {0: 5, 1: 5}
    # The client shows a retried message under its own topic and id.
    assert {item["topic"] for item in got} == {case.topic}
    assert {item["msg_id"] for item in got} == {item["msg_id"] for item in sent}


def test_what_fails_too_often_is_a_dead_letter(case: Case) -> None:
    case.create()
    consumer = case.push(fail=-1, max_reconsume=1)
    producer = case.producer()
    (sent,) = case.send(producer, keys="k")
    dead = f"%DLQ%{case.group}"
    found = eventually(
        lambda: case.driver.call("query", producer, topic=dead, key="k-0"),
        lambda items: len(items) >= 1,
    )
    seen = {(item["body"], item["topic"], item["retry_topic"]) for item in found}
    assert seen == {(sent["body"], dead, case.topic)}
    times = Counter(item["reconsume_times"] for item in case.driver.got(consumer, 1))
    assert (set(times), times[0]) == ({0, 1}, 1)
    # One letter for each failure. A client that has no answer within five seconds to what it gives
    # back sends the message itself: on a busy machine it is there once more, as with RocketMQ.
    print(
        "LETTERS",
        times,
        [(i["reconsume_property"], i["reconsume_times"], i["store_timestamp"]) for i in found],
    )
    given_back = [item for item in found if item["reconsume_property"] is None]
    assert len(given_back) <= times[1]
    assert len(found) - len(given_back) <= times[1]


def test_a_delayed_message_comes_late(case: Case) -> None:
    case.create()
    consumer = case.push()
    (sent,) = case.send(case.producer(), delay=1)
    (got,) = case.driver.got(consumer, 1)
    assert got["body"] == sent["body"]
    assert got["store_timestamp"] - got["born_timestamp"] >= 1000


def test_a_group_grows_and_shrinks(case: Case) -> None:
    case.create(queues=8)
    producer = case.producer()
    first = case.push()
    case.allocated(first, 8)
    alone = case.send(producer, how="selector", count=80)
    assert bodies(case.driver.got(first, 80)) == bodies(alone)
    second = case.push()
    names = first, second
    ids = case.allocated(first, 4), case.allocated(second, 4)
    assert set.union(*ids) == set(range(8))
    both = case.send(producer, body="both", how="selector", count=80)
    # A queue's new owner begins where the old one has committed: of `alone` some come twice.
    got = eventually(lambda: [case.got(name, "both") for name in names], is_total(80))
    assert bodies(got[0] + got[1]) == bodies(both)
    assert [{item["queue_id"] for item in items} for items in got] == list(ids)
    case.close(first)
    case.allocated(second, 8)
    last = case.send(producer, body="last", how="selector", count=80)
    (after,) = eventually(lambda: [case.got(second, "last")], is_total(80))
    assert bodies(after) == bodies(last)


def test_messages_are_found_by_key_and_id(case: Case) -> None:
    case.create()
    producer = case.producer()
    sent = case.send(producer, count=10, keys="wanted", tags="A")
    call: Callable[..., list[Item]] = case.driver.call
    for number in (0, 7):
        wanted = sent[number]
        (found,) = eventually(
            lambda: call("query", producer, topic=case.topic, key=f"wanted-{number}"),  # noqa: B023
            lambda items: len(items) == 1,
        )
        assert (found["body"], found["msg_id"]) == (wanted["body"], wanted["msg_id"])
        for name in ("offset_msg_id", "msg_id"):
            (viewed,) = call("view", producer, topic=case.topic, id=wanted[name])
            assert viewed["body"] == wanted["body"], name
    assert call("query", producer, topic=case.topic, key="nobody") == []


def test_offsets_are_found_by_time(case: Case) -> None:
    case.create(queues=1)
    producer = case.producer()
    case.send(producer, count=10)
    pulled = case.pulled(10)
    (bounds,) = case.driver.call("bounds", producer, topic=case.topic)
    assert (bounds["min"], bounds["max"]) == (0, 10)
    times = [item["store_timestamp"] for item in pulled]
    (before,) = case.driver.call("search", producer, topic=case.topic, time=times[0] - 1)
    assert before["offset"] == 0
    (within,) = case.driver.call("search", producer, topic=case.topic, time=times[7])
    assert times[within["offset"]] == times[7]


def test_mqadmin_rewinds_a_running_group(case: Case) -> None:
    case.create()
    consumer = case.push()
    sent = case.send(case.producer(), how="selector", count=40)
    got = case.driver.got(consumer, 40)
    begin = min(item["store_timestamp"] for item in got)
    line = "resetOffsetByTime", "-n", case.namesrv, "-g", case.group, "-t", case.topic
    printed = case.driver.mqadmin(*line, "-s", str(begin))
    assert case.group in printed, printed
    again = eventually(
        lambda: bodies(case.driver.call("got", consumer, count=0)),
        lambda times: all(times[item["body"]] >= 2 for item in sent),
    )
    assert min(again.values()) >= 2
    assert set(again) == set(bodies(sent))
