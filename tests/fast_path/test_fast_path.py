"""The fast path behind real sockets: sends, pulls, holds, offsets, and what is handed to Python."""

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme

from fast_path_server import Client, FastPathServer, RecordingProtocol, pull, send, serving
from loops import FACTORIES, run_on, until
from mqcore.native import BrokerPolicy, Command, OffsetRange, TopicPolicy
from mqcore.remoting import AnsweredBy, RequestCode, answered_by

LOOPS = pytest.mark.parametrize("kind", sorted(FACTORIES))
SYNC_FLUSH = "SYNC_FLUSH"
# What the broker writes into every message.
STAMP = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "c1"}


def offset_of(code: int, **ext: str | int) -> Command:
    """Returns a query of an offset."""
    return Command(code, ext={name: str(value) for name, value in ext.items()}, opaque=7)


@LOOPS
def test_what_is_sent_is_pulled_back(kind: str, tmp_path: Path) -> None:
    async def talk() -> None:
        async with serving(tmp_path) as running, running.client() as client:
            properties = "TAGS\x01a\x02WAIT\x01true\x02"
            answer = await client.ask(send(1, b"hello", properties=properties))
            assert (answer.code, answer.opaque, answer.is_response) == (0, 1, True)
            assert answer.ext["queueId"] == "0"
            assert answer.ext["queueOffset"] == "0"
            assert answer.ext["MSG_REGION"] == "DefaultRegion"
            assert answer.ext["TRACE_ON"] == "true"
            held = await client.ask(pull(2, 0, suspend_ms=20_000))
            assert (held.code, held.remark) == (0, "FOUND")
            assert held.ext == {
                "suggestWhichBrokerId": "0",
                "nextBeginOffset": "1",
                "minOffset": "0",
                "maxOffset": "1",
            }
            stored = running.store.message_at(0)
            assert stored.body == b"hello"
            assert stored.properties == {"TAGS": "a", **STAMP}
            assert len(held.body) == stored.store_size_bytes
            assert answer.ext["msgId"] == stored.message_id

    run_on(kind, talk())


@LOOPS
def test_many_answers_keep_their_order_whatever_the_socket_takes(kind: str, tmp_path: Path) -> None:
    count, rounds = 64, 8

    async def talk() -> None:
        async with serving(tmp_path) as running, running.client() as client:
            client.send(*(send(at, bytes([at]) * 60_000) for at in range(count)))
            assert [answer.opaque for answer in await client.receive(count)] == list(range(count))
            await until(lambda: running.store.bounds("t", 0) == OffsetRange(0, count))
            # Far more than any socket buffer takes, and nobody reads until all is asked.
            asked = [pull(at, at % count, count=4) for at in range(count * rounds)]
            client.send(*asked)
            answers = await client.receive(len(asked))
            assert [answer.opaque for answer in answers] == list(range(len(asked)))
            for at, answer in enumerate(answers):
                first = at % count
                assert answer.ext["nextBeginOffset"] == str(min(first + 4, count))
                assert bytes([first]) * 60_000 in answer.body
            numbers = running.fast_path.stats()
            assert numbers["queued_bytes"] == numbers["pinned_bytes"] == 0

    run_on(kind, talk())


@LOOPS
def test_a_held_pull_wakes_for_the_tags_it_wants(kind: str, tmp_path: Path) -> None:
    async def talk() -> None:
        async with serving(tmp_path) as running, running.client() as client:
            client.send(pull(1, 0, suspend_ms=20_000, tags="b || c", queue=3))
            await until(lambda: running.fast_path.stats()["held"] == 1)
            await client.ask(send(2, b"no", queue=3, properties="TAGS\x01a\x02"))
            await until(lambda: running.store.bounds("t", 3) == OffsetRange(0, 1))
            assert running.fast_path.stats()["held"] == 1
            client.send(send(3, b"yes", queue=3, properties="TAGS\x01c\x02"))
            by_opaque = {answer.opaque: answer for answer in await client.receive(2)}
            assert by_opaque[3].code == 0
            assert by_opaque[1].code == 0
            assert by_opaque[1].ext["nextBeginOffset"] == "2"
            assert b"yes" in by_opaque[1].body
            assert b"no" not in by_opaque[1].body

    run_on(kind, talk())


