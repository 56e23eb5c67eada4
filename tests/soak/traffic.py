"""Messages of every kind at a steady rate, and everybody who consumes them: our clients, signed.

    with Traffic(namesrvs, find_master, who, ledger, rate=2_000) as traffic:
        ...                          # brokers die meanwhile
        traffic.rest()               # nothing more is sent
        traffic.is_drained()

Pops are asked for as official clients do. Knows nothing of who is master, but by the name servers;
what is right is the ledger's business.

| work | what is special |
|---|---|
| Plain | one at a time |
| Batched | ten in a request |
| Compressed | the body is |
| Ordered | by key to one queue, consumed in order |
| Delayed, Timed | levels of delay, times of their own |
| Committed | half messages, ended at once; every second one rolled back |
| Checked | half messages that nobody ends: the broker asks |
| Popped | pops; one in five is not acknowledged the first time |
| Retried | given back the first time |
| Rejected | put into the dead-letter queue |
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from background import Resting
from interop.servers import BROKER_NAME
from mqcore import Message, MQError, ReceivedMessage, Reject, Retry, TransactionState, aio
from mqcore.client.handlers import HandlerResult
from mqcore.remoting import Client, Credentials
from popping import Popped, Popper
from soak.ledger import Ledger

BODY_BYTES: Final = 1_024
# Lengths of the delay levels, and what messages with a time of their own wait.
LEVELS_S: Final = (1, 2, 5, 8)
TIMES_MS: Final = (500, 1_500, 3_000, 6_000)
POPPED, REJECTED, ORDERED = "Popped", "Rejected", "Ordered"
_BATCH: Final = 10
_KEYS: Final = 16
_TIMEOUT_S: Final = 20.0
_TRY_TIMEOUT_S: Final = 1.0
# What a sender has missed while nobody answered is not made up for beyond this.
_BEHIND_S: Final = 1.0
# A pop that nobody acknowledges comes back after this.
_INVISIBLE_MS: Final = 3_000
_POLL_MS: Final = 500
_PASSED_OVER: Final = 5
_PAUSE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Work:
    """A kind of message.

    Attributes:
        name: It, and its topic.
        percent: Its part of the rate.
        senders: Who send it side by side, each one request after the other.
        count: Messages of one request.
    """

    name: str
    percent: float
    senders: int
    count: int = 1


# One sender of half messages or of a small part is enough: it waits for two answers at the most.
WORKS: Final = (
    Work("Plain", 52, 32),
    Work("Batched", 20, 4, _BATCH),
    Work("Compressed", 8, 8),
    Work(ORDERED, 6, 1),
    Work("Delayed", 4, 4),
    Work("Timed", 4, 4),
    Work("Committed", 1.5, 2),
    Work("Checked", 1.0, 2),
    Work(POPPED, 2, 2),
    Work("Retried", 1.0, 1),
    Work(REJECTED, 0.5, 1),
)
NAMES: Final = tuple(work.name for work in WORKS)


class Traffic(Resting):
    """Producers and consumers of every kind, on an event loop in a thread of its own.

    Attributes:
        skipped: Messages that were due while their senders waited for an answer.
    """

    def __init__(
        self,
        namesrv: str,
        find: Callable[[Client], Awaitable[str]],
        who: Credentials,
        ledger: Ledger,
        rate: float,
    ) -> None:
        """Prepares them; as a context manager they work.

        Args:
            namesrv: The name servers.
            find: Where the master is; empty for nowhere.
            who: Who signs.
            ledger: What keeps the accounts.
            rate: Messages a second, of all works together.
        """
        super().__init__("traffic")
        self.skipped = 0
        self._namesrv, self._find, self._who = namesrv, find, who
        self._ledger, self._rate = ledger, rate
        self._to_come_again: set[int] = set()

    def is_drained(self) -> bool:
        """Whether everything that was acknowledged was given, and what was to come again came."""
        return self._ledger.waiting() == 0 and not self._to_come_again

    def owed(self) -> dict[str, int]:
        """Returns how many messages have not come yet, by work."""
        found = {name: one.waiting for name, one in self._ledger.accounts.items() if one.waiting}
        return found | ({"to come again": len(self._to_come_again)} if self._to_come_again else {})

    async def _work(self) -> None:
        async with AsyncExitStack() as stack:
            # Soon known to a new master: it asks about transactions, and is asked for locks.
            client = await stack.enter_async_context(
                aio.Client(
                    self._namesrv,
                    credentials=self._who,
                    heartbeat_interval_s=1.0,
                    route_interval_s=1.0,
                )
            )
            plain = client.producer(
                group="soak",
                timeout_s=_TIMEOUT_S,
                try_timeout_s=_TRY_TIMEOUT_S,
                compress_above_bytes=None,
            )
            small = client.producer(
                group="soak-small",
                timeout_s=_TIMEOUT_S,
                try_timeout_s=_TRY_TIMEOUT_S,
                compress_above_bytes=BODY_BYTES // 2,
            )
            halves = client.transaction_producer(
                group="soak-transactions",
                check=state_of,
                timeout_s=_TIMEOUT_S,
                try_timeout_s=_TRY_TIMEOUT_S,
            )
            for name in NAMES:
                if name not in (POPPED, REJECTED):
                    await stack.enter_async_context(self._consumer(client, name))
            await stack.enter_async_context(self._rejecting(client))
            for each in (plain, small, halves):
                await stack.enter_async_context(each)
            popping = asyncio.create_task(self._pop(), name="pops")
            tasks = [
                self._send_steadily(work, self._way(work, plain, small, halves))
                for work in WORKS
                for _ in range(work.senders)
            ]
            await asyncio.gather(*tasks)
            await self._until_over()
            popping.cancel()
            await asyncio.gather(popping, return_exceptions=True)

    # Sending.

    async def _send_steadily(self, work: Work, send: Callable[[], Awaitable[None]]) -> None:
        pause_s = work.senders * work.count / (self._rate * work.percent / 100)
        due_s = time.monotonic()
        while not self._is_resting.is_set():
            now_s = time.monotonic()
            if due_s < now_s - _BEHIND_S:
                self.skipped += round((now_s - due_s) / pause_s) * work.count
                due_s = now_s
            # Woken for the end at the latest once a second, whatever the rate.
            if due_s > now_s:
                await asyncio.sleep(min(due_s - now_s, _BEHIND_S))
                if due_s > time.monotonic():
                    continue
            due_s += pause_s
            await send()

    def _way(
        self,
        work: Work,
        plain: aio.Producer,
        small: aio.Producer,
        halves: aio.TransactionProducer,
    ) -> Callable[[], Awaitable[None]]:
        if work.name == "Batched":
            return lambda: self._send_batch(plain, work.name)
        if work.name in ("Committed", "Checked"):
            return lambda: self._send_half(halves, work.name)
        producer = small if work.name == "Compressed" else plain
        return lambda: self._send(producer, work.name)

    async def _send(self, producer: aio.Producer, name: str) -> None:
        account = self._ledger.accounts[name]
        number = account.next_number()
        try:
            result = await producer.send(made(name, number))
        except MQError:
            account.failed += 1
            return
        if result.is_ok:
            account.acknowledge(number)
        else:
            account.failed += 1

    async def _send_batch(self, producer: aio.Producer, name: str) -> None:
        account = self._ledger.accounts[name]
        numbers = [account.next_number() for _ in range(_BATCH)]
        try:
            results = await producer.send_batch([made(name, number) for number in numbers])
        except MQError:
            account.failed += len(numbers)
            return
        if all(result.is_ok for result in results):
            for number in numbers:
                account.acknowledge(number)
        else:
            account.failed += len(numbers)

    async def _send_half(self, producer: aio.TransactionProducer, name: str) -> None:
        """Ends those of one work at once, and leaves the other's to questions."""
        account = self._ledger.accounts[name]
        number = account.next_number()
        message = made(name, number)
        try:
            result = await producer.send_half(message)
        except MQError:
            account.failed += 1
            return
        if not result.is_ok:
            account.failed += 1
        elif is_wanted(name, number):
            account.acknowledge(number)
        if name == "Committed":
            state = (
                TransactionState.COMMIT if is_wanted(name, number) else TransactionState.ROLLBACK
            )
            # Where it does not come through, the broker asks.
            with contextlib.suppress(MQError):
                await producer.end(message, result, state)

    # Consuming.

    def _consumer(self, client: aio.Client, name: str) -> aio.PushConsumer:
        async def take(message: ReceivedMessage) -> HandlerResult:
            work, number, due_ms = read(message.body)
            if name == "Retried" and message.reconsume_times == 0:
                return Retry(1.0)
            if name == ORDERED:
                self._ledger.at_offset(name, message.queue.queue_id, message.queue_offset)
            self._ledger.give(
                work,
                number,
                due_ms=due_ms,
                stored_ms=message.store_timestamp_ms,
                is_wanted=is_wanted(work, number),
            )
            return None

        return client.push_consumer(
            group=f"soak-{name}",
            topics=name,
            handler=take,
            orderly=name == ORDERED,
            consume_from="earliest",
            persist_interval_s=1.0,
            rebalance_interval_s=1.0,
            drain_s=1.0,
        )

    def _rejecting(self, client: aio.Client) -> aio.PushConsumer:
        """What is rejected counts as given: whether it is in the dead-letter queue is looked at."""

        async def take(message: ReceivedMessage) -> HandlerResult:
            work, number, _ = read(message.body)
            self._ledger.give(work, number)
            return Reject("it is to be a dead letter")

        return client.push_consumer(
            group=f"soak-{REJECTED}",
            topics=REJECTED,
            handler=take,
            consume_from="earliest",
            persist_interval_s=1.0,
            rebalance_interval_s=1.0,
            drain_s=1.0,
        )

    async def _pop(self) -> None:
        async with Client() as client:
            while True:
                with contextlib.suppress(MQError):
                    popper = Popper(client, await self._find(client), POPPED, "soak-pops")
                    popper.broker, popper.who = BROKER_NAME, self._who
                    answer = await popper.request(
                        invisibleTime=_INVISIBLE_MS,
                        pollTime=_POLL_MS,
                        bornTime=int(time.time() * 1_000),
                    )
                    for each in popper.popped(answer):
                        await self._popped(popper, each)
                await asyncio.sleep(_PAUSE_S)

    async def _popped(self, popper: Popper, message: Popped) -> None:
        _, number, _ = read(message.body.encode())
        is_first = not self._ledger.accounts[POPPED].has_come(number)
        self._ledger.give(POPPED, number)
        if number % _PASSED_OVER == 0 and is_first:
            self._to_come_again.add(number)
            return
        self._to_come_again.discard(number)
        await popper.ack(message)


