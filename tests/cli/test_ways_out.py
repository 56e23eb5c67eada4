"""Errors of the first hour: each names what was asked for, and what to do."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.test_cluster_commands import mqcore, run
from mqcore.cli.ways_out import error_line
from mqcore.errors import StateFileError
from mqcore.native.errors import StoreIOError
from mqcore.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("orders", queues=2)
        yield running


def failed(broker: Broker, *arguments: str) -> str:
    """Returns the one line of a command that fails."""
    with mqcore(broker, *arguments) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    line: str = err.splitlines()[-1]
    return line


@pytest.mark.parametrize(
    "arguments", [["topic", "list"], ["produce", "orders", "-m", "x"], ["consume", "orders"]]
)
def test_a_broker_given_as_name_server_is_named(broker: Broker, arguments: list[str]) -> None:
    line = failed(broker, *arguments, "-n", broker.address)
    assert f"{broker.address} is a broker: name servers listen on 9876" in line


def test_an_address_comes_with_an_example(broker: Broker) -> None:
    line = failed(broker, "topic", "list", "-n", "localhost")
    assert line == "mqcore: 'localhost': host:port expected, such as 127.0.0.1:9876"


def test_sql_that_is_switched_off_names_its_setting() -> None:
    with Broker(settings={"enablePropertyFilter": "false"}) as plain:
        plain.create_topic("orders")
        line = failed(plain, "consume", "orders", "-g", "g", "--sql", "a > 1", "-e")
    assert "set enablePropertyFilter=true on the broker" in line


@pytest.mark.parametrize("program", ["broker", "namesrv"])
def test_a_port_in_use_names_its_option(broker: Broker, tmp_path: Path, program: str) -> None:
    port = broker.address.rpartition(":")[2]
    data = ["--data", str(tmp_path / "s")] if program == "broker" else []
    line = failed(broker, program, "--port", port, *data)
    assert "Address already in use: choose another port with --port" in line


def test_a_file_is_no_directory_of_a_store(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    for data in ("f", "f/below"):
        line = failed(broker, "broker", "--port", "0", "--data", str(tmp_path / data))
        assert line.endswith(
            f"{tmp_path / 'f'} is a file: the directory of the store is wanted (--data)"
        )


def test_a_number_of_the_system_is_shown_once(broker: Broker) -> None:
    line = failed(broker, "broker", "--port", "0", "--data", "/proc/absent")
    assert (
        line == "mqcore: cannot create directory /proc/absent: No such file or directory (errno 2)"
    )


def test_who_was_refused_is_named() -> None:
    error = StoreIOError("cannot open /s/lock: Permission denied (errno 13)")
    error.errno = errno.EACCES
    text = error_line(error)
    assert text.startswith("cannot open /s/lock: Permission denied (errno 13); refused to user ")
    assert text.endswith(f"({os.geteuid()})")
    own = PermissionError(errno.EACCES, "Permission denied", "/etc/ports")
    assert error_line(own).startswith("/etc/ports: Permission denied; refused to user ")
    other = StateFileError("f: it is empty", path="f", why="it is empty")
    assert error_line(other) == "f: it is empty"


def test_a_recall_handle_is_explained(broker: Broker) -> None:
    line = failed(broker, "msg", "recall", "XX")
    assert line == (
        "mqcore: 'XX' is no recall handle (it cannot be read): give the recall_handle of a "
        "send's result"
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["msg", "get", "-t", "orders", "FFFF"], "there is no message FFFF in topic orders"),
        (
            ["msg", "query", "orders", "k9"],
            "there is no message with key k9 in topic orders",
        ),
        (
            ["msg", "get", "-t", "orders", "--queue", "broker-test:0", "--offset", "9"],
            "there is no message at offset 9 of queue broker-test:0 of topic orders",
        ),
    ],
)
def test_what_was_not_found_is_named(broker: Broker, arguments: list[str], named: str) -> None:
    result = run(broker, *arguments)
    assert (result.exit_code, result.stderr) == (1, f"{named}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["consume", "orders", "-e", "--queue"],
        ["msg", "get", "-t", "orders", "--offset", "0", "--queue"],
        ["group", "reset", "readers", "orders", "-y", "--offset", "0", "--queue"],
        ["group", "reset", "readers", "orders", "-y", "--by", "-1", "--queue"],
    ],
)
def test_a_queue_that_is_not_there_comes_with_those_that_are(
    broker: Broker, arguments: list[str]
) -> None:
    broker_name = "broker-test"
    run(broker, "group", "create", "readers")
    line = failed(broker, *arguments, f"{broker_name}:9")
    has = f"there it has {broker_name}:0 to {broker_name}:1"
    assert line == f"mqcore: topic orders has no queue {broker_name}:9: {has}"


def test_a_queue_of_an_unknown_broker_comes_with_those_that_are_known(broker: Broker) -> None:
    line = failed(broker, "consume", "orders", "-e", "--queue", "b:0")
    assert line == "mqcore: topic orders has no queue b:0: it is on broker-test"


def test_an_id_of_a_broker_that_is_not_there_is_explained(broker: Broker) -> None:
    # 127.0.0.1, port 1, offset 0.
    line = failed(broker, "msg", "get", "7F00000100000001" + 16 * "0")
    assert line.startswith("mqcore: 127.0.0.1:1: Connection refused. A broker's id names")
    assert line.endswith("add --topic NAME")


def test_pipelines_without_their_packages_name_what_to_install(tmp_path: Path) -> None:
    # What is installed is hidden: the package cannot be imported, and its version is too old.
    (tmp_path / "pyarrow.py").write_text("raise ModuleNotFoundError('absent', name='pyarrow')")
    about = tmp_path / "pyspark-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pyspark\nVersion: 0.1\n")
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    shown = subprocess.run(
        [sys.executable, "-m", "mqcore.cli.main", "spark", "list"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert shown.returncode == 2, shown
    (line,) = shown.stderr.splitlines()
    assert line.endswith('and finds 0.1: pip install --upgrade "mqcore[spark]"')


def test_traces_that_nobody_keeps_are_explained(broker: Broker) -> None:
    assert "traceTopicEnable=true" in failed(broker, "msg", "trace", "AA")


def test_a_store_that_is_not_there_is_named_by_the_doctor(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    line = [sys.executable, "-m", "mqcore.cli.main", "doctor", str(absent)]
    shown = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert f"{absent} does not exist: {tmp_path} is looked at instead" in shown.stdout
    listed = subprocess.run(
        [*line, "--json"], capture_output=True, text=True, timeout=60, check=False
    )
    advised = any(each["advice"] for each in json.loads(listed.stdout))
    assert shown.returncode == listed.returncode == int(advised)
