"""Batches as bytes, and how messages are gathered into them."""

import asyncio
from collections.abc import Sequence

import pytest

from loops import run_on, until
from mqcore import Message, SendResult, SendStatus
from mqcore.client.batches import (
    PARTS_MAX,
    batch_fault,
    batch_of,
    check_batchable,
    part_bytes,
    split,
)
from mqcore.client.gathering import Gatherer, Ticket
from mqcore.client.identity import UniqueIds
from mqcore.client.results import QueueRef
from mqcore.client.settings import ProducerSettings
from mqcore.errors import (
    ClosedError,
    MessageError,
    MessageReason,
    SendError,
    TooBusyError,
    UsageError,
)

NOW_MS = 1_700_000_000_000


def _batch(*messages: Message, body_bytes_max: int = 4 << 20) -> bytes:
    ids = UniqueIds("10.0.0.1", 1, 1)
    settings = ProducerSettings(body_bytes_max=body_bytes_max)
    return batch_of(messages, topic="t", ids=ids, born_ms=NOW_MS, settings=settings).body


def test_a_part_is_laid_out_as_the_official_encoder_does() -> None:
    body = _batch(Message("t", b"b22", flag=7))
    uniq = b"UNIQ_KEY\x01" + UniqueIds("10.0.0.1", 1, 1).next(NOW_MS).encode() + b"\x02"
    total = 22 + 3 + len(uniq)
    assert body[:4] == total.to_bytes(4, "big")
    assert body[4:12] == bytes(8)
    assert body[12:20] == bytes([0, 0, 0, 7, 0, 0, 0, 3])
    assert body[20:23] == b"b22"
    assert body[23:25] == len(uniq).to_bytes(2, "big")
    assert body[25:] == uniq


def test_a_batch_names_every_message() -> None:
    messages = [Message("t", b"a", tags="ü"), Message("t", b"b", properties={"n": "v"})]
    ids = UniqueIds("10.0.0.1", 1, 1)
    made = batch_of(messages, topic="t", ids=ids, born_ms=NOW_MS, settings=ProducerSettings())
    assert len(set(made.message_id.split(","))) == 2
    assert made.is_batch
    assert made.properties == ""
    assert len(made.body) <= sum(map(part_bytes, messages))
    late = [Message("t", b"a", waits_stored=False)]
    made = batch_of(late, topic="t", ids=ids, born_ms=NOW_MS, settings=ProducerSettings())
    assert made.properties == "WAIT\x01false\x02"


def test_a_batch_has_an_id_of_its_own_where_that_is_wanted() -> None:
    messages = [Message("t", b"a", waits_stored=False), Message("t", b"b", waits_stored=False)]
    ids = UniqueIds("10.0.0.1", 1, 1)
    settings = ProducerSettings(batch_keys=True)
    for _ in range(2):
        made = batch_of(messages, topic="t", ids=ids, born_ms=NOW_MS, settings=settings)
        wait, key, end = made.properties.split("\x02")
        assert (wait, key[:9], end) == ("WAIT\x01false", "UNIQ_KEY\x01", "")
        # It counts on behind those of the messages, and those of the next batch behind it.
        first, second = made.message_id.split(",")
        numbers = [int(text, 16) for text in (first, second, key[9:])]
        assert numbers == list(range(numbers[0], numbers[0] + 3))
        assert key[9:].encode() not in made.body
    assert int(ids.next(NOW_MS), 16) == numbers[-1] + 1


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "at least one"),
        ([Message("t", b"a"), Message("u", b"a")], "one topic"),
        ([Message("t", b"a", delay_level=1)], "delayed"),
        ([Message("%RETRY%g", b"a")], "retry topic"),
        ([Message("t", b"a"), Message("t", b"a", waits_stored=False)], "waits"),
    ],
)
def test_what_cannot_go_together_is_refused(messages: list[Message], words: str) -> None:
    with pytest.raises(MessageError, match=words):
        check_batchable(messages)


def test_lists_are_split_where_a_request_is_full() -> None:
    messages = [Message("t", bytes(100)) for _ in range(10)]
    limit = 3 * part_bytes(messages[0])
    parts = list(split(messages, limit))
    assert [len(part) for part in parts] == [3, 3, 3, 1]
    assert [message for part in parts for message in part] == messages
    assert all(len(_batch(*part)) <= limit for part in parts)
    assert list(split(messages[:1], 10)) == [messages[:1]]
    many = messages[:1] * (PARTS_MAX + 2)
    assert [len(part) for part in split(many, 1 << 40)] == [PARTS_MAX, 2]
    with pytest.raises(MessageError, check=lambda error: error.reason is MessageReason.TOO_LARGE):
        _batch(*messages, body_bytes_max=200)
    assert batch_fault(messages[0]) is None


