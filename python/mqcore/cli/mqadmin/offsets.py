"""mqadmin's commands about offsets of groups: reset, skipped, copied."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from mqcore.admin.results import queue_table
from mqcore.cli.mqadmin import java
from mqcore.cli.mqadmin.call import Call
from mqcore.cli.mqadmin.progress import progress_of
from mqcore.clock import wall_ms
from mqcore.errors import MQError
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_dict, as_int
from mqcore.model.relaxed_json import parse_object
from mqcore.remoting import RequestCode, ResponseCode

__all__ = ["clone", "moment_ms", "reset_by_time", "skip"]

_NEWEST: Final = -1
_MS_PER_S: Final = 1_000
_NEW_HEADS: Final = ("#brokerName", "#queueId", "#offset")
_OLD_HEADS: Final = (
    "#brokerName",
    "#queueId",
    "#brokerOffset",
    "#consumerOffset",
    "#timestampOffset",
)


def moment_ms(text: str, shown: str) -> int:
    """Returns a moment: `now`, Unix ms, or `yyyy-MM-dd#HH:mm:ss:SSS` in the local time zone.

    Raises:
        MQError: It is none of them.
    """
    if text == "now":
        return wall_ms()
    try:
        return int(text)
    except ValueError:
        pass
    try:
        day, _, ms = text.rpartition(":")
        moment = datetime.strptime(day, "%Y-%m-%d#%H:%M:%S").astimezone()
        return int(moment.timestamp()) * _MS_PER_S + int(ms)
    except ValueError as error:
        raise MQError(
            f"{shown} {text}: now, Unix ms or yyyy-MM-dd#HH:mm:ss:SSS is expected"
        ) from error


async def clone(call: Call) -> None:
    """Gives a group the offsets of another one."""
    source, target, topic = call.text("s"), call.text("d"), call.text("t")
    found = await progress_of(call, source)
    brokers = await call.servers.brokers_of(topic)
    for queue, state in found.states.items():
        address = brokers.get(queue.broker_name)
        if address is not None and state.group >= 0:
            await _commit(call, address, target, queue, state.group)
    call.out.line(
        f"clone group offset success. srcGroup[{source}], destGroup=[{target}], topic[{topic}]"
    )
    call.out.give({"source": source, "target": target, "topic": topic})


async def _commit(call: Call, address: str, group: str, queue: MessageQueue, offset: int) -> None:
    ext = {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": queue.queue_id,
        "commitOffset": offset,
    }
    await call.servers.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, ext)


async def reset_by_time(call: Call) -> None:
    """Lets a group go on at a moment, with all queues of a topic or with one."""
    shown_time, is_forced = call.text("s"), call.is_true("f", default=True)
    moment = moment_ms(shown_time, "-s")
    if call.has("b") and call.whole("q", -1) >= 0:
        await _reset_queue(call, moment)
        return
    group, topic = call.text("g"), call.text("t")
    moved = await _asked_to_reset(call, moment, is_forced=is_forced)
    if moved is None:
        rows = await _reset_old(call, moment, is_forced=is_forced)
        call.out.line(
            f"reset consumer offset by specified consumerGroup[{group}], topic[{topic}], "
            f"force[{java.text(is_forced)}], timestamp(string)[{shown_time}], "
            f"timestamp(long)[{moment}]"
        )
        _print_old(call, rows, "#resetOffset")
        return
    call.out.line(
        f"start reset consumer offset by specified, group[{group}], topic[{topic}], "
        f"force[{java.text(is_forced)}], timestamp(string)[{shown_time}], timestamp(long)[{moment}]"
    )
    _print_new(call, moved)


async def skip(call: Call) -> None:
    """Lets a group go on behind everything that is there now."""
    is_forced = call.is_true("f", default=True)
    moved = await _asked_to_reset(call, _NEWEST, is_forced=is_forced)
    if moved is None:
        _print_old(call, await _reset_old(call, _NEWEST, is_forced=is_forced), "#rollbackOffset")
    else:
        _print_new(call, moved)


async def _reset_queue(call: Call, moment: int) -> None:
    """Moves one queue of one broker."""
    address, queue_id = call.text("b"), call.whole("q")
    group, topic = call.text("g"), call.text("t")
    call.out.line(
        f"start reset consumer offset by specified, group[{group}], topic[{topic}], "
        f"queueId[{queue_id}], broker[{address}], timestamp(string)[{call.text('s')}], "
        f"timestamp(long)[{moment}]"
    )
    queue = MessageQueue(topic, "", queue_id)
    offset = call.whole("o", least=0) if call.has("o") else None
    if offset is None:
        offset = await offset_at(call, address, queue, moment)
    call.out.line(f"reset consumer offset to {offset}")
    # mqadmin leaves a queue alone that would begin at 0.
    if offset > 0 or call.has("o"):
        await _commit(call, address, group, queue, offset)
        ext = {"topic": topic, "group": group, "queueId": queue_id, "timestamp": 0}
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        await call.servers.ask(address, code, ext | {"offset": offset, "isForce": True})
    call.out.give({"group": group, "topic": topic, "queue_id": queue_id, "offset": offset})


async def offset_at(call: Call, address: str, queue: MessageQueue, moment: int) -> int:
    """Returns the offset of the first message that was stored at a moment or later (29)."""
    ext = {"topic": queue.topic, "queueId": queue.queue_id}
    if moment == _NEWEST:
        answer = await call.servers.ask(address, RequestCode.GET_MAX_OFFSET, ext)
    else:
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        answer = await call.servers.ask(address, code, ext | {"timestamp": moment})
    return as_int(answer.ext.get("offset"))


async def _asked_to_reset(
    call: Call, moment: int, *, is_forced: bool
) -> dict[MessageQueue, int] | None:
    """Lets brokers reset, which notify the members; None where nobody of the group is online."""
    group, topic = call.text("g"), call.text("t")
    ext = {
        "topic": topic,
        "group": group,
        "timestamp": moment,
        "isForce": is_forced,
        "offset": -1,
    }
    moved: dict[MessageQueue, int] = {}
    for address in (await _brokers(call)).values():
        answer = await call.servers.ask(
            address,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            ext,
            fine=(ResponseCode.CONSUMER_NOT_ONLINE,),
        )
        if answer.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return None
        if answer.body:
            table = queue_table(parse_object(answer.body).get("offsetTable"))
            moved |= {queue: as_int(offset) for queue, offset in table.items()}
    return moved


async def _brokers(call: Call) -> dict[str, str]:
    """Returns the brokers of the topic; with `-c` those of the topic that routes it."""
    return await call.servers.brokers_of(call.text("c") or call.text("t"))


@dataclass(frozen=True, slots=True)
class Moved:
    """How a queue was moved (`RollbackStats`).

    Attributes:
        queue: Which.
        broker: Queue offset behind its last message.
        group: Where the group was.
        found: The offset of the moment.
        reset: Where the group is now.
    """

    queue: MessageQueue
    broker: int
    group: int
    found: int
    reset: int


async def _reset_old(call: Call, moment: int, *, is_forced: bool) -> list[Moved]:
    """Moves the queues one by one, for a group of which nobody is online."""
    group, topic = call.text("g"), call.text("t")
    rows = []
    for address in (await _brokers(call)).values():
        for queue, (high, at) in (await _offsets_of(call, address, group, topic)).items():
            found = await offset_at(call, address, queue, moment)
            moves = is_forced or found <= at
            if moves:
                await _commit(call, address, group, queue, found)
            rows.append(Moved(queue, high, at, found, found if moves else at))
    return rows


async def _offsets_of(
    call: Call, address: str, group: str, topic: str
) -> dict[MessageQueue, tuple[int, int]]:
    """Returns end and group's offset by queue; its beginning where the group never read it."""
    ext: dict[str, Any] = {"consumerGroup": group}
    found = await call.servers.json(address, RequestCode.GET_CONSUME_STATS, ext)
    table = queue_table(found.get("offsetTable"))
    known = {queue: as_dict(row) for queue, row in table.items() if queue.topic == topic}
    if known:
        names = ("brokerOffset", "consumerOffset")
    else:
        code = RequestCode.GET_TOPIC_STATS_INFO
        stats = await call.servers.json(address, code, {"topic": topic})
        rows = queue_table(stats.get("offsetTable"))
        known = {queue: as_dict(row) for queue, row in rows.items()}
        names = ("maxOffset", "minOffset")
    return {
        queue: (as_int(row.get(names[0])), as_int(row.get(names[1])))
        for queue, row in known.items()
    }


