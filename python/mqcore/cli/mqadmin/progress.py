"""mqadmin's commands about progress: how far groups are, and how much comes in and goes out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mqcore.admin.results import queue_table
from mqcore.cli.mqadmin import java
from mqcore.cli.mqadmin.call import Call
from mqcore.cli.mqadmin.groups import clients_of, connection_of
from mqcore.cli.mqadmin.topics import groups_of
from mqcore.errors import MQError
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_dict, as_float, as_int, as_list, as_text
from mqcore.model.relaxed_json import parse_object
from mqcore.model.topics import DLQ_PREFIX, RETRY_PREFIX
from mqcore.model.versions import version_name
from mqcore.remoting import RequestCode, ResponseCode

__all__ = ["Progress", "of_broker", "of_groups", "progress_of", "stats_all"]

# mqadmin waits three times as long for the progress of a group as for others.
_TIMEOUT_MS: Final = 15_000
_BROKER_TIMEOUT_MS: Final = 50_000
_PULL: Final = "CONSUME_ACTIVELY"


@dataclass(frozen=True, slots=True)
class QueueState:
    """How far a group is with a queue (`OffsetWrapper`).

    Attributes:
        broker: Queue offset behind the last message.
        group: Queue offset behind the last message that was consumed.
        pulled: Queue offset behind the last one that was given to a member.
        last_ms: When the last consumed message was stored, Unix ms; 0 for none.
    """

    broker: int
    group: int
    pulled: int
    last_ms: int

    @property
    def lag(self) -> int:
        """Messages that are left."""
        return self.broker - self.group

    @property
    def in_flight(self) -> int:
        """Messages that members have and did not acknowledge."""
        return self.pulled - self.group


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a group is (`ConsumeStats`).

    Attributes:
        states: By queue, in order.
        per_s: Messages that are consumed in a second.
    """

    states: Mapping[MessageQueue, QueueState]
    per_s: float

    @property
    def lag(self) -> int:
        """Messages that are left in all queues."""
        return sum(state.lag for state in self.states.values())


def _progress(bodies: Iterable[Mapping[str, Any]]) -> Progress:
    states: dict[MessageQueue, QueueState] = {}
    per_s = 0.0
    for body in bodies:
        for queue, row in queue_table(body.get("offsetTable")).items():
            found = as_dict(row)
            names = ("brokerOffset", "consumerOffset", "pullOffset", "lastTimestamp")
            states[queue] = QueueState(*(as_int(found.get(name)) for name in names))
        per_s += as_float(body.get("consumeTps"))
    return Progress({queue: states[queue] for queue in java.ranked(states)}, per_s)


async def progress_of(
    call: Call, group: str, topic: str | None = None, route_topic: str | None = None
) -> Progress:
    """Returns how far a group is, with one topic or with all of its own (208).

    Args:
        call: The way to the servers.
        group: The group.
        topic: The topic, None for all.
        route_topic: A topic whose route is taken where the group has none.

    Raises:
        NoRouteError: No name server knows the group's retry topic, nor the topic.
        MQError: The group has no progress that a broker knows.
    """
    topics = [f"{RETRY_PREFIX}{group}"]
    if topic is not None:
        topics += [topic, f"{RETRY_PREFIX}{group}_{topic}"]
    if route_topic:
        topics.append(route_topic)
    ext = {"consumerGroup": group} | ({} if topic is None else {"topic": topic})
    code = RequestCode.GET_CONSUME_STATS
    brokers = await call.servers.any_route(topics)
    found = _progress(
        [
            await call.servers.json(address, code, ext, timeout_ms=_TIMEOUT_MS)
            for address in brokers.values()
        ]
    )
    if found.states:
        return found
    connection = await connection_of(call, group)
    if as_text(connection.get("messageModel")) == "BROADCASTING":
        raise MQError(f"group {group} consumes as a broadcast: its members keep their offsets")
    return found


async def of_groups(call: Call) -> None:
    """Prints how far a group is with each queue; without `-g` all groups, one line each."""
    if call.has("g"):
        await _of_group(call)
    else:
        await _overview(call)