class _Broker:
    """Takes batches, and answers when the test lets it."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.in_flight = self.most = 0

    async def send(self, messages: Sequence[Message], key: str | None) -> SendResult:
        del key
        self.batches.append([message.body for message in messages])
        first = sum(map(len, self.batches[:-1]))
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        await self.gate.wait()
        await asyncio.sleep(0)
        self.in_flight -= 1
        if self.error is not None:
            raise self.error
        ids = [f"id{first + at}" for at in range(len(messages))]
        offsets = ",".join(f"off{first + at}" for at in range(len(messages)))
        queue = QueueRef("t", "b", 0)
        return SendResult(SendStatus.SEND_OK, ",".join(ids), queue, first, offsets)


def test_parts_of_a_batch_that_is_one_record_share_its_physical_offset() -> None:
    queue = QueueRef("t", "b", 0)
    ticket = Ticket([])
    ticket.resolve(SendResult(SendStatus.SEND_OK, "x,y,z", queue, 7, "offset-id", batch_id="K"))
    last = ticket.part(2)
    assert (last.message_id, last.queue_offset) == ("z", 9)
    assert (last.offset_message_id, last.batch_id) == ("offset-id", "K")


def _message(at: int, key: str | None = None) -> Message:
    return Message("t", b"%d" % at, sharding_key=key)


def test_messages_of_one_turn_leave_together() -> None:
    async def work() -> None:
        broker = _Broker()
        gatherer = Gatherer(ProducerSettings(), broker.send)
        tickets = []
        for at in range(5):
            tickets.append(gatherer.add(_message(at)))
            assert tickets[-1].count == at + 1
        await tickets[0]
        results = [ticket.part(index) for index, ticket in enumerate(tickets)]
        assert broker.batches == [[b"%d" % at for at in range(5)]]
        assert [result.message_id for result in results] == [f"id{at}" for at in range(5)]
        assert [result.queue_offset for result in results] == list(range(5))
        assert results[3].offset_message_id == "off3"
        assert gatherer.buffered_bytes == 0
        assert tickets[0].result().message_id == "id0,id1,id2,id3,id4"

    run_on("asyncio", work())


def test_what_comes_while_answers_are_awaited_grows_into_one_batch() -> None:
    async def work() -> None:
        broker = _Broker()
        broker.gate.clear()
        gatherer = Gatherer(ProducerSettings(batches_in_flight=1), broker.send)
        first = gatherer.add(_message(0))
        await until(lambda: len(broker.batches) == 1)
        others = []
        for at in range(1, 9):
            others.append(gatherer.add(_message(at)))
            await asyncio.sleep(0)
        assert len(broker.batches) == 1
        broker.gate.set()
        await first
        await others[-1]
        assert [len(batch) for batch in broker.batches] == [1, 8]

    run_on("asyncio", work())


def test_full_batches_leave_in_order_and_so_many_at_once() -> None:
    async def work() -> None:
        broker = _Broker()
        settings = ProducerSettings(batch_bytes=3 * part_bytes(_message(0)), batches_in_flight=2)
        gatherer = Gatherer(settings, broker.send)
        for at in range(9):
            gatherer.add(_message(at))
        await gatherer.flush()
        assert broker.batches == [[b"0", b"1", b"2"], [b"3", b"4", b"5"], [b"6", b"7", b"8"]]
        assert broker.most == 2

    run_on("asyncio", work())


def test_a_key_has_one_batch_in_flight_and_is_forgotten_afterwards() -> None:
    async def work() -> None:
        broker = _Broker()
        broker.gate.clear()
        gatherer = Gatherer(ProducerSettings(batch_bytes=1), broker.send)
        tickets = [gatherer.add(_message(at, "k")) for at in range(3)]
        await until(lambda: bool(broker.batches))
        await asyncio.sleep(0)
        assert broker.most == 1
        broker.gate.set()
        for ticket in tickets:
            await ticket
        await gatherer.flush()
        assert broker.most == 1
        assert not gatherer._accumulators

    run_on("asyncio", work())


def test_a_linger_holds_a_batch_until_it_is_flushed() -> None:
    async def work() -> None:
        broker = _Broker()
        gatherer = Gatherer(ProducerSettings(linger_s=3600.0), broker.send)
        ticket = gatherer.add(_message(0))
        for _ in range(5):
            await asyncio.sleep(0)
        assert broker.batches == []
        assert not ticket.done()
        with pytest.raises(UsageError, match="not done yet"):
            ticket.result()
        await gatherer.flush()
        assert ticket.done()

    run_on("asyncio", work())


def test_a_failure_reaches_everyone_who_waits_and_cancelling_reaches_nobody_else() -> None:
    async def work() -> None:
        broker = _Broker()
        broker.gate.clear()
        broker.error = SendError("no", topic="t", attempts=(), may_be_stored=False)
        gatherer = Gatherer(ProducerSettings(), broker.send)
        ticket = gatherer.add(_message(0))
        waiters = [asyncio.ensure_future(ticket) for _ in range(3)]
        await asyncio.sleep(0)
        waiters[0].cancel()
        broker.gate.set()
        got = await asyncio.gather(*waiters, return_exceptions=True)
        assert isinstance(got[0], asyncio.CancelledError)
        assert got[1:] == [broker.error] * 2
        assert gatherer.buffered_bytes == 0

    run_on("asyncio", work())


def test_a_failure_that_nobody_asks_about_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        broker = _Broker()
        broker.error = SendError("the reason", topic="t", attempts=(), may_be_stored=False)
        gatherer = Gatherer(ProducerSettings(), broker.send)
        gatherer.add(_message(0))
        await gatherer.close()
        with pytest.raises(ClosedError):
            gatherer.add(_message(1, "new"))

    run_on("asyncio", work())
    assert "the reason" in caplog.text


def test_what_may_be_held_is_bounded() -> None:
    async def work() -> None:
        broker = _Broker()
        size = part_bytes(_message(0))
        gatherer = Gatherer(ProducerSettings(buffered_bytes_max=2 * size), broker.send)
        gatherer.add(_message(0))
        gatherer.add(_message(1))
        with pytest.raises(TooBusyError, match="flush"):
            gatherer.add(_message(2))
        assert gatherer.buffered_bytes == 2 * size
        for bad in (Message("t", b"x", delay_level=1), Message("%RETRY%g", b"x")):
            with pytest.raises(MessageError):
                gatherer.add(bad)
        await gatherer.flush()
        gatherer.add(_message(2))
        await gatherer.close()

    run_on("asyncio", work())
