"""mqadmin's commands about cold reads: thresholds by group, reading ahead."""

from typing import Any

from mqcore.cli.mqadmin import java
from mqcore.cli.mqadmin.brokers import with_heads
from mqcore.cli.mqadmin.call import Call
from mqcore.model.reading import as_dict, as_int
from mqcore.remoting import RequestCode

__all__ = ["read_mode", "remove", "show", "update"]

_MODES = ("0", "1")


async def show(call: Call) -> None:
    """Prints the thresholds of groups, and who reads cold messages."""
    given = {}
    for head, address in await with_heads(call):
        call.out.line(f" {head}")
        found = await call.servers.json(address, RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)
        table = as_dict(found.get("runtimeTable"))
        found["runtimeTable"] = {group: _dated(as_dict(row)) for group, row in table.items()}
        call.out.line(java.pretty(found))
        given[address] = found
    call.out.give(given)


def _dated(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row with times for people."""
    times = {
        "lastColdReadTimeMills": "lastColdReadTimeFormat",
        "createTimeMills": "createTimeFormat",
    }
    shown = {key: value for key, value in row.items() if key not in times}
    dated = {new: java.day_time(as_int(row[old])) for old, new in times.items() if old in row}
    return shown | dated


async def update(call: Call) -> None:
    """Sets how many bytes of cold messages a group may read."""
    group, most = call.text("g"), call.whole("v", least=0)
    body = f"{group}={most}\n".encode()
    masters = await call.masters()
    for address in masters:
        code = RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG
        await call.servers.ask(address, code, body=body)
        call.out.line(f"updateColdDataFlowCtrGroupConfig success, {address}")
    call.out.give({"group": group, "threshold": most, "brokers": masters})


async def remove(call: Call) -> None:
    """Takes a group's own threshold away."""
    group = call.text("g")
    masters = await call.masters()
    for address in masters:
        code = RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG
        await call.servers.ask(address, code, body=group.encode())
        call.out.line(f"remove broker cold read threshold success, {address}")
    call.out.give({"group": group, "brokers": masters})


async def read_mode(call: Call) -> None:
    """Lets brokers read the commit log ahead (0), or not (1)."""
    mode = call.text("m")
    if mode not in _MODES:
        raise call.usage(f"-m {mode}: 0 (read ahead) or 1 (random reads) is expected")
    given = {}
    for head, address in await with_heads(call):
        code, ext = RequestCode.SET_COMMITLOG_READ_MODE, {"READ_AHEAD_MODE": mode}
        answer = await call.servers.ask(address, code, ext)
        given[address] = answer.remark or ""
        call.out.line(f" {head}")
        call.out.line(f"commitLog set readAhead mode rstStr{java.text(answer.remark)}")
    call.out.give(given)
