"""Brokers: the list, and one broker with its figures, settings, store and clients."""

import re
from typing import Any, Final

from mqcore.admin.cluster_facts import clock_of
from mqcore.config.keys import Program, keys_of
from mqcore.console.asking import BrokerAt
from mqcore.console.charts import spark
from mqcore.console.history import first_number
from mqcore.console.kinds import is_system_group
from mqcore.console.users import Role
from mqcore.console.views import Asked, Change, Done, InputError, Plan, View, command, url

__all__ = ["CHANGES", "broker", "brokers"]

TABS: Final = ("figures", "configuration", "store", "clients")
# Figures of one kind together, by how their names begin.
_GROUPS: Final = (
    ("Messages", ("put", "get", "msg")),
    ("Store", ("commitLog", "consumeQueue", "dispatch", "earliest", "remain", "storePath")),
    ("Queues of requests", ("send", "pull", "query", "litePull", "ack", "EndTransaction")),
    ("Timers and delays", ("timer", "schedule", "end")),
    ("Broker", ("",)),
)
# What is behind the second decimal of a rate is noise.
_DIGITS: Final = re.compile(r"(\d\.\d\d)\d+")


async def brokers(asked: Asked) -> View:
    """Returns the list of brokers."""
    asks = asked.questions
    found = await asks.brokers()
    addresses = {each.address: each.address for each in found}
    runtime = await asks.each(addresses, "figures", asks.admin.brokers.runtime)
    rows = [_row(asked, each, runtime.get(each.address)) for each in found]
    return View("brokers.html", "Brokers", {"brokers": rows})


def _row(asked: Asked, at: BrokerAt, table: dict[str, str] | None) -> dict[str, Any]:
    row = {
        "name": at.name,
        "id": at.broker_id,
        "role": "master" if at.broker_id == 0 else "slave",
        "address": at.address,
        "cluster": at.cluster,
        "url": url("brokers", at.name, str(at.broker_id)),
        "answers": table is not None,
        "silent": next((e.text for e in asked.questions.faults if e.where == at.address), ""),
    }
    if table is not None:
        began = table.get("bootTimestamp", "")
        low, high = table.get("commitLogMinOffset", ""), table.get("commitLogMaxOffset", "")
        size = int(high) - int(low) if high.isdigit() and low.isdigit() else None
        row |= {
            "version": table.get("brokerVersionDesc", ""),
            "uptime_ms": asked.now_ms - int(began) if began.isdigit() else None,
            "into": first_number(table.get("putTps", "")),
            "out": first_number(table.get("getTransferredTps", "")),
            "put_today": _today(table, "Put"),
            "get_today": _today(table, "Get"),
            "disk": first_number(table.get("commitLogDiskRatio", "")),
            "log_bytes": size,
            "dispatch_behind": table.get("dispatchBehindBytes"),
            "flush_behind": table.get("remainHowManyDataToFlush"),
            "page_cache_ms": table.get("pageCacheLockTimeMills"),
        }
    return row


def _today(table: dict[str, str], kind: str) -> int | None:
    now, morning = (table.get(f"msg{kind}TotalToday{each}", "") for each in ("Now", "Morning"))
    return int(now) - int(morning) if now.isdigit() and morning.isdigit() else None


async def _found(asked: Asked) -> BrokerAt:
    """Returns the broker that a path names.

    Raises:
        InputError: There is none.
    """
    name, number = asked.parts["name"], asked.parts["number"]
    for each in await asked.questions.brokers():
        if each.name == name and str(each.broker_id) == number:
            return each
    raise InputError(f"no name server knows a broker {name} with the id {number}")


async def broker(asked: Asked) -> View:
    """Returns one broker."""
    at, asks, admin = await _found(asked), asked.questions, asked.questions.admin
    tab = asked.query.get("tab", TABS[0])
    runtime = await asks.ask(at.address, "figures", lambda: admin.brokers.runtime(at.address))
    data: dict[str, Any] = _row(asked, at, runtime)
    history = asked.history
    data |= {
        "tab": tab if tab in TABS else TABS[0],
        "tabs": TABS,
        "into_spark": spark(
            history.into[at.address].values() if at.address in history.into else []
        ),
        "out_spark": spark(history.out[at.address].values() if at.address in history.out else []),
        "skew_ms": None,
    }
    clock = clock_of(runtime or {})
    if clock is not None:
        data["skew_ms"] = clock - asked.now_ms
    if tab == "configuration":
        settings = await asks.ask(at.address, "settings", lambda: admin.brokers.config(at.address))
        data["settings"] = _settings(settings or {}, asked.query)
        data["of"] = len(settings or {})
    elif tab == "store":
        data["store"] = await _store(asked, at, runtime or {})
    elif tab == "clients":
        data |= await _clients(asked, at)
    else:
        data["figures"] = _figures(runtime or {})
    return View("broker.html", f"Broker {at.name} {at.broker_id}", data)