def test_a_hold_ends_with_its_time_and_with_its_connection(tmp_path: Path) -> None:
    async def talk() -> None:
        async with serving(tmp_path) as running:
            async with running.client() as client:
                running.fast_path.drain(1_000)
                client.send(pull(1, 0, suspend_ms=15_000), pull(2, 5, suspend_ms=60_000))
                [moved] = await client.receive()
                assert (moved.opaque, moved.code) == (2, 21), "beyond an empty queue"
                await until(lambda: running.fast_path.stats()["held"] == 1)
                running.fast_path.drain(15_999)
                assert running.fast_path.stats()["held"] == 1
                running.fast_path.drain(16_000)
                [late] = await client.receive()
                assert (late.opaque, late.code) == (1, 19)
                client.send(pull(3, 0, suspend_ms=15_000))
                await until(lambda: running.fast_path.stats()["held"] == 1)
            await until(lambda: running.fast_path.stats()["connections"] == 0)
            assert running.fast_path.stats()["held"] == 0

    run_on("asyncio", talk())


@LOOPS
def test_with_synchronous_flush_an_answer_comes_after_the_sync(kind: str, tmp_path: Path) -> None:
    async def talk() -> None:
        async with (
            serving(tmp_path, flushDiskType=SYNC_FLUSH) as running,
            running.client() as client,
        ):
            client.send(*(send(at, b"x" * 100) for at in range(200)))
            answers = await client.receive(200)
            assert [(answer.opaque, answer.code) for answer in answers] == [
                (at, 0) for at in range(200)
            ]
            stats = running.store.stats()
            assert stats.flushed == stats.appended
            # The store's own waiters are served by the same drain.
            end = running.store.append("t", b"y", wait=False)
            assert await running.store.durable(end) == "PUT_OK"

    run_on(kind, talk())


def test_offsets_are_kept_and_asked_for(tmp_path: Path) -> None:
    async def talk() -> None:
        async with serving(tmp_path) as running, running.client() as client:
            queue: dict[str, str | int] = {"consumerGroup": "g", "topic": "t", "queueId": 2}
            fresh = await client.ask(offset_of(14, **queue))
            assert (fresh.code, fresh.ext) == (0, {"offset": "0"}), "a young queue: from its start"
            strict = await client.ask(offset_of(14, **queue, setZeroIfNotFound="false"))
            assert strict.code == 22
            assert (await client.ask(offset_of(15, **queue, commitOffset=77))).code == 0
            assert (await client.ask(offset_of(14, **queue))).ext == {"offset": "77"}
            assert running.fast_path.offsets.snapshot() == {"t@g": {2: 77}}
            assert running.fast_path.offsets.find("g", "t", 2) == 77
            carried = pull(5, 0, queue=2)
            carried.ext |= {"sysFlag": "1", "commitOffset": "78"}
            await client.ask(carried)
            assert running.fast_path.offsets.of("g", "t") == {2: 78}
            running.fast_path.offsets.load({"a@g": {0: 1}, "a@h": {0: 2}})
            assert running.fast_path.offsets.remove(group="g") == 1
            assert running.fast_path.offsets.snapshot() == {"a@h": {0: 2}}

    run_on("asyncio", talk())


def test_offsets_of_queues_are_returned(tmp_path: Path) -> None:
    async def talk() -> None:
        async with serving(tmp_path) as running, running.client() as client:
            for at in range(3):
                await client.ask(send(at, b"x", queue=1))
            await until(lambda: running.store.bounds("t", 1) == OffsetRange(0, 3))
            of_queue: dict[str, str | int] = {"topic": "t", "queueId": 1}
            assert (await client.ask(offset_of(30, **of_queue))).ext == {"offset": "3"}
            assert (await client.ask(offset_of(31, **of_queue))).ext == {"offset": "0"}
            at_start = await client.ask(offset_of(29, **of_queue, timestamp=0))
            assert at_start.ext == {"offset": "0"}
            unknown: dict[str, str | int] = {"topic": "nobody", "queueId": 0}
            assert (await client.ask(offset_of(30, **unknown))).ext == {"offset": "0"}
            assert (await client.ask(offset_of(31, **unknown))).ext == {"offset": "0"}

    run_on("asyncio", talk())


