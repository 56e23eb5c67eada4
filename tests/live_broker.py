"""A broker in this process on a free port, and a client that speaks to it as official ones do.

Knows the requests of the protocol, not how the broker serves them.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from full_disks import ON_FULL_DISKS
from mqcore.broker.app import Broker
from mqcore.config import settings_of_pairs
from mqcore.model.relaxed_json import parse_object
from mqcore.native import Command
from mqcore.remoting import Client, Dispatcher, Request, RequestCode, expect
from request_fields import pull_fields, topic_fields

# Small files: a store of the default sizes allocates gigabytes.
SMALL = {
    "mappedFileSizeCommitLog": str(1 << 20),
    "mappedFileSizeConsumeQueue": "20000",
    # A first send waits for the first log file: on a busy disk, longer than the official 200 ms.
    "waitTimeMillsInSendQueue": "20000",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "populateWindowBytes": str(1 << 20),
    "hotWindowBytes": str(1 << 20),
    "maxMessageSize": "65536",
    "brokerName": "b",
    "brokerClusterName": "c",
    "brokerIP1": "127.0.0.1",
    "listenPort": "0",
    **ON_FULL_DISKS,
}


@dataclass(slots=True)
class Live:
    """A running broker and a connection to it.

    Attributes:
        broker: The broker.
        client: The client.
        broker_requests: Requests that the broker sent to the client, in order.
    """

    broker: Broker
    client: Client
    broker_requests: list[Command]

    @property
    def address(self) -> str:
        """Where the broker listens."""
        return f"127.0.0.1:{self.broker.ports['broker']}"

    async def call(
        self, code: int, ext: Mapping[str, object] | None = None, body: bytes = b""
    ) -> Command:
        """Sends a request; returns its answer, whatever it is."""
        return await self.client.call(self.address, code, field_texts(ext), body, timeout_s=20.0)

    async def json(self, code: int, ext: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Sends a request that succeeds; returns the object in the answer's body."""
        return parse_object(expect(await self.call(code, ext), self.address).body)

    async def settled(self) -> None:
        """Returns when everything that was sent can be found by queue and by key."""
        store = self.broker.state.store
        while max(store.stats().follower_lag_bytes.values()):  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(0.001)

    async def create(self, topic: str, queues: int = 1, perm: int = 6) -> None:
        """Creates a topic as `mqadmin updateTopic` does."""
        ext = topic_fields(topic, queues, perm)
        expect(await self.call(RequestCode.UPDATE_AND_CREATE_TOPIC, ext), self.address)

    async def send(
        self, topic: str, body: bytes, queue_id: int = 0, **properties: object
    ) -> Command:
        """Sends a message; returns the answer."""
        ext = send_fields(topic, queue_id, **properties)
        return await self.call(RequestCode.SEND_MESSAGE_V2, ext, body)

    async def pull(
        self, topic: str, offset: int, *, queue_id: int = 0, group: str = "g", wait_ms: int = 0
    ) -> Command:
        """Pulls with the subscription in the request; holds with `wait_ms`."""
        ext = pull_fields(topic, offset, group=group, queue_id=queue_id, wait_ms=wait_ms)
        return await self.call(RequestCode.PULL_MESSAGE, ext)


@asynccontextmanager
async def live(
    store_dir: Path, config_path: Path | None = None, /, **keys: str
) -> AsyncIterator[Live]:
    """Runs a broker on a directory, with a client."""
    settings = settings_of_pairs(SMALL | {"storePathRootDir": str(store_dir)} | keys)
    broker = Broker(settings, config_path=config_path)
    await broker.start()
    try:
        async with Client() as client:
            yield _recording(Live(broker, client, []))
    finally:
        await broker.stop()


@asynccontextmanager
async def another(running: Live) -> AsyncIterator[Live]:
    """A second client of a broker that runs."""
    async with Client() as client:
        yield _recording(Live(running.broker, client, []))


def _recording(running: Live) -> Live:
    """Keeps the requests that the broker sends to a client."""

    def record(request: Request) -> None:
        running.broker_requests.append(request.command)

    dispatcher: Dispatcher = running.client.hub.dispatcher
    dispatcher.on(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, record)
    dispatcher.on(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, record)
    return running


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def field_texts(ext: Mapping[str, object] | None) -> dict[str, str]:
    """Returns the fields of a header as Java writes them."""
    return {name: _text(value) for name, value in (ext or {}).items()}


def send_fields(topic: str, queue_id: int = 0, **properties: object) -> dict[str, object]:
    """Returns the fields of a send with short names."""
    text = "".join(f"{name}\x01{_text(value)}\x02" for name, value in properties.items())
    return {
        "a": "pg",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": queue_id,
        "f": 0,
        "g": 1_700_000_000_000,
        "h": 0,
        "i": text,
        "j": 0,
        "k": False,
        "m": False,
    }


def batch_fields(topic: str) -> dict[str, Any]:
    """Returns the fields of a batch to queue 0 with a key of its own, as clients of 5.x send."""
    return {
        "a": "pg",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": 0,
        "f": 0,
        "g": 1_700_000_000_000,
        "h": 0,
        "i": "UNIQ_KEY\x01BATCH\x02",
        "j": 0,
        "k": "false",
        "m": "true",
    }