def _figures(table: dict[str, str]) -> list[dict[str, Any]]:
    left = dict(sorted(table.items()))
    found = []
    for title, prefixes in _GROUPS:
        names = [name for name in left if name.startswith(prefixes)]
        found.append(
            {"title": title, "rows": [(name, _DIGITS.sub(r"\1", left.pop(name))) for name in names]}
        )
    return [each for each in found if each["rows"]]


def _settings(settings: dict[str, str], query: Any) -> list[dict[str, Any]]:
    """Returns settings beside the table of keys; what it does not know has no default."""
    text, only_changed = query.get("q", "").lower(), query.get("only") == "changed"
    rows, keys = [], keys_of(Program.BROKER)
    is_five = settings.get("brokerVersion", "V5").upper().startswith("V5")
    for name in sorted(settings):
        key = keys.get(name)
        default = "" if key is None else key.default_5 if is_five else key.default
        row = {
            "name": name,
            "value": settings[name],
            "default": default,
            "is_changed": key is not None and settings[name] != default,
            "is_hot": key is not None and key.is_live,
            "meaning": "" if key is None else key.words,
        }
        if text in name.lower() and (row["is_changed"] or not only_changed):
            rows.append(row)
    return rows


async def _store(asked: Asked, at: BrokerAt, table: dict[str, str]) -> dict[str, Any]:
    """Returns what is reported of the store over the wire."""
    asks, admin = asked.questions, asked.questions.admin
    topics = await asks.ask(at.address, "topics", lambda: admin.topics.configs_at(at.address))
    status = await asks.ask(
        at.address, "replication", lambda: admin.brokers.replication(at.address)
    )
    low, high = (first_number(table.get(f"commitLog{e}Offset", "")) for e in ("Min", "Max"))
    return {
        "low": int(low),
        "high": int(high),
        "bytes": int(high - low),
        "capacity": table.get("commitLogDirCapacity", ""),
        "used": first_number(table.get("commitLogDiskRatio", "")),
        "queues_used": first_number(table.get("consumeQueueDiskRatio", "")),
        "flush_behind": table.get("remainHowManyDataToFlush"),
        "dispatch_behind": table.get("dispatchBehindBytes"),
        "oldest_ms": table.get("earliestMessageTimeStamp"),
        "topics": len(topics or {}),
        "queues": sum(each.queues for each in (topics or {}).values()),
        "replicas": [] if status is None else status.replicas,
        "master_address": "" if status is None else status.master_address,
    }


async def _clients(asked: Asked, at: BrokerAt) -> dict[str, Any]:
    asks, admin = asked.questions, asked.questions.admin
    producers = await asks.ask(
        at.address, "producers", lambda: admin.brokers.all_producers(at.address)
    )
    groups = await asks.ask(at.address, "groups", lambda: admin.groups.configs_at(at.address))
    return {
        "producers": [
            {"group": group, "client": each}
            for group, members in (producers or {}).items()
            for each in members
        ],
        "groups": [name for name in groups or {} if not is_system_group(name)],
    }


async def _plan_config(asked: Asked) -> Plan:
    at, key, value = await _found(asked), _key(asked), asked.form.get("value", "")
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
    at, key, value = await _found(asked), _key(asked), asked.form.get("value", "")
    await asked.questions.admin.brokers.change_config(at.address, {key: value})
    return Done(
        f"{key} is {value} on {at.name} {at.broker_id}",
        url("brokers", at.name, str(at.broker_id), tab="configuration", q=key),
    )


async def _plan_writable(asked: Asked) -> Plan:
    at, is_writable = await _found(asked), asked.form.get("to") == "on"
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
    at, is_writable = await _found(asked), asked.form.get("to") == "on"
    await asked.questions.admin.brokers.set_writable(at.name, is_writable=is_writable)
    text = "gets messages" if is_writable else "gets no new messages"
    return Done(f"{at.name} {text}", url("brokers", at.name, str(at.broker_id)))


async def _plan_expired(asked: Asked) -> Plan:
    at = await _found(asked)
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
    at = await _found(asked)
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