async def _of_group(call: Call) -> None:
    group = call.text("g")
    found = await progress_of(call, group, call.optional("t"), call.optional("c"))
    is_shown = call.is_true("s")
    owners = await _owners(call, group) if is_shown else {}
    heads = ["#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset"]
    rest = ["#Diff", "#Inflight", "#LastTime"]
    if is_shown:
        line = "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s %-20s%s"
        call.out.row(line, *heads, "#Client IP", *rest)
    else:
        line = "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s%s"
        call.out.row(line, *heads, *rest)
    given = []
    for queue, state in found.states.items():
        last = java.day_time(state.last_ms) if state.last_ms else "N/A"
        owner = owners.get(queue, "N/A")
        cells = (
            java.clipped(queue.topic, 64),
            java.clipped(queue.broker_name, 32),
            queue.queue_id,
            state.broker,
            state.group,
        )
        numbers = (state.lag, state.in_flight, last)
        if is_shown:
            line = "%-64s  %-32s  %-4d  %-20d  %-20d  %-20s %-20d %-20d %s"
            call.out.row(line, *cells, owner, *numbers)
        else:
            line = "%-64s  %-32s  %-4d  %-20d  %-20d  %-20d %-20d %s"
            call.out.row(line, *cells, *numbers)
        given.append(_row(queue, state) | ({"client": owner} if is_shown else {}))
    in_flight = sum(state.in_flight for state in found.states.values())
    call.out.line()
    call.out.line(f"Consume TPS: {found.per_s:.2f}")
    call.out.line(f"Consume Diff Total: {found.lag}")
    call.out.line(f"Consume Inflight Total: {in_flight}")
    call.out.give(
        {
            "group": group,
            "consumed_per_s": found.per_s,
            "lag": found.lag,
            "in_flight": in_flight,
            "queues": given,
        }
    )


def _row(queue: MessageQueue, state: QueueState) -> dict[str, Any]:
    return {
        "topic": queue.topic,
        "broker_name": queue.broker_name,
        "queue_id": queue.queue_id,
        "broker_offset": state.broker,
        "group_offset": state.group,
        "lag": state.lag,
        "in_flight": state.in_flight,
        "last_ms": state.last_ms,
    }


