"""What is changed about groups: made, set otherwise, deleted, moved to other offsets."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from mqcore.admin import LATEST_MS, GroupConfig
from mqcore.admin.moves import shifted, targets_of_time
from mqcore.console.inputs import named_queue, number_within, time_of
from mqcore.console.users import Role
from mqcore.console.views import Asked, Change, Done, InputError, Plan, command, url
from mqcore.errors import MQError
from mqcore.model.queues import MessageQueue
from mqcore.model.topics import group_fault

__all__ = ["CHANGES"]

_STEPS: Final = re.compile(r"-?\d{1,12}")
_LONG: Final = re.compile(r"\d{1,18}")
_RETRIES_MAX: Final = 10_000


def _group(asked: Asked) -> str:
    name = asked.parts.get("group") or asked.form.get("name", "").strip()
    fault = group_fault(name)
    if fault is not None:
        raise InputError(f"group {name[:200]!r}: {fault}")
    return name


def _retries(asked: Asked) -> int:
    return number_within(asked.form, "retries", "16", 0, _RETRIES_MAX)


async def _plan_create(asked: Asked) -> Plan:
    name, retries = _group(asked), _retries(asked)
    if name in await asked.questions.groups():
        raise InputError(f"there is a group {name} already: change it on its page")
    masters = (await asked.questions.cluster()).masters()
    if not masters:
        raise InputError("there is no master to make the group on")
    return Plan(
        f"Create group {name}",
        "Create it",
        ("broker", "now", "afterwards"),
        tuple((each, "not there", f"{retries} retries") for each in sorted(masters)),
        command(asked, ("group", "create", name, "--retries", retries)),
        url("groups"),
    )


async def _create(asked: Asked) -> Done:
    name = _group(asked)
    await asked.questions.admin.groups.create(name, retries=_retries(asked))
    return Done(f"group {name} was created", url("groups", name))


async def _settings(asked: Asked) -> tuple[str, GroupConfig]:
    """Returns the group, and as it is to be: what no form has is taken from the first broker."""
    name = _group(asked)
    configs = (await asked.questions.groups()).get(name)
    if not configs:
        raise InputError(f"no broker has settings of a group {name}: create it")
    known = next(iter(configs.values()))
    wanted = replace(
        known,
        retry_max_times=_retries(asked),
        is_consume_enabled=asked.form.get("consume") == "yes",
        is_broadcast_enabled=asked.form.get("broadcast") == "yes",
    )
    return name, wanted


def _shape(config: GroupConfig) -> str:
    frozen = "" if config.is_consume_enabled else ", frozen: it gets no messages"
    broadcast = "" if config.is_broadcast_enabled else ", no broadcast"
    return f"{config.retry_max_times} retries{broadcast}{frozen}"


async def _plan_change(asked: Asked) -> Plan:
    name, wanted = await _settings(asked)
    words = ["group", "update", name, "--retries", str(wanted.retry_max_times)]
    words.append("--consume" if wanted.is_consume_enabled else "--no-consume")
    words.append("--broadcast" if wanted.is_broadcast_enabled else "--no-broadcast")
    configs = (await asked.questions.groups())[name]
    return Plan(
        f"Change group {name}",
        "Change it",
        ("broker", "now", "afterwards"),
        tuple((each, _shape(configs[each]), _shape(wanted)) for each in sorted(configs)),
        command(asked, words),
        url("groups", name, tab="settings"),
        warning="" if wanted.is_consume_enabled else "Its members get no messages from then on.",
    )


async def _change(asked: Asked) -> Done:
    name, wanted = await _settings(asked)
    masters = (await asked.questions.cluster()).masters()
    configs = (await asked.questions.groups())[name]
    addresses = [masters[broker] for broker in configs if broker in masters]
    await asked.questions.admin.groups.put(wanted, brokers=addresses)
    return Done(f"group {name} was changed", url("groups", name, tab="settings"))


async def _plan_delete(asked: Asked) -> Plan:
    name = _group(asked)
    progress = (await asked.questions.progress()).get(name)
    lag = progress.lag if progress else 0
    online = await asked.questions.admin.groups.connections(name)
    members = len(online.clients) if online else 0
    return Plan(
        f"Delete group {name}",
        "Delete it",
        ("what", "now", "afterwards"),
        (
            ("unread messages", lag, "not counted any more"),
            ("members online", members, "make it again when they report" if members else "none"),
            ("offsets, retries and dead letters", "there", "gone"),
        ),
        command(asked, ("group", "delete", name, "-y")),
        url("groups", name),
        warning="How far it has read is forgotten, and its dead letters are deleted.",
        confirm=name,
    )


async def _delete(asked: Asked) -> Done:
    name = _group(asked)
    await asked.questions.admin.groups.delete(name)
    return Done(f"group {name} was deleted", url("groups"))


class _Move:
    """A reset as a form wants it: where to, and the same as words of a command line."""

    def __init__(self, asked: Asked) -> None:
        """Reads the form.

        Raises:
            InputError: It cannot be used.
        """
        form = asked.form
        self.group = _group(asked)
        self.topic = form.get("topic", "").strip()
        if not self.topic:
            raise InputError("a topic is to be chosen")
        self.to = form.get("to", "")
        self.steps = 0
        self.offset: int | None = None
        self.time_ms = {"start": 0, "end": LATEST_MS}.get(self.to, 0)
        self.queue = self._queue(form.get("queue", "").strip())
        words = ["group", "reset", self.group, self.topic]
        if self.to in ("start", "end"):
            words += ["--to", self.to]
        elif self.to == "time":
            self.time_ms = time_of(form.get("time", ""))
            at = datetime.fromtimestamp(self.time_ms / 1_000, UTC)
            words += ["--to", at.isoformat(timespec="milliseconds")]
        elif self.to == "by":
            if not _STEPS.fullmatch(form.get("steps", "").strip()):
                raise InputError("messages: a number such as 100 or -100 is expected")
            self.steps = int(form["steps"])
            words += ["--by", str(self.steps)]
        elif self.to == "offset":
            if self.queue is None or not _LONG.fullmatch(form.get("offset", "").strip()):
                raise InputError(
                    "an offset is one of a queue: give both, such as broker-a:3 and 100"
                )
            self.offset = int(form["offset"])
            words += ["--offset", str(self.offset)]
        else:
            raise InputError("to: start, end, time, by or offset is expected")
        if self.queue is not None:
            words += ["--queue", f"{self.queue.broker_name}:{self.queue.queue_id}"]
        self.words = [*words, "-y"]

    def _queue(self, text: str) -> MessageQueue | None:
        if not text or self.to not in ("by", "offset"):
            return None
        return named_queue(self.topic, text)

    async def targets(
        self, asked: Asked, before: dict[MessageQueue, int]
    ) -> dict[MessageQueue, int]:
        """Returns where each queue would go."""
        admin = asked.questions.admin
        if self.queue is not None and self.offset is not None:
            return {self.queue: self.offset}
        if self.to == "by":
            return await shifted(admin, self.topic, before, self.steps, self.queue)
        return await targets_of_time(admin, self.topic, self.time_ms)


async def _before(asked: Asked, move: _Move) -> dict[MessageQueue, int]:
    admin = asked.questions.admin
    found = await admin.groups.progress(move.group, topic=move.topic, must_exist=False)
    return {row.queue: row.group_offset for row in found.queues}


async def _plan_reset(asked: Asked) -> Plan:
    move = _Move(asked)
    await _require(asked, move.group)
    before = await _before(asked, move)
    after = await move.targets(asked, before)
    rows, again, skipped = [], 0, 0
    for queue, offset in sorted(after.items()):
        now = before.get(queue, 0)
        again, skipped = again + max(0, now - offset), skipped + max(0, offset - now)
        rows.append((queue.broker_name, queue.queue_id, now, offset, offset - now))
    parts = [f"{again} messages are consumed again." if again else ""]
    parts.append(f"{skipped} messages are skipped." if skipped else "")
    return Plan(
        f"Move group {move.group} in topic {move.topic}",
        "Move it",
        ("broker", "queue", "now", "afterwards", "difference"),
        tuple(rows),
        command(asked, move.words),
        url("groups", move.group, tab="reset", topic=move.topic),
        warning=" ".join(filter(None, parts)),
    )


async def _require(asked: Asked, name: str) -> None:
    known = {*await asked.questions.groups(), *await asked.questions.progress()}
    if name in known:
        return
    # One that was given offsets, and never had a member.
    found = await asked.questions.admin.groups.progress(name, must_exist=False)
    if not found.queues:
        raise InputError(f"no broker that answers knows a group {name}")


async def _reset(asked: Asked) -> Done:
    move, admin = _Move(asked), asked.questions.admin
    await _require(asked, move.group)
    if move.to in ("by", "offset"):
        after = await move.targets(asked, await _before(asked, move))
        for queue, offset in after.items():
            await admin.groups.reset_queue(move.group, queue, offset)
    else:
        after = await admin.groups.reset_to_time(move.group, move.topic, move.time_ms)
    return Done(
        f"group {move.group} was moved in {len(after)} queues of {move.topic}",
        url("groups", move.group),
    )


async def _plan_clone(asked: Asked) -> Plan:
    name, target = _group(asked), asked.form.get("target", "").strip()
    fault = group_fault(target)
    if fault is not None:
        raise InputError(f"group {target[:200]!r}: {fault}")
    found = await asked.questions.admin.groups.progress(name)
    mine = {row.queue: row.group_offset for row in found.queues}
    try:
        theirs = await asked.questions.admin.groups.progress(target)
        before = {row.queue: row.group_offset for row in theirs.queues}
    except MQError:
        # It is made with the offsets.
        before = {}
    return Plan(
        f"Give group {target} the offsets of {name}",
        "Do it",
        ("topic", "broker", "queue", f"{target} now", "afterwards"),
        tuple(
            (queue.topic, queue.broker_name, queue.queue_id, before.get(queue, 0), offset)
            for queue, offset in sorted(mine.items())
        ),
        command(asked, ("cloneGroupOffset", "-s", name, "-d", target, "-t", ""), tool="mqadmin"),
        url("groups", name, tab="reset"),
    )


async def _clone(asked: Asked) -> Done:
    name, target = _group(asked), asked.form.get("target", "").strip()
    await asked.questions.admin.groups.clone(name, target)
    return Done(f"group {target} has the offsets of {name}", url("groups", target))


CHANGES: Final = (
    Change("/groups", "group create", Role.ADMIN, _plan_create, _create),
    Change("/groups/{group:path}/change", "group change", Role.ADMIN, _plan_change, _change),
    Change("/groups/{group:path}/delete", "group delete", Role.ADMIN, _plan_delete, _delete),
    Change("/groups/{group:path}/reset", "group reset", Role.OPERATOR, _plan_reset, _reset),
    Change("/groups/{group:path}/clone", "group clone", Role.OPERATOR, _plan_clone, _clone),
)
