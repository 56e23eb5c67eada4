"""The first page: is the cluster well, what comes and goes, what to look at."""

from collections.abc import Mapping
from typing import Any

from mqcore.admin import GroupProgress
from mqcore.console.kinds import is_system_group
from mqcore.console.views import Asked, View, url
from mqcore.model.reading import first_number
from mqcore.model.topics import DLQ_PREFIX

__all__ = ["overview"]

# Findings and groups that are listed; more are counted.
_SHOWN_MAX = 12


async def _measure(
    asked: Asked, groups: list[dict[str, Any]], progress: Mapping[str, GroupProgress]
) -> None:
    """Adds for how long the next message has waited, in the queue where most wait: it is read."""
    asks = asked.questions
    most = {
        row["group"]: max(progress[row["group"]].queues, key=lambda queue: queue.lag)
        for row in groups
    }
    found = await asks.each(
        dict.fromkeys(most, "brokers"),
        "next message",
        lambda group: asks.admin.messages.at(most[group].queue, most[group].group_offset, 1),
    )
    for row in groups:
        for message in found.get(row["group"], ()):
            waited = asked.now_ms - message.store_timestamp_ms
            row["oldest_ms"] = max(waited, row["oldest_ms"] or 0)


async def overview(asked: Asked) -> View:
    """Returns the overview."""
    asks, history = asked.questions, asked.history
    brokers = await asks.brokers()
    addresses = {each.address: each.address for each in brokers}
    runtime = await asks.each(addresses, "figures", asks.admin.brokers.runtime)
    progress = await asks.progress()
    groups: list[dict[str, Any]] = [
        {
            "group": name,
            "lag": each.lag,
            "oldest_ms": max(
                (asked.now_ms - row.last_ms for row in each.queues if row.lag and row.last_ms),
                default=None,
            ),
            "url": url("groups", name),
        }
        for name, each in progress.items()
        if each.lag and not is_system_group(name)
    ]
    groups.sort(key=lambda row: -row["lag"])
    await _measure(asked, groups[:_SHOWN_MAX], progress)
    letters = [name for name in await asks.topic_names() if name.startswith(DLQ_PREFIX)]
    findings = history.findings
    data = {
        "brokers": len(brokers),
        "answering": len(runtime),
        "names": len({each.name for each in brokers}),
        "clusters": sorted({each.cluster for each in brokers}),
        "into": sum(first_number(table.get("putTps", "")) for table in runtime.values()),
        "out": sum(first_number(table.get("getTransferredTps", "")) for table in runtime.values()),
        "into_spark": history.into[""].line,
        "out_spark": history.out[""].line,
        "lag": sum(each.lag for each in progress.values()),
        "lag_spark": history.lag.line,
        "oldest_ms": max((row["oldest_ms"] or 0 for row in groups), default=0),
        "behind": groups[:_SHOWN_MAX],
        "behind_more": max(0, len(groups) - _SHOWN_MAX),
        "dead_letter_groups": len(letters),
        "disks": [
            {
                "broker": f"{each.name} {each.broker_id}",
                "url": url("brokers", each.name, str(each.broker_id)),
                "used": first_number(runtime[each.address].get("commitLogDiskRatio", "")),
            }
            for each in brokers
            if each.address in runtime
        ],
        "findings": None
        if findings is None
        else [
            {"name": each.name, "value": each.value, "advice": each.advice, "why": each.why}
            for each in findings
            if each.advice
        ],
        "looked_ms": history.looked_ms,
    }
    return View("overview.html", "Overview", data)
