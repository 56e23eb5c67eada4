"""`mqcore standalone` and `mqcore broker` as processes: ready, serving, ended by a signal."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from live_broker import SMALL
from mqcore.model.relaxed_json import parse_object
from mqcore.remoting import Client, RequestCode

# No test waits for it: it turns a hang into a failure.
_DEADLINE_S = 60.0


@contextmanager
def running(*arguments: str, port_file: Path) -> Iterator[dict[str, Any]]:
    """Runs a program until the block ends; gives its ports once it is ready, and its ready line.

    At the end its log is there too.
    """
    sizes = [f"--set={key}={value}" for key, value in SMALL.items() if key != "listenPort"]
    command = [sys.executable, "-m", "mqcore.cli.main", *arguments, *sizes]
    with subprocess.Popen(
        [*command, "--port", "0", "--port-file", str(port_file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        shown: dict[str, Any] = {}
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert " ready on " in line, process.communicate(timeout=_DEADLINE_S)
            shown |= json.loads(port_file.read_text()) | {"line": line.rstrip()}
            yield shown
        finally:
            process.send_signal(signal.SIGTERM)
            out, errors = process.communicate(timeout=_DEADLINE_S)
            shown["log"] = errors
    assert process.returncode == 0, out + errors
    assert "stopped after" in errors
    assert "Traceback" not in errors
    assert not port_file.exists()


def test_standalone_serves_routes_and_ends_at_a_signal(tmp_path: Path) -> None:
    async def ask(ports: dict[str, int]) -> dict[str, Any]:
        async with Client() as client:
            answer = await client.call(
                f"127.0.0.1:{ports['namesrv']}",
                RequestCode.GET_ROUTEINFO_BY_TOPIC,
                {"topic": "TBW102"},
                timeout_s=20.0,
            )
            assert answer.code == 0, answer.remark
            return parse_object(answer.body)

    ports_file = tmp_path / "ports"
    data = f"--data={tmp_path / 'store'}"
    with running("standalone", "--namesrv-port", "0", data, port_file=ports_file) as ports:
        route = asyncio.run(ask(ports))
        assert route["brokerDatas"][0]["brokerAddrs"] == {"0": f"127.0.0.1:{ports['broker']}"}


def test_the_line_of_a_start_has_what_matters(tmp_path: Path) -> None:
    store = tmp_path / "store"
    arguments = ("standalone", "--namesrv-port", "0", f"--data={store}")
    with running(*arguments, port_file=tmp_path / "ports") as ports:
        start, _, about = ports["line"].partition(" after ")
        assert start == (
            f"mqcore standalone ready on 127.0.0.1:{ports['broker']}, "
            f"name server 127.0.0.1:{ports['namesrv']}"
        )
        assert about.partition(": ")[2] == (
            f"new store {store}, ASYNC_FLUSH: a send is acknowledged in memory, and synced every "
            "500 ms"
        )
    assert f"{store}: a new store" in ports["log"]
    assert "no checkpoint" not in ports["log"]
    again = (*arguments, "--set=flushDiskType=SYNC_FLUSH")
    with running(*again, port_file=tmp_path / "ports") as ports:
        assert ports["line"].endswith(
            f": store {store}, SYNC_FLUSH: a send is acknowledged once it is on disk"
        )
    assert "a new store" not in ports["log"]


def test_a_broker_starts_without_its_name_server(tmp_path: Path) -> None:
    async def ask(ports: dict[str, int]) -> int:
        async with Client() as client:
            address = f"127.0.0.1:{ports['broker']}"
            code = RequestCode.GET_BROKER_RUNTIME_INFO
            return (await client.call(address, code, timeout_s=20.0)).code

    # Nobody listens on port 9: the broker tries again and again.
    arguments = ("broker", "run", "-n", "127.0.0.1:9", f"--data={tmp_path / 'store'}")
    with running(*arguments, port_file=tmp_path / "ports") as ports:
        assert asyncio.run(ask(ports)) == 0
    assert "no name server is set" not in ports["log"]


def test_a_broker_that_registers_nowhere_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    arguments = ("broker", "run", f"--data={tmp_path / 'store'}")
    with running(*arguments, port_file=tmp_path / "ports") as ports:
        pass
    assert "WARNING mqcore.broker: no name server is set" in ports["log"]
