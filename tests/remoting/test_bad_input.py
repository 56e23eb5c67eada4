"""Bytes that are no frames end their connection cleanly, and no other; memory stays bounded."""

import asyncio
import random
import socket
import struct
from contextlib import AsyncExitStack

import pytest

from loops import until
from mqcore.native import Command
from mqcore.remoting import Limits, Link, LinkEvents
from mqcore.remoting.sweep import Sweep
from remoting.conftest import Run
from remoting.peers import LATER, ask, assert_alive, peer_of, served

WHOLE = ask(1, body=b"x" * 100).encode()


def header_of(text: bytes) -> bytes:
    """Returns a frame with a JSON header of any text."""
    return struct.pack(">ii", 4 + len(text), len(text)) + text


BAD = {
    "garbage": bytes(range(200, 256)) * 4,
    "text of another protocol": b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    "two gigabytes": struct.pack(">I", 0x7FFFFFFF) + b"\0" * 8,
    "a negative length": struct.pack(">i", -1) + b"\0" * 8,
    "one byte more than allowed": struct.pack(">i", (16 << 20) + 1) + b"\0" * 8,
    "no space for a header": struct.pack(">i", 3) + b"\0" * 8,
    "a header longer than the frame": struct.pack(">ii", 10, 100) + b"\0" * 6,
    "an unknown serialize type": struct.pack(">ii", 14, (7 << 24) | 10) + b"{}" * 5,
    "a header that is no JSON": header_of(b"{nonsense"),
    "a header that is a list": header_of(b"[1,2,3]"),
    "a header without code": header_of(b'{"opaque":1}'),
    "a code that is a list": header_of(b'{"code":[1],"opaque":1}'),
    "a header in no encoding": header_of(b'{"code":1,"remark":"\xff\xfe"}'),
    "a binary header cut short": struct.pack(">ii", 4 + 5, (1 << 24) | 5) + b"\0" * 5,
}


class Failures(LinkEvents):
    """Counts the connections that failed."""

    def __init__(self) -> None:
        self.count = 0

    def failed(self, link: Link, error: Exception) -> None:
        del link, error
        self.count += 1


@pytest.mark.parametrize("what", [name for name in BAD if name != "a header without code"])
def test_what_is_no_frame_closes_its_connection_alone(run: Run, what: str) -> None:
    async def work() -> None:
        failures = Failures()
        async with (
            served(events=failures) as it,
            peer_of(it.address) as other,
            peer_of(it.address) as bad,
        ):
            await assert_alive(other)
            bad.send(BAD[what])
            while await bad.hear() is not None:
                continue
            await assert_alive(other)
            assert it.refusals == {"bad_frame": 1}
            assert failures.count == 1
            assert it.server.hub.held_bytes == 0

    run(work())


def test_frames_before_a_bad_one_are_served(run: Run) -> None:
    async def work() -> None:
        async with served() as it, peer_of(it.address) as peer:
            peer.send(WHOLE, WHOLE, BAD["two gigabytes"])
            while await peer.hear() is not None:
                continue
            assert len(it.seen) == 2

    run(work())


def test_frames_arrive_in_any_pieces(run: Run) -> None:
    async def work() -> None:
        requests = [ask(i, body=bytes([i]) * (i * 37), flag=0).encode() for i in range(60)]
        stream = b"".join(requests)
        dice = random.Random(7)
        async with served() as it, peer_of(it.address) as peer:
            at = 0
            while at < len(stream):
                step = dice.choice((1, 2, 3, 50, 700))
                peer.send(stream[at : at + step])
                await peer.drain()
                # Lets the server see the piece by itself now and then.
                await asyncio.sleep(0)
                at += step
            for i in range(60):
                answer = await peer.hear()
                assert answer is not None
                assert (answer.opaque, answer.body) == (i, bytes([i]) * (i * 37))

    run(work())


def test_half_a_frame_and_a_goodbye_is_nobodys_fault(run: Run) -> None:
    async def work() -> None:
        async with served() as it, peer_of(it.address) as other:
            async with peer_of(it.address) as peer:
                peer.send(WHOLE[:50])
                await until(lambda: it.server.hub.held_bytes == 50)
            await until(lambda: it.server.hub.held_bytes == 0)
            await assert_alive(other)
            assert it.seen[0].command.opaque == 4711
            assert len(it.seen) == 1

    run(work())


