"""A program of mqcore that a demonstration starts, kills and stops; not what it is for."""

import json
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

# Far beyond what a clean stop takes.
_STOP_S = 60.0


@dataclass
class Process:
    """A program of the demonstration.

    Attributes:
        arguments: Its command line behind `mqcore`.
        log: Where its errors go.
        ports: Where it listens, after its start.
    """

    arguments: list[str]
    log: Path
    ports: dict[str, int] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and waits until it serves; ends the demonstration where it does not."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        ports = self.log.with_suffix(".ports")
        ports.unlink(missing_ok=True)
        command = [sys.executable, "-m", "mqcore.cli.main", *self.arguments]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--port-file", str(ports)],
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        ready = self._process.stdout.readline() if self._process.stdout else b""
        if b"ready" not in ready:
            sys.exit(f"{self.arguments[0]} did not start; its log is {self.log}")
        self.ports = json.loads(ports.read_text(encoding="utf-8"))

    def signal(self, sign: signal.Signals) -> None:
        """Sends it a signal, where it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(sign)

    def kill(self) -> None:
        """Kills it with -9."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def stop(self) -> None:
        """Stops it as an operator would."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            if self._process.wait(timeout=_STOP_S) != 0:
                sys.exit(f"{self.arguments[0]} did not stop cleanly; its log is {self.log}")
