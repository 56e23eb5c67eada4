"""mqadmin's commands that read queues and print what is in them."""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from mqcore.cli.mqadmin import java
from mqcore.cli.mqadmin.call import Call
from mqcore.cli.mqadmin.message_text import data_of, id_of, line_of, shown_body
from mqcore.cli.mqadmin.offsets import moment_ms, offset_at
from mqcore.clock import wall_ms
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_dict, as_int, as_list, as_text
from mqcore.model.topics import PERM_READ
from mqcore.native import Message, decode_records
from mqcore.remoting import RequestCode, ResponseCode

__all__ = ["GROUP", "consume", "print_queue", "print_topic", "pull"]

GROUP: Final = "TOOLS_CONSUMER"
_SUBSCRIPTION: Final = 4
_PULL_MAX: Final = 32
_CONSUMED: Final = 128
_RULE: Final = "-" * 56
_STATUS: Final = {
    int(ResponseCode.SUCCESS): "FOUND",
    int(ResponseCode.PULL_NOT_FOUND): "NO_NEW_MSG",
    int(ResponseCode.PULL_RETRY_IMMEDIATELY): "NO_MATCHED_MSG",
    int(ResponseCode.PULL_OFFSET_MOVED): "OFFSET_ILLEGAL",
}


@dataclass(frozen=True, slots=True)
class Pulled:
    """The answer to a pull.

    Attributes:
        status: Its official name.
        messages: What was found and is wanted.
        next_offset: Where to go on.
        bounds: The properties that official clients give each message: bounds of the queue.
    """

    status: str
    messages: list[Message]
    next_offset: int
    bounds: dict[str, str]


async def pull(
    call: Call, address: str, queue: MessageQueue, offset: int, most: int, wanted: str, group: str
) -> Pulled:
    """Pulls once (11), and does not wait.

    Args:
        call: The way to the servers.
        address: The broker.
        queue: Which queue.
        offset: From where on.
        most: Messages at the most.
        wanted: Tags with `||` between, or `*`.
        group: As which group.
    """
    ext = {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": queue.queue_id,
        "queueOffset": offset,
        "maxMsgNums": most,
        "sysFlag": _SUBSCRIPTION,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": wanted,
        "subVersion": 0,
        "expressionType": "TAG",
    }
    fine = tuple(code for code in _STATUS if code)
    answer = await call.servers.ask(address, RequestCode.PULL_MESSAGE, ext, fine=fine)
    found: list[Message] = []
    if answer.code == ResponseCode.SUCCESS:
        records = decode_records(answer.body, unwraps=True)
        tags = {each.strip() for each in wanted.split("||")} - {"*", ""}
        found = [
            each
            for each in records
            if each.queue_offset >= offset and (not tags or each.tags in tags)
        ]
    return Pulled(
        status=_STATUS[answer.code],
        messages=found,
        next_offset=as_int(answer.ext.get("nextBeginOffset"), offset),
        bounds={
            "MIN_OFFSET": answer.ext.get("minOffset", ""),
            "MAX_OFFSET": answer.ext.get("maxOffset", ""),
        },
    )


async def _bounds(
    call: Call, address: str, queue: MessageQueue, begin: str, end: str
) -> tuple[int, int]:
    """Returns first and last offset of a queue; by the options for times where they are given."""
    ext = {"topic": queue.topic, "queueId": queue.queue_id}
    low_answer = await call.servers.ask(address, RequestCode.GET_MIN_OFFSET, ext)
    high_answer = await call.servers.ask(address, RequestCode.GET_MAX_OFFSET, ext)
    low, high = (as_int(each.ext.get("offset")) for each in (low_answer, high_answer))
    if call.has(begin):
        moment = moment_ms(call.text(begin), f"-{begin}")
        low = await offset_at(call, address, queue, moment)
    if call.has(end):
        moment = moment_ms(call.text(end), f"-{end}")
        high = await offset_at(call, address, queue, moment)
    return low, high


async def _queues(call: Call, topic: str, route_topic: str) -> list[tuple[str, MessageQueue]]:
    """Returns the queues of a topic that are read, each with the address of its broker."""
    found = await call.servers.route(route_topic)
    brokers = await call.servers.brokers_of(route_topic)
    queues = sorted(
        MessageQueue(topic, as_text(row.get("brokerName")), queue_id)
        for row in map(as_dict, as_list(found.get("queueDatas")))
        if as_int(row.get("perm")) & PERM_READ
        for queue_id in range(as_int(row.get("readQueueNums")))
    )
    return [(brokers[each.broker_name], each) for each in queues if each.broker_name in brokers]


def _print(call: Call, message: Message, queue: MessageQueue, pulled: Pulled, body: str) -> None:
    line = line_of(message, queue.broker_name, pulled.bounds)
    call.out.line(f"MSGID: {id_of(message)} {line} BODY: {body}")


