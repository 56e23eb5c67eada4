"""mqadmin's commands that look up messages: by id, by key, by place; and units of queues."""

from typing import Final

from mqcore.cli.mqadmin import java
from mqcore.cli.mqadmin.call import Call
from mqcore.cli.mqadmin.clients import consumed_directly
from mqcore.cli.mqadmin.message_text import data_of, id_of, print_card
from mqcore.cli.mqadmin.reading import GROUP, pull
from mqcore.cli.mqadmin.sending import producer_of, result_text
from mqcore.client.message import Message as SentMessage
from mqcore.client.properties import RESERVED
from mqcore.errors import MQError
from mqcore.model.message_ids import parse_offset_id
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_bool, as_dict, as_int, as_list, as_text
from mqcore.native import Message, decode_records
from mqcore.remoting import RequestCode, ResponseCode

__all__ = ["by_id", "by_key", "by_offset", "by_unique_key", "queue_units"]

_FOREVER_MS: Final = 2**63 - 1
_MOST: Final = 64
_PORT_MAX: Final = 65_535
_RULE: Final = "=" * 38
_RESENDER: Final = "ReSendMsgById"


async def by_id(call: Call) -> None:
    """Prints messages by their ids; gives them to a client with `-g -d`, sends again with `-s`."""
    ids = [each.strip() for each in call.text("i").split(",") if each.strip()]
    if not ids:
        raise call.usage("-i: an id is expected")
    for message_id in ids:
        message = await _found(call, message_id)
        if call.has("g") and call.has("d"):
            await consumed_directly(call, message)
        elif call.has("s"):
            if call.is_true("s"):
                await _sent_again(call, message, message_id)
        else:
            await print_card(call, message, charset=call.optional("f"))


async def _found(call: Call, message_id: str) -> Message:
    """Returns a message by the broker's id, or by the producer's.

    Raises:
        MQError: There is none.
    """
    named = parse_offset_id(message_id)
    if named is not None and 0 < named.port <= _PORT_MAX:
        return await call.servers.messages.by_offset_id(message_id)
    topic = call.text("c") or call.text("t")
    found = await call.servers.messages.by_unique_id(topic, message_id)
    if not found:
        raise MQError(f"message {message_id} is not found in topic {topic}")
    return found[0]


async def _sent_again(call: Call, message: Message, message_id: str) -> None:
    """Sends a message once more, as a new one."""
    again = SentMessage(
        message.topic,
        message.body,
        tags=message.tags,
        keys=(message.keys or "").split(),
        flag=message.flag,
        properties={
            name: value for name, value in message.properties.items() if name not in RESERVED
        },
    )
    async with producer_of(call, _RESENDER) as producer:
        result = await producer.send(again)
    call.out.line(f"prepare resend msg. originalMsgId={message_id}{result_text(result)}")
    call.out.give({"original": message_id, "message_id": result.message_id})


async def by_unique_key(call: Call) -> None:
    """Prints the messages with a producer's id: the oldest one, or all with `-a`."""
    message_id, topic = call.text("i"), call.text("c") or call.text("t")
    begin, end = call.whole("s", 0), call.whole("e", _FOREVER_MS)
    found = [
        each
        for each in await call.servers.messages.by_unique_id(topic, message_id)
        if begin <= each.store_timestamp_ms <= end
    ]
    if not found:
        raise MQError(f"message {message_id} is not found in topic {topic}")
    if call.has("g") and call.has("d"):
        await consumed_directly(call, found[0])
        return
    for number, message in enumerate(found if call.has("a") else found[:1]):
        await print_card(call, message, number=number, names_offset_id=False)


