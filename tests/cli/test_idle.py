"""An idle program with the default sizes of its files stays below its bound of memory."""

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

from click.testing import CliRunner

from mqcore.cli.memory import memory
from mqcore.occupancy import occupied

IDLE_MAX_BYTES = 100_000_000
# What is present ahead of the first append.
RESTING_WINDOW_BYTES = 32 << 20
_DEADLINE_S = 60.0
_LOOK_S = 0.05
_LOOKS = 200


def test_an_idle_broker_and_name_server_take_less_than_a_hundred_megabytes(tmp_path: Path) -> None:
    store = tmp_path / "store"
    command = [sys.executable, "-m", "mqcore.cli.main", "standalone", "--data", str(store)]
    with subprocess.Popen(
        [*command, "--port", "0", "--namesrv-port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert " ready on " in process.stdout.readline()
            # The first pages are made present behind the ready line, by a thread of the store; a
            # kernel that cannot do that takes less.
            for _ in range(_LOOKS):
                files = occupied(process.pid, store).store_files
                if sum(each.resident for each in files) >= RESTING_WINDOW_BYTES:
                    break
                threading.Event().wait(_LOOK_S)
            result = CliRunner().invoke(memory, ["--json", str(store)], catch_exceptions=False)
            facts = json.loads(result.stdout)
        finally:
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=_DEADLINE_S)
    assert process.returncode == 0, errors
    assert facts["pid"] == process.pid
    assert facts["process"]["VmRSS"] < IDLE_MAX_BYTES, facts["process"]
