"""The first try of a usual send: what it sends, and how it goes on where that ends badly."""

import asyncio

import pytest

from client.serving import STORED, scripted
from loops import DEADLINE_S, run_on, until
from mqcore import FaultStrategy, Message, SendStatus, aio
from mqcore.errors import SendError, SendReason
from mqcore.native import Command
from mqcore.remoting import Request, RequestCode

_SEND = RequestCode.SEND_MESSAGE_V2


def sends(asked: list[Command]) -> list[Command]:
    return [command for command in asked if command.code == _SEND]


def without_times(command: Command) -> dict[str, str]:
    """Returns the fields of a send that do not depend on when and where it was made."""
    properties = command.ext["i"].split("UNIQ_KEY\x01")[0]
    return {k: v for k, v in command.ext.items() if k != "g"} | {"i": properties}


def test_a_usual_send_has_the_frame_of_any_other() -> None:
    """Faults that nothing triggers make a send an unusual one: its frame is the official one."""
    message = Message("t", b"body", tags="ä", keys=["a", "b"], properties={"p": "q"}, flag=7)

    async def work(faults: FaultStrategy | None, namespace: str) -> dict[str, str]:
        with scripted() as server:
            async with aio.Producer(
                server.address, group="g", faults=faults, namespace=namespace
            ) as producer:
                # The first one finds no connection.
                for _ in range(2):
                    result = await producer.send(message)
                    assert result.status is SendStatus.SEND_OK
                    assert result.offset_message_id == STORED["msgId"]
            first, second = sends(server.asked)
            assert without_times(first) == without_times(second)
            assert first.body == second.body == b"body"
            assert first.ext["i"].endswith(f"UNIQ_KEY\x01{first.ext['i'][-33:-1]}\x02")
            assert (first.language, first.version) == (second.language, second.version)
            return without_times(second)

    for namespace in ("", "space"):
        usual = asyncio.run(work(None, namespace))
        assert usual == asyncio.run(work(FaultStrategy(), namespace))


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_an_answer_that_is_not_the_usual_one_is_read_in_full(loop: str) -> None:
    async def work() -> None:
        with scripted() as server:
            async with aio.Producer(server.address, group="g") as producer:
                await producer.send("t", b"connects")
                more = {"transactionId": "x", "MSG_REGION": "r", "TRACE_ON": "false"}
                server.send = lambda request: request.answer(ext=STORED | more)
                result = await producer.send("t", b"x")
                assert (result.transaction_id, result.region_id) == ("x", "r")
                assert not result.is_trace_on
                server.send = lambda request: request.answer(10, ext=STORED | {"queueId": "2"})
                result = await producer.send("t", b"x")
                assert result.status is SendStatus.FLUSH_DISK_TIMEOUT
                assert (result.queue.queue_id, result.attempts) == (2, 1)
                server.send = lambda request: request.answer(ext=STORED | {"queueId": "two"})
                with pytest.raises(SendError) as caught:
                    await producer.send("t", b"x")
                assert caught.value.reason is SendReason.BAD_ANSWER

    run_on(loop, work())


def test_a_further_try_has_the_id_of_the_first() -> None:
    async def work() -> None:
        with scripted() as server:
            async with aio.Producer(server.address, group="g", retries=2) as producer:
                await producer.send("t", b"connects")
                answers = [2, 2, 0]

                def send(request: Request) -> Command:
                    code = answers.pop(0)
                    return request.answer(code, "busy" if code else None, ext=STORED)

                server.send = send
                result = await producer.send(Message("t", b"x", keys="k"))
                assert result.attempts == 3
                tries = sends(server.asked)[1:]
                assert len(tries) == 3
                assert len({each.ext["i"] for each in tries}) == 1
                assert len({each.ext["g"] for each in tries}) == 1
                assert result.message_id in tries[0].ext["i"]

    asyncio.run(work())


def test_a_connection_that_ends_fails_every_try_in_flight_and_they_go_on() -> None:
    async def work() -> None:
        with scripted() as server:
            async with aio.Producer(server.address, group="g", timeout_s=DEADLINE_S) as producer:
                await producer.send("t", b"connects")
                held: list[Request] = []

                server.send = held.append
                tasks = [asyncio.create_task(producer.send("t", b"%d" % at)) for at in range(20)]
                await until(lambda: len(held) == 20)
                server.send = lambda request: request.answer(ext=STORED)
                server.loop.call_soon_threadsafe(held[0].link.abort)
                results = await asyncio.gather(*tasks)
                assert len({result.message_id for result in results}) == 20
                assert {result.attempts for result in results} == {2}

    asyncio.run(work())


def test_a_send_that_is_cancelled_leaves_space_for_others() -> None:
    async def work() -> None:
        with scripted() as server:
            async with aio.Producer(server.address, group="g") as producer:
                await producer.send("t", b"connects")
                server.send = lambda _: None
                count = len(sends(server.asked))
                link = producer.instance.remote.open_link(server.address)
                assert link is not None
                task = asyncio.create_task(producer.send("t", b"x"))
                await until(lambda: len(sends(server.asked)) > count)
                assert len(link.calls) == 1
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert len(link.calls) == 0
                server.send = lambda request: request.answer(ext=STORED)
                assert (await producer.send("t", b"y")).is_ok

    asyncio.run(work())


def test_small_and_large_sends_of_one_turn_keep_their_order() -> None:
    async def work() -> None:
        with scripted() as server:
            async with aio.Producer(
                server.address, group="g", compress_above_bytes=None
            ) as producer:
                await producer.send("t", b"connects")
                sizes = [1, 2, 40_000, 3, 50_000, 60_000, 4]
                await asyncio.gather(*(producer.send("t", bytes(size)) for size in sizes))
                assert [len(each.body) for each in sends(server.asked)[1:]] == sizes

    asyncio.run(work())


def test_a_silent_broker_is_late_by_the_deadline_of_the_call() -> None:
    async def work() -> None:
        with scripted() as server:
            async with aio.Producer(server.address, group="g") as producer:
                await producer.send("t", b"connects")

                server.send = lambda _: None
                with pytest.raises(SendError) as caught:
                    await producer.send("t", b"x", timeout_s=0.2)
                assert caught.value.reason is SendReason.TIMEOUT
                assert caught.value.may_be_stored
                assert "no answer to SEND_MESSAGE_V2(310) within 200 ms" in str(caught.value)

    asyncio.run(work())
