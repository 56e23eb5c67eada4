"""Settings of a store that is small enough to roll over in a test, and what to fill it with."""

from pathlib import Path

from full_disks import ON_FULL_DISKS
from mqcore import Appended, Store

SEGMENT_LEN_BYTES = 1 << 20
SMALL: dict[str, str | int | bool | Path] = {
    "mappedFileSizeCommitLog": SEGMENT_LEN_BYTES,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxMessageSize": 65_536,
    "maxHashSlotNum": 1_000,
    "maxIndexNum": 4_000,
    **ON_FULL_DISKS,
}


def body_of(number: int, len_bytes: int = 1_000) -> bytes:
    """Returns a body that only this number has."""
    return number.to_bytes(8, "big") * (len_bytes // 8)


def filled(store: Store, count: int, *, topic: str = "topic", queues: int = 1) -> list[Appended]:
    """Appends `count` messages with a key each and waits until they are in their queues."""
    appended = [
        store.append(topic, body_of(number), queue_id=number % queues, tags="a", keys=f"k-{number}")
        for number in range(count)
    ]
    store.wait_dispatched(appended[-1].end)
    return appended