async def by_key(call: Call) -> None:
    """Prints where the messages with a key are; with `-p T` those with tags (5.5)."""
    if call.has("l"):
        raise MQError("queryMsgByKey is refused with -l: it pages an index in RocksDB")
    kind = call.text("p", "K")
    if kind not in ("K", "T"):
        raise call.usage("-p: index type error, just support K for keys or T for tags")
    topic, key = call.text("t"), call.text("k")
    ext: dict[str, object] = {
        "topic": topic,
        "key": key,
        "maxNum": call.whole("m", _MOST, least=1),
        "beginTimestamp": call.whole("b", 0),
        "endTimestamp": call.whole("e", _FOREVER_MS),
        "_UNIQUE_KEY_QUERY": False,
    }
    if kind == "T":
        ext["indexType"] = "T"
    call.out.row("%-50s %4s %40s", "#Message ID", "#QID", "#Offset")
    given = []
    for address in (await call.servers.brokers_of(call.text("c") or topic)).values():
        code, fine = RequestCode.QUERY_MESSAGE, (ResponseCode.QUERY_NOT_FOUND,)
        answer = await call.servers.ask(address, code, ext, fine=fine)
        if answer.code != ResponseCode.SUCCESS:
            continue
        for message in decode_records(answer.body):
            named = [message.tags] if kind == "T" else (message.keys or "").split()
            # The index knows hashes alone.
            if message.topic != topic or key not in named:
                continue
            cells = (id_of(message), message.queue_id, message.queue_offset)
            call.out.row("%-50s %4d %40d", *cells)
            given.append(data_of(message))
    if not given:
        raise MQError(f"no message of topic {topic} has {'tags' if kind == 'T' else 'key'} {key}")
    call.out.give(given)


async def by_offset(call: Call) -> None:
    """Prints the message at an offset of a queue."""
    topic = call.text("t")
    queue = MessageQueue(topic, call.text("b"), call.whole("i", least=0))
    offset = call.whole("o", least=0)
    if call.has("r"):
        raise MQError("queryMsgByOffset is refused with -r: it is for lite topics, which are not")
    address = await call.servers.address_of(topic, queue.broker_name)
    pulled = await pull(call, address, queue, offset, 1, "*", GROUP)
    if not pulled.messages:
        raise MQError(f"{java.queue_text(queue)} has no message at offset {offset}")
    message = pulled.messages[0]
    await print_card(call, message, charset=call.optional("f"), bounds=pulled.bounds)


async def queue_units(call: Call) -> None:
    """Prints units of a queue, and whether a group's filter lets them pass."""
    topic, index = call.text("t"), call.whole("i")
    address = call.optional("b")
    if address is None:
        address = next(iter((await call.servers.brokers_of(topic)).values()))
    ext: dict[str, object] = {
        "topic": topic,
        "queueId": call.whole("q", least=0),
        "index": index,
        "count": call.whole("c", 10, least=1),
    }
    if call.has("g"):
        ext["consumerGroup"] = call.text("g")
    found = await call.servers.json(address, RequestCode.QUERY_CONSUME_QUEUE, ext)
    call.out.give(found)
    if found.get("subscriptionData") is not None:
        call.out.line("Subscription data: ")
        call.out.line(java.pretty(found["subscriptionData"]))
        call.out.line(_RULE)
    if found.get("filterData") is not None:
        call.out.line("Filter data: ")
        call.out.line(as_text(found["filterData"]))
        call.out.line(_RULE)
    call.out.line("Queue data: ")
    high, low = as_int(found.get("maxQueueIndex")), as_int(found.get("minQueueIndex"))
    call.out.line(f"max: {high}, min: {low}")
    call.out.line(_RULE)
    for number, row in enumerate(map(as_dict, as_list(found.get("queueData"))), index):
        call.out.line(f"idx: {number}")
        call.out.line(
            f"ConsumeQueueData{{physicOffset={as_int(row.get('physicOffset'))}, "
            f"physicSize={as_int(row.get('physicSize'))}, tagsCode={as_int(row.get('tagsCode'))}, "
            f"extendDataJson='{java.text(row.get('extendDataJson'))}', "
            f"bitMap='{java.text(row.get('bitMap'))}', "
            f"eval={java.text(as_bool(row.get('eval')))}, msg='{java.text(row.get('msg'))}'}}"
        )
        call.out.line(_RULE)
