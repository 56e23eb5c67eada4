"""A broker process that vanishes (kill -9) under a running consumer and producers in mid-send."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import mqcore
from interop.patience import eventually
from interop.servers import OURS, Servers, serving
from mqcore import ConsumeFrom, Message, ReceivedMessage, aio
from mqcore.errors import MQError, NoRouteError, SendError

# Turns a hang into a failure; no test waits for it.
_DEADLINE_S = 90.0
_SENDERS = 6
# Tries end soon, so that a broker that is down is noticed.
_TIMEOUT_S = 1.0


class Tally:
    """What became of numbered messages; safe between threads.

    Attributes:
        acknowledged: Bodies that a broker acknowledged.
        refused: Bodies whose send ended in an error, with the error.
        consumed: How often each body was consumed.
    """

    def __init__(self) -> None:
        self.acknowledged: set[bytes] = set()
        self.refused: dict[bytes, MQError] = {}
        self.consumed: Counter[bytes] = Counter()
        self.is_over = threading.Event()
        self._numbers = count()
        self._changed = threading.Condition()

    def next_body(self) -> bytes:
        with self._changed:
            return b"%d" % next(self._numbers)

    def note(self, body: bytes, error: MQError | None) -> None:
        with self._changed:
            if error is None:
                self.acknowledged.add(body)
            else:
                self.refused[body] = error
            self._changed.notify_all()

    def handle(self, message: ReceivedMessage) -> None:
        with self._changed:
            self.consumed[message.body] += 1
            self._changed.notify_all()

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, _DEADLINE_S), what

    def wait_for_more(self, those: Sized, count: int) -> None:
        """Waits until there are so many more of them."""
        wanted = len(those) + count
        self.wait(lambda: len(those) >= wanted, f"{len(those)}, not {wanted}")


@contextmanager
def blocking_senders(namesrv: str, tally: Tally) -> Iterator[None]:
    """Sends from threads until the block ends; every send must come to an end."""

    def send(producer: mqcore.Producer) -> None:
        while not tally.is_over.is_set():
            body = tally.next_body()
            try:
                producer.send(Message("t", body))
            except MQError as error:
                tally.note(body, error)
            else:
                tally.note(body, None)

    with mqcore.Producer(namesrv, group="pg", timeout_s=_TIMEOUT_S) as producer:
        threads = [threading.Thread(target=send, args=(producer,)) for _ in range(_SENDERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            tally.is_over.set()
            for thread in threads:
                thread.join(_DEADLINE_S)
        assert not any(thread.is_alive() for thread in threads)


@contextmanager
def asyncio_senders(namesrv: str, tally: Tally, *, batching: bool = False) -> Iterator[None]:
    """Sends from tasks on an event loop of their own until the block ends."""

    async def send(producer: aio.Producer) -> None:
        while not tally.is_over.is_set():
            body = tally.next_body()
            try:
                await producer.send(Message("t", body))
            except MQError as error:
                tally.note(body, error)
            else:
                tally.note(body, None)

    async def work() -> None:
        async with aio.Producer(
            namesrv, group="pg", batching=batching, timeout_s=_TIMEOUT_S
        ) as producer:
            async with asyncio.timeout(_DEADLINE_S):
                await asyncio.gather(*(send(producer) for _ in range(_SENDERS)))

    failed: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        tally.is_over.set()
        thread.join(_DEADLINE_S)
    assert not thread.is_alive()
    assert failed == []


def batching_senders(namesrv: str, tally: Tally) -> Any:
    """Sends from tasks whose messages are gathered to batches."""
    return asyncio_senders(namesrv, tally, batching=True)


def killed(servers: Servers, tally: Tally, times: int) -> None:
    """Kills the broker while messages flow both ways, and starts it again."""
    for _ in range(times):
        tally.wait_for_more(tally.acknowledged, 200)
        tally.wait_for_more(tally.consumed, 100)
        servers.broker.kill()
        # A sender tries until its deadline, then it raises.
        tally.wait_for_more(tally.refused, 1)
        servers.broker.start()
    tally.wait_for_more(tally.acknowledged, 200)


def until_routed(namesrv: str) -> None:
    """Waits until the broker, which serves already, has registered at the name server."""
    with mqcore.Producer(namesrv, group="pg") as producer:

        def is_routed() -> bool:
            try:
                return bool(producer.queues("t"))
            except NoRouteError:
                return False

        assert eventually(is_routed, bool)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("senders", "orderly", "times"),
    [(blocking_senders, False, 1), (asyncio_senders, True, 2), (batching_senders, False, 1)],
)
def test_a_broker_that_is_killed_loses_nothing_that_it_acknowledged(
    tmp_path: Path, senders: Any, times: int, *, orderly: bool
) -> None:
    tally = Tally()
    with serving(OURS, tmp_path) as servers:
        namesrv = servers.namesrv.address
        until_routed(namesrv)
        with (
            mqcore.PushConsumer(
                namesrv,
                group="cg",
                topics="t",
                handler=tally.handle,
                orderly=orderly,
                consume_from=ConsumeFrom.FIRST_OFFSET,
            ),
            senders(namesrv, tally),
        ):
            killed(servers, tally, times)
            tally.is_over.set()
            tally.wait(lambda: tally.acknowledged <= tally.consumed.keys(), "messages are missing")
    # What failed reports where, and whether it may be there all the same.
    errors = {body: error for body, error in tally.refused.items() if isinstance(error, SendError)}
    assert errors == tally.refused
    surely_not = {body for body, error in errors.items() if not error.may_be_stored}
    assert not surely_not & tally.consumed.keys()
