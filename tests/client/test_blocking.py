"""The synchronous face: the same results from any thread, and words where it could only hang."""

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import mqcore
from client.serving import STORED, Cluster, pulled, scripted
from loops import run_on
from mqcore import Message, aio
from mqcore.errors import (
    CallTimeoutError,
    ClosedError,
    ConnectError,
    MessageError,
    SendError,
    SendReason,
    UsageError,
    UsageReason,
)
from mqcore.native import Command
from mqcore.remoting import Request, RequestCode

# No test waits for it: it turns a hang into a failure.
_DEADLINE_S = 60.0


def test_five_lines_send_a_message(cluster: Cluster) -> None:
    with mqcore.Producer(cluster.namesrv, group="sync") as producer:
        result = producer.send(Message("sync", b"one", tags="t"))
        assert result.is_ok
        (record,) = asyncio.run(pulled(cluster, result.queue, result.queue_offset))
        assert (record.body, record.uniq_key) == (b"one", result.message_id)


def test_both_faces_have_the_same_names() -> None:
    for sync, asynchronous in (
        (mqcore.Producer, aio.Producer),
        (mqcore.TransactionProducer, aio.TransactionProducer),
        (mqcore.Client, aio.Client),
    ):
        ours = {name for name in dir(asynchronous) if not name.startswith("_")}
        internal = {
            *("check_usable", "prepared", "prepared_batch", "fixed_queue", "buffered_bytes"),
            *("send_half", "end", "routes", "need_timers", "instance", "sender", "tracer"),
        }
        assert ours - internal <= {name for name in dir(sync) if not name.startswith("_")}


def test_many_threads_send_at_once(cluster: Cluster) -> None:
    with mqcore.Producer(cluster.namesrv, group="sync") as producer:

        def send(at: int) -> tuple[Any, int]:
            result = producer.send(Message("threads", b"%d" % at))
            return result.queue, result.queue_offset

        with ThreadPoolExecutor(8) as pool:
            offsets = list(pool.map(send, range(400)))
    assert len(set(offsets)) == 400


def test_a_ticket_is_waited_for_as_long_as_the_caller_wants() -> None:
    with scripted() as server:
        answers = iter([None])
        server.send = lambda request: next(answers, request.answer(ext=STORED))
        with mqcore.Producer(server.address, group="g", timeout_s=2, try_timeout_s=0.5) as producer:
            ticket = producer.send_soon(Message("t", b"x"))
            with pytest.raises(CallTimeoutError, match=r"topic t: .* no answer after 0\.01 s"):
                ticket.result(0.01)
            with pytest.raises(UsageError, match=r"^timeout_s: -1 is not above 0"):
                ticket.result(timeout_s=-1)
            # The batch goes on: whoever asks again gets its result.
            assert ticket.result(10).is_ok
            assert ticket.result().is_ok


def test_everything_else_goes_through_the_loop(cluster: Cluster) -> None:
    with mqcore.Client(cluster.namesrv) as client:
        producer = client.producer(group="sync")
        producer.start()
        (whole,) = producer.send_batch([Message("loop", b"%d" % at) for at in range(3)])
        assert len(whole.message_id.split(",")) == 3
        tickets = [producer.send_soon(Message("loop", b"x")) for _ in range(20)]
        assert tickets[-1].result().is_ok
        assert tickets[-1].done()
        producer.flush()
        assert len(producer.queues("loop")) == 4
        producer.send_oneway(Message("loop", b"x"))
        with pytest.raises(MessageError):
            producer.send_soon(Message("loop", b"x", delay_level=1))
    with pytest.raises(ClosedError):
        producer.send(Message("loop", b"x"))


def test_gathered_sends_of_threads_share_requests(cluster: Cluster) -> None:
    with (
        mqcore.Producer(cluster.namesrv, group="sync", batching=True) as producer,
        ThreadPoolExecutor(16) as pool,
    ):
        results = list(
            pool.map(lambda at: producer.send(Message("gathered", b"%d" % at)), range(200))
        )
    assert len({(result.queue, result.queue_offset) for result in results}) == 200


def test_a_failed_try_goes_to_the_other_broker() -> None:
    with scripted(brokers=2) as server:

        def send(request: Request) -> Command | None:
            if request.command.ext["at"] == "1":
                request.link.abort()
                return None
            return request.answer(ext=STORED)

        server.send = send
        with mqcore.Producer(server.address, group="sync") as producer:
            results = [producer.send(Message("t", b"x")) for _ in range(6)]
        assert {result.queue.broker_name for result in results} == {"b0"}
        assert max(result.attempts for result in results) == 2


def test_a_silent_broker_ends_in_a_timeout_and_the_next_send_in_a_result() -> None:
    with scripted() as server:
        server.send = lambda _: None
        with mqcore.Producer(server.address, group="sync", timeout_s=0.2) as producer:
            with pytest.raises(
                SendError,
                match="stored all the same",
                check=lambda error: error.reason is SendReason.TIMEOUT,
            ):
                producer.send(Message("t", b"x"))
            server.send = lambda request: request.answer(ext=STORED)
            assert producer.send(Message("t", b"x"), timeout_s=20.0).is_ok


