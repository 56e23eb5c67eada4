"""The inside of one broker: its settings with their sources, its memory, the map of its store.

Brokers of mqcore report all of it; of official ones what they have of it is shown.
"""

from collections.abc import Mapping
from typing import Any, Final

from mqcore.admin import BrokerSetting, FilePart, Occupied
from mqcore.config.keys import Program, keys_of
from mqcore.console.asking import BrokerAt
from mqcore.console.charts import strip
from mqcore.console.views import Asked
from mqcore.model.reading import first_number

__all__ = ["memory_tab", "settings_tab", "store_tab"]

_CHANGED: Final = "changed"
_LIVE: Final = "live"
# What is shown of /proc/PID/status, with words for it.
_PROCESS: Final = (
    ("VmRSS", "Resident"),
    ("RssAnon", "Its own (anonymous)"),
    ("RssFile", "Files that it has mapped"),
    ("RssShmem", "Shared"),
    ("VmLck", "Locked"),
    ("VmSwap", "Swapped out"),
    ("VmHWM", "Resident at the most so far"),
    ("VmSize", "Address space"),
)
_LOG: Final = "commitlog"


async def settings_tab(asked: Asked, at: BrokerAt) -> dict[str, Any]:
    """Returns the settings of a broker, as far as the filter wants them."""
    asks, admin = asked.questions, asked.questions.admin
    rows = await asks.ask_if_known(
        at.address, "settings", lambda: admin.brokers.settings(at.address)
    )
    has_sources = rows is not None
    if rows is None and not asks.is_silent(at.address):
        known = await asks.ask(at.address, "settings", lambda: admin.brokers.config(at.address))
        rows = _beside_table(known or {})
    rows = rows or []
    text, only = asked.query.get("q", "").strip().lower(), asked.query.get("only", "")
    shown = [
        {
            "name": row.name,
            "value": row.value,
            "default": row.default,
            "source": row.source,
            "is_changed": not row.is_default,
            "is_hot": row.is_live,
            "is_kept": row.is_kept,
            "is_honoured": row.is_honoured,
            "meaning": row.meaning,
            "unit": row.unit,
        }
        for row in rows
        if (text in row.name.lower() or text in row.meaning.lower())
        and (only != _CHANGED or not row.is_default)
        and (only != _LIVE or row.is_live)
    ]
    return {"settings": shown, "of": len(rows), "has_sources": has_sources, "only": only}


def _beside_table(settings: Mapping[str, str]) -> list[BrokerSetting]:
    """Returns settings beside the table of keys; what it does not know has no default."""
    keys = keys_of(Program.BROKER)
    is_five = settings.get("brokerVersion", "V5").upper().startswith("V5")
    rows = []
    for name in sorted(settings):
        key, value = keys.get(name), settings[name]
        official = None if key is None else key.official_53 if is_five else key.official_49
        is_other = official is not None and value != official
        rows.append(
            BrokerSetting(
                name=name,
                value=value,
                default=official or "",
                source="other than the official default" if is_other else "default",
                unit="" if key is None else key.unit,
                # An official broker takes nearly any.
                is_live=True,
                is_kept=False,
                is_honoured=True,
                meaning="" if key is None or not key.fate.is_honoured else key.words,
            )
        )
    return rows


async def _occupied(asked: Asked, at: BrokerAt) -> Occupied | None:
    asks = asked.questions
    return await asks.ask_if_known(
        at.address, "memory", lambda: asks.admin.brokers.memory(at.address)
    )


async def memory_tab(asked: Asked, at: BrokerAt) -> dict[str, Any]:
    """Returns what a broker occupies, and what holds it."""
    found = await _occupied(asked, at)
    if found is None:
        return {"memory": None}
    anonymous = found.process.get("RssAnon", 0)
    owners = [
        {
            "owner": each.owner,
            "count": each.count,
            "bytes": each.bytes,
            "is_measured": each.is_measured,
            "parts": [part for part in found.held if part.part_of == each.owner and part.count],
        }
        for each in found.held
        if not each.part_of
    ]
    files = sum(part.resident for part in found.page_cache)
    return {
        "memory": {
            "pid": found.pid,
            "store": found.store,
            "threads": found.threads,
            "descriptors": found.descriptors,
            "faults": found.faults,
            "limit": found.limit,
            "process": [
                {"name": name, "words": words, "bytes": found.process[name]}
                for name, words in _PROCESS
                if name in found.process
            ],
            "resident": found.process.get("VmRSS", 0),
            "anonymous": anonymous,
            "file": found.process.get("RssFile", 0),
            "owners": [each for each in owners if each["bytes"]],
            "idle_owners": [str(each["owner"]) for each in owners if not each["bytes"]],
            "accounted": found.accounted_bytes,
            "rest": found.rest_bytes,
            "maps": [*found.heap, found.libraries, *found.store_files],
            "machine": [{"name": name, "bytes": size} for name, size in found.machine.items()],
            "machine_total": found.machine.get("MemTotal", 0),
            "cached": files,
        }
    }


async def store_tab(asked: Asked, at: BrokerAt, table: Mapping[str, str]) -> dict[str, Any]:
    """Returns what is reported of a store, with the map of its files where it is reported."""
    asks, admin = asked.questions, asked.questions.admin
    topics = [
        by_broker[at.name] for by_broker in (await asks.topics()).values() if at.name in by_broker
    ]
    status = await asks.ask(
        at.address, "replication", lambda: admin.brokers.replication(at.address)
    )
    found = await _occupied(asked, at)
    low, high = (first_number(table.get(f"commitLog{e}Offset", "")) for e in ("Min", "Max"))
    store = {
        "low": int(low),
        "high": int(high),
        "bytes": int(high - low),
        "capacity": table.get("commitLogDirCapacity", ""),
        "used": first_number(table.get("commitLogDiskRatio", "")),
        "queues_used": first_number(table.get("consumeQueueDiskRatio", "")),
        "flush_behind": table.get("remainHowManyDataToFlush"),
        "dispatch_behind": table.get("dispatchBehindBytes"),
        "oldest_ms": table.get("earliestMessageTimeStamp"),
        "topics": len(topics),
        "queues": sum(each.queues for each in topics),
        "replicas": [] if status is None else status.replicas,
        "master_address": "" if status is None else status.master_address,
    }
    return {"store": store, "map": None if found is None else _map(found)}


def _map(found: Occupied) -> dict[str, Any]:
    """Returns the files of a store with what of them is in memory; the newest log file first."""
    mapped = {each.name: each for each in found.store_files}
    logs = [each for each in found.page_cache if each.strip]
    return {
        "logs": [_log_row(each, mapped) for each in reversed(logs)],
        "parts": [each for each in found.page_cache if not each.strip],
        "length": sum(each.length for each in found.page_cache),
        "on_disk": sum(each.on_disk for each in found.page_cache),
        "resident": sum(each.resident for each in found.page_cache),
    }


def _log_row(part: FilePart, mapped: Mapping[str, Any]) -> dict[str, Any]:
    own = mapped.get(part.part)
    return {
        "name": part.part.removeprefix(f"{_LOG}/"),
        "length": part.length,
        "on_disk": part.on_disk,
        "resident": part.resident,
        "share": part.resident / part.length if part.length else 0.0,
        "mapped": own.mapped if own else 0,
        "locked": own.locked if own else 0,
        "pieces": strip(part.strip),
    }
