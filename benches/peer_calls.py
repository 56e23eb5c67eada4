"""System calls of our broker per message, counted by perf, else by strace, in runs of their own.

perf counts tracepoints and hardly slows what it counts. strace stops each call, so that more
requests come together than otherwise: its figures are lower bounds. Without either there are no
rows.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from peer_brokers import IS_QUICK, TARGET
from peer_rows import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from peer_brokers import Peer

SECONDS = 2 if IS_QUICK else 5
# Messages under load: the calls of one thread that wakes another.
FUTEX_MAX = 0.1
LOADS = ((64, 1), (16, 1), (1, 1), (8, 32))
KINDS = {
    "futex": ("futex",),
    "write": ("sendmsg", "sendto", "write", "writev"),
    "read": ("recvfrom", "recvmsg", "read", "readv"),
    "epoll": ("epoll_wait", "epoll_pwait", "epoll_pwait2", "epoll_ctl"),
}
TOTAL = "raw_syscalls:sys_enter"
# Those of this machine; readable for root only.
EVENTS = Path("/sys/kernel/tracing/events/syscalls")
HOW_TO_COUNT = "system calls are not counted: apt install linux-perf (as root), or strace"
_STRACE_LINE = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", re.MULTILINE)


def events() -> dict[str, str]:
    """The tracepoint of each call that this kernel has."""
    calls = [call for kind in KINDS.values() for call in kind]
    return {
        call: f"syscalls:sys_enter_{call}"
        for call in calls
        if (EVENTS / f"sys_enter_{call}").is_dir()
    }


def has_perf() -> bool:
    """Whether perf is there and may count."""
    if shutil.which("perf") is None:
        return False
    words = ["perf", "stat", "-e", TOTAL, "--", "true"]
    try:
        found = events()
    except PermissionError:
        return False
    return bool(found) and subprocess.run(words, capture_output=True, check=False).returncode == 0


def load_of(peer: Peer, connections: int, outstanding: int) -> list[str]:
    """The command that loads the broker while its calls are counted."""
    peer.load("produce", "calls", "-c", connections, "-w", outstanding, "--seconds", 1)
    line = peer.command("produce", "calls", "-c", connections, "-w", outstanding)
    return [*line, "--seconds", str(SECONDS)]


def by_perf(peer: Peer, load: list[str]) -> tuple[dict[str, int], str]:
    """Calls by name, `total` with them, and what the generator printed."""
    found = events()
    names = {event: call for call, event in found.items()} | {TOTAL: "total"}
    out = TARGET / "mqcore-benches" / "perf.csv"
    words = ["perf", "stat", "-x", ",", "-o", str(out), "-e", ",".join(names)]
    words += ["-p", str(peer.pid), "--", *load]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    counts = {}
    for line in out.read_text(encoding="utf-8").splitlines():
        fields = line.split(",")
        if len(fields) > 2 and fields[2] in names and fields[0].isdigit():
            counts[names[fields[2]]] = int(fields[0])
    return counts, done.stdout


def by_strace(peer: Peer, load: list[str]) -> tuple[dict[str, int], str]:
    """As `by_perf`, by strace."""
    out = TARGET / "mqcore-benches" / "strace.txt"
    words = ["strace", "-f", "-c", "-o", str(out), "-p", str(peer.pid)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as tracer:
        if tracer.stderr is None or "attached" not in tracer.stderr.readline():
            tracer.kill()
            raise RuntimeError("strace may not attach")
        try:
            done = subprocess.run(load, capture_output=True, text=True, check=True)
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.communicate()
    text = out.read_text(encoding="utf-8")
    counts = {name: int(count) for count, name in _STRACE_LINE.findall(text)}
    counts.setdefault("total", sum(counts.values()))
    return counts, done.stdout


def call_rows(peer: Peer) -> Iterator[Row]:
    """Calls per message under each load."""
    import json

    if has_perf():
        count, tool = by_perf, "perf"
    elif shutil.which("strace"):
        count, tool = by_strace, "strace"
    else:
        print(HOW_TO_COUNT, flush=True)
        return
    for connections, outstanding in LOADS:
        counts, printed = count(peer, load_of(peer, connections, outstanding))
        messages = json.loads(printed)["messages"]
        name = f"calls by {tool}, {connections} x {outstanding}"
        for kind, calls in KINDS.items():
            each = sum(counts.get(call, 0) for call in calls) / messages
            # One caller that waits for each answer lets every thread fall asleep in between.
            has_goal = kind == "futex" and connections > 1
            goal, bound = (f"<= {FUTEX_MAX}", FUTEX_MAX) if has_goal else ("shown", float("inf"))
            yield Row(f"{name}: {kind}/message", each, None, goal, bound, is_upper=True)
        each = counts["total"] / messages
        yield Row(f"{name}: all calls/message", each, None, "shown", float("inf"), is_upper=True)
