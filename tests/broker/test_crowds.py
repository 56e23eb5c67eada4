"""Many requests that wait on one connection: each is answered once, and others are served.

Raw frames: no client of ours sends so many.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from live_broker import Live, live
from loops import run_on, until
from mqcore.broker.decisions import EXECUTED_PER_TURN
from mqcore.broker.order_locks import LOCKS_PER_TURN, QUEUES_PER_REQUEST_MAX
from mqcore.model.queues import MessageQueue
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.native import Command, FrameReader
from mqcore.remoting import RequestCode
from mqcore.remoting.body_limits import LOCKS_BYTES_MAX
from request_fields import SUBSCRIPTION, SUSPEND

MANY = 1_500
SYSTEM_BUSY = 2


class Crowd:
    """A connection that sends whole frames and keeps what it is answered."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._frames = FrameReader()
        self.answers: list[Command] = []

    async def send(self, requests: Iterable[Command]) -> None:
        self.writer.write(b"".join(request.encode() for request in requests))
        await self.writer.drain()

    async def receive(self, count: int) -> list[Command]:
        """Returns the next answers, in the order in which they came."""
        while len(self.answers) < count:
            data = await self._reader.read(1 << 16)
            assert data, "the broker has closed the connection"
            self.answers += self._frames.feed(data)
        taken, self.answers = self.answers[:count], self.answers[count:]
        return taken


@asynccontextmanager
async def crowd(broker: Live) -> AsyncIterator[Crowd]:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.broker.ports["broker"])
    try:
        yield Crowd(reader, writer)
    finally:
        writer.transport.abort()


def request(code: int, opaque: int, ext: dict[str, object], body: bytes = b"") -> Command:
    texts = {name: str(value) for name, value in ext.items()}
    return Command(code=int(code), opaque=opaque, ext=texts, body=body)


def pulls(count: int, **more: object) -> list[Command]:
    """Returns pulls of one queue that wait at offset 1."""
    ext: dict[str, object] = {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": 0,
        "queueOffset": 1,
        "maxMsgNums": 32,
        "sysFlag": SUBSCRIPTION | SUSPEND,
        "commitOffset": 0,
        "suspendTimeoutMillis": 60_000,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
        **more,
    }
    return [request(RequestCode.PULL_MESSAGE, opaque, ext) for opaque in range(count)]


def stat(broker: Live, name: str) -> int:
    return broker.broker.state.fast_path.stats()[name]


async def filled(broker: Live) -> None:
    await broker.create("T")
    assert (await broker.send("T", b"first")).code == 0
    await broker.settled()


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_a_send_answers_every_held_pull_once(tmp_path: Path, kind: str) -> None:
    async def run() -> None:
        async with (
            live(tmp_path, heldPullsPerQueueMax=str(MANY)) as broker,
            crowd(broker) as held,
        ):
            await filled(broker)
            await held.send(pulls(MANY))
            await until(lambda: stat(broker, "held") == MANY)
            assert (await broker.send("T", b"second")).code == 0
            answers = await held.receive(MANY)
            assert {answer.opaque for answer in answers} == set(range(MANY))
            assert {answer.code for answer in answers} == {0}
            assert stat(broker, "held") == 0

    run_on(kind, run())


def test_pulls_beyond_a_limit_are_refused_in_words(tmp_path: Path) -> None:
    async def run() -> None:
        keys = {"heldPullsPerQueueMax": "100", "heldPullsPerConnectionMax": "120"}
        async with (
            live(tmp_path, **keys) as broker,
            crowd(broker) as held,
            crowd(broker) as other,
        ):
            await filled(broker)
            await held.send(pulls(150))
            refused = await held.receive(50)
            assert {answer.code for answer in refused} == {SYSTEM_BUSY}
            assert "100 pulls of this connection at this queue" in (refused[0].remark or "")
            await broker.create("U", 2)
            await held.send(pulls(30, topic="U", queueOffset=0))
            refused = await held.receive(10)
            assert "120 pulls of this connection" in (refused[0].remark or "")
            await other.send(pulls(100))
            await until(lambda: stat(broker, "held") == 220)

    run_on("uvloop", run())


def test_what_a_crowd_leaves_is_forgotten_and_a_broker_stops_under_one(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path, heldPullsPerQueueMax=str(MANY)) as broker:
            await filled(broker)
            async with crowd(broker) as held:
                await held.send(pulls(MANY))
                await until(lambda: stat(broker, "held") == MANY)
            await until(lambda: stat(broker, "held") == 0)
            async with crowd(broker) as held:
                await held.send(pulls(MANY))
                await until(lambda: stat(broker, "held") == MANY)
                await broker.broker.stop()

    run_on("uvloop", run())


def test_sends_that_waited_for_a_topic_keep_their_order(tmp_path: Path) -> None:
    async def run() -> None:
        count = 3 * EXECUTED_PER_TURN
        ext = {"a": "p", "b": "N", "c": "TBW102", "d": 1, "e": 0, "f": 0, "g": 1, "h": 0}
        ext |= {"i": "", "j": 0, "k": "false"}
        async with live(tmp_path) as broker, crowd(broker) as senders:
            sends = [
                request(RequestCode.SEND_MESSAGE_V2, opaque, dict(ext), b"x")
                for opaque in range(count + 10)
            ]
            await senders.send(sends[:count])
            first = await senders.receive(1)
            # They come while the others are executed, and do not overtake them.
            await senders.send(sends[count:])
            answers = first + await senders.receive(count + 9)
            assert {answer.code for answer in answers} == {0}
            offsets = [int(answer.ext["queueOffset"]) for answer in answers]
            assert offsets == list(range(count + 10))
            assert [answer.opaque for answer in answers] == offsets

    run_on("uvloop", run())


def test_locks_of_many_queues_are_taken_in_turns(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as broker:

            async def ask(code: int, count: int, client_id: str, name: str = "T") -> Command:
                queues = [MessageQueue(name, "b", at).to_json() for at in range(count)]
                body = {"clientId": client_id, "consumerGroup": "g", "mqSet": queues}
                return await broker.call(code, body=compact(body))

            count = 3 * LOCKS_PER_TURN + 1
            answer = await ask(RequestCode.LOCK_BATCH_MQ, count, "A")
            assert len(parse_object(answer.body)["lockOKMQSet"]) == count
            answer = await ask(RequestCode.LOCK_BATCH_MQ, count, "B")
            assert parse_object(answer.body)["lockOKMQSet"] == []
            assert (await ask(RequestCode.UNLOCK_BATCH_MQ, count, "A")).code == 0
            answer = await ask(RequestCode.LOCK_BATCH_MQ, count, "B")
            assert len(parse_object(answer.body)["lockOKMQSet"]) == count
            answer = await ask(RequestCode.LOCK_BATCH_MQ, QUEUES_PER_REQUEST_MAX + 1, "A")
            assert (answer.code != 0, "queues in one request" in (answer.remark or "")) == (
                True,
                True,
            )
            answer = await ask(RequestCode.LOCK_BATCH_MQ, 1, "A", "x" * LOCKS_BYTES_MAX)
            assert f"takes {LOCKS_BYTES_MAX} at the most" in (answer.remark or "")

    run_on("uvloop", run())
