"""Dead letters: groups that have some, the letters of a group; sent again, written to a file."""

import csv
import io
import json
from typing import Any, Final

from mqcore.admin import DeadLetter
from mqcore.console.bodies import summary
from mqcore.console.users import Role
from mqcore.console.views import Asked, Change, Done, InputError, Plan, View, command, url
from mqcore.model.topics import DLQ_PREFIX

__all__ = ["CHANGES", "dead_letters", "export", "of_group"]

_SHOWN_MAX: Final = 100
_EXPORTED_MAX: Final = 10_000
_RESENT_MAX: Final = 1_000
# Reading and sending thousands takes longer than a page.
_LONG_S: Final = 60.0
_COLUMNS: Final = (
    *("id", "offset_id", "origin_topic", "broker", "queue", "offset", "dead_ms", "tries"),
    *("tags", "keys", "body"),
)


async def dead_letters(asked: Asked) -> View:
    """Returns the groups with dead letters, and how many there are."""
    asks = asked.questions
    deciders = await asks.deciders()
    tables = {
        name: each for name, each in (await asks.topics()).items() if name.startswith(DLQ_PREFIX)
    }
    addresses = {
        (name, broker): deciders[broker]
        for name, configs in tables.items()
        for broker in configs
        if broker in deciders
    }
    stats = await asks.each(
        addresses, "dead letters", lambda key: asks.admin.topics.stats_at(addresses[key], key[0])
    )
    rows: list[dict[str, Any]] = []
    for name, configs in tables.items():
        parts = [stats[name, broker] for broker in configs if (name, broker) in stats]
        group = name.removeprefix(DLQ_PREFIX)
        rows.append(
            {
                "group": group,
                "url": url("dead-letters", group),
                "count": sum(row.count for part in parts for row in part.queues) if parts else None,
                "last_ms": max(
                    (r.last_update_ms for part in parts for r in part.queues), default=0
                ),
                "put_per_s": sum(part.put_per_s for part in parts) if parts else None,
            }
        )
    rows.sort(key=lambda row: -(row["count"] or 0))
    return View("dead_letters.html", "Dead letters", {"groups": rows})


async def of_group(asked: Asked) -> View:
    """Returns the oldest dead letters of a group."""
    name, asks = asked.parts["group"], asked.questions
    letters = await asks.ask(
        "brokers",
        "dead letters",
        lambda: asks.admin.dead_letters.of_group(name, limit=_SHOWN_MAX + 1),
        deadline_s=3.0,
    )
    rows = [_row(each) for each in (letters or [])[:_SHOWN_MAX]]
    data = {
        "group": name,
        "letters": rows,
        "is_cut": len(letters or []) > _SHOWN_MAX,
        "shown_max": _SHOWN_MAX,
        "exported_max": _EXPORTED_MAX,
    }
    return View("dead_letters_group.html", f"Dead letters of {name}", data)


def _row(letter: DeadLetter) -> dict[str, Any]:
    row = summary(letter.message, letter.queue.broker_name)
    return row | {
        "id": letter.message_id,
        "origin_topic": letter.origin_topic or "",
        "tries": letter.message.reconsume_times,
        "dead_ms": letter.message.store_timestamp_ms,
    }


async def export(asked: Asked) -> View:
    """Returns the dead letters of a group as a file: NDJSON, or CSV."""
    name, asks = asked.parts["group"], asked.questions
    form = "csv" if asked.query.get("format") == "csv" else "ndjson"
    letters = await asks.ask(
        "brokers",
        "dead letters",
        lambda: asks.admin.dead_letters.of_group(name, limit=_EXPORTED_MAX),
        deadline_s=_LONG_S,
    )
    if letters is None:
        raise InputError(asks.faults[-1].text)
    rows = [
        {**_row(each), "body": each.message.stored_body.decode("utf-8", "backslashreplace")}
        for each in letters
    ]
    kept = [{column: row.get(column, "") for column in _COLUMNS} for row in rows]
    text = _csv(kept) if form == "csv" else "".join(f"{json.dumps(row)}\n" for row in kept)
    # A file that is not whole is named so.
    part = f"-oldest-{_EXPORTED_MAX}" if len(rows) >= _EXPORTED_MAX else ""
    return View("", "", {"bytes": text.encode()}, download=f"dead-letters-{name}{part}.{form}")


def _csv(rows: list[dict[str, Any]]) -> str:
    """Returns rows as CSV; a cell that a spreadsheet would run as a formula gets a quote before."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(_COLUMNS)
    for row in rows:
        cells = [str(row[column]) for column in _COLUMNS]
        writer.writerow(
            f"'{cell}" if cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell for cell in cells
        )
    return file.getvalue()


def _words(asked: Asked) -> list[str]:
    words = ["dlq", "resend", asked.parts["group"]]
    for each in asked.chosen:
        words += ["--id", each]
    if asked.form.get("only_group") == "yes":
        words.append("--only-group")
    return [*words, "-y"]


async def _plan_resend(asked: Asked) -> Plan:
    name, admin = asked.parts["group"], asked.questions.admin
    results = await admin.dead_letters.resend_all(
        name, ids=asked.chosen, limit=_RESENT_MAX, dry_run=True
    )
    if not results:
        raise InputError("there is nothing to send again")
    to_group = asked.form.get("only_group") == "yes"
    rows = tuple(
        (
            each.letter.message_id,
            each.letter.origin_topic or "not known",
            f"group {name} alone" if to_group else "every group of the topic",
        )
        for each in results
    )
    return Plan(
        f"Send {len(results)} dead letters of {name} again",
        "Send them",
        ("message", "topic", "to"),
        rows,
        command(asked, _words(asked)),
        url("dead-letters", name),
        warning="The dead letters stay: who sends them twice, has them twice."
        + (f" At most {_RESENT_MAX} at once." if len(results) == _RESENT_MAX else ""),
    )


async def _resend(asked: Asked) -> Done:
    name, admin = asked.parts["group"], asked.questions.admin
    results = await admin.dead_letters.resend_all(
        name,
        ids=asked.chosen,
        limit=_RESENT_MAX,
        only_group=asked.form.get("only_group") == "yes",
    )
    failed = [each for each in results if each.error is not None]
    text = f"{len(results) - len(failed)} of {len(results)} dead letters were sent again"
    for each in failed[:5]:
        text += f"; {each.letter.message_id}: {each.error.message if each.error else ''}"
    return Done(text, url("dead-letters", name))


CHANGES: Final = (
    Change(
        "/dead-letters/{group:path}/resend",
        "dead letters resend",
        Role.OPERATOR,
        _plan_resend,
        _resend,
    ),
)
