"""Units of a queue as `QueryConsumeQueueResponseBody` shows them. Pure functions of values.

After `AdminBrokerProcessor.queryConsumeQueue` and `ConsumeQueueData`.
"""

import base64
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from mqcore.broker.filters import FilterTable
from mqcore.model.relaxed_json import compact, pretty
from mqcore.model.subscriptions import ALL, SubscriptionData
from mqcore.native import QueueUnit

__all__ = ["UNITS_MAX", "rows_of", "shown_filter", "test_of"]

# Units of one answer at the most: far more than anybody reads.
UNITS_MAX: Final = 1024
# Bytes of bits in one answer at the most, each shown as eight digits and once more in base64; a
# frame has at most 16 MiB.
_BITS_MAX_BYTES: Final = 1 << 20
# What a unit of an extension has beside its bits.
_EXTENSION_HEAD_BYTES: Final = 20

# Returns by tags code, store time and bits whether a group may want the message.
Test: TypeAlias = Callable[[int, int, bytes], bool]


def test_of(wanted: SubscriptionData | None, filters: FilterTable, group: str) -> Test | None:
    """Returns the test of an extension for a group; None for a group that is not online."""
    if wanted is None:
        return None
    data = filters.find(wanted.topic, group)

    def test(tags_code: int, stored_ms: int, bits: bytes) -> bool:
        if wanted.is_class_filter:
            return True
        if wanted.is_tag:
            return wanted.expression == ALL or tags_code in wanted.codes
        return data is None or filters.may_pass(data, stored_ms, bits)

    return test


def shown_filter(
    wanted: SubscriptionData | None, filters: FilterTable, group: str, topic: str
) -> str:
    """Returns what is shown of a group's expression for a topic."""
    if wanted is None:
        return f"{group}@{topic} is not online!"
    data = filters.find(topic, group)
    return "null" if data is None else pretty(data.to_json()).decode()


def rows_of(units: Iterable[QueueUnit], test: Test | None) -> list[dict[str, Any]]:
    """Returns the rows of units, as many as fit into an answer."""
    rows: list[dict[str, Any]] = []
    size = 0
    for unit in units:
        size += 0 if unit.extension is None else len(unit.extension.bits)
        if size > _BITS_MAX_BYTES:
            break
        rows.append(_row(unit, test))
    return rows


def _row(unit: QueueUnit, test: Test | None) -> dict[str, Any]:
    row: dict[str, Any] = {"eval": False}
    if unit.extension is not None:
        stored_ms, bits = unit.extension.store_timestamp_ms, unit.extension.bits
        shown: dict[str, Any] = {
            "msgStoreTime": stored_ms,
            "size": _EXTENSION_HEAD_BYTES + len(bits),
            "tagsCode": unit.tags_code,
        }
        if bits:
            shown = {"filterBitMap": base64.b64encode(bits).decode(), **shown}
            row = {"bitMap": _digits(bits), **row}
        if test is not None:
            row["eval"] = test(unit.tags_code, stored_ms, bits)
        row["extendDataJson"] = compact(shown).decode()
    elif unit.is_extended:
        row["msg"] = f"Cq extend not exist!addr: {unit.tags_code}"
    row["physicOffset"] = unit.physical_offset
    row["physicSize"] = unit.size_bytes
    row["tagsCode"] = unit.tags_code
    return row


def _digits(bits: bytes) -> str:
    """Returns bits as `BitsArray.toString` does: the last byte first, eight bytes to a line."""
    text = ""
    for at in range(len(bits) - 1, -1, -1):
        text += f"{bits[at]:08b}"
        if at % 8 == 0:
            text += "\n"
    return text
