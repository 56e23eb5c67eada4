"""A broker in this process, driven over its socket: what clients do every day."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from live_broker import Live, another, live
from loops import run_on, until
from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.model.heartbeats import ConsumerData, HeartbeatData
from mqcore.model.queues import MessageQueue
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.model.subscriptions import SubscriptionData
from mqcore.native import Command, decode_records
from mqcore.remoting import Request, RequestCode, ResponseCode

PULLED_BODY_AT = 88


def beat(client_id: str, group: str, *topics: str) -> bytes:
    wanted = tuple(SubscriptionData.of_expression(topic, "*", 1) for topic in topics)
    data = ConsumerData(
        group, "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", wanted, False
    )
    return HeartbeatData(client_id, ("pg",), (data,)).encode()


async def heartbeat(client: Live, client_id: str, group: str, *topics: str) -> None:
    answer = await client.call(RequestCode.HEART_BEAT, body=beat(client_id, group, *topics))
    assert (answer.code, answer.version) == (0, 409)


async def members(client: Live, group: str) -> list[str]:
    found = await client.json(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
    names: list[str] = found["consumerIdList"]
    return names


def test_what_was_sent_is_pulled(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            await client.create("T", 2)
            sent = await client.send("T", b"hello", 1, TAGS="A")
            assert sent.code == ResponseCode.SUCCESS, sent.remark
            assert (sent.ext["queueId"], sent.ext["queueOffset"]) == ("1", "0")
            found = await client.pull("T", 0, queue_id=1, wait_ms=5_000)
            assert found.code == ResponseCode.SUCCESS, found.remark
            assert found.body[PULLED_BODY_AT : PULLED_BODY_AT + 5] == b"hello"
            assert found.ext["nextBeginOffset"] == "1"

    run_on("uvloop", run())


def test_a_held_pull_is_answered_by_the_next_message(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client, another(client) as reader:
            await client.create("T")
            held = asyncio.ensure_future(reader.pull("T", 0, wait_ms=15_000))
            await until(lambda: client.broker.state.fast_path.stats()["held"] == 1)
            await client.send("T", b"late")
            found = await held
            assert found.code == ResponseCode.SUCCESS
            assert b"late" in found.body

    run_on("uvloop", run())


def test_a_topic_is_created_by_the_first_message(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            many = await asyncio.gather(*(client.send("New", b"%d" % n) for n in range(20)))
            assert {answer.code for answer in many} == {0}
            # In the order in which they were sent, although the first waited for the file.
            assert [int(answer.ext["queueOffset"]) for answer in many] == list(range(20))
            topic = await client.json(RequestCode.GET_TOPIC_CONFIG, {"topic": "New"})
            assert (topic["writeQueueNums"], topic["perm"]) == (4, 6)
            assert b'"New"' in (tmp_path / "config" / "topics.json").read_bytes()

    run_on("uvloop", run())


def test_without_automatic_creation_the_first_message_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path, autoCreateTopicEnable="false") as client:
            answer = await client.send("New", b"x")
            assert answer.code == ResponseCode.TOPIC_NOT_EXIST
            bad = await client.send("../x", b"x")
            assert bad.code != ResponseCode.SUCCESS

    run_on("uvloop", run())


def test_members_hear_of_each_other(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as one:
            await heartbeat(one, "A", "g", "T", "%RETRY%g")
            assert await members(one, "g") == ["A"]
            retry = await one.json(RequestCode.GET_TOPIC_CONFIG, {"topic": "%RETRY%g"})
            assert retry["readQueueNums"] == 1
            await until(lambda: len(one.broker_requests) == 1)
            one.broker_requests.clear()
            async with another(one) as two:
                await heartbeat(two, "B", "g", "T", "%RETRY%g")
                assert await members(two, "g") == ["A", "B"]
                await until(lambda: len(one.broker_requests) == 1)
                assert one.broker_requests[0].code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
                assert one.broker_requests[0].ext["consumerGroup"] == "g"
                assert one.broker_requests[0].is_oneway
            await until(lambda: len(one.broker_requests) == 2)
            assert await members(one, "g") == ["A"]
            left = {"clientID": "A", "consumerGroup": "g"}
            assert (await one.call(RequestCode.UNREGISTER_CLIENT, left)).code == 0
            gone = await one.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
            assert gone.code == ResponseCode.SYSTEM_ERROR

    run_on("uvloop", run())


def test_offsets_survive_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        queue = {"consumerGroup": "g", "topic": "T", "queueId": 0}
        async with live(tmp_path) as client:
            await client.create("T")
            for number in range(5):
                await client.send("T", b"%d" % number)
            committed = await client.call(
                RequestCode.UPDATE_CONSUMER_OFFSET, queue | {"commitOffset": 3}
            )
            assert committed.code == 0
        assert b'"T@g":{0:3' in (tmp_path / "config" / "consumerOffset.json").read_bytes()
        async with live(tmp_path) as client:
            found = await client.call(RequestCode.QUERY_CONSUMER_OFFSET, queue)
            assert (found.code, found.ext["offset"]) == (0, "3")
            assert (await client.call(RequestCode.GET_MAX_OFFSET, queue)).ext["offset"] == "5"

    run_on("uvloop", run())


def test_queues_are_locked_for_one_client(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            queues = [MessageQueue("T", "b", number).to_json() for number in range(2)]

            async def ask(code: int, client_id: str) -> list[object]:
                body = {"clientId": client_id, "consumerGroup": "g", "mqSet": queues}
                answer = await client.call(code, body=compact(body))
                assert answer.code == 0
                held: list[object] = parse_object(answer.body or b"{}").get("lockOKMQSet", [])
                return held

            assert await ask(RequestCode.LOCK_BATCH_MQ, "A") == queues
            assert await ask(RequestCode.LOCK_BATCH_MQ, "B") == []
            await ask(RequestCode.UNLOCK_BATCH_MQ, "A")
            assert await ask(RequestCode.LOCK_BATCH_MQ, "B") == queues

    run_on("uvloop", run())


def test_what_a_group_with_locks_gives_up_is_a_dead_letter(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            ext = {"consumerGroup": "g", "topic": "T"}
            body = compact({"groupName": "g"})
            code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            assert (await client.call(code, ext, body)).code == 0
            for topic in ("%RETRY%g", "%DLQ%g"):
                await client.create(topic)
            body = compact(
                {
                    "clientId": "A",
                    "consumerGroup": "g",
                    "mqSet": [MessageQueue("T", "b", 0).to_json()],
                }
            )
            assert (await client.call(RequestCode.LOCK_BATCH_MQ, body=body)).code == 0
            assert (await client.send("%RETRY%g", b"given up")).code == 0
            assert (await client.call(RequestCode.UNLOCK_BATCH_MQ, body=body)).code == 0
            assert (await client.send("%RETRY%g", b"tried again")).code == 0
            for topic, sent in (("%DLQ%g", b"given up"), ("%RETRY%g", b"tried again")):
                found = await client.pull(topic, 0, wait_ms=15_000)
                assert [each.body for each in decode_records(found.body)] == [sent]

    run_on("uvloop", run())


def test_an_unknown_request_is_refused_and_the_connection_lives(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            answer = await client.call(9_999)
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            assert answer.remark == " request type 9999 not supported"
            assert (await client.call(RequestCode.GET_ALL_TOPIC_CONFIG)).code == 0
            assert client.broker.state.members.consumers == {}

    run_on("uvloop", run())


def test_bad_bodies_are_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            for code in (
                RequestCode.HEART_BEAT,
                RequestCode.LOCK_BATCH_MQ,
                RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
                RequestCode.CHECK_CLIENT_CONFIG,
            ):
                for body in (b"", b"{", b"\xff\xfe", b"[" * 10_000):
                    answer = await client.call(code, body=body)
                    assert answer.code == ResponseCode.SYSTEM_ERROR, (code, body[:5])
            assert (await client.call(RequestCode.GET_ALL_TOPIC_CONFIG)).code == 0

    run_on("uvloop", run())


def test_a_message_sent_back_comes_again_by_the_retry_topic(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path, messageDelayLevel="1s 1s 1s 1s 1s") as client:
            await client.create("T")
            await heartbeat(client, "A", "g", "T", "%RETRY%g")
            sent = await client.send("T", b"again")
            offset = int(sent.ext["msgId"][16:], 16)
            back = {
                "offset": offset,
                "group": "g",
                "delayLevel": 1,
                "originMsgId": sent.ext["msgId"],
                "originTopic": "T",
                "unitMode": False,
                "maxReconsumeTimes": 16,
            }
            answer = await client.call(RequestCode.CONSUMER_SEND_MSG_BACK, back)
            assert answer.code == 0, answer.remark
            found = await client.pull("%RETRY%g", 0, wait_ms=15_000)
            assert found.code == 0, found.remark
            assert b"again" in found.body
            assert b"RETRY_TOPIC\x01T\x02" in found.body

    run_on("uvloop", run())


def test_a_topic_that_somebody_else_is_making_is_waited_for(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            await client.create("T")
            sent = await client.send("T", b"again")
            offset = int(sent.ext["msgId"][16:], 16)
            # As a first heartbeat leaves it until its file is written: in the table alone.
            client.broker.state.topics.create_for_group("%RETRY%g", 1, now_ms=0)
            back = {"offset": offset, "group": "g", "delayLevel": 1, "originTopic": "T"}
            answer = await client.call(RequestCode.CONSUMER_SEND_MSG_BACK, back)
            assert answer.code == 0, answer.remark

    run_on("uvloop", run())


def test_the_first_message_of_a_group_to_come_back_may_be_a_dead_letter(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            await client.create("T")
            for number, is_half_made in enumerate((False, True)):
                sent = await client.send("T", b"never")
                group = f"new{number}"
                if is_half_made:
                    client.broker.state.topics.create_for_group(f"%RETRY%{group}", 1, now_ms=0)
                back = {
                    "offset": int(sent.ext["msgId"][16:], 16),
                    "group": group,
                    "delayLevel": -1,
                    "originTopic": "T",
                }
                answer = await client.call(RequestCode.CONSUMER_SEND_MSG_BACK, back)
                assert answer.code == 0, answer.remark
                found = await client.pull(f"%DLQ%{group}", 0, wait_ms=15_000)
                assert b"never" in found.body

    run_on("uvloop", run())


def test_half_messages_are_refused_where_the_settings_forbid_them(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path, rejectTransactionMessage="true") as client:
            await client.create("T")
            answer = await client.send("T", b"half", TRAN_MSG="true", PGROUP="pg")
            assert answer.code == ResponseCode.NO_PERMISSION
            assert answer.remark is not None
            assert "sending transaction message is forbidden" in answer.remark

    run_on("uvloop", run())


def test_a_reply_reaches_who_asked(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as asking, another(asking) as replying:
            pushed: list[Command] = []

            def take(request: Request) -> Command:
                pushed.append(request.command)
                return request.answer()

            asking.client.hub.dispatcher.on(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, take)
            await heartbeat(asking, "A", "g")
            ext = {"a": "pg", "b": "c_REPLY_TOPIC", "e": 0, "i": "REPLY_TO_CLIENT\x01A\x02"}
            answer = await replying.call(RequestCode.SEND_REPLY_MESSAGE_V2, ext, b"yes")
            assert answer.code == 0, answer.remark
            assert pushed[0].body == b"yes"
            assert pushed[0].ext["topic"] == "c_REPLY_TOPIC"
            assert "PUSH_REPLY_TIME\x01" in pushed[0].ext["properties"]
            ext["i"] = "REPLY_TO_CLIENT\x01nobody\x02"
            lost = await replying.call(RequestCode.SEND_REPLY_MESSAGE_V2, ext, b"yes")
            assert lost.code == ResponseCode.SYSTEM_ERROR

    run_on("uvloop", run())


@pytest.mark.parametrize("is_late", [False, True])
def test_what_is_given_back_is_not_stored_when_its_client_waits_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_late: bool
) -> None:
    """A client that has no answer after five seconds sends the message itself."""
    written = ConfigPersistence.topics_written

    async def slow(self: ConfigPersistence, names: Iterable[str]) -> list[str]:
        names = tuple(names)
        if is_late and "%DLQ%g" in names:
            # As if the request had come long ago.
            monkeypatch.setattr("mqcore.broker.decisions.WAITED_MAX_S", -1.0)
        return await written(self, names)

    monkeypatch.setattr(ConfigPersistence, "topics_written", slow)

    async def run() -> None:
        async with live(tmp_path) as client:
            await client.create("t")
            await heartbeat(client, "A", "g")
            sent = await client.send("t", b"x")
            offset = int(sent.ext["msgId"][16:], 16)
            back = {"offset": offset, "group": "g", "delayLevel": -1, "originMsgId": "M"}
            back |= {"originTopic": "t", "unitMode": False, "maxReconsumeTimes": 1}
            answer = await client.call(RequestCode.CONSUMER_SEND_MSG_BACK, back)
            await client.settled()
            letters = await client.call(
                RequestCode.GET_MAX_OFFSET, {"topic": "%DLQ%g", "queueId": 0}
            )
            if is_late:
                assert answer.code == ResponseCode.SYSTEM_BUSY
                assert "not made within" in (answer.remark or "")
            else:
                assert answer.code == 0, answer.remark
            assert letters.ext["offset"] == str(int(not is_late))

    run_on("uvloop", run())


def test_few_requests_wait_for_a_new_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqcore.broker.decisions.WAITING_BYTES_MAX", 10)

    async def run() -> None:
        async with live(tmp_path) as client:
            many = await asyncio.gather(*(client.send("New", b"12345") for _ in range(8)))
            codes = [answer.code for answer in many]
            assert codes[:2] == [0, 0]
            assert set(codes) <= {ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST}
            # What was refused can be sent again, and what waited is not counted any more.
            assert (await client.send("New", b"12345")).code == 0
            assert (await client.send("Newer", b"12345")).code == 0

    run_on("uvloop", run())
