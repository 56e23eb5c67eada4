"""Requests with replies, transactions, the message trace, signatures: what goes over the wire."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from client.serving import STORED, Cluster, Scripted, pulled, scripted
from loops import run_on
from mqcore import Credentials, Message, ReceivedMessage, SendResult, TransactionState, aio
from mqcore.client.message import received_of
from mqcore.client.properties import parse_properties
from mqcore.client.requests import reply_of, reply_properties
from mqcore.client.trace_lines import pub_line, sub_after_line, sub_before_line
from mqcore.client.transactions import state_of
from mqcore.errors import (
    ConnectionLostError,
    MessageError,
    ReplyTimeoutError,
    SendError,
    UsageError,
)
from mqcore.model.topics import TRACE_TOPIC
from mqcore.native import Command, decode_records
from mqcore.remoting import Client, Request, RequestCode, expect, signed


def _codes(server: Scripted, code: int) -> list[Command]:
    return [command for command in server.asked if command.code == code]


async def _until(condition: Any) -> None:
    while not condition():  # noqa: ASYNC110 - another thread brings it about
        await asyncio.sleep(0.001)


async def _viewed(cluster: Cluster, sent: SendResult) -> bytes:
    """Returns the record of a message as the broker stores it."""
    ext = {"offset": str(int(sent.offset_message_id[16:], 16))}
    async with Client() as client:
        code = RequestCode.VIEW_MESSAGE_BY_ID
        answer = await client.call(cluster.broker, code, ext, timeout_s=20.0)
        return expect(answer, cluster.broker).body


def test_a_request_is_replied_to(cluster: Cluster) -> None:
    async def work() -> None:
        async with (
            aio.Producer(cluster.namesrv, group="asking") as asking,
            aio.Producer(cluster.namesrv, group="replying") as replying,
        ):
            # The topic is made with its queues, all of them empty but one.
            first = await asking.send(Message("questions", b"first", sharding_key="k"))
            # Behind the end of a queue that is not written yet nobody is held.
            await pulled(cluster, first.queue, 0)
            question = Message("questions", b"what", sharding_key="k")
            waiting = asyncio.ensure_future(asking.request(question, timeout_s=20.0))
            (record,) = await pulled(cluster, first.queue, 1, wait_ms=20_000)
            got = received_of(record, "b")
            assert got.body == b"what"
            await replying.reply(got, b"that" * 2000)
            reply = await waiting
            assert reply.body == b"that" * 2000
            assert reply.correlation_id == got.properties["CORRELATION_ID"]

    run_on("asyncio", work())


def test_a_request_that_nobody_replies_to_reports_it(cluster: Cluster) -> None:
    async def work() -> None:
        async with aio.Producer(cluster.namesrv, group="asking") as producer:
            with pytest.raises(ReplyTimeoutError, match="nobody replied") as caught:
                await producer.request(Message("silence", b"x"), timeout_s=0.1)
            assert caught.value.topic == "silence"

    run_on("asyncio", work())


def test_only_requests_can_be_replied_to(cluster: Cluster) -> None:
    async def work() -> None:
        async with aio.Producer(cluster.namesrv, group="asking") as producer:
            result = await producer.send(Message("plain", b"x"))
            message = received_of(decode_records(await _viewed(cluster, result))[0], "b")
            assert message.topic == "plain"
            assert message.message_id == result.message_id
            assert message.attempt == 1
            with pytest.raises(MessageError, match="asks for no reply"):
                reply_of(message, b"x")
            assert reply_properties(message) == {"MSG_TYPE": "reply"}

    run_on("asyncio", work())


def _ended(server: Scripted) -> list[tuple[str, str]]:
    ends = _codes(server, RequestCode.END_TRANSACTION)
    return [(end.ext["commitOrRollback"], end.ext["msgId"]) for end in ends]


def test_a_transaction_is_a_half_message_and_its_end() -> None:
    async def work() -> None:
        with scripted() as server:
            async with aio.TransactionProducer(server.address, group="tx") as producer:
                async with producer.transaction() as transaction:
                    first = await transaction.send(Message("t", b"1"))
                    second = await transaction.send(Message("t", b"2"))
                await _until(lambda: len(_ended(server)) == 2)
                assert _ended(server) == [("8", first.message_id), ("8", second.message_id)]
                (half, _) = _codes(server, RequestCode.SEND_MESSAGE_V2)
                properties = parse_properties(half.ext["i"])
                assert (properties["TRAN_MSG"], properties["PGROUP"]) == ("true", "tx")
                assert half.ext["f"] == "4"
                # The broker knew the group before it had anything to ask.
                codes = server.codes()
                assert codes.index(RequestCode.HEART_BEAT) < codes.index(
                    RequestCode.SEND_MESSAGE_V2
                )
                end = _codes(server, RequestCode.END_TRANSACTION)[0].ext
                assert end["tranStateTableOffset"] == STORED["queueOffset"]
                assert end["commitLogOffset"] == "0"
                assert end["fromTransactionCheck"] == "false"
                assert end["producerGroup"] == "tx"

    run_on("asyncio", work())


def test_a_block_that_raises_rolls_back_and_one_that_is_cancelled_leaves_the_end_open() -> None:
    async def within(producer: aio.TransactionProducer, error: BaseException) -> None:
        async with producer.transaction() as transaction:
            await transaction.send(Message("t", b"1"))
            raise error

    async def work() -> None:
        with scripted() as server:
            async with aio.TransactionProducer(server.address, group="tx") as producer:
                with pytest.raises(ZeroDivisionError):
                    await within(producer, ZeroDivisionError())
                await _until(lambda: len(_ended(server)) == 1)
                assert _ended(server)[0][0] == "12"
                with pytest.raises(asyncio.CancelledError):
                    await within(producer, asyncio.CancelledError())
                assert len(_ended(server)) == 1

    run_on("asyncio", work())


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (True, "8"),
        (False, "12"),
        (None, "0"),
        (TransactionState.COMMIT, "8"),
        ("nonsense", "0"),
        (ZeroDivisionError(), "0"),
    ],
)
def test_the_local_work_decides(answer: Any, code: str) -> None:
    def execute(message: Message, argument: Any) -> Any:
        assert (message.body, argument) == (b"x", 7)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def work() -> None:
        with scripted() as server:
            async with aio.TransactionProducer(server.address, group="tx") as producer:
                result = await producer.send_in_transaction(Message("t", b"x"), execute, 7)
                await _until(lambda: len(_ended(server)) == 1)
                assert _ended(server) == [(code, result.sent.message_id)]

    run_on("asyncio", work())


def test_a_half_message_that_is_not_kept_as_promised_is_rolled_back() -> None:
    async def work() -> None:
        with scripted() as server:
            server.send = lambda request: request.answer(11, ext=STORED)
            async with aio.TransactionProducer(server.address, group="tx") as producer:
                done: list[Any] = []
                result = await producer.send_in_transaction(
                    Message("t", b"x"), lambda message, _: done.append(message)
                )
                assert done == []
                assert result.state is TransactionState.ROLLBACK
                await _until(lambda: len(_ended(server)) == 1)

    run_on("asyncio", work())


def test_a_broker_without_transactions_refuses_in_words() -> None:
    async def work() -> None:
        with scripted() as server:
            server.send = lambda request: request.answer(16, "no transactions here")
            async with aio.TransactionProducer(server.address, group="tx") as producer:
                with pytest.raises(SendError, match="answered 16"):
                    async with producer.transaction() as transaction:
                        await transaction.send(Message("half", b"x"))
                with pytest.raises(UsageError, match="delayed"):
                    await producer.send_half(Message("half", b"x", delay_level=1))

    run_on("asyncio", work())


def test_a_broker_that_asks_back_is_answered_on_its_connection(cluster: Cluster) -> None:
    async def stored() -> bytes:
        async with aio.Producer(cluster.namesrv, group="tx") as producer:
            return await _viewed(cluster, await producer.send(Message("checked", b"half")))

    async def work() -> None:
        record = await stored()
        # The group is in the half message.
        group = b"PGROUP\x01tx\x02"
        length = int.from_bytes(record[:4], "big") + len(group)
        at = record.rindex(b"UNIQ_KEY")
        start = at - 2
        while int.from_bytes(record[start : start + 2], "big") != len(record) - start - 2:
            start -= 1
        count = int.from_bytes(record[start : start + 2], "big") + len(group)
        head = length.to_bytes(4, "big") + record[4:start]
        half = head + count.to_bytes(2, "big") + group + record[start + 2 :]
        asked: list[ReceivedMessage] = []

        def check(message: ReceivedMessage) -> bool:
            asked.append(message)
            return True

        with scripted() as server:

            def send(request: Request) -> Command:
                ext = {
                    "tranStateTableOffset": "5",
                    "commitLogOffset": "77",
                    "transactionId": "T",
                    "bname": "b0",
                }
                request.link.notify(RequestCode.CHECK_TRANSACTION_STATE, ext, half)
                return request.answer(ext=STORED)

            server.send = send
            async with aio.TransactionProducer(server.address, group="tx", check=check) as producer:
                await producer.send(Message("t", b"x"))
                await _until(lambda: _codes(server, RequestCode.END_TRANSACTION))
                (end,) = _codes(server, RequestCode.END_TRANSACTION)
                assert end.ext["commitOrRollback"] == "8"
                assert end.ext["fromTransactionCheck"] == "true"
                assert (end.ext["commitLogOffset"], end.ext["transactionId"]) == ("77", "T")
                assert asked[0].body == b"half"
                assert asked[0].topic == "checked"

    run_on("asyncio", work())


def test_a_broker_that_is_gone_before_it_is_answered_is_no_error(cluster: Cluster) -> None:
    class Gone:
        peer = "127.0.0.1:1"
        asked = 0

        async def oneway(self, *_: object) -> None:
            self.asked += 1
            raise ConnectionLostError("the connection is closed", address=self.peer)

    async def work() -> None:
        gone = Gone()
        async with aio.TransactionProducer(
            cluster.namesrv, group="tx", check=lambda _: True
        ) as producer:
            record = await _viewed(cluster, await producer.send(Message("checked", b"half")))
            ext = {"tranStateTableOffset": "5", "commitLogOffset": "77", "bname": "b0"}
            request = SimpleNamespace(body=record, ext=ext, link=gone, field=ext.__getitem__)
            assert await producer._checked(cast(Request, request)) is None
            assert gone.asked == 1

    run_on("asyncio", work())


def test_callbacks_answers_mean_states() -> None:
    assert state_of(1) is TransactionState.UNKNOWN
    assert state_of(True) is TransactionState.COMMIT


def test_lines_of_the_trace_are_those_of_the_official_client() -> None:
    line = pub_line(
        began_ms=1,
        region_id="R",
        group="g",
        topic="t",
        message_id="ID",
        tags=None,
        keys="k l",
        address="h:1",
        body_bytes=3,
        cost_ms=4,
        message_type=0,
        offset_message_id="OFF",
        is_ok=True,
    )
    assert line.endswith("\x02")
    assert line[:-1].split("\x01") == (
        ["Pub", "1", "R", "g", "t", "ID", "null", "k l", "h:1", "3", "4", "0", "OFF", "true"]
    )
    before = sub_before_line(
        now_ms=1, region_id="R", group="g", request_id="Q", message_id="ID", retry_times=2, keys="k"
    )
    assert before[:-1].split("\x01") == ["SubBefore", "1", "R", "g", "Q", "ID", "2", "k"]
    after = sub_after_line(
        request_id="Q",
        message_id="ID",
        cost_ms=3,
        is_ok=False,
        keys="k",
        context_code=1,
        now_ms=9,
        group="g",
    )
    assert after[:-1].split("\x01") == ["SubAfter", "Q", "ID", "3", "false", "k", "1", "9", "g"]


def test_sends_are_noted_in_the_trace_when_the_producer_closes() -> None:
    async def work() -> None:
        with scripted() as server:
            async with aio.Producer(server.address, group="pg", trace=True) as producer:
                await producer.send(Message("t", b"x", keys=["k"], tags="T"))
                await producer.send(Message("t", b"x", delay_level=2))
            sends = _codes(server, RequestCode.SEND_MESSAGE_V2)
            (traced,) = [send for send in sends if send.ext["b"] == TRACE_TOPIC]
            lines = traced.body.decode().split("\x02")
            assert [line.split("\x01")[11] for line in lines[:-1]] == ["0", "3"]
            keys = parse_properties(traced.ext["i"])["KEYS"].split()
            ids = [parse_properties(send.ext["i"])["UNIQ_KEY"] for send in sends[:2]]
            assert keys == [ids[0], "k", ids[1]]
            assert traced.ext["a"].startswith("_INNER_TRACE_PRODUCER-pg-PRODUCE-")

    run_on("asyncio", work())


def test_every_request_is_signed_where_there_are_credentials() -> None:
    async def work() -> None:
        with scripted() as server:
            credentials = Credentials("AK", "SK12345678")
            producer = aio.TransactionProducer(server.address, group="tx", credentials=credentials)
            async with producer, producer.transaction() as transaction:
                await transaction.send(Message("t", b"x"))
            codes = {one.code for one in server.asked}
            assert RequestCode.GET_ROUTEINFO_BY_TOPIC in codes, "name servers ask too"
            assert len(codes) >= 4
            for one in server.asked:
                # `at` is put in by the server of these tests.
                sent = {name: value for name, value in one.ext.items() if name != "at"}
                expected = signed(credentials, sent, one.body)["Signature"]
                assert expected == sent["Signature"], one

    run_on("asyncio", work())
