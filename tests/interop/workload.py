"""What the take-over tests store, and how they compare what is served with it.

A `Line` holds the fields of a golden manifest that identify a message and its offsets: the
same names and values whether it comes from the appends, from `mqcore.Store` or from an official
broker. Knows no Java.
"""

import hashlib
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from mqcore import Appended, Store
from mqcore import StoredMessage as Message
from mqcore.native import BatchMessage

Line = dict[str, Any]
Queue = tuple[str, int]

RETRY_TOPIC = "%RETRY%CG_takeover"
# Topic and queues of each, as a broker's topics.json has to name them.
TOPICS = {"Plain": 4, "Keys": 4, "Big": 2, "Batch": 4, RETRY_TOPIC: 1}

MAX_BODY_BYTES = 65536
BORN_HOSTS = ("10.1.2.3:5000", "[2001:db8::1]:6000")
# MessageSysFlag.BORNHOST_V6_FLAG: the store sets it for such a host.
BORN_HOST_V6_FLAG = 1 << 4

FIELDS = (
    "topic",
    "queue_id",
    "queue_offset",
    "physical_offset",
    "store_size",
    "sys_flag",
    "flag",
    "born_timestamp",
    "store_timestamp",
    "born_host",
    "store_host",
    "reconsume_times",
    "body_length",
    "body_sha256",
    "tags",
    "keys",
    "properties",
    "msg_id",
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A message before it is stored.

    Attributes:
        topic: Its topic.
        queue_id: Its queue.
        body: Its body.
        tags: Its tag.
        keys: Its keys, joined by spaces.
        properties: Its other properties.
        flag: The user's number.
        born_host: Who made it.
        born_timestamp_ms: When.
    """

    topic: str
    queue_id: int
    body: bytes
    tags: str | None = None
    keys: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    flag: int = 0
    born_host: str = BORN_HOSTS[0]
    born_timestamp_ms: int = 1_700_000_000_000

    def put(self, store: Store, *, wait: bool = True) -> Line:
        """Appends it and returns it as it must be read back."""
        appended = store.append(
            self.topic,
            self.body,
            queue_id=self.queue_id,
            tags=self.tags,
            keys=self.keys,
            properties=self.properties,
            flag=self.flag,
            born_host=self.born_host,
            born_timestamp_ms=self.born_timestamp_ms,
            wait=wait,
        )
        assert appended.status == "PUT_OK"
        return self.stored_at(appended)

    def stored_at(self, appended: Appended) -> Line:
        """Returns it as it must be read back, given where it went."""
        # A property without a value is stored; MessageDecoder.string2messageProperties drops it.
        properties = {name: value for name, value in self.properties.items() if value}
        named = {"TAGS": self.tags, "KEYS": self.keys}
        properties |= {name: value for name, value in named.items() if value}
        return {
            "topic": self.topic,
            "queue_id": self.queue_id,
            "queue_offset": appended.queue_offset,
            "physical_offset": appended.physical_offset,
            "store_size": appended.len_bytes,
            "sys_flag": BORN_HOST_V6_FLAG if self.born_host.startswith("[") else 0,
            "flag": self.flag,
            "born_timestamp": self.born_timestamp_ms,
            "store_timestamp": appended.store_timestamp_ms,
            "born_host": self.born_host,
            "store_host": "127.0.0.1:10911",
            "reconsume_times": 0,
            "body_length": len(self.body),
            "body_sha256": hashlib.sha256(self.body).hexdigest(),
            "tags": self.tags,
            "keys": self.keys,
            "properties": properties,
            "msg_id": appended.message_id,
        }


def draft(rng: random.Random, number: int, topics: Mapping[str, int] = TOPICS) -> Draft:
    """Returns the message of this number: small, with every kind of text in it."""
    # Half of all go to one queue, so that it has more than one file.
    topic, queue_id = "Plain", 0
    if rng.random() < 0.5:
        topic = rng.choice([name for name in topics if name not in ("Big", "Batch")])
        queue_id = rng.randrange(topics[topic])
    properties = {"number": str(number), "UNIQ_KEY": f"U{number:015X}"}
    if rng.random() < 0.3:
        properties |= {"颜色": "红色的", "emoji": "🚀 go", "empty": ""}
    return Draft(
        topic,
        queue_id,
        rng.randbytes(rng.choice((0, 1, 100, 900, 1800))),
        tags=rng.choice((None, "TagA", "TagB", "标签")),
        keys=rng.choice((None, f"key-{number % 500}", f"key-{number % 500} other-{number} 键")),
        properties=properties,
        flag=rng.choice((0, 7, -1)),
        # 5.3.3 does not know when the log begins if its first record has a long born host
        # (CommitLog.pickupStoreTimestamp looks at too few bytes).
        born_host=rng.choice(BORN_HOSTS) if number else BORN_HOSTS[0],
        born_timestamp_ms=1_700_000_000_000 + number,
    )


def fill(store: Store, rng: random.Random, count: int) -> list[Line]:
    """Appends `count` messages, and big ones and batches among them; returns all."""
    lines = []
    for number in range(count):
        # Every 25th waits for what the settings promise, so that a sync store takes seconds.
        lines.append(draft(rng, number).put(store, wait=number % 25 == 0))
        if number % 100 == 0:
            size = rng.choice((MAX_BODY_BYTES, 60_000, 65_000))
            big = Draft("Big", rng.randrange(2), rng.randbytes(size), keys=f"big-{number}")
            lines.append(big.put(store, wait=False))
        if number % 50 == 0:
            lines.extend(fill_batch(store, rng, number))
    store.flush()
    # What reads by queue finds all of it.
    last = max(lines, key=lambda line: int(line["physical_offset"]))
    store.wait_dispatched(int(last["physical_offset"]) + int(last["store_size"]))
    return lines


def fill_batch(store: Store, rng: random.Random, number: int) -> list[Line]:
    """Appends one batch of seven messages to one queue."""
    queue_id = rng.randrange(TOPICS["Batch"])
    drafts = [
        Draft("Batch", queue_id, rng.randbytes(50 * index), properties={"in": f"{number}/{index}"})
        for index in range(7)
    ]
    appended = store.append_batch(
        "Batch",
        [BatchMessage(draft.body, draft.properties) for draft in drafts],
        queue_id=queue_id,
        born_host=BORN_HOSTS[0],
        born_timestamp_ms=drafts[0].born_timestamp_ms,
    )
    return [one.stored_at(each) for one, each in zip(drafts, appended, strict=True)]


def line_of(message: Message) -> Line:
    """Returns a message as our store reads it."""
    return {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "physical_offset": message.physical_offset,
        "store_size": message.store_size_bytes,
        "sys_flag": message.sys_flag,
        "flag": message.flag,
        "born_timestamp": message.born_timestamp_ms,
        "store_timestamp": message.store_timestamp_ms,
        "born_host": message.born_host,
        "store_host": message.store_host,
        "reconsume_times": message.reconsume_times,
        "body_length": len(message.body),
        "body_sha256": hashlib.sha256(message.body).hexdigest(),
        "tags": message.tags,
        "keys": message.keys,
        "properties": message.properties,
        "msg_id": message.message_id,
    }


def lines_of(store: Store, topics: Iterable[str] = TOPICS) -> list[Line]:
    """Returns every message of these topics, read through its queue."""
    # After a kill the queues are built on while the store is open.
    store.wait_dispatched(store.stats().appended)
    lines: list[Line] = []
    for bounds in store.queues():
        offset = bounds.min_offset
        while bounds.topic in topics and offset < bounds.max_offset:
            got = store.get(bounds.topic, bounds.queue_id, offset, 1000, max_bytes=1 << 22)
            assert got.status == "FOUND", (bounds, offset, got.status)
            lines.extend(line_of(message) for message in got.messages)
            offset = got.next_offset
    return lines


def by_queue(lines: Iterable[Mapping[str, Any]]) -> dict[Queue, list[Line]]:
    """Returns the fields of comparison, by queue and in order of queue offset."""
    queues: dict[Queue, list[Line]] = defaultdict(list)
    for line in sorted(lines, key=lambda line: int(line["queue_offset"])):
        picked = {name: line[name] for name in FIELDS}
        host, port = str(picked["born_host"]).rsplit(":", 1)
        # Java and Rust shorten an IPv6 address differently.
        picked["born_host"] = (str(ip_address(host.strip("[]"))), int(port))
        queues[(picked["topic"], picked["queue_id"])].append(picked)
    return dict(queues)


def assert_same(found: Iterable[Mapping[str, Any]], expected: Iterable[Mapping[str, Any]]) -> None:
    """Asserts that both hold the same messages; names the first that differs."""
    ours, theirs = by_queue(found), by_queue(expected)
    assert sorted(ours) == sorted(theirs)
    for queue, lines in theirs.items():
        for line, there in zip(ours[queue], lines, strict=False):
            assert line == there, queue
        assert len(ours[queue]) == len(lines), queue
