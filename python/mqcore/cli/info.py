"""`mqcore store info`: what a store directory holds and occupies."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from mqcore.broker.damage_reports import damage_reports
from mqcore.cli.damage import report_fields
from mqcore.cli.options import settings_of, store_directory
from mqcore.cli.tables import console, print_pairs, print_table, size_text, time_text
from mqcore.native import Inspection, Message, fields_of

_CHECKPOINT_FIELDS = (
    "physic_timestamp",
    "logics_timestamp",
    "index_timestamp",
    "master_flushed_offset",
    "confirm_offset",
)
_SIZES = ("mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue")


def collected(inspection: Inspection, directory: Path) -> dict[str, Any]:
    """Returns everything the command prints, by the keys of its JSON."""
    start, files_end = inspection.log_range.start, inspection.log_range.end
    first = inspection.message_at(start)
    last, end = inspection.last_message()
    settings = inspection.settings
    status = {"commitLogMinOffset": str(start), "commitLogMaxOffset": str(end)}
    if first is not None:
        status["earliestMessageTimeStamp"] = str(first.store_timestamp_ms)
    fields = inspection.checkpoint()
    return {
        "broker_status": status,
        "has_abort": inspection.has_abort(),
        "files_end": files_end,
        "settings": {key: int(settings[key]) for key in _SIZES},
        "first_record": None if first is None else _summary(first),
        "last_record": None if last is None else _summary(last),
        "checkpoint": None
        if fields is None
        else dict(zip(_CHECKPOINT_FIELDS, fields, strict=False)),
        "queues": [_queue(inspection, queue) for queue in inspection.queues()],
        "index": [fields_of(header) for header in inspection.index_headers()],
        "files": [fields_of(file) for file in inspection.files()],
        "damage_reports": [report_fields(report) for report in damage_reports(directory)],
    }


def _summary(message: Message) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "physical_offset": message.physical_offset,
        "store_size": message.store_size_bytes,
        "store_timestamp": message.store_timestamp_ms,
        "msg_id": message.message_id,
    }


def _queue(inspection: Inspection, queue: Any) -> dict[str, Any]:
    row = {
        "topic": queue.topic,
        "queue_id": queue.queue_id,
        "min_offset": queue.min_offset,
        "max_offset": queue.max_offset,
    }
    if queue.min_physical_offset is not None:
        first = inspection.message_at(queue.min_physical_offset)
        if first is not None:
            row["earliest_store_timestamp"] = first.store_timestamp_ms
    return row


@click.command()
@store_directory
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
def info(
    directory: Path, config_file: Path | None, assignments: tuple[str, ...], as_json: bool
) -> None:
    """Print what DIR holds: log, queues, index, checkpoint, and what they occupy."""
    inspection = Inspection(directory, config=settings_of(config_file, assignments))
    facts = collected(inspection, directory)
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False, indent=1))
    else:
        print_facts(facts)


def print_facts(facts: dict[str, Any]) -> None:
    """Prints the facts for people."""
    status = facts["broker_status"]
    start, end = int(status["commitLogMinOffset"]), int(status["commitLogMaxOffset"])
    pairs: dict[str, object] = {
        "log": f"from {start:,} to {end:,} (max physical offset)",
        "ending": "a broker runs on it, or was killed" if facts["has_abort"] else "closed cleanly",
    }
    for name in ("first_record", "last_record"):
        record = facts[name]
        if record is not None:
            pairs[name.replace("_", " ")] = (
                f"{record['topic']}, queue {record['queue_id']}, offset "
                f"{record['queue_offset']:,}, at {record['physical_offset']:,}, "
                f"{time_text(record['store_timestamp'])}"
            )
    for name, value in (facts["checkpoint"] or {}).items():
        pairs[f"checkpoint {name}"] = time_text(value) if name.endswith("timestamp") else value
    print_pairs(pairs | facts["settings"])
    for report in facts["damage_reports"]:
        console().print(
            f"damage, not acknowledged: {report['kind']} at {report['physical_offset']:,}, "
            f"{report['bytes']:,} bytes, {report['whole_records']:,} whole records",
            style="red",
            soft_wrap=True,
        )
    print_table(
        ["topic", "queue", "first", "next", "messages"],
        [
            [
                row["topic"],
                row["queue_id"],
                row["min_offset"],
                row["max_offset"],
                row["max_offset"] - row["min_offset"],
            ]
            for row in facts["queues"]
        ],
        empty="it has no queue",
    )
    print_table(
        ["part", "files", "length", "on disk", "in memory"], list(_occupied(facts["files"]))
    )


def _occupied(files: list[dict[str, Any]]) -> Iterator[list[object]]:
    """Yields what each part of the store occupies; log files one by one."""
    parts: dict[str, list[dict[str, Any]]] = {}
    for file in files:
        top = file["path"].split("/", 1)[0]
        parts.setdefault(file["path"] if top == "commitlog" else top, []).append(file)
    for part, members in parts.items():
        sums = [
            sum(member[key] or 0 for member in members)
            for key in ("len_bytes", "allocated_bytes", "resident_bytes")
        ]
        yield [part, len(members), *map(size_text, sums)]
