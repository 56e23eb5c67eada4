"""A broker on a golden directory with a stopped clock, and what it answers of its tables.

The clock shows the moment of the last session, so that nothing which waits becomes due while a test
looks, whenever the test runs.
"""

import hashlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from live_broker import SMALL, Live
from mqcore import Store
from mqcore.broker.app import Broker
from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.rounds import Rounds
from mqcore.broker.state import BrokerState
from mqcore.config import settings_of_pairs
from mqcore.native import existing_sizes
from mqcore.remoting import Client, RequestCode, expect

# What the golden stores were written with; the lengths of files do not show all of it.
KEYS = SMALL | {
    "mappedFileSizeCommitLog": str(1 << 18),
    "mappedFileSizeConsumeQueue": "2000",
    "mappedFileSizeConsumeQueueExt": "65536",
    "mapperFileSizeBatchConsumeQueue": "4600",
    "mappedFileSizeTimerLog": "52000",
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
    "enablePropertyFilter": "true",
    "recallMessageEnable": "true",
    "reviveQueueNum": "1",
    # The checkpoint follows soon.
    "flushIntervalConsumeQueue": "100",
    "flushConsumeQueueThoroughInterval": "200",
    # Rounds of transactions and of pops come when somebody asks for them.
    "transactionCheckInterval": "86400000",
    # A log file that is made only now is waited for.
    "waitTimeMillsInSendQueue": "20000",
    # Retention goes by the age of files, and these get older from day to day.
    "fileReservedTime": "1000000",
}
_STORE_PREFIXES = (
    *("mapped", "mapper", "maxHash", "maxIndex", "maxMessage"),
    *("enableConsumeQueueExt", "fileReserved", "diskSpace"),
)
# Keys of the store alone.
STORE_KEYS = {key: value for key, value in KEYS.items() if key.startswith(_STORE_PREFIXES)}
_TABLES = (
    RequestCode.GET_ALL_TOPIC_CONFIG,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_ALL_DELAY_OFFSET,
    RequestCode.GET_TIMER_METRICS,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
)
_READ_MAX = 1_024


@asynccontextmanager
async def serving(
    root: Path, now_ms: int, *, config_path: Path | None = None
) -> AsyncIterator[Live]:
    """Runs a broker whose clock shows `now_ms` for ever, with a client.

    The timers of a session may have gone on behind its last message: a clock before them would set
    them back, so it shows their time then.
    """
    now_ms = max(now_ms, _timers_read_ms(root))
    pairs = KEYS | {"storePathRootDir": str(root)} | existing_sizes(root)
    settings = settings_of_pairs(pairs)
    broker = Broker(settings, config_path=config_path, clock=lambda: now_ms)
    with patch("mqcore.broker.app.Rounds", partial(_rounds, now_ms)):
        await broker.start()
    try:
        async with Client() as client:
            yield Live(broker, client, [])
    finally:
        await broker.stop()


def _timers_read_ms(root: Path) -> int:
    """Returns up to when timed messages are delivered, by the check point of a store; 0 without."""
    path = root / "config" / "timercheck"
    return int(struct.unpack_from(">q", path.read_bytes())[0]) if path.exists() else 0


def _rounds(now_ms: int, state: BrokerState, persistence: ConfigPersistence) -> Rounds:
    """Returns rounds whose delays go by a moment: those of a broker go by the store's clock."""
    made = Rounds(state, persistence)
    made.due_ms = lambda _length_ms: now_ms
    return made


async def tables_of(running: Live) -> dict[str, Any]:
    """Returns the tables of a broker as its answers have them."""
    found: dict[str, Any] = {code.name: await running.json(code) for code in _TABLES}
    for table in found.values():
        # Counts the writes of a file: a start may write one.
        table.pop("dataVersion", None)
    state = running.broker.state
    if state.timers is not None:
        answer = expect(await running.call(RequestCode.GET_TIMER_CHECK_POINT), running.address)
        found["timer check point"] = answer.body.hex()
    found["filters"] = json_of(state.filters.text()())
    if not state.store.open_report().was_clean:
        # Bits begin anew then, by the clock of the store.
        for of_topic in found["filters"]["filterDataByTopic"].values():
            for data in of_topic["groupFilterData"].values():
                data["bornTime"] = 0
    found["half messages"] = {
        row.topic: row.waiting for row in state.fast_path.half_messages.counts()
    }
    return found


def json_of(text: bytes) -> dict[str, Any]:
    """Returns the object of a text whose keys may be unquoted numbers."""
    from mqcore.model.relaxed_json import parse_object

    return parse_object(text)


def queues_of(store: Store) -> dict[str, list[list[object]]]:
    """Returns every message that can be read by queue: offset, place, digest of its record."""
    found: dict[str, list[list[object]]] = {}
    for queue in store.queues():
        rows = found.setdefault(f"{queue.topic}@{queue.queue_id}", [])
        at = max(0, queue.min_offset)
        while at < queue.max_offset:
            part = store.get(queue.topic, queue.queue_id, at, _READ_MAX)
            rows += (
                [each.queue_offset, each.physical_offset, digest_of(each.record)]
                for each in part.messages
            )
            if part.next_offset <= at:
                break
            at = part.next_offset
    return found


def digest_of(content: bytes) -> str:
    """Returns a short digest."""
    return hashlib.sha256(content).hexdigest()[:24]
