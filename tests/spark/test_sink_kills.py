"""The sink when its driver or executors are killed: no row is lost, repeats are reported."""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from mqcore.native import ReceivedMessage
from mqcore.testing import Broker
from spark.cluster import spark_environment, standalone_cluster
from spark.sink_query import STEPS, Arguments

HERE = Path(__file__).parent
ROWS_OF_FILE = 1_000
FILES = 6
ROWS_OF_BATCH = 2 * ROWS_OF_FILE
PROGRAM_S = 240.0


def run(program: str, directory: Path, argument: Path) -> subprocess.CompletedProcess[str]:
    """Runs a program of this folder to its end."""
    environment = spark_environment(directory)
    paths = [str(directory), str(HERE.parent), environment["PYTHONPATH"]]
    return subprocess.run(
        [sys.executable, "-m", program, argument],
        env={**environment, "PYTHONPATH": os.pathsep.join(paths)},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )


def prepared(directory: Path, namesrv: str, topic: str, master: str = "local[2]") -> Arguments:
    """Writes the files of the query; returns the arguments of its program."""
    source = directory / "source"
    source.mkdir()
    for number in range(FILES):
        rows = range(number * ROWS_OF_FILE, (number + 1) * ROWS_OF_FILE)
        text = "\n".join(json.dumps({"n": row}) for row in rows)
        path = source / f"{number}.json"
        path.write_text(text, "utf-8")
        # The source takes files by their age.
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    return Arguments(
        namesrv, topic, str(source), str(directory / "checkpoint"), str(directory), master
    )


def left_of(messages: list[ReceivedMessage]) -> Counter[int]:
    """Returns what `drop_repeats` leaves, by its rule written down once more in plain Python."""
    ends: dict[str, tuple[int, str]] = {}
    for message in messages:
        part, _, attempt = message.properties["SPARK_TASK"].rpartition("/")
        rows = int(message.properties.get("SPARK_ROWS", -1))
        if rows >= 0:
            ends[part] = max(ends.get(part, (-1, "")), (rows, attempt))
    kept = {
        (message.properties["SPARK_TASK"], message.properties["SPARK_ROW"]): int(message.body)
        for message in messages
        if ends.get(message.properties["SPARK_TASK"].rpartition("/")[0], (0, ""))[1]
        == message.properties["SPARK_TASK"].rpartition("/")[2]
    }
    return Counter(kept.values())


@pytest.mark.parametrize(
    "step",
    [step if step == "task" else pytest.param(step, marks=pytest.mark.matrix) for step in STEPS],
)
def test_a_driver_that_is_killed_goes_on_from_its_checkpoint(
    broker: Broker, tmp_path: Path, step: str
) -> None:
    topic = f"killed-{step.replace(' ', '-')}"
    broker.ensure_topic(topic)
    arguments = prepared(tmp_path, broker.namesrv, topic)
    file = tmp_path / "arguments.json"
    killed = run("spark.sink_query", tmp_path, replace(arguments, step=step).write(file))
    assert killed.returncode == -9, killed.stderr[-4_000:]
    before = Counter(int(message.body) for message in broker.messages(topic))
    assert before, "the first batch was written"
    if step == "task":
        assert len(before) < 2 * ROWS_OF_BATCH, "the second batch was not written whole"
    ended = run("spark.sink_query", tmp_path, arguments.write(file))
    assert ended.returncode == 0, ended.stderr[-4_000:]
    found = broker.messages(topic)
    rows = Counter(int(message.body) for message in found)
    every = set(range(FILES * ROWS_OF_FILE))
    assert set(rows) == every, "no row is missing"
    repeated = {row for row, count in rows.items() if count > 1}
    # What Spark had not noted as done is done again, and nothing else.
    assert repeated <= set(range(ROWS_OF_BATCH, 2 * ROWS_OF_BATCH))
    if step in ("before commit", "after commit"):
        assert len(repeated) == ROWS_OF_BATCH
    if step == "after log":
        assert not repeated
    assert left_of(found) == Counter(every)


KILL_EXECUTOR = '''
import json, os, signal, sys
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql.functions import udf
from pyspark.sql.types import StringType

import mqcore.spark

told = json.loads(Path(sys.argv[1]).read_text("utf-8"))
spark = mqcore.spark.session(
    "executors",
    master=told["master"],
    config={
        "spark.ui.enabled": False,
        "spark.executor.memory": "512m",
        "spark.executor.cores": 1,
        "spark.sql.warehouse.dir": told["directory"] + "/warehouse",
        "spark.sql.execution.arrow.maxRecordsPerBatch": 100,
    },
)
flag = Path(told["directory"]) / "killed"


def deadly(body):
    """Kills the executor of a task near its end, once."""
    if int(body) == 29_900 and not flag.exists():
        flag.touch()
        daemon = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(daemon, signal.SIGKILL)
    return body


# Long before the function, so that it cannot run far ahead of what is sent.
rows = spark.range(0, 30_000, 1, 2).selectExpr("lpad(cast(id AS string), 1000, '0') AS body")
rows.select(udf(deadly, StringType())("body").alias("body")).write.format("mqcore").options(
    namesrv=told["namesrv"], topic=told["topic"], batchBytes="8k"
).mode("append").save()
# What was written is read and scanned on the same cluster.
read = (
    spark.read.format("mqcore")
    .options(namesrv=told["namesrv"], subscribe=told["topic"], includeProperties="true")
    .load()
)
store = spark.read.format("mqcore-store").option("topics", told["topic"]).load(told["source"])
answer = {
    "read": read.count(),
    "left": mqcore.spark.drop_repeats(read).select("body").distinct().count(),
    "scanned": store.count(),
}
Path(told["checkpoint"]).write_text(json.dumps(answer), "utf-8")
spark.stop()
'''


@pytest.mark.matrix
def test_a_cluster_writes_reads_and_scans_through_the_death_of_an_executor(
    broker: Broker, tmp_path: Path
) -> None:
    broker.ensure_topic("cluster")
    program = tmp_path / "executors.py"
    program.write_text(KILL_EXECUTOR, "utf-8")
    with standalone_cluster(tmp_path) as cluster:
        answer = tmp_path / "answer.json"
        arguments = Arguments(
            broker.namesrv,
            "cluster",
            source=str(broker.directory),
            checkpoint=str(answer),
            directory=str(tmp_path),
            master=cluster.master,
        )
        ended = run("executors", tmp_path, arguments.write(tmp_path / "arguments.json"))
    assert ended.returncode == 0, ended.stderr[-4_000:]
    assert (tmp_path / "killed").exists()
    found = broker.messages("cluster")
    rows = Counter(int(message.body) for message in found)
    assert set(rows) == set(range(30_000)), "no row is missing"
    assert rows.total() > 30_000, "the executor had sent some rows when it died"
    assert left_of(found) == Counter(range(30_000))
    counted = json.loads(answer.read_text("utf-8"))
    assert counted == {"read": len(found), "left": 30_000, "scanned": len(found)}
