"""A broker and one producer of transactions, driven step by step: what their tests share.

Ends and answers are sent as requests that are answered, so that a step is over when its call is.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from live_broker import SMALL
from mqcore.broker.app import Broker
from mqcore.config import settings_of_pairs
from mqcore.model.heartbeats import HeartbeatData
from mqcore.model.message_ids import parse_offset_id
from mqcore.native import Command, Message, decode_records
from mqcore.remoting import Client, Request, RequestCode

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
HALF, OPS = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP, SYSTEM_GROUP = "TRANS_CHECK_MAX_TIME_TOPIC", "CID_RMQ_SYS_TRANS"
# Longer than transactionTimeOut: whoever is checked so much ahead is asked.
AGED_MS = 10_000
CHECK_MAX = 3


@dataclass(frozen=True, slots=True)
class Half:
    """Where a half message is.

    Attributes:
        offset: Its offset in the half queue.
        physical_offset: Bytes from the beginning of the log.
    """

    offset: int
    physical_offset: int


class Bench:
    """A broker on a directory, and a producer of group `pg`.

    Attributes:
        asked: Half messages that the producer was asked about, with their bodies, oldest first.
    """

    def __init__(self, directory: Path, keys: Mapping[str, str]) -> None:
        """Prepares; `start` begins."""
        pairs = SMALL | {
            "storePathRootDir": str(directory),
            # Rounds come when a test asks for them.
            "transactionCheckInterval": "86400000",
            "transactionCheckMax": str(CHECK_MAX),
        }
        self._settings = settings_of_pairs(pairs | dict(keys))
        self._broker: Broker | None = None
        self._client: Client | None = None
        self.asked: list[tuple[Half, bytes]] = []

    @property
    def broker(self) -> Broker:
        """The broker that runs."""
        assert self._broker is not None
        return self._broker

    @property
    def client(self) -> Client:
        """The producer's connection."""
        assert self._client is not None
        return self._client

    @property
    def address(self) -> str:
        """Where the broker listens."""
        return f"127.0.0.1:{self.broker.ports['broker']}"

    async def start(self) -> None:
        """Starts the broker and the producer."""
        self._broker = Broker(self._settings)
        await self._broker.start()
        self._client = Client()
        self._client.hub.dispatcher.on(RequestCode.CHECK_TRANSACTION_STATE, self._note)
        await self.come()

    async def stop(self) -> None:
        """Stops both."""
        await self._leave_client()
        await self.broker.stop()

    async def kill(self) -> None:
        """Ends the broker as `kill -9` does."""
        await self.broker.abandon()
        await self._leave_client()

    async def _leave_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        self.asked.clear()

    def _note(self, request: Request) -> None:
        half = Half(
            int(request.field("tranStateTableOffset")), int(request.field("commitLogOffset"))
        )
        self.asked.append((half, decode_records(request.body)[0].body))

    async def call(self, code: int, ext: Mapping[str, object], body: bytes = b"") -> Command:
        """Sends a request; returns its answer."""
        texts = {name: str(value) for name, value in ext.items()}
        return await self.client.call(self.address, code, texts, body, timeout_s=20.0)

    async def come(self) -> None:
        """Registers the producer with the broker."""
        beat = HeartbeatData("producer@1", ("pg",), ()).encode()
        assert (await self.call(RequestCode.HEART_BEAT, {}, beat)).code == 0

    async def leave(self) -> None:
        """Unregisters it from the broker; its connection stays."""
        ext = {"clientID": "producer@1", "producerGroup": "pg"}
        assert (await self.call(RequestCode.UNREGISTER_CLIENT, ext)).code == 0

    async def create(self, topic: str) -> None:
        """Creates a topic of one queue."""
        ext = {
            **{"topic": topic, "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1},
            **{"perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"},
        }
        assert (await self.call(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)).code == 0

    async def half(self, body: bytes, topic: str = "T", **properties: object) -> Half:
        """Sends a half message."""
        named = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": body.hex()} | properties
        text = "".join(f"{name}\x01{value}\x02" for name, value in named.items())
        ext: dict[str, Any] = {
            **{"a": "pg", "b": topic, "c": "TBW102", "d": 1, "e": 0, "f": 4, "h": 0},
            **{"g": int(time.time() * 1_000), "i": text, "j": 0, "k": "false", "m": "false"},
        }
        answer = await self.call(RequestCode.SEND_MESSAGE_V2, ext, body)
        assert answer.code == 0, answer.remark
        parsed = parse_offset_id(answer.ext["msgId"])
        assert parsed is not None
        return Half(int(answer.ext["queueOffset"]), parsed.physical_offset)

    async def end(self, half: Half, state: int, **more: object) -> Command:
        """Ends a transaction; returns the answer."""
        ext = {
            "producerGroup": "pg",
            "tranStateTableOffset": half.offset,
            "commitLogOffset": half.physical_offset,
            "commitOrRollback": state,
            "fromTransactionCheck": "false",
            "msgId": "m",
        }
        return await self.call(RequestCode.END_TRANSACTION, ext | more)

    async def check(self, ahead_ms: int = AGED_MS) -> None:
        """Does one round; returns when the producer has heard all questions of it."""
        await self.broker.rounds.check_transactions(ahead_ms=ahead_ms)
        # Questions and this answer share a connection.
        await self.call(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": 0})

    async def messages(self, topic: str) -> list[Message]:
        """Returns everything that is stored in the first queue of a topic."""
        return await asyncio.to_thread(self._read, topic)

    def _read(self, topic: str) -> list[Message]:
        store = self.broker.state.store
        store.wait_dispatched(store.stats().appended)
        low, high = self.broker.state.bounds(topic, 0)
        found: list[Message] = []
        while low < high:
            part = store.get(topic, 0, low, 1_024)
            found += part.messages
            low = part.next_offset
        return found

    async def bodies(self, topic: str = "T") -> list[bytes]:
        """Returns the bodies of everything in the first queue of a topic."""
        return [message.body for message in await self.messages(topic)]

    async def is_all_checked(self) -> bool:
        """Whether both queues were checked to their ends."""
        fast_path, state = self.broker.state.fast_path, self.broker.state
        await self.bodies()
        return all(
            fast_path.offsets.find(SYSTEM_GROUP, topic, 0) == state.bounds(topic, 0)[1]
            for topic in (HALF, OPS)
        )
