"""Connections whose bytes reactors move: answered, held, bounded and ended as those of the loop."""

import asyncio
import socket
import threading
from contextlib import AsyncExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from live_broker import Live, another, live
from loops import run_on, until
from mqcore.native import Command, FrameReader
from mqcore.remoting import RequestCode

LOOPS = ("asyncio", "uvloop")
REACTORS = ("1", "3")
CLIENTS = 12
# Connections of each reactor before those of all but one end.
MOVED = 12
# What reactors may differ by (`DIFFERENCE_MAX` of the extension).
SPREAD_MAX = 4
MIB = 1 << 20

pytestmark = [
    pytest.mark.parametrize("loop", LOOPS),
    pytest.mark.parametrize("reactors", REACTORS),
]


def on_reactors(running: Live) -> int:
    """Returns how many threads of reactors there are."""
    del running
    tasks = Path("/proc/self/task").iterdir()
    names = [(task / "comm").read_text().strip() for task in tasks]
    return sum(name.startswith("mq-reactor") for name in names)


def test_everyone_is_answered_and_the_threads_end_with_the_broker(
    loop: str, reactors: str, tmp_path: Path
) -> None:
    async def work() -> None:
        async with live(tmp_path, mqcoreReactors=reactors) as client:
            # A thread takes its name once it runs.
            await until(lambda: on_reactors(client) == int(reactors))
            await client.create("T", queues=4)
            async with AsyncExitStack() as stack:
                others = [await stack.enter_async_context(another(client)) for _ in range(CLIENTS)]
                for round_number in range(20):
                    answers = await asyncio.gather(
                        *(
                            other.send("T", b"%d" % round_number, queue_id=number % 4)
                            for number, other in enumerate(others)
                        )
                    )
                    assert {answer.code for answer in answers} == {0}
                await client.settled()
                found = [await client.pull("T", 0, queue_id=number) for number in range(4)]
                assert {answer.code for answer in found} == {0}
                assert sum(int(answer.ext["maxOffset"]) for answer in found) == 20 * CLIENTS
                stats = client.broker.state.fast_path.stats()
                assert stats["connections"] == CLIENTS + 1
            server = client.broker._server
            assert server is not None
            hub = server.hub
            await until(lambda: len(hub.links) == 1)
            await until(lambda: client.broker.state.fast_path.stats()["connections"] == 1)
        assert on_reactors(client) == 0

    run_on(loop, work())


def test_a_held_pull_is_answered_by_a_send_on_another_connection(
    loop: str, reactors: str, tmp_path: Path
) -> None:
    async def work() -> None:
        async with live(tmp_path, mqcoreReactors=reactors) as client, AsyncExitStack() as stack:
            await client.create("T")
            others = [await stack.enter_async_context(another(client)) for _ in range(4)]
            held = [
                asyncio.create_task(other.pull("T", 0, wait_ms=15_000, group=f"g{number}"))
                for number, other in enumerate(others)
            ]
            fast_path = client.broker.state.fast_path
            await until(lambda: fast_path.stats()["held"] == len(others))
            assert (await client.send("T", b"x")).code == 0
            answers = await asyncio.gather(*held)
            assert {answer.code for answer in answers} == {0}
            assert {answer.body[-len(b"x") :] for answer in answers} != {b""}

    run_on(loop, work())


def test_sends_that_wait_for_their_sync_are_answered(
    loop: str, reactors: str, tmp_path: Path
) -> None:
    async def work() -> None:
        keys = {"mqcoreReactors": reactors, "flushDiskType": "SYNC_FLUSH"}
        async with live(tmp_path, **keys) as client, AsyncExitStack() as stack:
            await client.create("T")
            others = [await stack.enter_async_context(another(client)) for _ in range(6)]
            sent = await asyncio.gather(*(other.send("T", b"x") for other in others for _ in "abc"))
            assert {answer.code for answer in sent} == {0}

    run_on(loop, work())


def test_what_python_answers_comes_by_the_same_connection_in_order(
    loop: str, reactors: str, tmp_path: Path
) -> None:
    async def work() -> None:
        async with live(tmp_path, mqcoreReactors=reactors) as client:
            await client.create("T")
            host, _, port = client.address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            # Two requests that the fast path executes around one that Python does.
            codes = [RequestCode.GET_MAX_OFFSET, RequestCode.GET_BROKER_RUNTIME_INFO] * 20
            ext = {"topic": "T", "queueId": "0"}
            for opaque, code in enumerate(codes):
                writer.write(Command(code=code, opaque=opaque, ext=ext).encode())
            answers = await frames(reader, len(codes))
            assert sorted(answer.opaque for answer in answers) == list(range(len(codes)))
            assert {answer.code for answer in answers} == {0}
            native = [answer.opaque for answer in answers if not answer.opaque % 2]
            assert native == sorted(native)
            writer.close()

    run_on(loop, work())