def is_wanted(work: str, number: int) -> bool:
    """Whether a message is to be given to anybody: every second transaction is rolled back."""
    return work not in ("Committed", "Checked") or number % 2 == 0


def state_of(message: ReceivedMessage) -> TransactionState:
    """Returns what became of a transaction, for the broker that asks."""
    work, number, _ = read(message.body)
    return TransactionState.COMMIT if is_wanted(work, number) else TransactionState.ROLLBACK


def made(work: str, number: int) -> Message:
    """Returns a message of a work: a body of BODY_BYTES that names it and its time."""
    now_ms = int(time.time() * 1_000)
    if work == "Delayed":
        level = number % len(LEVELS_S)
        due_ms = now_ms + LEVELS_S[level] * 1_000
        return Message(work, _body(work, number, due_ms), delay_level=level + 1)
    if work == "Timed":
        due_ms = now_ms + TIMES_MS[number % len(TIMES_MS)]
        return Message(work, _body(work, number, due_ms), deliver_at=due_ms / 1_000)
    if work == ORDERED:
        return Message(work, _body(work, number, 0), sharding_key=str(number % _KEYS))
    return Message(work, _body(work, number, 0))


def _body(work: str, number: int, due_ms: int) -> bytes:
    return f"{work} {number} {due_ms} ".encode().ljust(BODY_BYTES, b"x")


def read(body: bytes) -> tuple[str, int, int]:
    """Returns the work, the number and the due time of a body."""
    work, number, due_ms, _ = body.split(b" ", 3)
    return work.decode(), int(number), int(due_ms)