def test_a_frame_that_never_ends_is_given_up(run: Run) -> None:
    async def work() -> None:
        async with (
            served(Limits(idle_s=1e6, frame_s=100.0)) as it,
            peer_of(it.address) as slow,
            peer_of(it.address) as other,
        ):
            await assert_alive(other)
            slow.send(WHOLE[:10])
            await until(lambda: it.server.hub.held_bytes == 10)
            sweep = Sweep(it.server.hub)
            now_s = asyncio.get_running_loop().time()
            sweep.look(now_s + 99.0)
            slow.send(WHOLE[10:11])
            await until(lambda: it.server.hub.held_bytes == 11)
            # Another byte does not buy more time.
            sweep.look(now_s + 101.0)
            assert await slow.hear() is None
            assert it.refusals == {"slow_frame": 1}
            await assert_alive(other)

    run(work())


def test_a_silent_connection_is_closed(run: Run) -> None:
    async def work() -> None:
        async with served(Limits(idle_s=1e6)) as it, peer_of(it.address) as peer:
            await assert_alive(peer)
            sweep = Sweep(it.server.hub)
            now_s = asyncio.get_running_loop().time()
            sweep.look(now_s)
            sweep.look(now_s + 0.9e6)
            await assert_alive(peer)
            sweep.look(now_s + 1.1e6)
            await assert_alive(peer)
            sweep.look(now_s + 1.2e6)
            sweep.look(now_s + 2.3e6)
            assert await peer.hear() is None

    run(work())


def test_first_frames_that_take_too_much_are_read_no_further_and_all_get_through(run: Run) -> None:
    async def work() -> None:
        limits = Limits(first_frames_bytes_max=4 << 20, idle_s=1e6, frame_s=1e6)
        frame = ask(9, body=b"y" * 3_000_000).encode()
        async with AsyncExitStack() as stack:
            it = await stack.enter_async_context(served(limits))
            other = await stack.enter_async_context(peer_of(it.address))
            await assert_alive(other)
            hub = it.server.hub
            many = [await stack.enter_async_context(peer_of(it.address)) for _ in range(8)]
            for peer in many:
                peer.send(frame[:-1])
            # One frame beyond the bound, and one short read of each connection.
            await until(lambda: it.refusals.get("frames_full", 0) >= 6)
            for _ in range(100):
                await asyncio.sleep(0)
            assert hub.held_bytes <= (4 << 20) + len(frame) + 8 * len(hub.first_buffer)
            assert len(hub.links) == 9
            # Who has sent a request before, or sends a small one now, notices nothing.
            await assert_alive(other)
            small = await stack.enter_async_context(peer_of(it.address))
            small.send(WHOLE[:10])
            await until(lambda: len(hub.links) == 10)
            small.send(WHOLE[10:])
            assert await small.hear() is not None
            for peer in many:
                peer.send(frame[-1:])
            for peer in many:
                answer = await peer.hear()
                assert answer is not None
                assert len(answer.body) == 3_000_000
            await until(lambda: hub.held_bytes == 0)
            assert hub.frames.first.paused == ()
            for peer in many:
                await assert_alive(peer)

    run(work())


def test_requests_that_wait_are_bounded_over_all_connections(run: Run) -> None:
    async def work() -> None:
        begun = ask(1, LATER, body=b"y" * 1_000_000)
        async with served(Limits(held_bytes_max=2_500_000)) as it, peer_of(it.address) as other:
            await assert_alive(other)
            async with peer_of(it.address) as a, peer_of(it.address) as b:
                for peer in (a, b):
                    peer.send(begun)
                await until(lambda: len(it.seen) == 3)
                async with peer_of(it.address) as c:
                    c.send(begun)
                    assert await c.hear() is None
                    assert it.refusals == {"memory": 1}
                await assert_alive(other)
                it.gate.set()
            await until(lambda: it.server.hub.held_bytes == 0)

    run(work())


def test_a_peer_with_too_many_requests_is_not_read(run: Run) -> None:
    async def work() -> None:
        limits = Limits(in_flight_max=10)
        async with served(limits) as it, peer_of(it.address) as peer:
            peer.send(*(ask(i, LATER) for i in range(200)))
            await until(lambda: len(it.seen) == 10)
            (link,) = it.server.hub.links
            # One read of the socket may hold more than the bound; what it held waits, in order.
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(it.seen) == 10
            assert link.in_flight <= 200
            it.gate.set()
            for _ in range(200):
                assert await peer.hear() is not None
            assert [request.command.opaque for request in it.seen] == list(range(200))
            await until(lambda: link.in_flight == 0)
            await assert_alive(peer)

    run(work())