async def print_topic(call: Call) -> None:
    """Prints the messages of a topic, queue by queue."""
    topic, charset = call.text("t"), call.text("c", "UTF-8")
    wanted, prints_body = call.text("s", "*"), call.is_true("d", default=True)
    for address, queue in await _queues(call, topic, call.text("l") or topic):
        low, high = await _bounds(call, address, queue, "b", "e")
        shown = java.queue_text(queue)
        call.out.line(f"minOffset={low}, maxOffset={high}, {shown}")
        async for pulled in _walk(call, address, queue, (low, high), wanted):
            for message in pulled.messages:
                body = shown_body(message, charset) if prints_body else "NOT PRINT BODY"
                _print(call, message, queue, pulled, body)
                call.out.give({"broker_name": queue.broker_name} | data_of(message, charset))
            if pulled.status != "FOUND":
                what = (
                    "no matched msg" if pulled.status == "NO_MATCHED_MSG" else "print msg finished"
                )
                call.out.line(
                    f"{shown} {what}. status={pulled.status}, offset={pulled.next_offset}"
                )
        call.out.line(_RULE)


async def _walk(
    call: Call, address: str, queue: MessageQueue, between: tuple[int, int], wanted: str
) -> AsyncIterator[Pulled]:
    """Pulls from an offset on to another one, or to where there is nothing more."""
    offset, end = between
    while offset < end:
        pulled = await pull(call, address, queue, offset, _PULL_MAX, wanted, GROUP)
        is_stuck = pulled.next_offset <= offset
        offset = pulled.next_offset
        yield pulled
        if pulled.status in ("NO_NEW_MSG", "OFFSET_ILLEGAL") or is_stuck:
            return


async def print_queue(call: Call) -> None:
    """Prints the messages of one queue with `-p true`, or how many have which tags with `-f`."""
    topic, name, charset = call.text("t"), call.text("a"), call.text("c", "UTF-8")
    queue = MessageQueue(topic, name, call.whole("i", least=0))
    address = await call.servers.address_of(topic, name)
    between = await _bounds(call, address, queue, "b", "e")
    counts: Counter[str] = Counter()
    async for pulled in _walk(call, address, queue, between, call.text("s", "*")):
        counts.update(each.tags for each in pulled.messages if each.tags)
        for message in pulled.messages if call.is_true("p") else ():
            is_shown = call.is_true("d")
            body = shown_body(message, charset) if is_shown else "NOT PRINT BODY"
            _print(call, message, queue, pulled, body)
            call.out.give({"broker_name": name} | data_of(message, charset))
        if pulled.status != "FOUND":
            break
    if call.is_true("f"):
        for tags, count in counts.most_common():
            call.out.row("Tag: %-30s Count: %s", tags, count)
        call.out.give({"tags": dict(counts.most_common())})


async def consume(call: Call) -> None:
    """Prints messages of a topic, of one queue with `-b -i`, or from an offset on with `-o`."""
    topic, most = call.text("t"), call.whole("c", _CONSUMED, least=1)
    if call.has("i") and not call.has("b"):
        raise call.usage("Please set the brokerName before queueId!")
    if call.has("o") and not call.has("i"):
        raise call.usage("Please set queueId before offset!")
    _check_times(call)
    left = most
    if not call.has("i"):
        for address, queue in await _queues(call, topic, topic):
            if left <= 0:
                return
            low, high = await _bounds(call, address, queue, "s", "e")
            if high - low > left:
                call.out.line(
                    f"The older {left} message of the {queue.queue_id} queue will be provided"
                )
                high, left = low + left - 1, 0
            else:
                left -= high - low + 1
            await _consume(call, address, queue, (low, high))
        return
    name, offset = call.text("b"), call.whole("o", 0, least=0)
    queue = MessageQueue(topic, name, call.whole("i", least=0))
    address = await call.servers.address_of(topic, name)
    low, high = await _bounds(call, address, queue, "s", "e")
    if offset > high:
        call.out.line(f"{java.queue_text(queue)} no matched msg, offset={offset}")
        return
    low = max(low, offset)
    if high - low > most:
        call.out.line(f"The oldler {most} message will be provided")
        high = low + most - 1
    await _consume(call, address, queue, (low, high))


def _check_times(call: Call) -> None:
    now = wall_ms()
    begin = moment_ms(call.text("s"), "-s") if call.has("s") else 0
    end = moment_ms(call.text("e"), "-e") if call.has("e") else now
    if begin > now:
        raise call.usage("Please set the beginTimestamp before now!")
    if end > now:
        raise call.usage("Please set the endTimestamp before now!")
    if begin > end:
        raise call.usage(
            "Please make sure that the beginTimestamp is less than or equal to the endTimestamp"
        )


async def _consume(call: Call, address: str, queue: MessageQueue, between: tuple[int, int]) -> None:
    """Prints from an offset to another one, that one too, as mqadmin counts."""
    offset, last = between
    shown, group = java.queue_text(queue), call.text("g", GROUP)
    while offset <= last:
        most = last - offset + 1
        pulled = await pull(call, address, queue, offset, most, "*", group)
        is_stuck = pulled.next_offset <= offset
        offset = pulled.next_offset
        if pulled.status == "FOUND":
            call.out.line("Consume ok")
            for message in pulled.messages:
                _print(call, message, queue, pulled, shown_body(message, "utf-8"))
                call.out.give({"broker_name": queue.broker_name} | data_of(message))
        elif pulled.status == "NO_MATCHED_MSG":
            call.out.line(f"{shown} no matched msg. status={pulled.status}, offset={offset}")
        else:
            call.out.line(f"{shown} print msg finished. status={pulled.status}, offset={offset}")
            return
        if is_stuck:
            return
