"""SIGTERM and SIGINT: a consumer ends as if it was closed, and the process as it likes."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

import mqcore
from client.serving import Cluster, scripted
from interop.patience import eventually
from loops import DEADLINE_S
from mqcore import Message, aio
from mqcore.client.stop_signals import stop_at_signals
from mqcore.errors import ClosedError
from mqcore.testing import Broker

# Consumes one message slowly: prints when the handler begins and ends, and how the program does.
_PROGRAM = """
import asyncio, signal, sys, threading
import mqcore
from mqcore import aio

before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]

def handle(message):
    while signal.getsignal(signal.SIGTERM) == before[0]:
        threading.Event().wait(0.01)
    print("begins", flush=True)
    threading.Event().wait(0.5)
    print("ends", flush=True)

options = dict(group="g", topics="t", handler=handle,
               consume_from=mqcore.ConsumeFrom.FIRST_OFFSET)
{body}
after = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
print("restored" if after == before else "changed", flush=True)
"""
_RUN = "mqcore.PushConsumer({address!r}, **options).run()"
_WAIT = """
with mqcore.PushConsumer({address!r}, **options) as consumer:
    print(consumer.wait(), flush=True)
"""
_AIO_RUN = """
async def main():
    await aio.PushConsumer({address!r}, **options).run()

asyncio.run(main())
"""
_AIO_WAIT = """
async def main():
    async with aio.PushConsumer({address!r}, **options) as consumer:
        print(await consumer.wait(), flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("body", [_RUN, _WAIT, _AIO_RUN, _AIO_WAIT])
def test_a_signal_lets_handlers_finish_and_saves_how_far_it_came(
    body: str, number: signal.Signals
) -> None:
    with Broker() as broker, mqcore.Producer(broker.namesrv, group="p") as producer:
        broker.create_topic("t", queues=1)
        producer.send(Message("t", b"x"))
        program = _PROGRAM.format(body=body.format(address=broker.namesrv))
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(number)
        printed, errors = process.communicate(timeout=DEADLINE_S)
        assert (first, errors, process.returncode) == ("begins\n", "", 0)
        expected = "ends\nTrue\nrestored\n" if ".wait()" in body else "ends\nrestored\n"
        assert printed == expected
        assert broker.offsets("g", "t") == {0: 1}


def _signalled(number: int) -> None:
    os.kill(os.getpid(), number)


def test_run_ends_while_no_name_server_is_there() -> None:
    consumer = mqcore.PushConsumer("127.0.0.1:1", group="g", topics="t", handler=print)
    timer = threading.Timer(0.3, _signalled, (signal.SIGTERM,))
    timer.start()
    consumer.run()
    timer.join()
    assert consumer.is_closed
    with pytest.raises(ClosedError):
        consumer.run()


def test_one_signal_ends_all_consumers_of_a_loop(cluster: Cluster) -> None:
    async def work() -> list[bool]:
        consumers = [
            aio.PushConsumer(cluster.namesrv, group=f"g{at}", topics="t", handler=print)
            for at in range(3)
        ]
        runs = [asyncio.ensure_future(consumer.run()) for consumer in consumers]
        async with asyncio.timeout(DEADLINE_S):
            # Each has taken the signals before its first wait.
            await asyncio.sleep(0)
            assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
            _signalled(signal.SIGTERM)
            await asyncio.gather(*runs)
        return [consumer.is_closed for consumer in consumers]

    assert asyncio.run(work()) == [True] * 3
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_handler_of_the_application_stays_while_it_waits(cluster: Cluster) -> None:
    heard: list[int] = []

    def note(number: int, frame: Any) -> None:
        del frame
        heard.append(number)

    before = signal.signal(signal.SIGTERM, note)
    try:
        with mqcore.PushConsumer(cluster.namesrv, group="own", topics="t", handler=print) as other:
            timer = threading.Timer(0.2, _signalled, (signal.SIGTERM,))
            timer.start()
            assert not other.wait(timeout_s=0.5)
            timer.join()
            assert heard == [signal.SIGTERM]
            # `run` takes it, and gives it back.
            timer = threading.Timer(0.2, _signalled, (signal.SIGTERM,))
            timer.start()
            other.run()
            timer.join()
        assert heard == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) is note
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_second_interrupt_does_what_it_did_before() -> None:
    stops: list[str] = []
    with stop_at_signals(lambda: stops.append("stop"), takes_all=False):
        _signalled(signal.SIGINT)
        assert stops == ["stop"]
        with pytest.raises(KeyboardInterrupt):
            _signalled(signal.SIGINT)
        # A supervisor may repeat its request; it changes nothing.
        _signalled(signal.SIGTERM)
        _signalled(signal.SIGTERM)
        assert stops == ["stop"] * 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stop_at_signals(lambda: None, takes_all=True):
            assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("work", ["run", "wait"])
def test_another_thread_takes_no_signals(work: str) -> None:
    with scripted() as server:
        consumer = mqcore.PushConsumer(server.address, group="g", topics="t", handler=print)
        if work == "wait":
            consumer.start()
        thread = threading.Thread(target=getattr(consumer, work))
        thread.start()
        assert eventually(lambda: consumer._core._is_started, bool)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        consumer.close()
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
