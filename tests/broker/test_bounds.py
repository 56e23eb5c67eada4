"""What all clients together may hold is bounded: half frames, idle connections. Raw sockets."""

import asyncio
import json
import resource
import signal
import socket
import struct
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from live_broker import SMALL, another, live
from loops import run_on, until
from mqcore.native import Command, FrameReader

pytestmark = pytest.mark.usefixtures("with_reactors")

MIB = 1 << 20
LOOPS = ("asyncio", "uvloop")
# A frame of nearly 16 MiB, of which so much comes and then nothing.
HALF = struct.pack(">ii", 16_000_000, 10) + bytes(12_000_000)
HALVES = 30
DESCRIPTORS = 256
IDLE = 300


async def push(stream: asyncio.StreamWriter) -> None:
    """Sends half a frame, as far as it is read."""
    try:
        stream.write(HALF)
        await stream.drain()
    except ConnectionError:
        return


@pytest.mark.parametrize("loop", LOOPS)
def test_half_frames_take_what_memory_allows_and_stop_nobody(loop: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with live(tmp_path, memoryAllowed="160m") as client:
            await client.create("T")
            server = client.broker._server
            assert server is not None
            hub, fast_path = server.hub, client.broker.state.fast_path
            host, _, port = client.address.rpartition(":")
            streams = [(await asyncio.open_connection(host, int(port)))[1] for _ in range(HALVES)]
            pushes = [asyncio.create_task(push(stream)) for stream in streams]
            first = hub.frames.first
            await until(lambda: len(first.paused) >= HALVES - 4)
            for _ in range(100):
                await client.send("T", b"while they wait")
            assert first.limit_bytes == 32 * MIB
            # Beyond the bound: the oldest one's frame, and one read of each.
            bound = first.limit_bytes + len(HALF) + HALVES * (16 << 10)
            assert fast_path.stats()["half_frames_bytes"] <= bound
            # Nobody was closed, and who comes now is served.
            assert len(hub.links) == HALVES + 1
            async with another(client) as late:
                assert (await late.send("T", b"late")).code == 0
            for stream in streams:
                stream.transport.abort()
            await asyncio.gather(*pushes)
            await until(lambda: fast_path.stats()["half_frames_bytes"] == 0)
            assert hub.held_bytes == 0

    run_on(loop, work())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_first_frame_of_any_size_gets_through_while_others_never_end(
    loop: str, tmp_path: Path
) -> None:
    async def work() -> None:
        keys = {"maxMessageSize": str(16 * MIB), "mappedFileSizeCommitLog": str(64 * MIB)}
        async with live(tmp_path, memoryAllowed="160m", **keys) as client:
            await client.create("T")
            server = client.broker._server
            assert server is not None
            host, _, port = client.address.rpartition(":")
            streams = [(await asyncio.open_connection(host, int(port)))[1] for _ in range(4)]
            pushes = [asyncio.create_task(push(stream)) for stream in streams]
            await until(lambda: bool(server.hub.frames.first.paused))
            async with another(client) as late:
                # It waits until there is space: those before it end.
                ask = asyncio.create_task(late.send("T", bytes(15_000_000)))
                for stream in streams:
                    stream.transport.abort()
                assert (await ask).code == 0
            await asyncio.gather(*pushes)

    run_on(loop, work())


def test_a_connection_with_much_to_do_lets_others_have_their_turn(tmp_path: Path) -> None:
    async def work() -> None:
        async with live(tmp_path) as client:
            await client.create("T")
            server = client.broker._server
            assert server is not None
            # No time at all: each reading of the clock ends a turn.
            client.broker.state.fast_path.set_bounds(256 * MIB, 256 * MIB, 64 * MIB, 0)
            host, _, port = client.address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            count = 5_000
            ext = {"topic": "T", "queueId": "0"}
            writer.write(b"".join(Command(30, ext=ext, opaque=at).encode() for at in range(count)))
            opaques: list[int] = []
            frames = FrameReader()
            while len(opaques) < count:
                opaques += [each.opaque for each in frames.feed(await reader.read(1 << 16))]
            assert opaques == list(range(count))
            writer.close()

    run_on("uvloop", work())


class Raw:
    """A client of one socket, without a loop."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._frames = FrameReader()

    def call(self, code: int, ext: dict[str, str], body: bytes = b"") -> Command:
        """Sends a request and returns its answer."""
        self._socket.sendall(Command(code, ext=ext, body=body, opaque=1).encode())
        while True:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionError("closed")
            found = self._frames.feed(data)
            if found:
                return found[0]

    def close(self) -> None:
        """Ends it."""
        self._socket.close()


def sent(client: Raw, topic: str, queue: int) -> Command:
    """Sends a message."""
    ext = dict(zip("abcdefgh", ["p", topic, "TBW102", "8", str(queue), "0", "1", "0"], strict=True))
    return client.call(310, ext | {"i": "", "j": "0", "k": "false", "m": "false"}, b"x")


def limited() -> None:
    """Lets the program have few descriptors; the soft limit is lower still."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS // 2, DESCRIPTORS))


def test_idle_connections_leave_the_store_its_descriptors(tmp_path: Path) -> None:
    ports = tmp_path / "ports.json"
    pairs = [f"--set={key}={value}" for key, value in SMALL.items() if key != "listenPort"]
    command = [sys.executable, "-m", "mqcore.cli.main", "broker", "--port", "0"]
    command += ["--port-file", str(ports), "--data", str(tmp_path / "store"), *pairs]
    with ExitStack() as stack:
        program = stack.enter_context(
            subprocess.Popen(
                command, preexec_fn=limited, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        )
        stack.callback(program.kill)
        assert program.stdout is not None
        lines = []
        for line in program.stdout:
            lines.append(line)
            if b" ready on " in line:
                break
        assert any(b"256 descriptors allowed" in line for line in lines), b"".join(lines).decode()
        port = json.loads(ports.read_text())["broker"]
        before = Raw(port)
        stack.callback(before.close)
        # More queues than there are descriptors: their files take turns.
        for queue in range(8):
            assert sent(before, "T0", queue).code == 0
        for _ in range(IDLE):
            idle = socket.create_connection(("127.0.0.1", port), timeout=20)
            stack.callback(idle.close)
        for topic in range(20):
            for queue in range(8):
                answer = sent(before, f"T{topic}", queue)
                assert answer.code == 0, answer.remark
        for topic in range(20):
            for queue in range(8):
                ask = {"topic": f"T{topic}", "queueId": str(queue)}
                while True:
                    found = before.call(30, ask)
                    assert found.code == 0, found.remark
                    if int(found.ext["offset"]):
                        break
                pull = {
                    "consumerGroup": "g",
                    "queueOffset": "0",
                    "maxMsgNums": "32",
                    "sysFlag": "4",
                    "commitOffset": "0",
                    "suspendTimeoutMillis": "0",
                    "subscription": "*",
                    "subVersion": "0",
                }
                pulled = before.call(11, ask | pull)
                assert pulled.code == 0, pulled.remark
        program.send_signal(signal.SIGTERM)
        program.stdout.read()
        assert program.wait(20) == 0
