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

from live_broker import SMALL
from mqcore.model.relaxed_json import parse_object
from mqcore.remoting import Client, RequestCode

# No test waits for it: it turns a hang into a failure.
_DEADLINE_S = 60.0


@contextmanager
def running(*arguments: str, port_file: Path) -> Iterator[dict[str, Any]]:
    """Runs a program until the block ends; gives its ports once it is ready."""
    sizes = [f"--set={key}={value}" for key, value in SMALL.items() if key != "listenPort"]
    command = [sys.executable, "-m", "mqcore.cli.main", *arguments, *sizes]
    with subprocess.Popen(
        [*command, "--port", "0", "--port-file", str(port_file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert " ready on " in line, process.communicate(timeout=_DEADLINE_S)
            yield json.loads(port_file.read_text())
        finally:
            process.send_signal(signal.SIGTERM)
            out, errors = process.communicate(timeout=_DEADLINE_S)
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