def test_who_does_not_read_stops_nobody_and_loses_nothing(
    loop: str, reactors: str, tmp_path: Path
) -> None:
    async def work() -> None:
        async with live(tmp_path, mqcoreReactors=reactors) as client:
            await client.create("T")
            for _ in range(8):
                assert (await client.send("T", bytes(60_000))).code == 0
            await client.settled()
            # Python decides about a group that nobody knows yet: others would overtake those pulls.
            assert (await client.pull("T", 0, group="g")).code == 0
            host, _, port = client.address.rpartition(":")
            with socket.create_connection((host, int(port))) as slow:
                pull = {
                    "consumerGroup": "g",
                    "topic": "T",
                    "queueId": "0",
                    "queueOffset": "0",
                    "maxMsgNums": "8",
                    "sysFlag": "4",
                    "commitOffset": "0",
                    "suspendTimeoutMillis": "0",
                    "subscription": "*",
                    "subVersion": "0",
                    "expressionType": "TAG",
                }
                asked = 60
                wanted = b"".join(
                    Command(code=RequestCode.PULL_MESSAGE, opaque=opaque, ext=pull).encode()
                    for opaque in range(asked)
                )
                await asyncio.to_thread(slow.sendall, wanted)
                fast_path = client.broker.state.fast_path
                await until(lambda: fast_path.stats()["queued_bytes"] > 0)
                assert (await client.send("T", b"meanwhile")).code == 0
                answers = await asyncio.to_thread(blocking_frames, slow, asked)
            assert [answer.opaque for answer in answers] == list(range(asked))
            assert {answer.code for answer in answers} == {0}
            await until(lambda: fast_path.stats()["queued_bytes"] == 0)

    run_on(loop, work())


def test_bytes_that_are_no_frame_end_their_connection_alone(
    loop: str, reactors: str, tmp_path: Path
) -> None:
    async def work() -> None:
        async with live(tmp_path, mqcoreReactors=reactors) as client:
            await client.create("T")
            host, _, port = client.address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"\x7f" * 64)
            assert await reader.read() == b""
            writer.close()
            assert (await client.send("T", b"x")).code == 0
            assert client.broker.state.fast_path.stats()["closed_bad_bytes"] == 1

    run_on(loop, work())