def test_exactly_the_native_requests_are_executed(tmp_path: Path) -> None:
    native = answered_by(AnsweredBy.NATIVE)
    others = [*sorted(set(RequestCode) - native), 7, 99_999]

    async def asked(running: FastPathServer) -> list[tuple[str, int]]:
        """Sends every request without fields; returns which were handed over, with the reason."""
        known = len(running.served)
        async with running.client() as client:
            client.send(*(Command(code, opaque=1) for code in [*sorted(native), *others]))
            await until(lambda: len(running.served) > known)
            handed = running.served[known].requests
            # In their order, so that the last one ends the list.
            await until(lambda: bool(handed) and handed[-1].command.code == others[-1])
            return [(each.need, each.command.code) for each in handed]

    async def talk() -> None:
        async with serving(tmp_path) as running:
            to_python = [("code", int(code)) for code in others]
            found = await asked(running)
            assert [each for each in found if each[0] == "code"] == to_python
            running.fast_path.set_broker(
                BrokerPolicy(name="b", cluster="c1", address="127.0.0.1", needs_check=True)
            )
            to_check = [("check", int(code)) for code in sorted(native)]
            assert await asked(running) == to_check + to_python

    run_on("asyncio", talk())


@LOOPS
def test_what_the_policy_does_not_know_comes_up_and_goes_on_decided(
    kind: str, tmp_path: Path
) -> None:
    async def talk() -> None:
        async with serving(tmp_path) as running, running.client() as client:
            client.send(send(1, b"x", topic="new"), Command(105, opaque=2))
            await until(lambda: bool(running.served) and len(running.served[0].requests) == 2)
            served = running.served[0]
            unknown, other = served.requests
            assert (unknown.need, unknown.name, unknown.command.code) == ("topic", "new", 310)
            assert (other.need, other.command.code) == ("code", 105)
            served.respond(Command.response_to(other.command, 17, remark="none"))
            served.execute(unknown.command)
            first, second = await client.receive(2)
            assert (first.opaque, first.code, first.remark) == (2, 17, "none")
            assert (second.opaque, second.code) == (1, 17)
            assert (second.remark or "").startswith("topic[new] not exist, apply first please!")
            running.fast_path.set_topic("new", TopicPolicy())
            assert (await client.ask(send(3, b"x", topic="new"))).code == 0

    run_on(kind, talk())


@LOOPS
def test_bad_bytes_close_their_connection_and_no_other(kind: str, tmp_path: Path) -> None:
    async def talk(running: FastPathServer) -> None:
        async with running.client() as good, running.client() as bad:
            assert (await good.ask(send(1, b"x"))).code == 0
            bad.send(send(1, b"before"))
            bad.writer.write(b"\xff\xff\xff\xff garbage")
            with pytest.raises(ConnectionError):
                await bad.receive(2)
            assert any(served.reasons for served in running.served)
            assert (await good.ask(send(2, b"x"))).code == 0
            assert running.fast_path.stats()["closed_bad_bytes"] == 1

    async def both() -> None:
        async with serving(tmp_path) as running:
            await talk(running)

    run_on(kind, both())


@LOOPS
def test_a_client_that_never_reads_is_not_executed_further(kind: str, tmp_path: Path) -> None:
    async def talk() -> None:
        async with (
            serving(tmp_path) as running,
            running.client() as client,
            running.client() as other,
        ):
            for at in range(8):
                await other.ask(send(at, b"x" * 120_000))
            await until(lambda: running.store.bounds("t", 0) == OffsetRange(0, 8))
            # Far more is asked for than sockets and the fast path keep; the client does not read.
            client.send(*(pull(at, 0) for at in range(400)))
            await until(lambda: running.fast_path.stats()["queued_bytes"] >= 8 << 20)
            assert (await other.ask(send(9, b"y"))).code == 0, "others do not notice"
            assert running.fast_path.stats()["queued_bytes"] < 16 << 20
            answers = await client.receive(400)
            assert [answer.opaque for answer in answers] == list(range(400))

    run_on(kind, talk())


