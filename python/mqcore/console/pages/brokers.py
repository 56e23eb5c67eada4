"""Brokers: the list, and one broker with its figures, settings, store and clients."""

import re
from typing import Any, Final

from mqcore.admin.cluster_facts import clock_of
from mqcore.console.asking import BrokerAt
from mqcore.console.history import Series
from mqcore.console.kinds import is_system_group
from mqcore.console.pages.broker_drain import drain_tab
from mqcore.console.pages.broker_inside import memory_tab, settings_tab, store_tab
from mqcore.console.pages.broker_limits import limits_tab
from mqcore.console.pages.broker_slow import slow_tab
from mqcore.console.views import Asked, InputError, View, url
from mqcore.model.reading import first_number

__all__ = ["broker", "broker_of", "brokers"]

TABS: Final = ("figures", "configuration", "memory", "store", "slow", "limits", "clients", "drain")
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


async def broker_of(asked: Asked) -> BrokerAt:
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
    at, asks, admin = await broker_of(asked), asked.questions, asked.questions.admin
    tab = asked.choice("tab", TABS)
    runtime = await asks.ask(at.address, "figures", lambda: admin.brokers.runtime(at.address))
    data: dict[str, Any] = _row(asked, at, runtime)
    history = asked.history
    data |= {
        "tab": tab,
        "tabs": TABS,
        "into_spark": history.into.get(at.address, Series()).line,
        "out_spark": history.out.get(at.address, Series()).line,
        "skew_ms": None,
    }
    clock = clock_of(runtime or {})
    if clock is not None:
        data["skew_ms"] = clock - asked.now_ms
    if tab == "configuration":
        data |= await settings_tab(asked, at)
    elif tab == "memory":
        data |= await memory_tab(asked, at)
    elif tab == "drain":
        data |= await drain_tab(asked, at)
    elif tab == "slow":
        data |= await slow_tab(asked, at)
    elif tab == "limits":
        data |= await limits_tab(asked, at)
    elif tab == "store":
        data |= await store_tab(asked, at, runtime or {})
    elif tab == "clients":
        data |= await _clients(asked, at)
    else:
        data["figures"] = _figures(runtime or {})
    return View("broker.html", f"Broker {at.name} {at.broker_id}", data)


def _figures(table: dict[str, str]) -> list[dict[str, Any]]:
    """Returns the figures by what they are about; every figure is in the first part that fits."""
    left = dict(sorted(table.items()))
    found = []
    for title, prefixes in _GROUPS:
        names = [name for name in left if name.startswith(prefixes)]
        found.append({"title": title, "rows": [_figure(name, left.pop(name)) for name in names]})
    return [each for each in found if each["rows"]]


def _figure(name: str, text: str) -> dict[str, Any]:
    """Returns one figure: its text, and what it is, so that a page can write it for people."""
    kind = "text"
    if text.lstrip("-").isdecimal():
        is_time = name.lower().endswith("timestamp") and int(text[:19]) > 0
        kind = "time" if is_time else "bytes" if name.endswith("Bytes") else "number"
    return {"name": name, "text": _DIGITS.sub(r"\1", text), "kind": kind}


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
