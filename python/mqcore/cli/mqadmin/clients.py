"""mqadmin's command about members of groups, and what others ask of members."""

import re
from pathlib import Path
from typing import Any, Final

from mqcore.admin.results import queue_table
from mqcore.cli.mqadmin import java
from mqcore.cli.mqadmin.call import Call
from mqcore.cli.mqadmin.groups import clients_of, connection_of
from mqcore.clock import wall_ms
from mqcore.errors import MQError
from mqcore.model.reading import as_bool, as_dict, as_float, as_int, as_list, as_text
from mqcore.model.relaxed_json import parse_object
from mqcore.model.topics import RETRY_PREFIX
from mqcore.model.versions import version_name
from mqcore.native import Message
from mqcore.remoting import RequestCode

__all__ = ["consumed_directly", "consumer_status", "info_text", "running_info", "trouble_of"]

_UNSAFE: Final = re.compile(r"[^\w.@#-]")
_PUSH: Final = "CONSUME_PASSIVELY"
# After so long a queue with messages that nobody consumes is reported, and members must agree.
_STUCK_MS: Final = 60_000
_SETTLED_MS: Final = 120_000


async def running_info(
    call: Call, group: str, client_id: str, *, with_stacks: bool = False
) -> dict[str, Any]:
    """Returns what a member of a group reports of itself (307), asked through a broker.

    Raises:
        ResponseError: It is not connected, or does not answer.
    """
    brokers = await call.servers.brokers_of(f"{RETRY_PREFIX}{group}")
    ext = {"consumerGroup": group, "clientId": client_id, "jstackEnable": with_stacks}
    code = RequestCode.GET_CONSUMER_RUNNING_INFO
    return await call.servers.json(next(iter(brokers.values())), code, ext)


async def consumer_status(call: Call) -> None:
    """Writes what each member reports of itself into a file, and prints whether all is well.

    With `-i` it prints what one member reports.
    """
    group, with_stacks = call.text("g"), call.has("s")
    connection = await connection_of(call, group, call.optional("b"))
    if call.has("i"):
        found = await running_info(call, group, call.text("i"), with_stacks=with_stacks)
        call.out.line(info_text(found))
        call.out.give(found)
        return
    call.out.row(
        "%-10s %-40s %-20s %s", "#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile"
    )
    infos: dict[str, dict[str, Any]] = {}
    folder = Path(str(wall_ms()))
    for each in clients_of(connection):
        found = await running_info(call, group, each.client_id, with_stacks=with_stacks)
        infos[each.client_id] = found
        if not call.out.as_json:
            path = _written(folder, each.client_id, found)
            cells = (len(infos), each.client_id, version_name(each.version), path)
            call.out.row("%-10d %-40s %-20s %s", *cells)
    call.out.give(infos)
    call.out.line()
    call.out.line()
    if not agree(infos):
        call.out.line("WARN: Different subscription in the same group of consumer!!!")
        return
    call.out.line("Same subscription in the same group of consumer")
    call.out.line()
    call.out.line("Rebalance OK")
    for client_id, found in sorted(infos.items()):
        for line in trouble_of(client_id, found):
            call.out.line(line)


def _written(folder: Path, client_id: str, found: dict[str, Any]) -> Path:
    """Writes what a member reports of itself below the working directory, as mqadmin does."""
    path = folder / _UNSAFE.sub("_", client_id).lstrip(".")
    folder.mkdir(exist_ok=True)
    path.write_text(info_text(found), encoding="utf-8")
    return path


def agree(infos: dict[str, dict[str, Any]]) -> bool:
    """Whether members subscribe the same, once they run for a while (`analyzeSubscription`)."""
    rows = list(infos.values())
    if not rows:
        return True
    properties = as_dict(rows[0].get("properties"))
    started_ms = as_int(properties.get("PROP_CONSUMER_START_TIMESTAMP"))
    is_settled = wall_ms() - started_ms > _SETTLED_MS
    if as_text(properties.get("PROP_CONSUME_TYPE")) != _PUSH or not is_settled:
        return True
    wanted = [
        sorted(
            (as_text(each.get("topic")), as_text(each.get("subString")))
            for each in map(as_dict, as_list(row.get("subscriptionSet")))
        )
        for row in rows
    ]
    return all(each == wanted[0] for each in wanted)


def trouble_of(client_id: str, found: dict[str, Any]) -> list[str]:
    """Returns what is wrong with a member's queues (`analyzeProcessQueue`)."""
    properties = as_dict(found.get("properties"))
    if as_text(properties.get("PROP_CONSUME_TYPE")) != _PUSH:
        return []
    is_ordered = as_bool(properties.get("PROP_CONSUMEORDERLY"))
    now_ms = wall_ms()
    lines = []
    for queue, value in queue_table(found.get("mqTable")).items():
        row = as_dict(value)
        shown = f"{client_id} {java.queue_text(queue)}"
        idle_ms = now_ms - as_int(row.get("lastConsumeTimestamp"))
        tries = as_int(row.get("tryUnlockTimes"))
        if is_ordered and not as_bool(row.get("locked")):
            unlocked_ms = now_ms - as_int(row.get("lastLockTimestamp"))
            lines.append(f"{shown} can't lock for a while, {unlocked_ms}ms")
        elif is_ordered and as_bool(row.get("droped")) and tries:
            lines.append(f"{shown} unlock {tries} times, still failed")
        elif not is_ordered and idle_ms > _STUCK_MS and as_int(row.get("cachedMsgCount")):
            lines.append(f"{shown} can't consume for a while, maybe blocked, {idle_ms}ms")
    return lines