def test_a_frame_in_many_pieces_is_one_request(loop: str, reactors: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with live(tmp_path, mqcoreReactors=reactors, maxMessageSize=str(MIB // 2)) as client:
            await client.create("T")
            body = bytes(range(256)) * 1_600
            assert (await client.send("T", body)).code == 0
            await client.settled()
            assert body in (await client.pull("T", 0)).body
            ext = {"topic": "T", "queueId": "0"}
            frame = Command(code=RequestCode.GET_MAX_OFFSET, opaque=7, ext=ext).encode()
            host, _, port = client.address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            for byte in frame:
                writer.write(bytes([byte]))
                await writer.drain()
            (answer,) = await frames(reader, 1)
            assert (answer.opaque, answer.ext["offset"]) == (7, "1")
            writer.close()

    run_on(loop, work())


def test_threads_that_hammer_from_many_connections_lose_nothing(
    loop: str, reactors: str, tmp_path: Path
) -> None:
    async def work() -> None:
        async with live(tmp_path, mqcoreReactors=reactors) as client:
            await client.create("T", queues=1)
            await assert_hammered(client)

    run_on(loop, work())


def test_idle_connections_move_where_fewer_are(loop: str, reactors: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with live(tmp_path, mqcoreReactors=reactors) as client, AsyncExitStack() as kept:
            await client.create("T", queues=4)
            fast_path = client.broker.state.fast_path
            leaving = AsyncExitStack()
            staying = []
            for number in range(MOVED * int(reactors)):
                # They are placed in turns: those that stay are all of the same reactor.
                stack = leaving if number % int(reactors) else kept
                one = await stack.enter_async_context(another(client))
                assert (await one.send("T", b"before")).code == 0
                if stack is kept:
                    staying.append(one)
            held = asyncio.create_task(staying[0].pull("T", 0, queue_id=3, wait_ms=15_000))
            await until(lambda: fast_path.stats()["held"] == 1)
            await leaving.aclose()

            def is_even() -> bool:
                counts = fast_path.connections_of_reactors()
                are_gone = sum(counts) == len(staying) + 1
                return are_gone and max(counts) - min(counts) <= SPREAD_MAX

            await until(is_even)
            for number, one in enumerate(staying):
                answers = [await one.send("T", b"%d" % number, queue_id=2) for _ in range(3)]
                offsets = [int(answer.ext["queueOffset"]) for answer in answers]
                assert offsets == sorted(offsets)
                # What Python answers goes by the way of the reactor that has the connection now.
                assert (await one.json(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]
            assert (await client.send("T", b"x", queue_id=3)).code == 0
            assert (await held).code == 0
            assert fast_path.stats()["connections"] == len(staying) + 1

    run_on(loop, work())


def test_connections_that_move_under_load_lose_nothing(
    loop: str, reactors: str, tmp_path: Path
) -> None:
    async def work() -> None:
        async with live(tmp_path, mqcoreReactors=reactors) as client:
            await client.create("T", queues=1)
            host, _, port = client.address.rpartition(":")
            is_over = threading.Event()
            comings = threading.Thread(target=come_and_go, args=((host, int(port)), is_over))
            comings.start()
            try:
                await assert_hammered(client)
            finally:
                is_over.set()
                await asyncio.to_thread(comings.join)

    run_on(loop, work())


async def assert_hammered(client: Live) -> None:
    """Sends by threads with a connection each to the only queue: nothing is lost or disordered."""
    host, _, port = client.address.rpartition(":")
    offsets: list[list[int]] = [[] for _ in range(6)]
    threads = [threading.Thread(target=hammer, args=((host, int(port)), each)) for each in offsets]
    for thread in threads:
        thread.start()
    await asyncio.gather(*(asyncio.to_thread(thread.join) for thread in threads))
    # Every offset was given once, and to one connection they rise.
    assert sorted(chain.from_iterable(offsets)) == list(range(6 * 200))
    assert all(each == sorted(each) for each in offsets)


def come_and_go(address: tuple[str, int], is_over: threading.Event) -> None:
    """Opens crowds of connections and closes most of them, again and again."""
    ext = {"topic": "T", "queueId": "0"}
    frame = Command(code=RequestCode.GET_MAX_OFFSET, opaque=1, ext=ext).encode()
    while not is_over.is_set():
        crowd = [socket.create_connection(address) for _ in range(24)]
        for one in crowd:
            one.sendall(frame)
        for one in crowd:
            assert blocking_frames(one, 1)[0].code == 0
        # Those of one reactor end first.
        for one in [*crowd[::3], *crowd[1::3], *crowd[2::3]]:
            one.close()


def hammer(address: tuple[str, int], offsets: list[int]) -> None:
    """Sends 200 messages by a connection, in pieces of 20, and keeps their queue offsets."""
    with socket.create_connection(address) as own:
        ext = {
            "a": "p",
            "b": "T",
            "c": "TBW102",
            "d": "4",
            "e": "0",
            "f": "0",
            "g": "1",
            "h": "0",
            "i": "",
            "j": "0",
            "k": "false",
            "m": "false",
        }
        for _ in range(10):
            pieces = [
                Command(code=RequestCode.SEND_MESSAGE_V2, opaque=n, ext=ext, body=b"x").encode()
                for n in range(20)
            ]
            own.sendall(b"".join(pieces))
            answers = blocking_frames(own, 20)
            offsets += [int(answer.ext["queueOffset"]) for answer in answers]


async def frames(reader: asyncio.StreamReader, count: int) -> list[Command]:
    """Reads so many answers."""
    splitter = FrameReader()
    found: list[Command] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            found += taken(splitter, await reader.read(65_536))
    return found


def blocking_frames(own: socket.socket, count: int) -> list[Command]:
    """Reads so many answers."""
    splitter: Any = FrameReader()
    found: list[Command] = []
    own.settimeout(20)
    while len(found) < count:
        found += taken(splitter, own.recv(65_536))
    return found


def taken(splitter: Any, piece: bytes) -> list[Command]:
    """Returns the answers that a piece makes whole."""
    assert piece, "the connection ended"
    return list(splitter.feed(piece))
