"""Connections have turns by the time that they take, and a full server closes idle ones."""

import asyncio
from collections.abc import Generator
from functools import partial

from loops import until
from mqcore.native import Command
from mqcore.remoting import Limits, Request, Slices, finished, in_slices
from remoting.conftest import Run
from remoting.peers import ECHO, LATER, ask, assert_alive, peer_of, served

COUNT = 100


class Hands:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_slow_requests_of_one_connection_let_others_in_between(run: Run) -> None:
    async def work() -> None:
        clock, order = Hands(), []
        async with served() as it, peer_of(it.address) as greedy, peer_of(it.address) as other:
            await assert_alive(other)
            hub = it.server.hub
            hub.clock = clock

            def slow(request: Request) -> Command:
                # Each request takes 2 ms: three of them are a turn.
                clock.now_s += 0.002
                order.append(("greedy", request.command.opaque))
                return request.answer()

            def quick(request: Request) -> Command:
                order.append(("other", len(order)))
                return request.answer(body=request.body)

            hub.dispatcher.on(LATER, slow)
            hub.dispatcher.on(ECHO, quick)
            greedy.send(*(ask(at, LATER) for at in range(COUNT)))
            await until(lambda: hub.waiting == 1)
            await assert_alive(other)
            for at in range(COUNT):
                answer = await greedy.hear()
                assert answer is not None
                assert answer.opaque == at
            [index] = [at for name, at in order if name == "other"]
            assert index < COUNT
            assert [at for name, at in order if name == "greedy"] == list(range(COUNT))
            assert hub.waiting == 0

    run(work())


def test_nothing_is_kept_of_a_connection_that_ends_while_its_requests_run(run: Run) -> None:
    async def work() -> None:
        async with served() as it, peer_of(it.address) as other:
            hub = it.server.hub
            may_end = asyncio.Event()

            async def slow(request: Request) -> Command:
                await may_end.wait()
                assert hub.note_user(request.link, "somebody")
                return request.answer()

            hub.dispatcher.on(LATER, slow)
            async with peer_of(it.address) as peer:
                peer.send(*(ask(at, LATER) for at in range(3)))
                await until(lambda: hub.held_bytes > 0)
            await until(lambda: len(hub.links) == 1)
            may_end.set()
            await until(lambda: hub.held_bytes == 0)
            await assert_alive(other)
            assert not hub.users._held.keys() - hub.links.keys()
            assert hub.users.most(1) == []

    run(work())


def test_who_asks_and_goes_again_and_again_waits_for_what_he_asked(run: Run) -> None:
    async def work() -> None:
        async with served(limits=Limits(orphans_max=8)) as it, peer_of(it.address) as other:
            hub = it.server.hub
            may_end = asyncio.Event()
            begun = 0

            async def slow(request: Request) -> Command:
                nonlocal begun
                begun += 1
                await may_end.wait()
                return request.answer()

            hub.dispatcher.on(LATER, slow)
            await assert_alive(other)
            for _ in range(3):
                before = begun
                async with peer_of(it.address) as peer:
                    peer.send(*(ask(at, LATER) for at in range(4)))
                    await until(partial(lambda end: begun == end, before + 4))
                await until(lambda: len(hub.links) == 1)
            assert hub.refusals == {"orphans": 1}
            async with peer_of(it.address) as late:
                late.send(ask(1, ECHO))
                await until(lambda: len(hub.links) == 2)
                # Who was there before is served, and who comes now waits.
                await assert_alive(other)
                assert [each.is_reading_held for each in hub.links] == [False, True]
                late.send(ask(2, LATER))
                await assert_alive(other)
                assert begun == 12
                may_end.set()
                answer = await late.hear()
                assert answer is not None
                assert answer.opaque == 1
                await until(lambda: begun == 13)

    run(work())


