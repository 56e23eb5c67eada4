"""What a cluster has, as small DataFrames for notebooks: its topics, and how far a group has read.

`mqcore.spark.topics(spark)` and `mqcore.spark.lag(spark, group)`. The name servers come from the
argument, or from the session's setting `spark.mqcore.namesrv`.
"""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from pyspark.sql import DataFrame, SparkSession

from mqcore.admin import Admin, GroupProgress, TopicStats
from mqcore.errors import MQError
from mqcore.remoting.signing import Credentials
from mqcore.spark.errors import SparkError
from mqcore.spark.topic_source.resolution import is_of_users

__all__ = ["NAMESRV_SETTING", "lag", "topics"]

NAMESRV_SETTING: Final = "spark.mqcore.namesrv"
_TOPICS_DDL: Final = (
    "topic string, brokers int, queues int, messages bigint, lastStoreTimestamp timestamp, "
    "putPerSecond double"
)
_LAG_DDL: Final = (
    "topic string, brokerName string, queueId int, brokerOffset bigint, groupOffset bigint, "
    "lag bigint, lastReadTimestamp timestamp"
)
_MS_PER_S: Final = 1000

_Result = TypeVar("_Result")


def topics(
    spark: SparkSession,
    *,
    namesrv: str | None = None,
    credentials: Credentials | None = None,
    system: bool = False,
) -> DataFrame:
    """Returns a row per topic: how many queues and messages, and when the last one came.

    Args:
        spark: The session.
        namesrv: Name servers; the setting `spark.mqcore.namesrv` when not given.
        credentials: Who we are to servers that ask.
        system: With the servers' own topics and those of retries and dead letters.

    Raises:
        SparkError: No name servers are known.
        MQError: They, or a broker, do not answer.
    """
    asked = _namesrv(spark, namesrv)
    rows = _run(_topic_rows(asked, credentials, system=system))
    return spark.createDataFrame(rows, _TOPICS_DDL)


def lag(
    spark: SparkSession,
    group: str,
    *,
    topic: str | None = None,
    namesrv: str | None = None,
    credentials: Credentials | None = None,
) -> DataFrame:
    """Returns a row per queue that a group reads: where it is, and how much is left.

    A group that never committed has no row.

    Args:
        spark: The session.
        group: Which.
        topic: Only this topic.
        namesrv: Name servers; the setting `spark.mqcore.namesrv` when not given.
        credentials: Who we are to servers that ask.

    Raises:
        SparkError: No name servers are known.
        MQError: They, or a broker, do not answer.
    """
    asked = _namesrv(spark, namesrv)
    progress = _run(_progress(asked, credentials, group, topic))
    rows = [
        (
            row.queue.topic,
            row.queue.broker_name,
            row.queue.queue_id,
            row.broker_offset,
            row.group_offset,
            row.lag,
            _moment(row.last_ms),
        )
        for row in progress.queues
    ]
    return spark.createDataFrame(rows, _LAG_DDL)


async def _topic_rows(
    namesrv: str, credentials: Credentials | None, *, system: bool
) -> list[tuple[Any, ...]]:
    async with Admin(namesrv, credentials=credentials) as admin:
        names = await admin.topics.names()
        if not system:
            hidden = await admin.topics.of_system()
            names = [name for name in names if is_of_users(name) and name not in hidden]
        found = []
        for name in names:
            try:
                found.append(_topic_row(await admin.topics.stats(name)))
            except MQError as error:
                raise SparkError(f"topic {name} cannot be looked at: {error}") from error
        return found


def _topic_row(stats: TopicStats) -> tuple[Any, ...]:
    return (
        stats.topic,
        len({row.queue.broker_name for row in stats.queues}),
        len(stats.queues),
        sum(row.count for row in stats.queues),
        _moment(max((row.last_update_ms for row in stats.queues), default=0)),
        stats.put_per_s,
    )


async def _progress(
    namesrv: str, credentials: Credentials | None, group: str, topic: str | None
) -> GroupProgress:
    async with Admin(namesrv, credentials=credentials) as admin:
        return await admin.groups.progress(group, topic=topic, must_exist=False)


def _namesrv(spark: SparkSession, given: str | None) -> str:
    found = given or spark.conf.get(NAMESRV_SETTING, "")
    if not found:
        raise SparkError(
            f"where are the name servers? Pass namesrv=, or set {NAMESRV_SETTING} in the session"
        )
    return found


def _moment(ms: int) -> datetime | None:
    return datetime.fromtimestamp(ms / _MS_PER_S, UTC) if ms > 0 else None


def _run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Runs a coroutine in a thread of its own: a notebook runs an event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
