"""What is changed about brokers: settings, routes for writing, files that are expired."""

from typing import Final

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


async def _plan_writable(asked: Asked) -> Plan:
    at, is_writable = await broker_of(asked), asked.form.get("to") == "on"
    servers = await asked.questions.admin.name_servers.addresses()
    warning = (
        "Topics that were for reading alone become writable too, as with official tools."
        if is_writable
        else "Producers go to other brokers within 30 s; without another broker they fail."
    )
    return Plan(
        f"{'Give' if is_writable else 'Take'} routes for writing to {at.name}",
        "Do it",
        ("name server", "afterwards"),
        tuple(
            (each, "routes for writing" if is_writable else "no routes for writing")
            for each in servers
        ),
        command(
            asked,
            ("addWritePerm" if is_writable else "wipeWritePerm", "-b", at.name),
            tool="mqadmin",
        ),
        url("brokers", at.name, str(at.broker_id)),
        warning=f"{warning} Name servers forget it when the broker registers a change.",
    )


async def _change_writable(asked: Asked) -> Done:
    at, is_writable = await broker_of(asked), asked.form.get("to") == "on"
    await asked.questions.admin.brokers.set_writable(at.name, is_writable=is_writable)
    text = "gets messages" if is_writable else "gets no new messages"
    return Done(f"{at.name} {text}", url("brokers", at.name, str(at.broker_id)))


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
        "/brokers/{name}/{number}/writable",
        "write routes",
        Role.ADMIN,
        _plan_writable,
        _change_writable,
    ),
    Change(
        "/brokers/{name}/{number}/expire",
        "delete expired",
        Role.ADMIN,
        _plan_expired,
        _change_expired,
    ),
)