def test_delayed_messages_are_delivered_when_due(tmp_path: Path) -> None:
    async def talk() -> None:
        async with serving(tmp_path) as running, running.client() as client:
            sent = await client.ask(send(1, b"later", queue=2, properties="DELAY\x013\x02"))
            assert (sent.code, sent.ext["queueId"]) == (0, "2")
            await until(lambda: running.store.bounds("SCHEDULE_TOPIC_XXXX", 2) == OffsetRange(0, 1))
            now_ms = running.store.message_at(0).store_timestamp_ms
            early = running.fast_path.deliver_due(3, 0, now_ms=now_ms)
            assert (early.count, early.next_offset) == (0, 0)
            assert early.next_due_ms == now_ms + 10_000
            done = running.fast_path.deliver_due(3, 0, now_ms=now_ms + 10_000)
            assert (done.count, done.next_offset, done.has_more) == (1, 1, False)
            found = await client.ask(pull(2, 0, queue=2, suspend_ms=20_000))
            assert (found.code, found.ext["nextBeginOffset"]) == (0, "1")
            assert b"later" in found.body

    run_on("asyncio", talk())


def test_a_message_sent_back_goes_to_the_retry_topic_and_then_to_the_dead(tmp_path: Path) -> None:
    def back(opaque: int, offset: int, **more: str | int) -> Command:
        ext = {"offset": str(offset), "group": "g", "delayLevel": "0"}
        return Command(36, ext=ext | {k: str(v) for k, v in more.items()}, opaque=opaque)

    async def talk() -> None:
        async with serving(tmp_path) as running, running.client() as client:
            await client.ask(send(1, b"again", properties="KEYS\x01k\x02"))
            assert (await client.ask(back(2, 0))).code == 0
            await until(lambda: running.store.bounds("SCHEDULE_TOPIC_XXXX", 2) == OffsetRange(0, 1))
            waiting = running.store.get("SCHEDULE_TOPIC_XXXX", 2, 0).messages[0]
            assert waiting.properties == {
                "KEYS": "k",
                **STAMP,
                "RETRY_TOPIC": "t",
                "ORIGIN_MESSAGE_ID": running.store.message_at(0).message_id,
                "DELAY": "3",
                "REAL_TOPIC": "%RETRY%g",
                "REAL_QID": "0",
            }
            assert waiting.reconsume_times == 1
            client.send(back(3, 0, delayLevel=-1))
            await until(lambda: len(running.served[0].requests) == 1)
            handed = running.served[0].requests[0]
            assert (handed.need, handed.name) == ("topic", "%DLQ%g")
            running.fast_path.set_topic("%DLQ%g", TopicPolicy(read_queues=1, write_queues=1))
            running.served[0].execute(handed.command)
            assert [answer.code for answer in await client.receive()] == [0]
            await until(lambda: running.store.bounds("%DLQ%g", 0) == OffsetRange(0, 1))
            lost = await client.ask(back(4, 5))
            assert (lost.code, lost.remark) == (1, "look message by offset failed, 5")

    run_on("asyncio", talk())


@LOOPS
def test_under_tls_answers_go_through_the_transport_in_order(kind: str, tmp_path: Path) -> None:
    count = 300

    async def talk() -> None:
        authority = trustme.CA()
        server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("localhost").configure_cert(server_side)
        client_side = ssl.create_default_context()
        authority.configure_trust(client_side)
        async with serving(tmp_path) as running:
            loop = asyncio.get_running_loop()
            server = await loop.create_server(
                lambda: RecordingProtocol(running.fast_path, running.served),
                "127.0.0.1",
                0,
                ssl=server_side,
            )
            port = server.sockets[0].getsockname()[1]
            streams = await asyncio.open_connection(
                "127.0.0.1", port, ssl=client_side, server_hostname="localhost"
            )
            client = Client(*streams)
            assert (await client.ask(send(1, b"t" * 50_000))).code == 0
            await until(lambda: running.store.bounds("t", 0) == OffsetRange(0, 1))
            client.send(*(pull(at, 0) for at in range(count)))
            answers = await client.receive(count)
            assert [answer.opaque for answer in answers] == list(range(count))
            assert all(b"t" * 50_000 in answer.body for answer in answers)
            client.writer.close()
            await until(lambda: running.fast_path.stats()["connections"] == 0)
            server.close()

    run_on(kind, talk())
