"""mqadmin's command about traced messages."""

from typing import Any, Final

from mqcore.cli.mqadmin import java
from mqcore.cli.mqadmin.call import Call
from mqcore.errors import MQError
from mqcore.model.topics import TRACE_TOPIC
from mqcore.model.trace_lines import AfterLine, PubLine, lines_of

__all__ = ["by_id"]

_FOREVER_MS: Final = 2**63 - 1
_MOST: Final = 64
_FORMAT: Final = "%-10s %-20s %-20s %-20s %-10s %-10s"
_TAIL: Final = ("#CostTimes", "#Status")


async def by_id(call: Call) -> None:
    """Prints what producer and consumers wrote of a message into the trace topic."""
    message_id = call.text("i")
    found = await call.servers.messages.by_key(
        call.text("t") or TRACE_TOPIC,
        message_id,
        limit=call.whole("c", _MOST, least=1),
        begin_ms=call.whole("b", 0, least=0),
        end_ms=call.whole("e", _FOREVER_MS, least=0),
    )
    rows = [
        _row(line, each.born_host.rpartition(":")[0])
        for each in found
        for line in lines_of(each.body)
        if isinstance(line, PubLine | AfterLine) and line.message_id == message_id
    ]
    if not rows:
        raise MQError(f"no line of a trace is about message {message_id}")
    for row in rows:
        if row["type"] == "Pub":
            _print(call, "#ProducerGroup", "#SendTime", [row])
    for group in sorted({row["group"] for row in rows if row["type"] == "Sub"}):
        own = [row for row in rows if row["type"] == "Sub" and row["group"] == group]
        _print(call, "#ConsumerGroup", "#ConsumerTime", own)
    call.out.give(rows)


def _row(line: PubLine | AfterLine, host: str) -> dict[str, Any]:
    return {
        "type": "Pub" if isinstance(line, PubLine) else "Sub",
        "group": line.group,
        "client_host": host,
        "time_ms": line.time_ms,
        "cost_ms": line.cost_ms,
        "status": "success" if line.is_ok else "failed",
    }


def _print(call: Call, group_head: str, time_head: str, rows: list[dict[str, Any]]) -> None:
    call.out.row(_FORMAT, "#Type", group_head, "#ClientHost", time_head, *_TAIL)
    for row in rows:
        cells = (row["type"], row["group"], row["client_host"], java.day_time(row["time_ms"]))
        call.out.row(_FORMAT, *cells, f"{row['cost_ms']}ms", row["status"])
    call.out.line()
