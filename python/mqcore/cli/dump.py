"""`mqcore store dump`: every message of the log as one line of JSON."""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from mqcore.cli.options import settings_of, store_directory
from mqcore.cli.times import TIME
from mqcore.native import Inspection, Message

# The compression bit of the system flag: the stored body is not the body.
_COMPRESSED = 0x1


@dataclass(frozen=True, slots=True)
class Filter:
    """Which messages are wanted.

    Attributes:
        topic: Only of this topic.
        queue_id: Only of queues of this number.
        from_ms: Stored at or after this time.
        to_ms: Stored at or before this time.
    """

    topic: str | None
    queue_id: int | None
    from_ms: int | None
    to_ms: int | None

    def takes_all(self) -> bool:
        """Returns whether nothing is left out."""
        return self == Filter(None, None, None, None)

    def takes(self, message: Message) -> bool:
        """Returns whether a message is wanted."""
        if self.queue_id is not None and message.queue_id != self.queue_id:
            return False
        if self.topic is not None and message.topic != self.topic:
            return False
        stored_ms = message.store_timestamp_ms
        is_late_enough = self.from_ms is None or stored_ms >= self.from_ms
        return is_late_enough and (self.to_ms is None or stored_ms <= self.to_ms)


def line_of(message: Message) -> dict[str, Any]:
    """Returns a message as the fields of a line, in their order."""
    properties = message.properties
    stored = message.stored_body
    body = message.body if message.sys_flag & _COMPRESSED else stored
    line: dict[str, Any] = {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "physical_offset": message.physical_offset,
        "store_size": message.store_size_bytes,
        "magic": f"{message.magic:08x}",
        "sys_flag": message.sys_flag,
        "flag": message.flag,
        "born_timestamp": message.born_timestamp_ms,
        "store_timestamp": message.store_timestamp_ms,
        "born_host": message.born_host,
        "store_host": message.store_host,
        "reconsume_times": message.reconsume_times,
        "prepared_transaction_offset": message.prepared_transaction_offset,
        "body_crc": message.body_crc,
        "stored_body_length": len(stored),
        "body_length": len(body),
        "body_sha256": hashlib.sha256(body).hexdigest(),
    }
    if body is not stored:
        line["stored_body_sha256"] = hashlib.sha256(stored).hexdigest()
    line["tags"] = properties.get("TAGS")
    line["keys"] = properties.get("KEYS")
    line["properties"] = dict(sorted(properties.items()))
    line["msg_id"] = message.message_id
    line["uniq_key"] = properties.get("UNIQ_KEY")
    return line


def lines_of(
    inspection: Inspection, wanted: Filter, from_offset: int | None, to_offset: int | None
) -> Iterator[dict[str, Any]]:
    """Yields the lines of a store in log order; ends of files only where nothing is left out."""
    topics = None if wanted.topic is None else [wanted.topic]
    for batch in inspection.scan(from_offset, to_offset, topics=topics):
        blanks = batch.blanks if wanted.takes_all() else []
        yield from (line_of(message) for message in batch if wanted.takes(message))
        # A blank ends its file, and a batch never goes beyond a file.
        for blank in blanks:
            offset, len_bytes = blank.physical_offset, blank.len_bytes
            yield {"blank": True, "physical_offset": offset, "store_size": len_bytes}


@click.command()
@store_directory
@click.option("-t", "--topic", metavar="NAME", help="Only messages of this topic.")
@click.option(
    "--queue", "queue_id", metavar="ID", type=click.IntRange(0), help="Only of queues of this id."
)
@click.option("--since", "begin_ms", type=TIME, help="Stored not before: 1h, 2024-05-01.")
@click.option("--until", "end_ms", type=TIME, help="Stored not behind.")
@click.option("--from-offset", type=int, help="From this physical offset: a record's first byte.")
@click.option("--to-offset", type=int, help="Records that end at or before this physical offset.")
def dump(
    directory: Path,
    config_file: Path | None,
    assignments: tuple[str, ...],
    topic: str | None,
    queue_id: int | None,
    begin_ms: int | None,
    end_ms: int | None,
    from_offset: int | None,
    to_offset: int | None,
) -> None:
    """Print every message of DIR in the order of the log, one line of JSON each.

    Bodies are shown by length and SHA-256. Ends of files are lines with "blank": true.
    """
    inspection = Inspection(directory, config=settings_of(config_file, assignments))
    wanted = Filter(topic, queue_id, begin_ms, end_ms)
    write = sys.stdout.write
    try:
        for line in lines_of(inspection, wanted, from_offset, to_offset):
            write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader had enough (`| head`). What is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
