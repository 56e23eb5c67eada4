"""What is changed about brokers: settings, a drain step by step, files that are expired."""

from typing import Final

from mqcore.admin.draining import Draining, undrained
from mqcore.console.pages.brokers import broker_of
from mqcore.console.users import Role
from mqcore.console.views import Asked, Change, Done, InputError, Plan, command, url

__all__ = ["CHANGES"]


async def _plan_config(asked: Asked) -> Plan:
    at, key, value = await broker_of(asked), _key(asked), asked.form.get("value", "")
    known = await asked.questions.admin.brokers.config(at.address)
    before = known.get(key)
    if before is None:
        raise InputError(f"{at.name} has no setting {key}")
    return Plan(
        f"Change a setting of {at.name} {at.broker_id}",
        "Change it",
        ("setting", "now", "afterwards"),
        ((key, before, value),),
        command(
            asked, ("updateBrokerConfig", "-b", at.address, "-k", key, "-v", value), tool="mqadmin"
        ),
        url("brokers", at.name, str(at.broker_id), tab="configuration"),
    )


def _key(asked: Asked) -> str:
    key = asked.form.get("key", "").strip()
    if not key:
        raise InputError("a setting is to be named")
    return key


async def _change_config(asked: Asked) -> Done:
    at, key, value = await broker_of(asked), _key(asked), asked.form.get("value", "")
    await asked.questions.admin.brokers.change_config(at.address, {key: value})
    return Done(
        f"{key} is {value} on {at.name} {at.broker_id}",
        url("brokers", at.name, str(at.broker_id), tab="configuration", q=key),
    )


# What a drain does, by what its form wants: the plan's head and button, what becomes of the broker,
# the command, and what to know before.
_DRAIN: Final = {
    "wipe": (
        "Let producers leave {}",
        "Let them leave",
        "name servers give no route for writing to it",
        "drain",
        "Producers go to other brokers within 30 s; without another broker they fail.",
    ),
    "refuse": (
        "Let {} refuse sends",
        "Let it refuse them",
        "it refuses sends, also after a restart (brokerPermission)",
        "drain",
        "A producer that has not gone over yet fails until it asks for routes again.",
    ),
    "back": (
        "Let {} take sends again",
        "Take it back",
        "it takes sends, and name servers give routes for writing",
        "undrain",
        "",
    ),
}


def _drain_step(asked: Asked) -> str:
    step = asked.form.get("to", "")
    if step not in _DRAIN:
        raise InputError(f"to: one of {', '.join(_DRAIN)} is expected")
    return step


async def _plan_drain(asked: Asked) -> Plan:
    at, step = await broker_of(asked), _drain_step(asked)
    title, button, afterwards, verb, warning = _DRAIN[step]
    state = await Draining(asked.questions.admin, at.name).look()
    sends = "takes sends" if state.takes_sends else "refuses sends"
    now = f"{sends}; routes for writing at {len(state.writable_at)} name servers"
    return Plan(
        title.format(at.name),
        button,
        ("broker", "now", "afterwards"),
        ((at.name, now, afterwards),),
        command(asked, ("broker", verb, at.name)),
        url("brokers", at.name, str(at.broker_id), tab="drain"),
        warning=warning,
        confirm="" if step == "back" else at.name,
    )


async def _drain(asked: Asked) -> Done:
    at, step, admin = await broker_of(asked), _drain_step(asked), asked.questions.admin
    if step == "back":
        await undrained(admin, at.name)
        text = f"{at.name} takes sends again"
    elif step == "refuse":
        await Draining(admin, at.name).refuse()
        text = f"{at.name} refuses sends"
    else:
        await Draining(admin, at.name).wipe()
        text = f"producers leave {at.name}"
    return Done(text, url("brokers", at.name, str(at.broker_id), tab="drain"))


async def _plan_expired(asked: Asked) -> Plan:
    at = await broker_of(asked)
    known = await asked.questions.admin.brokers.config(at.address)
    return Plan(
        f"Delete what {at.name} need not keep any longer",
        "Delete it",
        ("setting", "value"),
        (("fileReservedTime, hours", known.get("fileReservedTime", "?")),),
        command(asked, ("deleteExpiredCommitLog", "-b", at.address), tool="mqadmin"),
        url("brokers", at.name, str(at.broker_id), tab="store"),
        warning="Log files whose last message is older than that are deleted; groups that have not "
        "read them lose the messages.",
        confirm=at.name,
    )


async def _change_expired(asked: Asked) -> Done:
    at = await broker_of(asked)
    await asked.questions.admin.brokers.delete_expired(at.address)
    return Done(
        f"{at.name} deletes expired files", url("brokers", at.name, str(at.broker_id), tab="store")
    )


CHANGES: Final = (
    Change(
        "/brokers/{name}/{number}/config",
        "broker setting",
        Role.ADMIN,
        _plan_config,
        _change_config,
    ),
    Change(
        "/brokers/{name}/{number}/drain",
        "broker drain",
        Role.ADMIN,
        _plan_drain,
        _drain,
    ),
    Change(
        "/brokers/{name}/{number}/expire",
        "delete expired",
        Role.ADMIN,
        _plan_expired,
        _change_expired,
    ),
)
