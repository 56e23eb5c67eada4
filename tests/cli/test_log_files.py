"""Log files: they begin anew by size and age, are compressed, reopened; levels change meanwhile."""

import gzip
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from interop.patience import eventually
from mqcore.cli.logs import LogFile, RollingFile, reopen_log_files
from mqcore.cli.main import commands
from mqcore.config.log_levels import apply_log_levels, log_levels_of, log_levels_text
from mqcore.testing import Broker

LINE = "x" * 100


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger of its own, whose handlers are closed at the end."""
    own = logging.getLogger("mqcore.test_log_files")
    own.propagate = False
    yield own
    for handler in own.handlers[:]:
        own.removeHandler(handler)
        handler.close()
    own.propagate = True


def lines(path: Path) -> list[str]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return content.decode().splitlines()


@pytest.mark.parametrize("compresses", [True, False])
def test_files_begin_anew_by_size_and_so_many_stay(
    compresses: bool, logger: logging.Logger, tmp_path: Path
) -> None:
    path = tmp_path / "below" / "broker.log"
    file = LogFile(path=path, len_bytes_max=1_000, kept=3, compresses=compresses)
    handler = RollingFile(file)
    logger.addHandler(handler)
    for number in range(60):
        logger.warning("%02d %s", number, LINE)
    ending = ".gz" if compresses else ""
    former = [path.with_name(f"broker.log.{number}{ending}") for number in (3, 2, 1)]
    eventually(lambda: [each.exists() for each in former], all)
    eventually(lambda: {each.name for each in path.parent.iterdir()}, lambda names: len(names) == 4)
    found = [line for each in (*former, path) for line in lines(each)]
    assert [int(line[:2]) for line in found] == list(range(60 - len(found), 60))
    assert path.stat().st_size <= 1_000


def test_files_begin_anew_by_age(
    logger: logging.Logger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1_000.0
    monkeypatch.setattr("mqcore.cli.logs.time.monotonic", lambda: now_s)
    file = LogFile(path=tmp_path / "broker.log", hours=24, compresses=False)
    logger.addHandler(RollingFile(file))
    logger.warning("first")
    now_s += 24 * 3_600 - 1
    logger.warning("of the same day")
    now_s += 1
    logger.warning("of the next")
    assert lines(tmp_path / "broker.log.1") == ["first", "of the same day"]
    assert lines(tmp_path / "broker.log") == ["of the next"]


def test_a_renamed_file_is_opened_anew(tmp_path: Path) -> None:
    root = logging.getLogger()
    handler = RollingFile(LogFile(path=tmp_path / "broker.log"))
    root.addHandler(handler)
    try:
        root.warning("before")
        (tmp_path / "broker.log").rename(tmp_path / "aside")
        root.warning("still there")
        assert reopen_log_files() == 1
        root.warning("anew")
    finally:
        root.removeHandler(handler)
        handler.close()
    assert lines(tmp_path / "aside") == ["before", "still there"]
    assert lines(tmp_path / "broker.log") == ["anew"]


def test_a_program_logs_to_its_file_and_survives_a_hang_up(tmp_path: Path) -> None:
    log = tmp_path / "namesrv.log"
    words = ["namesrv", "--port", "0", "--log-format", "json", "--set", f"mqcoreLogFile={log}"]
    words += ["--set", f"kvConfigPath={tmp_path / 'kv.json'}"]
    command = [sys.executable, "-m", "mqcore.cli.main", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
        log.rename(tmp_path / "aside")
        os.kill(process.pid, signal.SIGHUP)
        eventually(
            lambda: log.exists() and log.read_text(), lambda text: "opened anew" in str(text)
        )
        process.terminate()
        assert process.wait() == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    found = [json.loads(line) for path in (tmp_path / "aside", log) for line in lines(path)]
    assert any("descriptors allowed" in each["message"] for each in found)
    assert found[-1]["message"].startswith("namesrv stopped")


def test_levels_of_single_loggers_are_one_setting() -> None:
    text = "mqcore.a=debug;mqcore.b=ERROR; "
    assert log_levels_of(text) == {"mqcore.a": "debug", "mqcore.b": "error"}
    assert log_levels_text(log_levels_of(text)) == "mqcore.a=debug;mqcore.b=error"
    apply_log_levels("", text)
    assert logging.getLogger("mqcore.a").level == logging.DEBUG
    apply_log_levels(text, "mqcore.b=info")
    assert logging.getLogger("mqcore.a").level == logging.NOTSET
    assert logging.getLogger("mqcore.b").level == logging.INFO
    apply_log_levels("mqcore.b=info", "")
    for bad in ("mqcore", "mqcore=loud", "root=debug", "asyncio=debug", "mqcorex=info"):
        with pytest.raises(ValueError, match="LOGGER=LEVEL expected"):
            log_levels_of(bad)


def test_a_running_broker_changes_its_levels() -> None:
    with Broker() as broker:
        environment = {"MQCORE_NAMESRV": broker.namesrv}

        def run(*words: str) -> tuple[int, str]:
            line = ["broker", "log-level", broker.address, *words]
            done = CliRunner().invoke(commands, line, env=environment)
            return done.exit_code, f"{done.output}{done.exception or ''}"

        before = run()
        assert before[0] == 0
        code, text = run("mqcore.remoting=debug", "warning")
        assert (code, text) == (0, "warning\nmqcore.remoting=debug\n")
        assert run("--json")[1] == run("--json")[1]
        assert run()[1] == text
        assert "LOGGER=LEVEL expected" in run("mqcore.remoting=loud")[1]
        assert run("mqcore.remoting=default", before[1].strip())[1] == before[1]
