"""`consumerOrderInfo.json`: what groups popped in order, as the official broker keeps it, and back.

Pure functions over what the fast path has (`ConsumerOrderInfoManager`, `OrderInfo`).
"""

from collections.abc import Iterable

from mqcore.errors import BadJsonError
from mqcore.model.reading import as_dict, as_int, as_list, as_text
from mqcore.model.relaxed_json import parse_object, pretty
from mqcore.native import OrderInfo

# Bits of a Java `long`: the highest makes it negative in the file.
_BITS = 64
_BITS_MASK = (1 << _BITS) - 1


def parse_orders(text: bytes) -> list[OrderInfo]:
    """Returns the rows of a `consumerOrderInfo.json`; what is none is left out.

    Raises:
        BadJsonError: It cannot be read.
    """
    found = parse_object(text)
    if not isinstance(found.get("table", {}), dict):
        raise BadJsonError("its table is no object")
    rows = []
    for key, queues in as_dict(found.get("table")).items():
        for queue, value in as_dict(queues).items():
            queue_id, order = as_int(queue, -1), as_dict(value)
            if queue_id >= 0 and as_list(order.get("o")):
                rows.append(_row(key, queue_id, order))
    return rows


def _row(key: str, queue_id: int, order: dict[str, object]) -> OrderInfo:
    # The first offset is whole, the others are distances from it.
    first, *distances = (as_int(each) for each in as_list(order.get("o")))
    visible, counts = as_dict(order.get("ot")), as_dict(order.get("oc"))
    return OrderInfo(
        key=key,
        queue_id=queue_id,
        pop_time_ms=as_int(order.get("popTime")),
        invisible_ms=as_int(order.get("i")),
        offsets=[first, *(first + each for each in distances)],
        visible_ms={as_int(offset): as_int(each) for offset, each in visible.items()},
        counts={as_int(offset): as_int(each) for offset, each in counts.items()},
        last_ms=as_int(order.get("l")),
        bits=as_int(order.get("cm")) & _BITS_MASK,
        attempt=as_text(order.get("a")) or None,
    )


def orders_text(rows: Iterable[OrderInfo]) -> bytes:
    """Returns the content of `consumerOrderInfo.json`."""
    table: dict[str, dict[int, object]] = {}
    for row in rows:
        first, *others = row.offsets or [0]
        bits = row.bits - (1 << _BITS) if row.bits >> (_BITS - 1) else row.bits
        order: dict[str, object] = {
            "cm": bits,
            "i": row.invisible_ms,
            "l": row.last_ms,
            "o": [first, *(each - first for each in others)],
            "popTime": row.pop_time_ms,
        }
        if row.attempt is not None:
            order["a"] = row.attempt
        if row.counts:
            order["oc"] = dict(row.counts)
        if row.visible_ms:
            order["ot"] = dict(row.visible_ms)
        table.setdefault(row.key, {})[row.queue_id] = order
    return pretty({"table": table})