def _print_new(call: Call, moved: dict[MessageQueue, int]) -> None:
    call.out.row("%-40s  %-40s  %-40s", *_NEW_HEADS)
    for queue in java.ranked(moved):
        cells = (java.clipped(queue.broker_name, 32), queue.queue_id, moved[queue])
        call.out.row("%-40s  %-40d  %-40d", *cells)
    call.out.give(
        [
            {"broker_name": each.broker_name, "queue_id": each.queue_id, "offset": moved[each]}
            for each in java.ranked(moved)
        ]
    )


def _print_old(call: Call, rows: list[Moved], last: str) -> None:
    call.out.row("%-20s  %-20s  %-20s  %-20s  %-20s  %-20s", *_OLD_HEADS, last)
    for row in rows:
        name = java.clipped(row.queue.broker_name, 32)
        numbers = (row.queue.queue_id, row.broker, row.group, row.found, row.reset)
        call.out.row("%-20s  %-20d  %-20d  %-20d  %-20d  %-20d", name, *numbers)
    call.out.give(
        [
            {
                "broker_name": row.queue.broker_name,
                "queue_id": row.queue.queue_id,
                "broker_offset": row.broker,
                "group_offset": row.group,
                "found_offset": row.found,
                "offset": row.reset,
            }
            for row in rows
        ]
    )
