"""Our producers against the official brokers, read by official consumers of the same release."""

import asyncio
import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mqcore
from interop.cases import Case, by_queue, name_of
from interop.driver import Driver
from interop.official import Official
from interop.patience import eventually
from interop.servers import CLUSTER, Servers, official_software, serving
from mqcore import Compression, Credentials, Message, ReceivedMessage, aio
from mqcore.client.message import received_of
from mqcore.errors import NoRouteError, SendError, UnsupportedError
from mqcore.native import decode_records
from mqcore.remoting import Client, RequestCode

pytestmark = pytest.mark.java


@pytest.fixture
def case(driver: Driver, reference: Servers, request: pytest.FixtureRequest) -> Iterator[Case]:
    case = Case(
        driver, reference, f"py_{name_of(request, request.node.originalname, driver.version)}"
    )
    yield case
    case.close()


def _numbered(count: int, topic: str, **options: Any) -> list[Message]:
    return [
        Message(topic, f"m-{at}", properties={"number": str(at)}, **options) for at in range(count)
    ]


def test_what_python_sends_java_reads(case: Case) -> None:
    case.create()
    with mqcore.Producer(case.namesrv, group="PG_py") as producer:
        message = Message(
            case.topic,
            "größe 漢字",
            tags="täg",
            keys=["k1", "k2"],
            properties={"ü": "ß 漢", "number": "0"},
            flag=7,
        )
        sent = producer.send(message)
    (got,) = case.pulled(1)
    assert got["body"] == "größe 漢字"
    assert (got["tags"], got["keys"]) == ("täg", "k1 k2")
    assert got["msg_id"] == sent.message_id
    assert got["offset_msg_id"] == sent.offset_message_id
    assert (got["queue_id"], got["queue_offset"]) == (sent.queue.queue_id, sent.queue_offset)


@pytest.mark.parametrize("kind", list(Compression))
def test_compressed_bodies_are_inflated_by_java(case: Case, kind: Compression) -> None:
    case.topic += f"_{kind.name}"
    case.create(1)
    body = "x" * 20_000
    with mqcore.Producer(case.namesrv, group="PG_py", compression=kind) as producer:
        producer.send(Message(case.topic, body))
    (got,) = case.pulled(1)
    assert got["body_length"] == len(body)
    assert got["body_sha256"] == hashlib.sha256(body.encode()).hexdigest()


def test_batches_and_gathered_sends_arrive_in_order(case: Case) -> None:
    case.create(1)
    with mqcore.Producer(case.namesrv, group="PG_py") as producer:
        (batch,) = producer.send_batch(_numbered(10, case.topic, tags="t"))
        # Without a key batches overtake each other: several of them are under way at once.
        gathered = _numbered(10, case.topic, sharding_key="one after the other")
        tickets = [producer.send_soon(message) for message in gathered]
        results = [ticket.result() for ticket in tickets]
    pulled = case.pulled(20)
    assert [item["body"] for item in pulled] == [f"m-{at}" for at in range(10)] * 2
    ids = batch.message_id.split(",")
    assert [item["msg_id"] for item in pulled[:10]] == ids
    assert [item["offset_msg_id"] for item in pulled[:10]] == batch.offset_message_id.split(",")
    assert {result.is_ok for result in results} == {True}


def test_a_batch_with_a_key_is_one_record_in_a_topic_of_batch_queues(case: Case) -> None:
    has_batch_queues = not case.driver.version.startswith("4")
    line = "updateTopic", "-n", case.namesrv, "-c", CLUSTER, "-t", case.topic, "-r", "1", "-w", "1"
    case.driver.mqadmin(*line, *(("-a", "+queue.type=BatchCQ") if has_batch_queues else ()))
    case.until_routed()
    with mqcore.Producer(case.namesrv, group="PG_py", batch_keys=True) as producer:
        results = [producer.send_batch(_numbered(5, case.topic))[0] for _ in range(2)]
    assert [result.queue_offset for result in results] == [0, 5]
    ids = [result.message_id.split(",") for result in results]
    pulled = case.pulled(10)
    assert [item["body"] for item in pulled] == [f"m-{at}" for at in range(5)] * 2
    msg_ids = [item["msg_id"] for item in pulled]
    if has_batch_queues:
        assert msg_ids == [*ids[0], *ids[1]]
        assert len({result.batch_id for result in results} - {None}) == 2
        assert len(results[0].offset_message_id.split(",")) == 1
    else:
        # Why it is off by default: the batch's key replaces the messages' own.
        assert len(set(msg_ids)) == 2
        assert {result.batch_id for result in results} == {None}


def test_an_orderly_consumer_sees_the_order_of_each_key(case: Case) -> None:
    case.create(4)
    consumer = case.push(order=1)
    with mqcore.Producer(case.namesrv, group="PG_py") as producer:
        for at in range(40):
            producer.send(Message(case.topic, f"m-{at}", sharding_key=f"key-{at % 5}"))
    got = case.driver.got(consumer, 40)
    for offsets in by_queue(got).values():
        assert offsets == sorted(offsets)
    of_key: dict[int, list[int]] = {}
    for item in got:
        number = int(item["body"].removeprefix("m-"))
        of_key.setdefault(number % 5, []).append(number)
    assert all(numbers == sorted(numbers) for numbers in of_key.values())


def test_a_tag_filter_of_java_fits_the_tags_of_python(case: Case) -> None:
    case.create()
    with mqcore.Producer(case.namesrv, group="PG_py") as producer:
        for at in range(10):
            producer.send(Message(case.topic, f"m-{at}", tags="äB"[at % 2]))
    got = case.pulled(5, expr="ä")
    assert {item["body"] for item in got} == {f"m-{at}" for at in range(0, 10, 2)}


