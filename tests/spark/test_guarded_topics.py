"""Source and sink against a name server and a broker that both ask for signatures."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import mqcore
from access_control import ROOT
from guarded_cluster import APP, GuardedCluster, guarded_cluster
from mqcore import Message

_TOPIC = "orders"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedCluster]:
    directory = tmp_path_factory.mktemp("guarded")
    entries = ("Topic:orders*", "Pub,Sub,Get"), ("Group:*", "Sub,Get,Update")
    with guarded_cluster(directory, *entries) as made:
        for topic in (_TOPIC, "orders-in", "orders-exact"):
            made.make_topic(topic, queues=2)
        yield made


def keys(cluster: GuardedCluster) -> dict[str, str]:
    return {
        "namesrv": cluster.namesrv,
        "topic": _TOPIC,
        "accessKey": APP.access_key,
        "secretKey": APP.secret_key,
    }


def test_rows_are_written_and_read_by_who_signs(
    spark: SparkSession, cluster: GuardedCluster, tmp_path: Path
) -> None:
    rows = spark.range(0, 100, 1, 2).selectExpr("cast(id as string) AS body")
    rows.write.format("mqcore").options(**keys(cluster)).mode("append").save()
    found = spark.read.format("mqcore").options(**keys(cluster)).load()
    bodies = sorted(int(row.body) for row in found.select("body").collect())
    assert bodies == [*range(100)]
    query = (
        spark.readStream.format("mqcore")
        .options(**keys(cluster), startingOffsets="earliest")
        .load()
        .writeStream.format("memory")
        .queryName("guarded")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    assert spark.sql("SELECT * FROM guarded").count() == 100


def test_the_ends_of_transactions_of_an_exact_sink_are_signed(
    spark: SparkSession, cluster: GuardedCluster, tmp_path: Path
) -> None:
    cluster.make_topic("MQCORE_SPARK_DECISIONS", queues=1)
    root = keys(cluster) | {"accessKey": ROOT.access_key, "secretKey": ROOT.secret_key}
    with mqcore.Producer(cluster.namesrv, group="in", credentials=APP) as producer:
        producer.send_batch([Message("orders-in", str(number)) for number in range(100)])
    query = (
        spark.readStream.format("mqcore")
        .options(**root | {"topic": "orders-in"}, startingOffsets="earliest")
        .load()
        .select("body")
        .writeStream.format("mqcore")
        .options(**root | {"topic": "orders-exact"}, delivery="exactly-once")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    found = spark.read.format("mqcore").options(**root | {"topic": "orders-exact"}).load()
    assert found.count() == 100


def test_who_signs_nothing_is_refused(spark: SparkSession, cluster: GuardedCluster) -> None:
    options = {"namesrv": cluster.namesrv, "topic": _TOPIC, "retries": "0"}
    with pytest.raises(Exception, match="username cannot be null"):
        spark.read.format("mqcore").options(**options).load().collect()
