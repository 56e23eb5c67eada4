"""Rows of the read schema for tests: what a source would give, made of numbers."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from mqcore.spark.pipelines.archive_schema import batch_schema

BEGIN = datetime(2026, 11, 22, 23, 0, tzinfo=UTC)


def row(number: int, **changes: object) -> dict[str, object]:
    """Returns one row; each number gives another one."""
    body = f"body {number}".encode()
    made: dict[str, object] = {
        "topic": "orders",
        "brokerName": "broker-a",
        "queueId": number % 4,
        "queueOffset": number // 4,
        "physicalOffset": number * 300,
        "msgId": f"ID{number:028d}",
        "keys": f"key-{number % 10}",
        "tags": None if number % 3 == 0 else "a",
        "messageGroup": None,
        "body": body,
        "bodyLength": len(body),
        "flag": 0,
        "sysFlag": 0,
        "reconsumeTimes": 0,
        "bornTimestamp": BEGIN + timedelta(seconds=number),
        "storeTimestamp": BEGIN + timedelta(seconds=number, milliseconds=7),
        "deliverTimestamp": None,
        "bornHost": "127.0.0.1:5000",
        "storeHost": "127.0.0.1:10911",
        "properties": [("UNIQ_KEY", f"ID{number:028d}"), ("colour", "red")],
    }
    return made | changes


def batch(rows: Iterable[dict[str, object]]) -> pa.RecordBatch:
    """Returns rows as a batch that a source gives."""
    return pa.RecordBatch.from_pylist(list(rows), schema=batch_schema())