def test_transactions_are_ended_and_checked(case: Case) -> None:
    case.create()
    asked: list[str] = []
    checked = {"checked, done", "checked, undone"}

    def check(message: ReceivedMessage) -> bool | None:
        asked.append(message.body_text())
        assert message.topic == case.topic
        # A broker of 5.3 writes down ends together, every three seconds, and may ask meanwhile.
        return message.body_text() in ("checked, done", "committed")

    with mqcore.TransactionProducer(case.namesrv, group="PG_tx_py", check=check) as producer:
        with producer.transaction() as transaction:
            transaction.send(Message(case.topic, "committed"))
        producer.send_in_transaction(Message(case.topic, "rolled back"), lambda *_: False)
        for body in sorted(checked):
            producer.send_in_transaction(Message(case.topic, body), lambda *_: None)
        got = case.pulled(2)
        eventually(lambda: set(asked), lambda seen: seen >= checked)
    assert {item["body"] for item in got} == {"committed", "checked, done"}
    assert set(asked) >= checked


def test_a_request_goes_out_and_its_reply_comes_back(case: Case) -> None:
    case.create(1)

    async def work() -> None:
        async with (
            aio.Producer(case.namesrv, group="PG_ask_py") as asking,
            aio.Producer(case.namesrv, group="PG_reply_py") as replying,
        ):
            question = Message(case.topic, "what")
            waiting = asyncio.ensure_future(asking.request(question, timeout_s=30.0))
            (queue,) = await replying.queues(case.topic)
            ext = {
                "consumerGroup": "CG_reply_py",
                "topic": case.topic,
                "queueId": "0",
                "queueOffset": "0",
                "maxMsgNums": "1",
                "sysFlag": "6",
                "commitOffset": "0",
                "suspendTimeoutMillis": "15000",
                "subscription": "*",
                "subVersion": "0",
                "expressionType": "TAG",
            }
            address = replying.instance.address_of(queue.broker_name)
            assert address is not None
            async with Client() as client:
                answer = await client.call(address, RequestCode.PULL_MESSAGE, ext, timeout_s=30.0)
            received = received_of(decode_records(answer.body)[0], queue.broker_name)
            await replying.reply(received, "that " * 2000)
            assert (await waiting).body_text() == "that " * 2000

    asyncio.run(work())


def test_a_java_consumer_replies_to_python(case: Case) -> None:
    case.create()
    case.push(reply="from Java")
    with mqcore.Producer(case.namesrv, group="PG_ask_py") as producer:
        reply = producer.request(Message(case.topic, "what"), timeout_s=60.0)
    assert reply.body_text() == "from Java: what"


def test_delays_by_level_and_by_time(case: Case) -> None:
    case.create(1)
    with mqcore.Producer(case.namesrv, group="PG_py") as producer:
        producer.send(Message(case.topic, "level", delay_level=1))
        timed = Message(case.topic, "timed", delay=2.0)
        if case.driver.version.startswith("4"):
            with pytest.raises(UnsupportedError, match="V4_9_7"):
                producer.send(timed)
            expected = ["level"]
        else:
            producer.send(timed)
            expected = ["level", "timed"]
    pulled = case.pulled(len(expected))
    assert [item["body"] for item in pulled] == expected
    for item, delay_ms in zip(pulled, (1000, 1000), strict=False):
        assert item["store_timestamp"] - item["born_timestamp"] >= delay_ms - 100


def test_many_threads_and_tasks_lose_nothing(case: Case) -> None:
    case.create()
    with mqcore.Producer(case.namesrv, group="PG_py") as producer:

        def send(part: int) -> None:
            for at in range(50):
                producer.send(Message(case.topic, f"t-{part}-{at}"))

        threads = [threading.Thread(target=send, args=(part,)) for part in range(4)]
        for thread in threads:
            thread.start()

        async def work() -> None:
            async with aio.Producer(case.namesrv, group="PG_aio_py", batching=True) as other:
                await asyncio.gather(
                    *(other.send(Message(case.topic, f"a-{at}")) for at in range(200))
                )

        asyncio.run(work())
        for thread in threads:
            thread.join()
    bodies = [item["body"] for item in case.pulled(400)]
    assert len(set(bodies)) == len(bodies) == 400


# (4.9.7 does not start with `aclEnable`: it casts a class to its validator.)
_AUTHENTICATION = {
    "authenticationEnabled": "true",
    "authenticationProvider": (
        "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider"
    ),
    "authenticationMetadataProvider": (
        "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "initAuthenticationUser": '{"username":"orders","password":"12345678"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"orders","secretKey":"12345678"}',
}


def test_an_account_is_known_by_its_signature(official_53: Official, tmp_path: Path) -> None:
    software = official_software(official_53.version)
    with serving(software, tmp_path, _AUTHENTICATION) as servers:
        namesrv = servers.namesrv.address

        def refused(credentials: Credentials | None, words: str) -> None:
            producer = mqcore.Producer(namesrv, group="PG_acl", credentials=credentials)
            with producer, pytest.raises(SendError, match=words):
                producer.send(Message("orders", "x"))

        ours = Credentials("orders", "12345678")
        with mqcore.Producer(namesrv, group="PG_acl", credentials=ours) as producer:

            def is_routed() -> bool:
                try:
                    return bool(producer.queues("orders"))
                except NoRouteError:
                    return False

            assert eventually(is_routed, bool)
            assert producer.send(Message("orders", "größe", keys=["k"], tags="ü")).is_ok
            assert producer.send_batch([Message("orders", "x")] * 3)[0].is_ok
        refused(Credentials("orders", "87654321"), "(?i)signature")
        refused(None, "(?i)username|access")