def info_text(found: dict[str, Any]) -> str:
    """Returns `ConsumerRunningInfo.formatString`."""
    properties = as_dict(found.get("properties"))
    lines = ["#Consumer Properties#"]
    lines += [java.laid("%-40s: %s", key, java.text(properties[key])) for key in sorted(properties)]
    lines += ["", "", "#Consumer Subscription#"]
    for number, row in enumerate(map(as_dict, as_list(found.get("subscriptionSet"))), 1):
        shown = (number, as_text(row.get("topic")), java.text(row.get("classFilterMode", False)))
        text = "%03d Topic: %-40s ClassFilter: %-8s SubExpression: %s"
        lines.append(java.laid(text, *shown, as_text(row.get("subString"))))
    queues = queue_table(found.get("mqTable"))
    heads = ("#Topic", "#Broker Name", "#QID")
    lines += ["", "", "#Consumer Offset#"]
    lines.append(java.laid("%-64s  %-32s  %-4s  %-20s", *heads, "#Consumer Offset"))
    for queue, row in queues.items():
        offset = as_int(as_dict(row).get("commitOffset"))
        cells = (queue.topic, queue.broker_name, queue.queue_id)
        lines.append(java.laid("%-32s  %-32s  %-4d  %-20d", *cells, offset))
    lines += ["", "", "#Consumer MQ Detail#"]
    lines.append(java.laid("%-64s  %-32s  %-4s  %-20s", *heads, "#ProcessQueueInfo"))
    for queue, row in queues.items():
        cells = (queue.topic, queue.broker_name, queue.queue_id)
        lines.append(java.laid("%-64s  %-32s  %-4d  %s", *cells, _process_queue(as_dict(row))))
    lines += ["", "", "#Consumer Pop Detail#"]
    lines.append(java.laid("%-32s  %-32s  %-4s  %-20s", *heads, "#ProcessQueueInfo"))
    for queue, row in queue_table(found.get("mqPopTable")).items():
        cells = (queue.topic, queue.broker_name, queue.queue_id)
        lines.append(java.laid("%-32s  %-32s  %-4d  %s", *cells, java.text(row)))
    lines += ["", "", "#Consumer RT&TPS#", _RATES_HEAD]
    for topic, row in sorted(as_dict(found.get("statusTable")).items()):
        rates = [as_float(as_dict(row).get(name)) for name in _RATES]
        failed = as_int(as_dict(row).get("consumeFailedMsgs"))
        text = "%-32s  %14.2f %14.2f %14.2f %14.2f %18.2f %25d"
        lines.append(java.laid(text, topic, *rates, failed))
    if isinstance(found.get("userConsumerInfo"), dict):
        lines += ["", "", "#User Consume Info#"]
        rows = sorted(found["userConsumerInfo"].items())
        lines += [java.laid("%-40s: %s", key, java.text(value)) for key, value in rows]
    if found.get("jstack") is not None:
        lines += ["", "", "#Consumer jstack#", as_text(found["jstack"])]
    return "\n".join(lines)


_RATES: Final = ("pullRT", "pullTPS", "consumeRT", "consumeOKTPS", "consumeFailedTPS")
_RATES_HEAD: Final = java.laid(
    "%-64s  %14s %14s %14s %14s %18s %25s",
    "#Topic",
    "#Pull RT",
    "#Pull TPS",
    "#Consume RT",
    "#ConsumeOK TPS",
    "#ConsumeFailed TPS",
    "#ConsumeFailedMsgsInHour",
)
# Fields of `ProcessQueueInfo.toString`, in its order; times are shown as such.
_QUEUE_FIELDS: Final = (
    "commitOffset",
    "cachedMsgMinOffset",
    "cachedMsgMaxOffset",
    "cachedMsgCount",
    "cachedMsgSizeInMiB",
    "transactionMsgMinOffset",
    "transactionMsgMaxOffset",
    "transactionMsgCount",
    "locked",
    "tryUnlockTimes",
    "lastLockTimestamp",
    "droped",
    "lastPullTimestamp",
    "lastConsumeTimestamp",
)


def _process_queue(row: dict[str, Any]) -> str:
    parts = []
    for name in _QUEUE_FIELDS:
        value = row.get(name, False if name in ("locked", "droped") else 0)
        if name.endswith("Timestamp"):
            value = java.compact_time(as_int(value))
        parts.append(f"{name}={java.text(value)}")
    return f"ProcessQueueInfo [{', '.join(parts)}]"


async def consumed_directly(call: Call, message: Message) -> None:
    """Gives a message to a member (309), which consumes it at once; prints what came of it."""
    group, client_id = call.text("g"), call.text("d")
    found = await running_info(call, group, client_id)
    if as_text(as_dict(found.get("properties")).get("PROP_CONSUME_TYPE")) != _PUSH:
        raise MQError(f"client {client_id} is no push consumer: nothing can be given to it")
    ext = {
        "consumerGroup": group,
        "clientId": client_id,
        "msgId": message.message_id,
        "topic": message.topic,
    }
    code = RequestCode.CONSUME_MESSAGE_DIRECTLY
    answer = await call.servers.ask(message.store_host, code, ext)
    result = parse_object(answer.body)
    fields = ("order", "autoCommit", "consumeResult", "remark", "spentTimeMills")
    shown = ", ".join(f"{name}={java.text(result.get(name))}" for name in fields)
    call.out.line(f"ConsumeMessageDirectlyResult [{shown}]")
    call.out.give(result)