def test_a_connection_that_the_broker_closed_is_not_used_again() -> None:
    with scripted() as server:
        links: list[Any] = []

        def send(request: Request) -> Command:
            links.append(request.link)
            return request.answer(ext=STORED)

        server.send = send
        with mqcore.Producer(server.address, group="sync", retries=0) as producer:
            producer.send(Message("t", b"x"))
            closed = threading.Event()

            def close() -> None:
                links[0].close()
                links[0].hub.spawn(_notify_closing(links[0], closed))

            server.loop.call_soon_threadsafe(close)
            assert closed.wait(_DEADLINE_S)
            assert producer.send(Message("t", b"x")).is_ok
        assert len(set(map(id, links))) == 2


async def _notify_closing(link: Any, event: threading.Event) -> None:
    while not link.is_lost:  # noqa: ASYNC110 - the test's own loop has no signal for it
        await asyncio.sleep(0.001)
    event.set()


def test_nobody_there_is_reported_with_the_address() -> None:
    with scripted() as server:
        route = server.default_route("t")
        route["brokerDatas"][0]["brokerAddrs"]["0"] = "127.0.0.1:9"
        server.route = lambda _: route
        with mqcore.Producer(server.address, group="sync", official_retries=True) as producer:
            with pytest.raises(SendError, match=r"127\.0\.0\.1:9") as caught:
                producer.send(Message("t", b"x"))
            assert all(isinstance(error, ConnectError) for _, error in caught.value.attempts)
            assert len(caught.value.attempts) == 3
            assert not caught.value.may_be_stored


def test_a_running_loop_is_never_stopped(cluster: Cluster) -> None:
    with mqcore.Producer(cluster.namesrv, group="sync") as producer:

        async def work() -> None:
            with pytest.raises(
                UsageError,
                match=r"mqcore\.aio",
                check=lambda error: error.reason is UsageReason.RUNNING_LOOP,
            ):
                producer.send(Message("loop", b"x"))
            with pytest.raises(
                UsageError, check=lambda error: error.reason is UsageReason.RUNNING_LOOP
            ):
                mqcore.Producer(cluster.namesrv, group="sync")
            await asyncio.to_thread(producer.send, Message("loop", b"x"))

        run_on("asyncio", work())


def test_use_before_the_start_and_after_the_end_is_refused(cluster: Cluster) -> None:
    producer = mqcore.Producer(cluster.namesrv, group="sync")
    with pytest.raises(
        UsageError,
        match=r"call start\(\), or use it as a context manager",
        check=lambda error: error.reason is UsageReason.NOT_STARTED,
    ):
        producer.send(Message("t", b"x"))
    producer.start()
    producer.close()
    producer.close()
    for call in (producer.send, producer.send_soon, producer.send_oneway, producer.request):
        with pytest.raises(ClosedError):
            call(Message("t", b"x"))
    consumer = mqcore.PushConsumer(cluster.namesrv, group="sync", handler=print)
    with pytest.raises(UsageError, match="as a context manager"):
        consumer.wait()
    consumer.close()
    with pytest.raises(ClosedError):
        consumer.wait()


def test_a_forked_child_is_refused_and_may_make_its_own(cluster: Cluster) -> None:
    with mqcore.Producer(cluster.namesrv, group="sync") as producer:
        producer.send(Message("fork", b"parent"))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                try:
                    producer.send(Message("fork", b"x"))
                except UsageError as error:
                    code = 2 if error.reason is UsageReason.FORKED else 3
                with mqcore.Producer(cluster.namesrv, group="child") as own:
                    own.send(Message("fork", b"child"))
                code = 0 if code == 2 else code
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert producer.send(Message("fork", b"parent")).is_ok


def test_what_is_in_flight_when_the_interpreter_ends_arrives(
    cluster: Cluster, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import mqcore
            client = mqcore.Client("{cluster.namesrv}")
            producer = client.producer(group="leaving", linger_s=3600.0)
            producer.start()
            client.start()
            for at in range(10):
                producer.send_soon(mqcore.Message("leaving", b"%d" % at, sharding_key="k"))
            """
        )
    )
    done = subprocess.run(
        [sys.executable, str(script)], check=True, timeout=_DEADLINE_S, capture_output=True
    )
    assert done.stderr == b""
    with mqcore.Producer(cluster.namesrv, group="sync") as producer:
        result = producer.send(Message("leaving", b"last", sharding_key="k"))
        assert result.queue_offset == 10


def test_transactions_have_the_synchronous_face_too() -> None:
    with scripted() as server:
        with mqcore.TransactionProducer(server.address, group="tx") as producer:

            @producer.on_check
            def check(message: mqcore.ReceivedMessage) -> bool:
                del message
                return True

            with producer.transaction() as transaction:
                transaction.send(Message("t", b"x"))
            assert transaction.state is mqcore.TransactionState.COMMIT
            # Nothing would end it: consumers would never see it.
            with pytest.raises(UsageError, match="topic t: the transaction was ended"):
                transaction.send(Message("t", b"late"))
            caller = threading.get_ident()
            result = producer.send_in_transaction(
                Message("t", b"x"), lambda *_: threading.get_ident() != caller
            )
            # False: the work was done in this thread.
            assert result.state is mqcore.TransactionState.ROLLBACK
        ends = [one.ext for one in server.asked if one.code == RequestCode.END_TRANSACTION]
        assert [end["commitOrRollback"] for end in ends] == ["8", "12"]
