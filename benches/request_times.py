"""What the times of requests cost: processor time of a broker per message, with and without them.

One broker; `requestTimesEnable` is changed between rounds while it runs, so that both cases share
everything else. Processor time is that of the broker's threads as `perf stat` counts it (or, where
it may not, the kernel's own clock of the process, in steps of 10 ms); `mqcore-load` is the load.

    cargo build --release -p mqcore-load
    python benches/request_times.py                  # 64 x 1 and 8 x 32, 9 pairs of 4 s each
    python benches/request_times.py --pairs 3 --seconds 2
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mqcore.remoting import Client, RequestCode

ROOT = Path(__file__).parents[1]
LOAD = ROOT / "target" / "release" / "mqcore-load"
LOADS = {"64 x 1": (64, 1), "8 x 32": (8, 32)}
CONFIG = {
    "brokerName": "b",
    "brokerClusterName": "c",
    "brokerIP1": "127.0.0.1",
    "mappedFileSizeCommitLog": 256 << 20,
    "fileReservedTime": 1,
    # One port less that somebody else may have.
    "haListenEnable": "false",
}
# A log that fills the disk would be measured instead: old files go while it runs.
DISK_SHARE_MAX = 80


def main() -> None:
    """Prints one line of JSON per load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=4)
    given = parser.parse_args()
    if not LOAD.exists():
        sys.exit(f"{LOAD} is not there: cargo build --release -p mqcore-load")
    for name, (connections, window) in LOADS.items():
        with tempfile.TemporaryDirectory(prefix="mqcore-times-") as scratch:
            found = _measured(Path(scratch), connections, window, given.pairs, given.seconds)
        print(json.dumps({"load": name, **found}), flush=True)


def _measured(
    scratch: Path, connections: int, window: int, pairs: int, seconds: int
) -> dict[str, Any]:
    port = _free_port()
    conf = scratch / "broker.conf"
    settings = {**CONFIG, "listenPort": port, "storePathRootDir": scratch / "store"}
    conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = [sys.executable, "-m", "mqcore.cli.main", "broker", "-c", str(conf)]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert broker.stdout is not None
        printed = ""
        for line in broker.stdout:
            printed += line
            if " ready on " in line:
                break
        else:
            sys.exit(printed)
        address = f"127.0.0.1:{port}"
        costs: dict[bool, list[float]] = {True: [], False: []}
        rates: dict[bool, list[float]] = {True: [], False: []}
        _set(address, is_on=True)
        _load(address, connections, window, 3, broker.pid)
        for pair in range(pairs):
            # Neither has always the second place.
            for is_on in (True, False) if pair % 2 else (False, True):
                _set(address, is_on=is_on)
                cost, rate = _load(address, connections, window, seconds, broker.pid)
                costs[is_on].append(cost)
                rates[is_on].append(rate)
    finally:
        broker.send_signal(signal.SIGTERM)
        broker.wait(60)
    ratios = [one / other for one, other in zip(costs[True], costs[False], strict=True)]
    return {
        "us_with": statistics.median(costs[True]),
        "us_without": statistics.median(costs[False]),
        "ratio": statistics.median(ratios),
        "ratios": [round(each, 4) for each in sorted(ratios)],
        "rate_with": statistics.median(rates[True]),
        "rate_without": statistics.median(rates[False]),
    }


def _set(address: str, *, is_on: bool) -> None:
    async def ask() -> None:
        async with Client() as client:
            body = f"requestTimesEnable={'true' if is_on else 'false'}\n".encode()
            code = RequestCode.UPDATE_BROKER_CONFIG
            answer = await client.call(address, code, body=body, timeout_s=10.0)
            assert answer.code == 0, answer.remark

    asyncio.run(ask())


def _load(
    address: str, connections: int, window: int, seconds: int, pid: int
) -> tuple[float, float]:
    """Returns processor time per message, us, and messages per second."""
    command = [str(LOAD), "produce", "--broker", address, "-t", "T", "--create"]
    command += ["-c", str(connections), "-w", str(window), "--size", "128"]
    command += ["--warm-seconds", "1", "--seconds", str(seconds), "--pid", str(pid)]
    if shutil.which("perf") is None:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        spent_us = sum(found["processor"].values()) * 1_000_000
        return spent_us / (found["messages_per_second"] * seconds), found["messages_per_second"]
    # The warm second is counted too, with its messages.
    command[command.index("--warm-seconds") + 1] = "0"
    perf = ["perf", "stat", "-e", "task-clock", "-p", str(pid), "--"]
    done = subprocess.run([*perf, *command], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    clock = re.search(r"([\d,.]+)\s+msec task-clock", done.stderr)
    assert clock is not None, done.stderr
    spent_us = float(clock[1].replace(",", "")) * 1_000
    return spent_us / (found["messages_per_second"] * seconds), found["messages_per_second"]


def _free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


if __name__ == "__main__":
    main()
