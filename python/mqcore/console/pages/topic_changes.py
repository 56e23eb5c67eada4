"""What is changed about topics: made, set otherwise, deleted, written to."""

import re
from dataclasses import dataclass
from typing import Any, Final

from mqcore.admin import TopicConfig
from mqcore.client.message import Message
from mqcore.console.inputs import number_within
from mqcore.console.kinds import OF_USERS
from mqcore.console.users import Role
from mqcore.console.views import Asked, Change, Done, InputError, Plan, command, url
from mqcore.model.topics import perm_text, topic_fault

__all__ = ["CHANGES"]

_PERMISSIONS: Final = {"rw": 6, "r": 4, "w": 2, "none": 0}
_QUEUES_MAX: Final = 1_024
_BODY_CHARS_MAX: Final = 256 * 1024
_ATTRIBUTE: Final = re.compile(r"\+[^=\s,]+=[^\s,]+|-[^=\s,]+")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A topic as a form wants it.

    Attributes:
        name: Its name.
        queues: Queues on each broker.
        perm: A key of the permissions.
        is_ordered: Whether it promises order.
        cluster: Only there; empty for everywhere.
        changes: Of its attributes.
    """

    name: str
    queues: int
    perm: str
    is_ordered: bool
    cluster: str
    changes: tuple[str, ...]

    @property
    def config(self) -> TopicConfig:
        """The topic without its attributes."""
        return TopicConfig(
            self.name,
            read_queues=self.queues,
            write_queues=self.queues,
            perm=_PERMISSIONS[self.perm],
            order=self.is_ordered,
        )

    @property
    def words(self) -> list[str]:
        """The words of the command line."""
        words = ["topic", "create", self.name, "-q", str(self.queues), "--perm", self.perm]
        words.append("--ordered" if self.is_ordered else "--unordered")
        if self.cluster:
            words += ["-c", self.cluster]
        for each in self.changes:
            words += ["-a", each]
        return [*words, "-y"]


def _wanted(asked: Asked, name: str) -> _Wanted:
    """Reads the form of a topic.

    Raises:
        InputError: It cannot be used.
    """
    form = asked.form
    fault = topic_fault(name)
    if fault is not None:
        raise InputError(f"topic {name[:200]!r}: {fault}")
    queues = number_within(form, "queues", "8", 1, _QUEUES_MAX)
    perm = form.get("perm", "rw")
    if perm not in _PERMISSIONS:
        raise InputError(f"permission: one of {', '.join(_PERMISSIONS)} is expected")
    changes = [each for each in re.split(r"[\s,]+", form.get("attributes", "")) if each]
    for each in changes:
        if not _ATTRIBUTE.fullmatch(each):
            raise InputError(f"attribute {each[:200]!r}: +KEY=VALUE or -KEY is expected")
    kind = form.get("type", "").lower()
    if kind and kind not in OF_USERS:
        raise InputError(f"type: one of {', '.join(OF_USERS)} is expected")
    if kind and kind != "normal":
        changes.append(f"+message.type={kind.upper()}")
    is_ordered = form.get("order") == "yes" or kind == "fifo"
    return _Wanted(name, int(queues), perm, is_ordered, form.get("cluster", ""), tuple(changes))


async def _plan(asked: Asked, wanted: _Wanted, title: str, back: str) -> Plan:
    info = await asked.questions.cluster()
    masters = info.masters(wanted.cluster or None)
    if not masters:
        raise InputError("there is no master to make the topic on")
    before = (await asked.questions.topics()).get(wanted.name, {})
    after = wanted.config
    rows = []
    for broker in sorted(masters):
        known = before.get(broker)
        rows.append((broker, _shape(known) if known else "not there", _shape(after)))
    fewer = any(known.read_queues > after.read_queues for known in before.values())
    return Plan(
        title,
        "Create it" if not before else "Change it",
        ("broker", "now", "afterwards"),
        tuple(rows),
        command(asked, wanted.words),
        back,
        warning="Messages in queues that are left out cannot be read any more." if fewer else "",
        confirm=wanted.name if fewer else "",
    )


def _shape(config: TopicConfig) -> str:
    order = ", ordered" if config.order else ""
    return (
        f"{config.write_queues} write, {config.read_queues} read, {perm_text(config.perm)}{order}"
    )


async def _plan_create(asked: Asked) -> Plan:
    wanted = _wanted(asked, asked.form.get("name", "").strip())
    if wanted.name in await asked.questions.topics():
        raise InputError(f"there is a topic {wanted.name} already: change it on its page")
    return await _plan(asked, wanted, f"Create topic {wanted.name}", url("topics"))


async def _create(asked: Asked) -> Done:
    wanted = _wanted(asked, asked.form.get("name", "").strip())
    return await _put(asked, wanted, "was created")


async def _plan_change(asked: Asked) -> Plan:
    name = asked.parts["topic"]
    return await _plan(
        asked, _wanted(asked, name), f"Change topic {name}", url("topics", name, tab="settings")
    )


async def _change(asked: Asked) -> Done:
    return await _put(asked, _wanted(asked, asked.parts["topic"]), "was changed")


async def _put(asked: Asked, wanted: _Wanted, done: str) -> Done:
    brokers = await asked.questions.admin.topics.put(
        wanted.config, changes=wanted.changes, cluster=wanted.cluster or None
    )
    return Done(f"topic {wanted.name} {done} on {len(brokers)} brokers", url("topics", wanted.name))


async def _plan_delete(asked: Asked) -> Plan:
    name = asked.parts["topic"]
    configs = (await asked.questions.topics()).get(name)
    if configs is None:
        raise InputError(f"there is no topic {name[:200]}")
    groups = [
        group
        for group, each in (await asked.questions.progress()).items()
        if any(row.queue.topic == name for row in each.queues)
    ]
    return Plan(
        f"Delete topic {name}",
        "Delete it",
        ("broker", "now", "afterwards"),
        tuple((broker, _shape(each), "gone") for broker, each in sorted(configs.items())),
        command(asked, ("topic", "delete", name, "-y")),
        url("topics", name),
        warning="Its messages are deleted, and how far groups have read them"
        + (f": {', '.join(groups[:10])}." if groups else "."),
        confirm=name,
    )


async def _delete(asked: Asked) -> Done:
    name = asked.parts["topic"]
    await asked.questions.admin.topics.delete(name)
    return Done(f"topic {name} was deleted", url("topics"))


def _message(asked: Asked) -> Message:
    """Reads the form of a message.

    Raises:
        InputError: It cannot be used.
        MessageError: Nor can a message be made of it.
    """
    form = asked.form
    body = form.get("body", "").replace("\r\n", "\n")
    if len(body) > _BODY_CHARS_MAX:
        raise InputError(f"body: at most {_BODY_CHARS_MAX} characters")
    properties = {}
    for line in form.get("properties", "").splitlines():
        name, separator, value = line.partition("=")
        if line.strip() and not separator:
            raise InputError(f"property {line[:200]!r}: NAME=TEXT is expected")
        if line.strip():
            properties[name.strip()] = value.strip()
    delay = form.get("delay", "").strip() or "0"
    if not delay.isdecimal() or int(delay[:9]) > 18:
        raise InputError("delay level: a number from 0 to 18 is expected")
    return Message(
        asked.parts["topic"],
        body,
        tags=form.get("tags", "").strip() or None,
        keys=form.get("keys", "").split(),
        properties=properties,
        delay_level=int(delay),
    )


async def _plan_produce(asked: Asked) -> Plan:
    message, name = _message(asked), asked.parts["topic"]
    words: list[str] = ["produce", name, "-m", message.body.decode()]
    if message.tags:
        words += ["-t", message.tags]
    if message.keys:
        words += ["-k", " ".join(message.keys)]
    for key, value in message.properties.items():
        words += ["-p", f"{key}={value}"]
    if message.delay_level:
        words += ["--delay-level", str(message.delay_level)]
    rows: list[tuple[Any, ...]] = [
        ("body", message.body.decode()),
        ("tag", message.tags or ""),
        ("keys", " ".join(message.keys)),
        ("properties", ", ".join(f"{k}={v}" for k, v in message.properties.items())),
        ("delay level", message.delay_level),
    ]
    return Plan(
        f"Send a message to {name}",
        "Send it",
        ("part", "value"),
        tuple(row for row in rows if row[1] not in ("", 0)),
        command(asked, words),
        url("topics", name, tab="produce"),
    )


async def _produce(asked: Asked) -> Done:
    name = asked.parts["topic"]
    sent = await asked.sending.send(_message(asked))
    return Done(
        f"sent as {sent.message_id} to {sent.queue.broker_name}:{sent.queue.queue_id}, "
        f"offset {sent.queue_offset}",
        url(
            "messages",
            by="offset",
            topic=name,
            queue=f"{sent.queue.broker_name}:{sent.queue.queue_id}",
            offset=sent.queue_offset,
        ),
    )


CHANGES: Final = (
    Change("/topics", "topic create", Role.ADMIN, _plan_create, _create),
    Change("/topics/{topic:path}/change", "topic change", Role.ADMIN, _plan_change, _change),
    Change("/topics/{topic:path}/delete", "topic delete", Role.ADMIN, _plan_delete, _delete),
    Change(
        "/topics/{topic:path}/produce", "message produce", Role.OPERATOR, _plan_produce, _produce
    ),
)
