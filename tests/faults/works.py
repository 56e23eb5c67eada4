"""Everything that a broker does by itself, kept busy: delays, timers, transactions, pops, orders.

    with Works(all_.namesrv_addresses, all_.find_master) as works:
        ...                             # roles change
        works.rest()                    # nothing more is sent
        works.jobs, works.given

Producers and consumers are ours, as users have them; pops are asked for as official clients do.
Knows nothing of who is master, but by the name servers.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

from background import Resting
from faults.deliveries import Given, Job
from interop.servers import BROKER_NAME
from mqcore import Message, MQError, ReceivedMessage, TransactionState, aio
from mqcore.remoting import Client
from popping import Popped, Popper

DELAYED, TIMED, COMMITTED, CHECKED = "Delayed", "Timed", "Committed", "Checked"
POPPED, ORDERED, PLAIN = "Popped", "Ordered", "Plain"
WORKS = (DELAYED, TIMED, COMMITTED, CHECKED, POPPED, ORDERED, PLAIN)
# Lengths of the delay levels, and what messages with a time of their own wait.
LEVELS_S = (1, 2, 5, 8)
TIMES_MS = (500, 1_500, 3_000, 6_000)
_PAUSE_S = 0.05
_TIMEOUT_S = 20.0
_TRY_TIMEOUT_S = 1.0
# A pop that nobody acknowledges comes back after this.
_INVISIBLE_MS = 2_000
_POLL_MS = 500
# One popped message in so many is not acknowledged the first time.
_PASSED_OVER = 5


class Works(Resting):
    """Producers and consumers of every kind, on an event loop in a thread of its own.

    Attributes:
        jobs: What was acknowledged.
        given: What consumers were given.
        passed_over: Popped messages that were not acknowledged the first time, with how often each
            was given until now.
    """

    def __init__(self, namesrv: str, find: Callable[[Client], Awaitable[str]]) -> None:
        """Prepares them; as a context manager they work.

        Args:
            namesrv: The name servers.
            find: Where the master is; empty for nowhere.
        """
        super().__init__("works")
        self.jobs: list[Job] = []
        self.given: list[Given] = []
        self.passed_over: dict[str, int] = {}
        self._namesrv = namesrv
        self._find = find
        self._numbers = itertools.count()
        self._decided: dict[str, TransactionState] = {}

    def missing(self) -> set[tuple[str, str]]:
        """Returns what was to be given to a consumer and was not, or not again."""
        given = {(each.work, each.message_id) for each in tuple(self.given)}
        wanted = {(job.work, job.message_id) for job in tuple(self.jobs) if job.is_wanted}
        again = {(POPPED, message_id) for message_id, n in self.passed_over.items() if n < 2}
        return (wanted - given) | again

    async def _work(self) -> None:
        async with AsyncExitStack() as stack:
            # Soon known to a new master: it asks about transactions, and is asked for locks.
            client = await stack.enter_async_context(
                aio.Client(self._namesrv, heartbeat_interval_s=1.0, route_interval_s=1.0)
            )
            producer = client.producer(
                group="works", timeout_s=_TIMEOUT_S, try_timeout_s=_TRY_TIMEOUT_S
            )
            transactional = client.transaction_producer(
                group="transactions",
                check=self._check,
                timeout_s=_TIMEOUT_S,
                try_timeout_s=_TRY_TIMEOUT_S,
            )
            for work in WORKS:
                if work != POPPED:
                    await stack.enter_async_context(self._consumer(client, work))
            for each in (producer, transactional):
                await stack.enter_async_context(each)
            popping = asyncio.create_task(self._pop())
            sending = (
                self._send(producer, _delayed),
                self._send(producer, _timed),
                self._send(producer, partial(_at_once, POPPED)),
                self._send(producer, partial(_at_once, ORDERED)),
                self._send(producer, partial(_at_once, PLAIN)),
                self._transact(transactional),
            )
            await asyncio.gather(*sending)
            await self._until_over()
            popping.cancel()
            await asyncio.gather(popping, return_exceptions=True)

    def _consumer(self, client: aio.Client, work: str) -> aio.PushConsumer:
        async def take(message: ReceivedMessage) -> None:
            self.given.append(
                Given(
                    work,
                    message.body.decode(),
                    message.queue.queue_id,
                    message.queue_offset,
                )
            )

        return client.push_consumer(
            group=f"group-{work}",
            topics=work,
            handler=take,
            orderly=work == ORDERED,
            consume_from="earliest",
            persist_interval_s=0.5,
            rebalance_interval_s=1.0,
            drain_s=1.0,
        )

    # Messages.

    def _id(self) -> str:
        return f"{next(self._numbers):08d}"

    async def _send(
        self, producer: aio.Producer, made: Callable[[int, str], tuple[Message, int]]
    ) -> None:
        for number in itertools.count():
            if self._is_resting.is_set():
                return
            message_id = self._id()
            message, due_ms = made(number, message_id)
            with contextlib.suppress(MQError):
                result = await producer.send(message)
                if result.is_ok:
                    is_once = result.attempts == 1
                    job = Job(message.topic, message_id, due_ms, is_sent_once=is_once)
                    self.jobs.append(job)
            await asyncio.sleep(_PAUSE_S)

    async def _transact(self, producer: aio.TransactionProducer) -> None:
        """Ends one half of the transactions at once, and leaves the other to questions."""
        for number in itertools.count():
            if self._is_resting.is_set():
                return
            message_id = self._id()
            is_asked, is_wanted = number % 4 >= 2, number % 2 == 0
            state = TransactionState.COMMIT if is_wanted else TransactionState.ROLLBACK
            self._decided[message_id] = state
            message = Message(CHECKED if is_asked else COMMITTED, message_id)
            with contextlib.suppress(MQError):
                result = await producer.send_half(message)
                if result.is_ok:
                    is_once = result.attempts == 1
                    job = Job(message.topic, message_id, 0, is_wanted, is_sent_once=is_once)
                    self.jobs.append(job)
                if not is_asked:
                    await producer.end(message, result, state)
            await asyncio.sleep(_PAUSE_S)

    def _check(self, message: ReceivedMessage) -> TransactionState:
        return self._decided[message.body.decode()]

    # Pops.

    async def _pop(self) -> None:
        async with Client() as client:
            while True:
                popper = Popper(client, await self._find(client), POPPED, f"group-{POPPED}")
                popper.broker = BROKER_NAME
                with contextlib.suppress(MQError):
                    answer = await popper.request(
                        invisibleTime=_INVISIBLE_MS, pollTime=_POLL_MS, bornTime=_now_ms()
                    )
                    for each in popper.popped(answer):
                        await self._popped(popper, each)
                await asyncio.sleep(_PAUSE_S)

    async def _popped(self, popper: Popper, message: Popped) -> None:
        self.given.append(Given(POPPED, message.body, message.queue_id, message.offset))
        is_passed_over = int(message.body) % _PASSED_OVER == 0
        times = self.passed_over.get(message.body, 0) + 1
        if is_passed_over:
            self.passed_over[message.body] = times
        if not is_passed_over or times > 1:
            await popper.ack(message)


def _now_ms() -> int:
    return int(time.time() * 1_000)


def _delayed(number: int, message_id: str) -> tuple[Message, int]:
    level = number % len(LEVELS_S)
    due_ms = _now_ms() + LEVELS_S[level] * 1_000
    return Message(DELAYED, message_id, delay_level=level + 1), due_ms


def _timed(number: int, message_id: str) -> tuple[Message, int]:
    due_ms = _now_ms() + TIMES_MS[number % len(TIMES_MS)]
    return Message(TIMED, message_id, deliver_at=due_ms / 1_000), due_ms


def _at_once(work: str, _number: int, message_id: str) -> tuple[Message, int]:
    return Message(work, message_id), 0
