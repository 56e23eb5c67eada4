"""Messages: found by id, key, offset or time; one with its body; consumed again, copied."""

from datetime import UTC, datetime
from typing import Any, Final

from mqcore.admin.messages import located
from mqcore.client.message import Message as OutMessage
from mqcore.client.properties import RESERVED
from mqcore.console.bodies import FORMS, detail, summary
from mqcore.console.inputs import named_queue, queue_text, time_of
from mqcore.console.listing import whole_of
from mqcore.console.users import Role
from mqcore.console.views import Asked, Change, Done, InputError, Plan, View, command, url
from mqcore.errors import NoRouteError
from mqcore.model.queues import MessageQueue
from mqcore.native import Message

__all__ = ["CHANGES", "body", "message", "message_of", "messages"]

_WAYS: Final = ("id", "key", "offset", "time")
_SHOWN_MAX: Final = 50
# What a broker gives for one question about a key.
_KEY_MAX: Final = 64
_GROUPS_MAX: Final = 20
# A broker waits for a client for 10 s.
_CONSUME_S: Final = 12.0


async def messages(asked: Asked) -> View:
    """Returns the search, and what was found where something was asked for."""
    query, asks = asked.query, asked.questions
    way = asked.choice("by", _WAYS)
    data: dict[str, Any] = {
        "by": way,
        "ways": _WAYS,
        "query": {
            name: query.get(name, "") for name in ("topic", "id", "key", "queue", "offset", "time")
        },
        "found": None,
        "cut": "",
        "next": "",
    }
    data["topics"] = sorted(await asks.topic_names())[:1_000]
    if not any(query.get(name) for name in ("id", "key", "offset", "time")):
        return View("messages.html", "Messages", data)
    found = await asks.ask("brokers", f"messages by {way}", lambda: _search(asked, way, data))
    data["found"] = found or []
    return View("messages.html", "Messages", data)