def test_a_peer_that_does_not_read_is_not_served_any_further(run: Run) -> None:
    async def work() -> None:
        body = b"z" * 100_000
        async with served() as it, peer_of(it.address) as other, peer_of(it.address) as deaf:
            await assert_alive(other)
            count = 300
            sending = asyncio.create_task(send_all(deaf, [ask(i, body=body) for i in range(count)]))
            # 30 MB do not fit into socket buffers and ours: it stops somewhere in between.
            await until(lambda: len(it.seen) > 5)
            seen = -1
            while seen != len(it.seen):
                seen = len(it.seen)
                for _ in range(200):
                    await asyncio.sleep(0)
                await assert_alive(other)
                seen += 1
            assert it.server.hub.held_bytes < 20 << 20
            for i in range(count):
                answer = await deaf.hear()
                assert answer is not None
                assert answer.opaque == i
            await sending

    async def send_all(peer: object, requests: list[Command]) -> None:
        for request in requests:
            peer.send(request)  # type: ignore[attr-defined]
            await peer.drain()  # type: ignore[attr-defined]

    run(work())


def test_a_peer_that_is_sent_to_and_never_reads_is_closed(run: Run) -> None:
    async def work() -> None:
        async with served(Limits(out_bytes_max=1_000_000)) as it, peer_of(it.address) as deaf:
            await assert_alive(deaf)
            (link,) = it.server.hub.links
            for _ in range(1000):
                link.notify(40, body=b"n" * 100_000)
                if not link.is_open:
                    break
            assert not link.is_open
            assert it.refusals == {"slow_reader": 1}
            await until(lambda: not it.server.hub.links)

    run(work())


def test_more_connections_than_the_bound_are_closed(run: Run) -> None:
    async def work() -> None:
        async with served(Limits(connections_max=2)) as it:
            async with peer_of(it.address) as a, peer_of(it.address) as b:
                await assert_alive(a)
                await assert_alive(b)
                async with peer_of(it.address) as c:
                    assert await c.hear() is None
                assert it.refusals == {"connections": 1}
                await assert_alive(a)
            await until(lambda: not it.server.hub.links)
            async with peer_of(it.address) as d:
                await assert_alive(d)

    run(work())


def test_connections_that_come_and_go_leave_nothing(run: Run) -> None:
    async def work() -> None:
        async with served() as it, peer_of(it.address) as other:
            for _ in range(100):
                async with peer_of(it.address):
                    pass
                async with peer_of(it.address) as peer:
                    peer.send(WHOLE[:7])
            await assert_alive(other)
            await until(lambda: len(it.server.hub.links) == 1)
            assert it.server.hub.held_bytes == 0

    run(work())


def test_peers_that_reset_their_connection_at_once_hurt_nobody(run: Run) -> None:
    async def work() -> None:
        async with served() as it, peer_of(it.address) as other:
            port = int(it.address.rpartition(":")[2])
            for what in (b"", b"\0", b"\x16\x03\x01", WHOLE) * 25:
                with socket.create_connection(("127.0.0.1", port)) as rude:
                    # Closing then sends a reset, and what was sent may be lost.
                    rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    rude.sendall(what)
            await assert_alive(other)
            await until(lambda: len(it.server.hub.links) == 1)
            assert it.server.hub.held_bytes == 0

    run(work())


def test_a_connection_that_sends_nothing_at_all_is_closed(run: Run) -> None:
    async def work() -> None:
        async with served(Limits(idle_s=0.05)) as it, peer_of(it.address) as peer:
            assert await peer.hear() is None

    run(work())


def test_random_bytes_never_disturb_the_others(run: Run) -> None:
    async def work() -> None:
        dice = random.Random(11)
        async with served() as it, peer_of(it.address) as other:
            for round_number in range(60):
                base = bytearray(WHOLE * 3)
                for _ in range(dice.randrange(1, 20)):
                    base[dice.randrange(len(base))] = dice.randrange(256)
                async with peer_of(it.address) as peer:
                    peer.send(bytes(base[: dice.randrange(1, len(base))]))
                    await peer.drain()
                await assert_alive(other, round_number)
            await until(lambda: len(it.server.hub.links) == 1)
            assert it.server.hub.held_bytes == 0

    run(work())
