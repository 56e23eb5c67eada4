"""A standalone cluster of Spark from the pyspark package: a master and workers, as processes.

    with standalone_cluster(tmp_path, workers=2) as cluster:
        cluster.master                      # spark://127.0.0.1:41234

Free ports only; everything that it writes goes below one directory. It ends with its `with`. Each
worker has a loopback address of its own, and is a host of its own to Spark: a speculative attempt
never runs on the host of the attempt it is to overtake.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyspark

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
PYTHON_ROOT = Path(__file__).parents[2] / "python"
# Of the master and of drivers; workers have the addresses that follow.
DRIVER_HOST = "127.0.0.1"
START_S = 120.0
END_S = 30.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster.

    Attributes:
        master: Its address, for sessions.
    """

    master: str


class Output:
    """What a process prints: kept whole, and waited for line by line."""

    def __init__(self, stream: IO[str]) -> None:
        """Reads in a thread of its own, so that the process never waits for us."""
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._is_over = False
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    @property
    def text(self) -> str:
        """Everything so far."""
        with self._changed:
            return "".join(self._lines)

    def wait_for(self, pattern: str, timeout_s: float) -> re.Match[str]:
        """Returns the first line that matches."""

        def found() -> re.Match[str] | None:
            matches = (re.search(pattern, line) for line in self._lines)
            return next(filter(None, matches), None)

        with self._changed:
            self._changed.wait_for(lambda: found() or self._is_over, timeout_s)
            match = found()
        assert match is not None, f"no line matches {pattern}:\n{self.text}"
        return match


def spark_environment(directory: Path, host: str = DRIVER_HOST) -> dict[str, str]:
    """Returns the environment of programs of a host whose tasks import mqcore as we do."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(PYTHON_ROOT), os.environ.get("PYTHONPATH", "")]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": host,
        "SPARK_LOCAL_DIRS": str(directory / "local"),
        "SPARK_WORKER_DIR": str(directory / "work"),
        "SPARK_LOG_DIR": str(directory / "logs"),
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": "256m",
    }


@contextmanager
def _running(directory: Path, host: str, program: str, *words: str) -> Iterator[Output]:
    here = ["--host", host, "--port", "0", "--webui-port", "0"]
    process = subprocess.Popen(
        [SPARK_CLASS, program, *here, *words],
        env=spark_environment(directory, host),
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Executors are children of a worker: they end with its group.
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        yield Output(process.stdout)
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextmanager
def standalone_cluster(directory: Path, *, workers: int = 2) -> Iterator[Cluster]:
    """Starts a master and workers of one core each, and ends them."""
    with ExitStack() as stack:
        output = stack.enter_context(
            _running(directory, DRIVER_HOST, "org.apache.spark.deploy.master.Master")
        )
        master = output.wait_for(r"Starting Spark master at (spark://\S+)", START_S)[1]
        for number in range(workers):
            host = f"127.0.0.{2 + number}"
            small = ["--cores", "1", "--memory", "1g", master]
            worker = stack.enter_context(
                _running(directory, host, "org.apache.spark.deploy.worker.Worker", *small)
            )
            worker.wait_for("Successfully registered with master", START_S)
        yield Cluster(master)
