"""A producer and a consumer of ours, as users have them, that record what they saw.

    with Clients(all_.namesrv_addresses, "p00") as clients:
        ...
    clients.sends, clients.reads

Knows the public API alone: who is master is the clients' business.
"""

import asyncio
import itertools
import time

from background import Background
from faults.group import ID_BYTES, TOPIC
from faults.history import Outcome, Read, Send
from mqcore import Message, MQError, ReceivedMessage, SendError, aio

_PAUSE_S = 0.02
# A try may have been stored, and there may be any number of them.
_TRIES = 1_000
_TIMEOUT_S = 5.0
_TRY_TIMEOUT_S = 1.0


class Clients(Background):
    """One of each, on an event loop in a thread of its own.

    Attributes:
        sends: What became of each message.
        reads: What the consumer was given.
    """

    def __init__(self, namesrv: str, prefix: str) -> None:
        """Prepares them; as a context manager they work.

        Args:
            namesrv: The name servers.
            prefix: What begins the ids of messages, and names the group.
        """
        super().__init__("clients")
        self.sends: list[Send] = []
        self.reads: list[Read] = []
        self._namesrv = namesrv
        self._prefix = prefix

    async def _work(self) -> None:
        async with (
            aio.Producer(
                self._namesrv,
                group=f"producers-{self._prefix}",
                timeout_s=_TIMEOUT_S,
                try_timeout_s=_TRY_TIMEOUT_S,
            ) as producer,
            aio.PushConsumer(
                self._namesrv,
                group="consumers",
                topics=TOPIC,
                consume_from="earliest",
                handler=self._take,
                drain_s=1.0,
            ),
        ):
            for number in itertools.count():
                if self._is_over.is_set():
                    return
                self.sends.append(await self._send(producer, number))
                await asyncio.sleep(_PAUSE_S)

    async def _take(self, message: ReceivedMessage) -> None:
        text = message.body[:ID_BYTES].decode("latin-1")
        self.reads.append(Read((TOPIC, message.queue.queue_id), message.queue_offset, text))

    async def _send(self, producer: aio.Producer, number: int) -> Send:
        message_id = f"{self._prefix}{number:0{ID_BYTES - len(self._prefix)}d}"
        began = time.monotonic()
        outcome, offset, queue = Outcome.UNKNOWN, None, (TOPIC, -1)
        try:
            result = await producer.send(Message(TOPIC, message_id.encode()))
        except SendError as error:
            outcome = Outcome.UNKNOWN if error.may_be_stored else Outcome.REFUSED
        except MQError:
            # No try was made: nobody was known to send it to.
            outcome = Outcome.REFUSED
        else:
            outcome = Outcome.ACKNOWLEDGED if result.is_ok else Outcome.STORED
            offset, queue = result.queue_offset, (TOPIC, result.queue.queue_id)
        ended = time.monotonic()
        return Send(self._prefix, message_id, queue, outcome, offset, began, ended, _TRIES)