def test_turns_end_by_time_and_not_by_number(run: Run) -> None:
    async def work() -> None:
        clock = Hands()
        turns = []
        async with served() as it, peer_of(it.address) as peer:
            await assert_alive(peer)
            hub = it.server.hub
            hub.clock = clock
            (link,) = hub.links
            whole = link.requests.turn

            def counted() -> None:
                before = link.in_flight
                whole()
                turns.append(before - link.in_flight)

            link.requests.turn = counted  # type: ignore[method-assign]

            def slow(request: Request) -> Command:
                clock.now_s += 0.002
                return request.answer()

            hub.dispatcher.on(LATER, slow)
            link.receive([ask(at, LATER) for at in range(9)])
            await until(lambda: not link.in_flight)
            assert turns == [3, 3, 3]
            # Requests that take no time are executed in one turn, however many.
            turns.clear()
            link.receive([ask(at) for at in range(1_000)])
            assert turns == [1_000]

    run(work())


def test_connections_that_wait_share_a_turn(run: Run) -> None:
    async def work() -> None:
        async with served(Limits(turn_s=0.006)) as it:
            hub = it.server.hub
            assert hub.turn_s() == 0.006
            hub.waiting = 2
            assert hub.turn_s() == 0.002
            hub.waiting = 1_000
            assert hub.turn_s() == 0.0005
            hub.waiting = 0

    run(work())


def test_a_connection_that_is_lost_waits_no_more(run: Run) -> None:
    async def work() -> None:
        clock = Hands()
        async with served() as it:
            hub = it.server.hub
            hub.clock = clock

            def slow(request: Request) -> Command:
                clock.now_s += 1.0
                if request.command.opaque == 3:
                    request.link.abort()
                return request.answer()

            hub.dispatcher.on(LATER, slow)
            async with peer_of(it.address) as peer:
                peer.send(*(ask(at, LATER) for at in range(50)))
                while await peer.hear() is not None:
                    continue
            await until(lambda: not hub.links)
            assert hub.waiting == 0
            assert hub.held_bytes == 0

    run(work())


def test_work_in_slices_ends_with_the_same_result(run: Run) -> None:
    clock = Hands()

    def steps() -> Generator[None, None, str]:
        for _ in range(10):
            clock.now_s += 0.002
            yield
        return "done"

    async def work() -> None:
        slices = Slices(clock=clock, slice_s=0.005)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        assert await in_slices(steps(), slices) == "done"
        counting.cancel()
        # Three steps of 2 ms are a slice.
        assert slices.count == 4
        assert turns == 3

    run(work())
    assert finished(steps()) == "done"


def test_a_full_server_closes_the_newest_idle_connection(run: Run) -> None:
    async def work() -> None:
        limits = Limits(connections_max=4, unused_s=0.0, silent_s=1e6)
        async with served(limits) as it, peer_of(it.address) as known:
            await assert_alive(known)
            hub = it.server.hub
            async with (
                peer_of(it.address) as a,
                peer_of(it.address) as b,
                peer_of(it.address) as c,
            ):
                await until(lambda: len(it.server._crowd) == 4)
                async with peer_of(it.address) as late:
                    await assert_alive(late)
                    # The newest that had sent nothing.
                    assert await c.hear() is None
                    assert hub.refusals == {"made_room": 1}
                    await assert_alive(known)
                    await assert_alive(a)
                    await assert_alive(b)
                    # All have sent something: none is idle, who comes now is closed.
                    async with peer_of(it.address) as more:
                        assert await more.hear() is None
                    assert hub.refusals == {"made_room": 1, "connections": 1}
                    for each in (known, a, b, late):
                        await assert_alive(each)

    run(work())


def test_a_connection_with_half_a_request_goes_before_one_with_a_whole_one(run: Run) -> None:
    async def work() -> None:
        limits = Limits(connections_max=2, unused_s=0.0, silent_s=0.0, idle_s=1e6)
        whole = ask(1).encode()
        async with (
            served(limits) as it,
            peer_of(it.address) as half,
            peer_of(it.address) as known,
        ):
            half.send(whole[:5])
            await assert_alive(known)
            hub = it.server.hub
            await until(lambda: len(hub.links) == 2)
            it.server._sweep.look(asyncio.get_running_loop().time())
            async with peer_of(it.address) as late:
                await assert_alive(late)
                assert await half.hear() is None
                await assert_alive(known)

    run(work())


def test_no_descriptor_to_spare_is_as_no_capacity(run: Run) -> None:
    async def work() -> None:
        async with served(Limits(descriptors_max=0)) as it, peer_of(it.address) as peer:
            assert await peer.hear() is None
            assert it.refusals == {"connections": 1}

    run(work())