async def _owners(call: Call, group: str) -> dict[MessageQueue, str]:
    """Returns which client has which queue; those that do not answer are left out."""
    owners: dict[MessageQueue, str] = {}
    try:
        brokers = await call.servers.brokers_of(f"{RETRY_PREFIX}{group}")
        for each in clients_of(await connection_of(call, group)):
            ext = {"consumerGroup": group, "clientId": each.client_id, "jstackEnable": False}
            address = next(iter(brokers.values()))
            info = await call.servers.json(address, RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
            host = each.client_id.partition("@")[0]
            owners |= dict.fromkeys(queue_table(info.get("mqTable")), host)
    except MQError:
        # As mqadmin: the table without owners is worth more than none.
        return owners
    return owners


async def _overview(call: Call) -> None:
    line = "%-64s  %-6s  %-24s %-5s  %-14s  %-7s  %s"
    heads = ("#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total")
    call.out.row(line, *heads)
    given = []
    for topic in await call.servers.topics():
        if not topic.startswith(RETRY_PREFIX):
            continue
        group = topic.removeprefix(RETRY_PREFIX)
        row = await _group_row(call, group)
        given.append(row)
        call.out.row(
            "%-64s  %-6d  %-24s %-5s  %-14s  %-7d  %d",
            java.clipped(group, 64),
            row["members"],
            row["version"],
            row["type"],
            row["model"],
            int(row["consumed_per_s"]),
            row["lag"],
        )
    call.out.give(given)


async def _group_row(call: Call, group: str) -> dict[str, Any]:
    try:
        found = await progress_of(call, group)
    except MQError:
        # A group that never consumed: zeros, as mqadmin has them.
        found = Progress({}, 0.0)
    try:
        connection: dict[str, Any] = await connection_of(call, group)
    except MQError:
        connection = {}
    clients = clients_of(connection)
    is_pull = as_text(connection.get("consumeType")) == _PULL
    version = version_name(min(each.version for each in clients)) if clients else "OFFLINE"
    return {
        "group": group,
        "members": len(clients),
        "version": version,
        "type": ("PULL" if is_pull else "PUSH") if clients else "",
        "model": as_text(connection.get("messageModel")) if clients and not is_pull else "",
        "consumed_per_s": found.per_s,
        "lag": found.lag,
    }


async def of_broker(call: Call) -> None:
    """Prints how far all groups are with the queues of a broker, from `-l` messages behind on."""
    found = await call.servers.json(
        call.text("b"),
        RequestCode.GET_BROKER_CONSUME_STATS,
        {"isOrder": call.is_true("o")},
        timeout_ms=call.whole("t", _BROKER_TIMEOUT_MS, least=1),
    )
    least = call.whole("l", 0)
    line = "%-64s  %-64s  %-32s  %-4s  %-20s  %-20s  %-20s  %s"
    offsets = ("#Broker Offset", "#Consumer Offset", "#Diff", "#LastTime")
    call.out.row(line, "#Topic", "#Group", "#Broker Name", "#QID", *offsets)
    given = []
    for entry in map(as_dict, as_list(found.get("consumeStatsList"))):
        for group in sorted(entry):
            for queue, state in _progress(map(as_dict, as_list(entry[group]))).states.items():
                if state.lag < least or state.last_ms <= 0:
                    continue
                cells = (java.clipped(queue.topic, 64), group, java.clipped(queue.broker_name, 32))
                numbers = (queue.queue_id, state.broker, state.group, state.lag)
                call.out.row(line, *cells, *numbers, java.day_time(state.last_ms))
                given.append({"group": group} | _row(queue, state))
    call.out.line()
    call.out.line(f"Diff Total: {as_int(found.get('totalDiff'))}")
    call.out.give({"lag": as_int(found.get("totalDiff")), "queues": given})


async def stats_all(call: Call) -> None:
    """Prints what comes into topics and goes out to groups, over a minute and over a day."""
    line = "%-64s  %-64s %12s %11s %11s %14s %14s"
    heads = ("#Topic", "#Consumer Group", "#Accumulation", "#InTPS", "#OutTPS")
    call.out.row(line, *heads, "#InMsg24Hour", "#OutMsg24Hour")
    wanted, given = call.text("t"), []
    for topic in await call.servers.topics():
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or wanted not in ("", topic):
            continue
        try:
            given += await _stats_of(call, topic)
        except MQError:
            # As mqadmin: a topic that went meanwhile is left out.
            continue
    call.out.give(given)


async def _stats_of(call: Call, topic: str) -> list[dict[str, Any]]:
    brokers = await call.servers.brokers_of(topic)
    groups = await groups_of(call, topic)
    in_s, in_day = await _counted(call, brokers, "TOPIC_PUT_NUMS", topic)
    if not groups:
        if call.has("a") and not in_day:
            return []
        cells = (java.clipped(topic, 64), "", 0, f"{in_s:.2f}", "", in_day, "NO_CONSUMER")
        call.out.row("%-64s  %-64s %12d %11s %11s %14d %14s", *cells)
        return [{"topic": topic, "group": None, "in_per_s": in_s, "in_day": in_day}]
    given = []
    for group in groups:
        out_s, out_day = await _counted(call, brokers, "GROUP_GET_NUMS", f"{topic}@{group}")
        try:
            lag = max(0, (await progress_of(call, group, topic)).lag)
        except MQError:
            lag = 0
        if call.has("a") and not in_day and not out_day:
            continue
        names = (java.clipped(topic, 64), java.clipped(group, 64))
        numbers = (lag, f"{in_s:.2f}", f"{out_s:.2f}", in_day, out_day)
        call.out.row("%-64s  %-64s %12d %11s %11s %14d %14d", *names, *numbers)
        row = {"topic": topic, "group": group, "lag": lag, "in_per_s": in_s, "out_per_s": out_s}
        given.append(row | {"in_day": in_day, "out_day": out_day})
    return given


async def _counted(
    call: Call, brokers: Mapping[str, str], name: str, key: str
) -> tuple[float, int]:
    """Returns a counter of all brokers: per second of the last minute, and of the day."""
    per_s, day = 0.0, 0
    for address in brokers.values():
        answer = await call.servers.ask(
            address,
            RequestCode.VIEW_BROKER_STATS_DATA,
            {"statsName": name, "statsKey": key},
            fine=(ResponseCode.SYSTEM_ERROR,),
        )
        if answer.code == ResponseCode.SUCCESS:
            found = parse_object(answer.body)
            per_s += as_float(as_dict(found.get("statsMinute")).get("tps"))
            day += day_sum(found)
    return per_s, day


def day_sum(found: Mapping[str, Any]) -> int:
    """Returns the sum of the longest window that has one (`compute24HourSum`)."""
    windows = (as_dict(found.get(name)) for name in ("statsDay", "statsHour", "statsMinute"))
    sums = (as_int(window.get("sum")) for window in windows)
    return next((each for each in sums if each), 0)
