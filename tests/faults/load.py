"""Sends and reads that record what came of them, for the checker of histories.

Knows requests and answers; nothing of faults. A message is tried once, so that what is unknown may
be there once at the most.
"""

import asyncio
import itertools
import threading
import time
from collections.abc import Awaitable, Callable

from background import Background
from faults.group import ID_BYTES, TOPIC
from faults.history import Outcome, Queue, Read, Send
from mqcore.errors import MQError
from mqcore.native import Command, decode_records
from mqcore.remoting import Client, RequestCode, ResponseCode

QUEUES = 4
# Sends that are under way at once.
_SENDERS = 8
# Of a send or a read.
TIMEOUT_S = 3.0
# Between two tries of a sender to whom nobody answers.
_PAUSE_S = 0.02
# Answers that hold an offset and promise nothing more.
_STORED = {
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
}


class Load(Background):
    """Sends to a master from a thread of its own, until it is ended.

    Attributes:
        sends: What became of each message.
    """

    def __init__(
        self,
        address: str,
        producer: str,
        *,
        find: Callable[[Client], Awaitable[str]] | None = None,
        pause_s: float = 0.0,
    ) -> None:
        """Prepares it; as a context manager it sends.

        Args:
            address: The master's.
            producer: What begins the ids of its messages.
            find: Where the master is now; asked behind a send that was not acknowledged, and what
                is empty changes nothing.
            pause_s: Between two sends of one producer.
        """
        super().__init__("load")
        self.sends: list[Send] = []
        self._address = address
        self._producer = producer
        self._find = find
        self._pause_s = pause_s
        self._numbers = itertools.count()
        self._changed = threading.Condition()

    def wait_for(self, count: int, outcome: Outcome | None = None) -> None:
        """Returns when so many more sends have ended, with an outcome where one is given."""
        with self._changed:
            wanted = self._count(outcome) + count
            assert self._changed.wait_for(lambda: self._count(outcome) >= wanted, 60.0)

    def _count(self, outcome: Outcome | None) -> int:
        return sum(outcome in (None, send.outcome) for send in self.sends)

    async def _work(self) -> None:
        async with Client() as client:
            senders = (self._send_until_over(client, at) for at in range(_SENDERS))
            await asyncio.gather(*senders)

    async def _send_until_over(self, client: Client, at: int) -> None:
        # A sender is a producer: it sends one message after the other.
        name = f"{self._producer}{at}"
        while not self._is_over.is_set():
            send = await self._send(client, name)
            with self._changed:
                self.sends.append(send)
                self._changed.notify_all()
            if send.outcome in (Outcome.REFUSED, Outcome.UNKNOWN):
                await asyncio.sleep(_PAUSE_S)
                if self._find is not None:
                    self._address = await self._find(client) or self._address
            elif self._pause_s:
                await asyncio.sleep(self._pause_s)

    async def _send(self, client: Client, name: str) -> Send:
        number = next(self._numbers)
        message_id = f"{self._producer}{number:0{ID_BYTES - len(self._producer)}d}"
        queue: Queue = (TOPIC, number % QUEUES)
        body = message_id.encode() + b"x" * (number * 37 % 3_000)
        properties = f"UNIQ_KEY\x01{message_id}\x02"
        ext = {"a": "pg", "b": TOPIC, "c": "TBW102", "d": str(QUEUES), "e": str(queue[1])}
        ext |= {"f": "0", "g": "1700000000000", "h": "0", "i": properties, "j": "0"}
        ext |= {"k": "false", "m": "false"}
        began = time.monotonic()
        outcome, offset = Outcome.UNKNOWN, None
        try:
            code = RequestCode.SEND_MESSAGE_V2
            answer = await client.call(self._address, code, ext, body, timeout_s=TIMEOUT_S)
        except MQError:
            pass
        else:
            outcome, offset = _read(answer)
        return Send(name, message_id, queue, outcome, offset, began, time.monotonic())


def _read(answer: Command) -> tuple[Outcome, int | None]:
    """Returns what an answer to a send promises."""
    if answer.code == ResponseCode.SUCCESS:
        return Outcome.ACKNOWLEDGED, int(answer.ext["queueOffset"])
    if answer.code in _STORED:
        return Outcome.STORED, int(answer.ext["queueOffset"])
    if answer.code == ResponseCode.SERVICE_NOT_AVAILABLE:
        # Its sync may have failed when it was in the log.
        return Outcome.UNKNOWN, None
    return Outcome.REFUSED, None


def read_all(address: str) -> list[Read]:
    """Returns what a consumer is given of every queue; nothing of a broker that does not answer."""

    async def work() -> list[Read]:
        async with Client() as client:
            queues = (_read_queue(client, address, queue_id) for queue_id in range(QUEUES))
            return list(itertools.chain.from_iterable(await asyncio.gather(*queues)))

    return asyncio.run(work())


async def _read_queue(client: Client, address: str, queue_id: int) -> list[Read]:
    found: list[Read] = []
    offset = 0
    while True:
        ext = {
            "consumerGroup": "readers",
            "topic": TOPIC,
            "queueId": str(queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": "32",
            "sysFlag": "4",
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": "*",
            "subVersion": "0",
            "expressionType": "TAG",
        }
        try:
            code = RequestCode.PULL_MESSAGE
            answer = await client.call(address, code, ext, timeout_s=TIMEOUT_S)
        except MQError:
            return found
        if answer.code != ResponseCode.SUCCESS:
            return found
        found += [
            Read((TOPIC, queue_id), each.queue_offset, each.body[:ID_BYTES].decode("latin-1"))
            for each in decode_records(answer.body)
        ]
        offset = int(answer.ext["nextBeginOffset"])
