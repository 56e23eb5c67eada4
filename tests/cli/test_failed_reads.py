"""A failed read of mapped bytes ends a process: it names the file first, and where it was."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interop.patience import eventually
from interop.servers import OURS, prepared, started
from mqcore import Message, MQError, Producer

PROGRAM = """
import faulthandler, mmap, os, sys
from mqcore.native import name_failed_reads
faulthandler.enable()
name_failed_reads()
name_failed_reads()
with open(sys.argv[1], "r+b") as file:
    content = mmap.mmap(file.fileno(), 16_384)
    file.truncate(4_096)
    def reads_what_is_gone():
        return content[9_000]
    reads_what_is_gone()
"""
SENT = "import os, signal, sys; from mqcore.native import name_failed_reads; name_failed_reads(); "
SENT += "os.kill(os.getpid(), signal.SIGBUS)"


def test_the_file_and_the_function_are_named_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a file"
    path.write_bytes(bytes(16_384))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGBUS
    first, *others = done.stderr.splitlines()
    assert first == (
        "mqcore: mapped bytes cannot be read, and the process ends (SIGBUS): "
        f"{path} at position 9000. Its disk has failed, or the file was shortened"
    )
    assert "reads_what_is_gone" in "\n".join(others)


def test_a_signal_that_somebody_sends_ends_the_process_and_names_no_file() -> None:
    done = subprocess.run([sys.executable, "-c", SENT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGBUS, "")


@pytest.mark.slow
def test_a_broker_names_the_file_of_its_log(tmp_path: Path) -> None:
    servers = prepared(OURS, tmp_path, {})
    with started(servers):
        (path, *_) = sorted((servers.store / "commitlog").iterdir())
        with Producer(servers.namesrv.address, group="p") as producer:

            def shorten() -> bool:
                # While the file is still made ahead of need it grows again.
                os.truncate(path, 0)
                with contextlib.suppress(MQError):
                    producer.send(Message("TopicTest", b"x"), timeout_s=1.0)
                return servers.broker.has_died

            assert eventually(shorten, bool, patience_s=30.0)
        printed = servers.broker.printed()
        assert f"(SIGBUS): {path} at position " in printed
        assert "Fatal Python error: Bus error" in printed
