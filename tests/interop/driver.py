"""Drives unmodified official clients and mqadmin in one JVM (java/mqcore/interop/Drive.java).

    with driving("5.3.3") as driver:
        driver.call("producer", "p", group="PG", namesrv="127.0.0.1:9876")
        driver.call("send", "p", topic="T", body="hello", count=10)    # one item each
        driver.call("push", "c", group="CG", namesrv=..., topic="T")
        driver.call("got", "c", count=10)                           # one item per delivery
        driver.mqadmin("topicList", "-n", namesrv)                     # what it printed
        driver.close("p", "c")

The calls are those that Drive.java lists. Every wait has its deadline in the JVM, so that a case
that fails fails with what was seen. Knows nothing of mqcore and starts no server.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from interop.install import OfficialError
from interop.official import Official, official_release
from interop.processes import environment

Item = dict[str, Any]

CLOSE_TIMEOUT_S = 60.0
# A wait inside the JVM: far beyond what a busy machine needs, far below the limit of a test.
WAIT_MS = 90_000

# mqadmin of 4.9 wants settings of its log; 5.x brings them along.
_LOGBACK = """<configuration>
  <statusListener class="ch.qos.logback.core.status.NopStatusListener"/>
</configuration>
"""


def write_tools_settings(home: Path) -> None:
    """Writes what mqadmin wants of its ROCKETMQ_HOME."""
    (home / "conf").mkdir(parents=True, exist_ok=True)
    (home / "conf" / "logback_tools.xml").write_text(_LOGBACK, encoding="utf-8")


class Driver:
    """One JVM with the official clients of one release."""

    def __init__(
        self, official: Official, home: Path, properties: Mapping[str, str] | None = None
    ) -> None:
        """Starts it.

        Args:
            official: The release.
            home: Where the clients keep logs and the offsets of broadcasting.
            properties: Of the JVM.
        """
        self.version = official.version
        write_tools_settings(home)
        self._errors = home / "stderr.txt"
        with self._errors.open("w", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                official.java("mqcore.interop.Drive", home, properties=properties),
                env={**environment(), "ROCKETMQ_HOME": str(home)},
                # mqadmin leaves folders in its working directory.
                cwd=home,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
            )

    def call(self, verb: str, name: str = "-", **fields: object) -> list[Item]:
        """Makes one call and returns the items of its answer.

        Raises:
            OfficialError: The client refused it, with the Java trace.
        """
        return self._put([verb, name, *(f"{key}={value}" for key, value in fields.items())])

    def got(self, name: str, count: int, timeout_ms: int = WAIT_MS) -> list[Item]:
        """Waits until a consumer got `count` different messages; returns every delivery so far."""
        return self.call("got", name, count=count, timeout=timeout_ms)

    def mqadmin(self, *line: str, until: str | None = None) -> str:
        """Runs one command of mqadmin and returns what it printed.

        Args:
            line: Command and arguments.
            until: For a command that never ends: what it prints before it is cut.

        Raises:
            OfficialError: It did not end.
        """
        limits = [f"timeout={WAIT_MS}", *([f"until={until}"] if until else [])]
        (item,) = self._put(["mqadmin", "-", *limits, *line])
        if not item["ended"]:
            raise OfficialError(f"mqadmin {' '.join(line)} did not end: {item['printed']}")
        printed: str = item["printed"]
        return printed

    def close(self, *names: str) -> None:
        """Shuts producers and consumers down, in this order; who is unknown is left alone."""
        for name in names:
            self.call("close", name)

    def end(self) -> None:
        """Ends the JVM."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                # Of a JVM that ended by itself the pipe is broken.
                with suppress(BrokenPipeError):
                    pipe.close()
        try:
            self._process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _put(self, words: list[str]) -> list[Item]:
        pipes = self._process.stdin, self._process.stdout
        if pipes[0] is None or pipes[1] is None:
            raise OfficialError("a pipe to the driving JVM is missing")
        pipes[0].write("\t".join(words) + "\n")
        pipes[0].flush()
        items: list[Item] = []
        for line in pipes[1]:
            item: Item = json.loads(line)
            if "refused" in item:
                raise OfficialError(f"{' '.join(words)}: {item['refused']}")
            if item.get("done") is True:
                return items
            items.append(item)
        errors = self._errors.read_text(encoding="utf-8", errors="replace")
        raise OfficialError(f"the driving JVM ended at {words}:\n{errors[-4000:]}")


@contextmanager
def driving(
    version: str, properties: Mapping[str, str] | None = None, *, credentials: str = ""
) -> Iterator[Driver]:
    """Starts a JVM with the clients of a release and ends it.

    Args:
        version: The release.
        properties: System properties of the JVM.
        credentials: The content of `tools.yml`, which mqadmin signs with; empty for none.
    """
    with tempfile.TemporaryDirectory(prefix="mqcore-drive-", ignore_cleanup_errors=True) as home:
        if credentials:
            conf = Path(home) / "conf"
            conf.mkdir()
            (conf / "tools.yml").write_text(credentials, encoding="utf-8")
        driver = Driver(official_release(version), Path(home), properties)
        try:
            yield driver
        finally:
            driver.end()
