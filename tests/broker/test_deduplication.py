"""Answers that get lost, and brokers that are killed under senders: each message is stored once."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from client.test_killed_broker import until_routed
from interop.processes import free_port
from interop.servers import OURS, serving
from live_broker import live
from mqcore import Inspection, Message, ProducerSettings, SendResult, TransactionState, aio
from mqcore.remoting import Family, family
from mqcore.testing import AsyncBroker, Broker

# Clients dial this one; the broker itself listens on 127.0.0.1.
_DIALLED = "127.0.0.2"
_REMEMBERING = {"brokerIP1": _DIALLED, "deduplicationWindowMinutes": "10"}
_SENDS = family(Family.SEND)
# A broker that was killed has to start again within it.
_PATIENT = ProducerSettings(timeout_s=60.0)


class LostAnswers:
    """A proxy between clients and a broker; answers to sends get lost with their connection.

    Attributes:
        left: How many more.
        lost: How many were.
        restart: What is done before the client learns of it, such as killing the broker.
    """

    def __init__(self) -> None:
        """Lets all pass."""
        self.left = 0
        self.lost = 0
        self.restart: Callable[[], Awaitable[None]] | None = None
        self._port = 0

    @asynccontextmanager
    async def in_front_of(self, address: str) -> AsyncIterator[None]:
        """Accepts connections at the port of the broker, on the address that clients dial."""
        self._port = int(address.rpartition(":")[2])
        server = await asyncio.start_server(self._serve, _DIALLED, self._port)
        try:
            yield
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            back, on = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.close()
            return
        sends: set[int] = set()
        up = asyncio.create_task(self._up(reader, on, sends))
        try:
            await self._down(back, writer, sends)
        finally:
            up.cancel()
            on.close()
            writer.close()

    async def _up(
        self, reader: asyncio.StreamReader, on: asyncio.StreamWriter, sends: set[int]
    ) -> None:
        async for frame in _frames(reader):
            head = _head(frame)
            if head["code"] in _SENDS:
                sends.add(head["opaque"])
            on.write(frame)
        on.close()

    async def _down(
        self, back: asyncio.StreamReader, writer: asyncio.StreamWriter, sends: set[int]
    ) -> None:
        async for frame in _frames(back):
            if _head(frame)["opaque"] in sends and self.left:
                self.left -= 1
                self.lost += 1
                if self.restart is not None:
                    await self.restart()
                return
            writer.write(frame)


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            length = await reader.readexactly(4)
            yield length + await reader.readexactly(int.from_bytes(length))


def _head(frame: bytes) -> dict[str, int]:
    end = 8 + int.from_bytes(frame[5:8])
    head: dict[str, int] = json.loads(frame[8:end])
    return head


@asynccontextmanager
async def remembering(**keys: str) -> AsyncIterator[tuple[AsyncBroker, LostAnswers]]:
    # One that nobody has on any address: clients dial another one than the broker has.
    port = {"listenPort": str(free_port())}
    async with Broker(_REMEMBERING | port | keys) as broker:
        await broker.create_topic("t")
        losing = LostAnswers()
        async with losing.in_front_of(broker.address):
            yield broker, losing


async def sent(producer: aio.Producer, kind: str) -> tuple[list[SendResult], set[bytes]]:
    """Sends in one of the ways; returns the results, and the bodies that are to be in the topic."""
    if kind == "alone":
        return [await producer.send(Message("t", b"0"))], {b"0"}
    bodies = {b"%d" % number for number in range(20)}
    messages = [Message("t", body) for body in sorted(bodies)]
    if kind == "batch":
        return await producer.send_batch(messages), bodies
    results = await asyncio.gather(*(producer.send(message) for message in messages))
    return list(results), bodies


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("kind", ["alone", "batch", "gathered"])
def test_a_send_whose_answer_was_lost_is_stored_once(kind: str, *, is_killed: bool) -> None:
    async def run() -> None:
        async with remembering() as (broker, losing):
            gathers = kind == "gathered"
            async with aio.Producer(
                broker.namesrv, group="pg", settings=_PATIENT, batching=gathers
            ) as producer:
                await producer.send(Message("t", b"first"))

                async def restart() -> None:
                    await broker.kill()
                    await broker.restart()

                losing.left = 1
                losing.restart = restart if is_killed else None
                results, bodies = await sent(producer, kind)
                assert losing.lost == 1
                assert max(result.attempts for result in results) == 2
            stored = await broker.messages("t")
            assert Counter(m.body for m in stored) == Counter({b"first", *bodies})
            stored_ids = {
                (each.message_id, each.offset_message_id, each.queue.queue_id) for each in stored
            }
            for result in results:
                ids = result.message_id.split(","), result.offset_message_id.split(",")
                reported = {(*each, result.queue.queue_id) for each in zip(*ids, strict=True)}
                assert reported <= stored_ids

    asyncio.run(run())


def test_without_a_window_the_same_is_stored_twice() -> None:
    async def run() -> None:
        async with remembering(deduplicationWindowMinutes="0") as (broker, losing):
            async with aio.Producer(broker.namesrv, group="pg", settings=_PATIENT) as producer:
                losing.left = 1
                await producer.send(Message("t", b"0"))
            assert len(await broker.messages("t")) == 2

    asyncio.run(run())


def test_a_transaction_whose_half_message_was_sent_twice_is_one() -> None:
    async def run() -> None:
        async with remembering() as (broker, losing):
            async with aio.TransactionProducer(
                broker.namesrv, group="pg", settings=_PATIENT
            ) as producer:
                losing.left = 1
                await producer.send_in_transaction(
                    Message("t", b"0"), lambda _message, _argument: TransactionState.COMMIT
                )
            assert losing.lost == 1
            assert len(await broker.messages("RMQ_SYS_TRANS_HALF_TOPIC")) == 1
            assert [m.body for m in await broker.messages("t")] == [b"0"]

    asyncio.run(run())


@pytest.mark.slow
def test_a_send_whose_broker_was_ended_by_kill_9_is_stored_once(tmp_path: Path) -> None:
    keys = {**_REMEMBERING, "flushDiskType": "SYNC_FLUSH"}
    with serving(OURS, tmp_path, keys) as servers:
        until_routed(servers.namesrv.address)

        def restart() -> None:
            servers.broker.kill()
            servers.broker.start()

        async def run() -> None:
            losing = LostAnswers()
            async with (
                losing.in_front_of(servers.broker.address),
                aio.Producer(servers.namesrv.address, group="pg", settings=_PATIENT) as producer,
            ):
                await producer.send(Message("t", b"first"))
                losing.left = 1
                losing.restart = lambda: asyncio.to_thread(restart)
                result = await producer.send(Message("t", b"0"))
                assert (losing.lost, result.attempts) == (1, 2)

        asyncio.run(run())
    messages = Inspection(servers.store).messages()
    bodies = Counter(message.body for message in messages if message.topic == "t")
    assert bodies == Counter([b"first", b"0"])


def test_the_window_is_shown(tmp_path: Path) -> None:
    async def run() -> None:
        keys = {"deduplicationWindowMinutes": "10", "deduplicationMemoryMB": "1"}
        port = {"metricsExporterType": "PROM", "metricsPromExporterPort": "0"}
        async with live(tmp_path, **keys, **port) as running:
            await running.create("t")
            first = await running.send("t", b"x", UNIQ_KEY="K")
            again = await running.send("t", b"x", UNIQ_KEY="K")
            assert again.ext == first.ext
            table = (await running.json(28))["table"]
            assert table["deduplicationRepeats"] == "1"
            assert table["deduplicationKeys"] == "1"
            assert table["deduplicationWindowMs"] == "600000"
            lines = await page(running.broker.ports["metrics"])
            assert any(line.startswith("mqcore_deduplication_repeats_total{") for line in lines)
        async with live(tmp_path, **keys) as running:
            again = await running.send("t", b"x", UNIQ_KEY="K")
            names = ("queueId", "queueOffset")
            assert [again.ext[name] for name in names] == [first.ext[name] for name in names]

    asyncio.run(run())


async def page(port: int) -> list[str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    return text.splitlines()
