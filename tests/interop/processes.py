"""Processes of the official programs: free ports, log settings, the moment from which they serve.

Knows nothing of a store and nothing of mqcore.
"""

import os
import random
import signal
import socket
import subprocess
import threading
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from interop.install import OfficialError

# A start takes some three seconds alone and several times that on a busy machine.
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 60.0
# What a program prints, in its own directory.
OUTPUT_FILE = "output.txt"
# Linux gives outgoing connections ports from 32768 on; below 10000 are well-known servers.
_PORTS = (12_000, 32_000)
# Descriptors that mark ports which were given away lately: of more programs than one test has.
_MARKS_MAX = 3 * 32
_marks: deque[int] = deque()


class StartError(OfficialError):
    """The program ended before it served; `output` holds what it printed."""

    def __init__(self, version: str, output: str) -> None:
        """Keeps the whole `output` and shows its end."""
        super().__init__(f"{version} did not start:\n{output[-4000:]}")
        self.output = output


def pipe(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise OfficialError("a pipe to a Java process is missing")
    return stream


def environment() -> dict[str, str]:
    """Returns this process's environment without a name server the broker would look for."""
    return {name: value for name, value in os.environ.items() if name != "NAMESRV_ADDR"}


def free_port() -> int:
    """Returns a port p such that p-2 (fast remoting), p and p+1 (replication) are free now.

    It is below those that outgoing connections are given, so that nobody takes it while a
    program is restarted; and nobody else gets it here, or in another process of the tests, before
    the program has it.
    """
    while True:
        port = random.SystemRandom().randrange(*_PORTS)
        wanted = (port - 2, port, port + 1)
        with ExitStack() as taken:
            try:
                marks = [taken.enter_context(_mark(each)) for each in wanted]
                for each in wanted:
                    taken.enter_context(socket.create_server(("", each)))
            except OSError:
                continue
            _keep(marks)
            return port


def _keep(marks: list[socket.socket]) -> None:
    """Keeps marks beyond their sockets; the oldest go."""
    _marks.extend(os.dup(mark.fileno()) for mark in marks)
    while len(_marks) > _MARKS_MAX:
        os.close(_marks.popleft())


def _mark(port: int) -> socket.socket:
    """Marks a port as given away: by a name that the kernel knows as long as a socket has it.

    Raises:
        OSError: Somebody has it.
    """
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0mqcore-test-port-{port}")
    except OSError:
        mark.close()
        raise
    return mark


def write_log_settings(scratch: Path) -> None:
    """Lets broker and name server write one log file each into their scratch directory."""
    conf = scratch / "conf"
    conf.mkdir(exist_ok=True)
    for program in ("broker", "namesrv", "controller"):
        (conf / f"logback_{program}.xml").write_text(
            f"""<configuration>
  <appender name="F" class="ch.qos.logback.core.FileAppender">
    <file>{scratch}/{program}.log</file><encoder><pattern>%d %p %t - %m%n%ex</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="F"/></root>
</configuration>
""",
            encoding="utf-8",
        )


def wait_until_serving(
    process: subprocess.Popen[str], version: str, scratch: Path, ready: str = "boot success"
) -> None:
    """Returns when the program prints that it serves; goes on draining its output.

    What it prints is kept in `OUTPUT_FILE` of `scratch`, for whoever looks at a test that failed.

    Args:
        process: The program, its output a pipe.
        version: What to call it.
        scratch: Where its log files are.
        ready: A part of the line that it prints when it serves.

    Raises:
        StartError: It ended, or did not print it in time.
    """
    printed: list[str] = []
    decided = threading.Event()
    is_serving = threading.Event()

    def drain() -> None:
        kept = scratch / OUTPUT_FILE
        with pipe(process.stdout) as output, kept.open("a", encoding="utf-8") as file:
            for line in output:
                file.write(line)
                file.flush()
                if not is_serving.is_set():
                    printed.append(line)
                if ready in line:
                    is_serving.set()
                    decided.set()
        decided.set()

    threading.Thread(target=drain, name="output", daemon=True).start()
    decided.wait(START_TIMEOUT_S)
    if is_serving.is_set():
        return
    process.kill()
    process.wait()
    raise StartError(version, complaints(scratch, printed))


def complaints(scratch: Path, printed: list[str]) -> str:
    """Returns the warnings of a broker's log files, and what it `printed` without logback."""
    logged = [
        line
        for log in sorted(scratch.rglob("*.log"))
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        if " WARN " in line or " ERROR " in line
    ]
    return "".join([*logged, *(line for line in printed if "|-INFO" not in line)])


def ended(process: subprocess.Popen[str], how: signal.Signals) -> None:
    """Ends a program by a signal and waits for its end; nothing to do when it has ended.

    Raises:
        OfficialError: It did not end in time; it is killed then.
    """
    if process.poll() is None:
        process.send_signal(how)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise OfficialError(f"{process.args!r} did not stop") from None
