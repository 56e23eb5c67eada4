"""Masters with a slave each, ours and the official one, and a link that delays reports.

Knows no figure that is to be reached.
"""

from __future__ import annotations

import collections
import os
import shutil
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from peer_brokers import (
    BROKER_NAME,
    MQCORE,
    SEGMENT_BYTES,
    Peer,
    free_port,
    lent,
    official,
    official_command,
    ours,
    running,
)

from interop.install import need_java
from mqcore import Admin
from tls_papers import Papers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["DelayedLink", "Role", "official_pair", "our_pair"]

_CHUNK_BYTES = 1 << 20
_WAIT_SECONDS = 60.0
_PAUSE_SECONDS = 0.05


class DelayedLink:
    """A port that passes a slave's connection on to a master, and its reports so much later.

    What the master sends goes at once. A delayed report keeps none behind it waiting for longer: a
    long line, not a slow one.
    """

    def __init__(self, master_port: int, delay_s: float) -> None:
        """Listens; ends with the process."""
        self._master_port, self._delay_s = master_port, delay_s
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accepts no more."""
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                slave, _ = self._listening.accept()
            except OSError:
                return
            master = socket.create_connection(("127.0.0.1", self._master_port))
            for end in (slave, master):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for work in (self._pass, self._delay):
                ends = (master, slave) if work == self._pass else (slave, master)
                threading.Thread(target=work, args=ends, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        buffer = memoryview(bytearray(_CHUNK_BYTES))
        while length := source.recv_into(buffer):
            target.sendall(buffer[:length])
        target.close()

    def _delay(self, source: socket.socket, target: socket.socket) -> None:
        due: collections.deque[tuple[float, bytes]] = collections.deque()
        while True:
            wait = None if not due else max(0.0, due[0][0] - time.monotonic())
            source.settimeout(wait)
            try:
                came = source.recv(_CHUNK_BYTES) if wait != 0.0 else None
            except (TimeoutError, BlockingIOError):
                came = None
            if came == b"":
                return target.close()
            if came:
                due.append((time.monotonic() + self._delay_s, came))
            while due and due[0][0] <= time.monotonic():
                target.sendall(due.popleft()[1])


@dataclass(frozen=True)
class Role:
    """What a master is set to.

    Attributes:
        name: `ASYNC_MASTER` or `SYNC_MASTER`.
        flush: `flushDiskType`, of master and slave.
    """

    name: str
    flush: str = "ASYNC_FLUSH"


@contextmanager
def our_pair(
    home: Path, role: Role, delay_s: float | None = None, *, is_safe: bool = False
) -> Iterator[Peer]:
    """Runs our master and slave of ours; the master, when it knows the slave.

    With `delay_s` the slave is connected through a `DelayedLink`, whatever the delay; with
    `is_safe` the log is shipped over TLS.
    """
    port = free_port()
    more = {"brokerRole": role.name, "haListenEnable": "true", "haListenPort": port}
    home.mkdir()
    tls: dict[str, str] = {}
    if is_safe:
        tls = Papers(home / "papers").keys("both") | {"mqcoreHaTls": "enforcing"}
    more |= tls
    with ours(home / "master", role.flush, more=more) as master:
        link = None if delay_s is None else DelayedLink(port, delay_s)
        command = [str(MQCORE), "broker", "--data", str(home / "slave" / "store"), "--port", "0"]
        settings = {
            "brokerRole": "SLAVE",
            "brokerId": 1,
            "brokerName": BROKER_NAME,
            "haMasterAddress": f"127.0.0.1:{port if link is None else link.port}",
            "flushDiskType": role.flush,
            "mappedFileSizeCommitLog": SEGMENT_BYTES,
            **tls,
        }
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        slave_home = home / "slave"
        with lent(slave_home), running("our slave", command, " ready on ", None, cwd=slave_home):
            until_copied(master)
            yield master
        if link is not None:
            link.close()
    shutil.rmtree(home / "papers", ignore_errors=True)
    home.rmdir()


@contextmanager
def official_pair(home: Path, role: Role, version: str) -> Iterator[Peer]:
    """Runs an official master and slave; the master, when it knows the slave."""
    need_java()
    port, slave_port, ha_port = free_port(), free_port(), free_port()
    # With its default of one copy a synchronous master of 5.3 waits for nobody.
    copies = {"inSyncReplicas": 2, "totalReplicas": 2} if role.name == "SYNC_MASTER" else {}
    # Its slave learns from the name server where the log is: with `haMasterAddress` one of 5.3
    # never connects, since the address is set before there is anything that takes it.
    more = {
        "brokerRole": role.name,
        "brokerIP2": "127.0.0.1",
        "haListenPort": ha_port,
        "registerNameServerPeriod": 10_000,
        **copies,
    }
    home.mkdir()
    with official(home / "master", role.flush, port, version, more=more) as master:
        slave_home = home / "slave"
        settings = {
            "brokerIP1": "127.0.0.1",
            "brokerName": BROKER_NAME,
            "brokerRole": "SLAVE",
            "brokerId": 1,
            "listenPort": slave_port,
            "registerNameServerPeriod": 10_000,
            "namesrvAddr": master.namesrv,
            "storePathRootDir": slave_home / "store",
            "storePathCommitLog": slave_home / "store" / "commitlog",
            "flushDiskType": role.flush,
            "mappedFileSizeCommitLog": SEGMENT_BYTES,
        }
        with lent(slave_home):
            text = "".join(f"{name}={value}\n" for name, value in settings.items())
            (slave_home / "broker.conf").write_text(text, encoding="utf-8")
            command = official_command(slave_home, version, None)
            environment = {**os.environ, "ROCKETMQ_HOME": str(slave_home)}
            options: dict[str, Any] = {"env": environment, "cwd": slave_home}
            with running("official slave", command, "boot success", slave_port, **options):
                until_copied(master)
                yield master
    home.rmdir()


def until_copied(master: Peer) -> None:
    """Returns when a slave has everything that its master has.

    Raises:
        RuntimeError: It has not within a minute.
    """
    deadline = time.monotonic() + _WAIT_SECONDS
    pause = threading.Event()
    while time.monotonic() < deadline:
        with Admin(master.namesrv) as admin:
            replicas = admin.brokers.replication(master.address).replicas
        if replicas and all(each.lag_bytes == 0 for each in replicas):
            return
        pause.wait(_PAUSE_SECONDS)
    raise RuntimeError(f"{master.name}: no slave has its log")
