"""Apache's own `mqadmin`, many commands in one Java process.

    with mqadmin(official, "127.0.0.1:9876") as admin:
        admin.said("clusterList")
        admin.said("topicRoute", "-t", "T")

Knows nothing of mqcore.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from interop.install import OfficialError
from interop.official import Official
from interop.processes import STOP_TIMEOUT_S, environment, pipe

# Commands with a subscription to name servers: `-n` is added to them all, mqadmin knows no other.
_NAME_SERVER = "-n"


class Admin:
    """A running mqadmin."""

    def __init__(self, process: subprocess.Popen[str], namesrv: str) -> None:
        """Takes over the process."""
        self._process = process
        self._namesrv = namesrv

    def run(self, command: str, *arguments: str) -> tuple[str, str]:
        """Runs one command; returns what it printed and what it complained of.

        Raises:
            OfficialError: The process ended, as it does where arguments are wrong.
        """
        words = [command, _NAME_SERVER, self._namesrv, *arguments]
        pipe(self._process.stdin).write("\t".join(words) + "\n")
        pipe(self._process.stdin).flush()
        line = pipe(self._process.stdout).readline()
        if not line:
            raise OfficialError(f"mqadmin ended at {words}")
        answer: dict[str, str] = json.loads(line)
        return answer["said"], answer["complained"]

    def said(self, command: str, *arguments: str) -> str:
        """Runs one command that must succeed; returns what it printed.

        Raises:
            OfficialError: It failed.
        """
        said, complained = self.run(command, *arguments)
        if "Exception" in said + complained:
            raise OfficialError(f"mqadmin {command} failed: {(said + complained)[-3000:]}")
        return said

    def failure(self, command: str, *arguments: str) -> str:
        """Runs one command that must fail; returns how it did.

        Raises:
            OfficialError: It succeeded.
        """
        said, complained = self.run(command, *arguments)
        if "Exception" not in said + complained:
            raise OfficialError(f"mqadmin {command} did not fail: {said}")
        return said + complained


@contextmanager
def mqadmin(official: Official, namesrv: str) -> Iterator[Admin]:
    """Runs an mqadmin of a release for the length of the block.

    Args:
        official: The release.
        namesrv: Address of the name server.
    """
    with TemporaryDirectory(prefix="mqcore-admin-") as scratch:
        conf = Path(scratch) / "conf"
        conf.mkdir()
        # 4.9 looks for it at every command; it says nothing of its own.
        (conf / "logback_tools.xml").write_text("<configuration/>\n", encoding="utf-8")
        command = official.java("mqcore.interop.Admin", Path(scratch))
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**environment(), "ROCKETMQ_HOME": scratch},
            text=True,
            encoding="utf-8",
        ) as process:
            try:
                yield Admin(process, namesrv)
            finally:
                pipe(process.stdin).close()
                try:
                    process.wait(STOP_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