async def _search(asked: Asked, way: str, data: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns rows; notes in `data` where the result is cut, and how to go on."""
    query, admin = asked.query, asked.questions.admin
    topic = query.get("topic", "").strip()
    if way == "id":
        message_id = query.get("id", "").strip()
        if topic:
            found = await admin.messages.by_unique_id(topic, message_id)
            if found:
                return [summary(each) for each in found]
        return [summary(await message_of(asked, message_id))]
    if not topic:
        raise InputError("a topic is to be named")
    if way == "key":
        found = await admin.messages.by_key(topic, query.get("key", "").strip())
        if len(found) >= _KEY_MAX:
            data["cut"] = f"the newest {_KEY_MAX} of each broker; older ones by time"
        return [summary(each) for each in found]
    if way == "offset":
        return await _by_offset(asked, topic, data)
    return await _by_time(asked, topic, data)


async def message_of(asked: Asked, offset_id: str) -> Message:
    """Returns a message; its broker is asked only where name servers know it.

    Raises:
        MQError: There is none, or the id is of no broker of this cluster.
    """
    address, _ = located(offset_id)
    if address not in {each.address for each in await asked.questions.brokers()}:
        raise InputError(f"{address} in the id is no broker of this cluster: it is not asked")
    return await asked.questions.admin.messages.by_offset_id(offset_id)


async def _by_offset(asked: Asked, topic: str, data: dict[str, Any]) -> list[dict[str, Any]]:
    queue = named_queue(topic, asked.query.get("queue", ""))
    offset = whole_of(asked.query.get("offset"), 0, 0, 2**62)
    rows = await asked.questions.admin.messages.at(queue, offset, 32)
    if len(rows) == 32:
        data["cut"] = "32 messages from this offset"
        data["next"] = url(
            "messages",
            by="offset",
            topic=topic,
            queue=queue_text(queue),
            offset=rows[-1].queue_offset + 1,
        )
    return [summary(each, queue.broker_name) for each in rows]


async def _by_time(asked: Asked, topic: str, data: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the first messages of all queues that were stored at a time or behind."""
    asks, admin = asked.questions, asked.questions.admin
    time_ms = time_of(asked.query.get("time", ""))
    queues = (await admin.topics.stats(topic)).queues
    addresses = {row.queue: row.queue.broker_name for row in queues if row.count}

    async def read(queue: MessageQueue) -> list[Message]:
        offset = await admin.topics.offset_at(queue, time_ms)
        return await admin.messages.at(queue, offset, 32)

    parts = await asks.each(addresses, "messages by time", read)
    rows = [
        (each, queue.broker_name)
        for queue, part in parts.items()
        for each in part
        # Brokers of 4.9 give the last message for a time behind it.
        if each.store_timestamp_ms >= time_ms
    ]
    rows.sort(key=lambda row: row[0].store_timestamp_ms)
    if len(rows) > _SHOWN_MAX:
        last = rows[_SHOWN_MAX][0].store_timestamp_ms
        at = datetime.fromtimestamp(last / 1_000, UTC).isoformat(timespec="milliseconds")
        data["cut"] = f"the first {_SHOWN_MAX}; there are more"
        data["next"] = url("messages", by="time", topic=topic, time=at)
    return [summary(each, broker) for each, broker in rows[:_SHOWN_MAX]]


async def message(asked: Asked) -> View:
    """Returns one message: by the id of its broker."""
    found = await message_of(asked, asked.parts["id"])
    data = detail(found, asked.choice("form", FORMS))
    data |= {
        "forms": FORMS,
        "download": url("messages", asked.parts["id"], "body"),
        "trace": url("trace", id=found.uniq_key or ""),
        "consumers": await _consumers(asked, found),
    }
    return View("message.html", "Message", data)


async def _consumers(asked: Asked, found: Message) -> list[dict[str, Any]]:
    """Returns for each group of the topic whether it is behind the message."""
    asks = asked.questions
    rows = []
    for group, progress in (await asks.progress()).items():
        for row in progress.queues:
            queue = row.queue
            if (queue.topic, queue.queue_id) != (found.topic, found.queue_id):
                continue
            rows.append(
                {
                    "group": group,
                    "url": url("groups", group),
                    "broker": queue.broker_name,
                    "offset": row.group_offset,
                    "is_past": row.group_offset > found.queue_offset,
                }
            )
    return rows[:_GROUPS_MAX]


async def body(asked: Asked) -> View:
    """Returns the body as a file."""
    found = await message_of(asked, asked.parts["id"])
    return View("", "", {"bytes": found.body}, download=f"{asked.parts['id']}.bin")


async def _plan_consume(asked: Asked) -> Plan:
    found = await message_of(asked, asked.parts["id"])
    group, client = _named(asked)
    return Plan(
        "Let a member consume the message again",
        "Consume it",
        ("part", "value"),
        (("message", found.uniq_key or found.message_id), ("group", group), ("member", client)),
        command(
            asked,
            (
                *("queryMsgById", "-t", found.topic, "-i", found.message_id),
                *("-g", group, "-d", client, "-s", "true"),
            ),
            tool="mqadmin",
        ),
        url("messages", asked.parts["id"]),
        warning="The member handles it now, whatever the group has done with it before.",
    )


def _named(asked: Asked) -> tuple[str, str]:
    group, client = (asked.form.get(name, "").strip() for name in ("group", "client"))
    if not group or not client:
        raise InputError("a group and the id of one of its members are to be named")
    return group, client


async def _consume(asked: Asked) -> Done:
    found = await message_of(asked, asked.parts["id"])
    group, client = _named(asked)
    result = await asked.questions.admin.groups.consume_again(
        group, client, found.topic, found.message_id
    )
    return Done(f"{client} of {group}: {result}", url("messages", asked.parts["id"]))


async def _copy_of(asked: Asked) -> OutMessage:
    found = await message_of(asked, asked.parts["id"])
    topic = asked.form.get("topic", "").strip() or found.topic
    properties = {k: v for k, v in found.properties.items() if k not in RESERVED}
    return OutMessage(
        topic, found.body, tags=found.tags, keys=(found.keys or "").split(), properties=properties
    )


async def _plan_copy(asked: Asked) -> Plan:
    made = await _copy_of(asked)
    if made.topic not in await asked.questions.topics():
        raise NoRouteError(
            f"there is no topic {made.topic}", topic=made.topic, name_servers=(), brokers={}
        )
    words = ["produce", made.topic, "-m", made.body[:2_000].decode("utf-8", "replace")]
    words += ["-t", made.tags] if made.tags else []
    words += ["-k", " ".join(made.keys)] if made.keys else []
    for name, value in made.properties.items():
        words += ["-p", f"{name}={value}"]
    return Plan(
        "Send a copy of the message",
        "Send it",
        ("part", "value"),
        (
            ("topic", made.topic),
            ("tag", made.tags or ""),
            ("keys", " ".join(made.keys)),
            ("bytes", len(made.body)),
        ),
        command(asked, words),
        url("messages", asked.parts["id"]),
        warning="It is a new message: every group of the topic gets it.",
    )


async def _copy(asked: Asked) -> Done:
    sent = await asked.sending.send(await _copy_of(asked))
    queue = queue_text(sent.queue)
    return Done(
        f"sent as {sent.message_id} to {queue}, offset {sent.queue_offset}",
        url("messages", by="offset", topic=sent.queue.topic, queue=queue, offset=sent.queue_offset),
    )


CHANGES: Final = (
    Change(
        "/messages/{id}/consume", "message consume again", Role.OPERATOR, _plan_consume, _consume
    ),
    Change("/messages/{id}/copy", "message copy", Role.OPERATOR, _plan_copy, _copy),
)
