"""A name server and a broker under test: ours, or the official ones of a release.

    with serving(OURS, tmp_path) as servers:           # or serving(official_software("5.3.3"), ...)
        servers.namesrv.address, servers.broker.address
        servers.broker.kill()                          # kill -9
        servers.broker.start()                         # on the same ports and the same store
        servers.namesrv.stop()                         # SIGTERM
        servers.broker.become(official_software("4.9.7"))    # who starts next time

Both kinds read the same `broker.conf`. Knows programs by their command lines alone.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from full_disks import ON_FULL_DISKS
from interop.official import Official, official_release
from interop.processes import (
    OUTPUT_FILE,
    START_TIMEOUT_S,
    StartError,
    complaints,
    ended,
    environment,
    free_port,
    wait_until_serving,
    write_log_settings,
)
from interop.registered import wait_until

# Ports are free when probed and may be taken when used: so a start is tried again elsewhere.
START_ATTEMPTS = 4
CLUSTER = "DefaultCluster"
BROKER_NAME = "broker-a"
# An official broker of 5.3 ends its services of revived messages one after another.
QUICK_STOP = {"reviveQueueNum": "1"}
# An official broker of 5.3 that idles writes the state of its timers every second, a fifth of a
# processor: this is for servers that many tests share.
IDLE = {"timerFlushIntervalMs": "60000"}
# Settings of the official servers that the tests of our clients share.
MACHINE_ROOM = "east"
REFERENCE_CONFIG = {
    **IDLE,
    # Machine rooms are read from the names of brokers.
    "brokerName": f"{MACHINE_ROOM}@broker-a",
    # A retry comes after a second, not after ten.
    "messageDelayLevel": " ".join(["1s"] * 18),
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
    # The broker asks for the state of a transaction soon, not after a minute.
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "500",
}

_BROKER = {
    "brokerClusterName": CLUSTER,
    "brokerName": BROKER_NAME,
    "brokerId": "0",
    "brokerIP1": "127.0.0.1",
    "flushDiskType": "ASYNC_FLUSH",
    "fileReservedTime": "1000000",
    # Small files: a test writes megabytes, some messages of four among them.
    "mappedFileSizeCommitLog": str(64 << 20),
    "mappedFileSizeConsumeQueue": "600000",
    "maxHashSlotNum": "10000",
    "maxIndexNum": "40000",
    **ON_FULL_DISKS,
}


class Software(Protocol):
    """Whose programs to run."""

    @property
    def name(self) -> str:
        """What to call it."""

    @property
    def ready(self) -> str:
        """A part of the line that a program prints when it serves."""

    @property
    def stops_at_once(self) -> bool:
        """Whether a clean stop takes no time worth saving."""

    def namesrv(self, conf: Path, home: Path) -> list[str]:
        """Returns the command line of a name server."""

    def broker(self, conf: Path, home: Path) -> list[str]:
        """Returns the command line of a broker."""

    def controller(self, conf: Path, home: Path) -> list[str]:
        """Returns the command line of a controller."""


@dataclass(frozen=True, slots=True)
class Ours:
    """Programs of mqcore: this version's, or those of the Python packages in `package`."""

    name: str = "mqcore"
    package: Path | None = None
    ready: str = " ready on "
    stops_at_once: bool = True

    def namesrv(self, conf: Path, home: Path) -> list[str]:
        return self._command("namesrv", conf, home)

    def broker(self, conf: Path, home: Path) -> list[str]:
        return self._command("broker", conf, home)

    def controller(self, conf: Path, home: Path) -> list[str]:
        return self._command("controller", conf, home)

    def _command(self, program: str, conf: Path, home: Path) -> list[str]:
        ports = home / f"{program}.ports"
        packages = [] if self.package is None else ["env", f"PYTHONPATH={self.package}"]
        command = [*packages, sys.executable, "-m", "mqcore.cli.main", program, "-c", str(conf)]
        return [*command, "--port-file", str(ports)]


@dataclass(frozen=True, slots=True)
class _OfficialSoftware:
    release: Official
    properties: Mapping[str, str] = field(default_factory=dict)
    ready: str = "boot success"
    # Three seconds for a broker of 4.9, eight for one of 5.3.
    stops_at_once: bool = False

    @property
    def name(self) -> str:
        return f"official {self.release.version}"

    def namesrv(self, conf: Path, home: Path) -> list[str]:
        return self._java("org.apache.rocketmq.namesrv.NamesrvStartup", home, conf)

    def broker(self, conf: Path, home: Path) -> list[str]:
        return self._java("org.apache.rocketmq.broker.BrokerStartup", home, conf)

    def controller(self, conf: Path, home: Path) -> list[str]:
        return self._java("org.apache.rocketmq.controller.ControllerStartup", home, conf)

    def _java(self, main: str, home: Path, conf: Path) -> list[str]:
        return self.release.java(main, home, "-c", conf, properties=self.properties)


OURS: Software = Ours()


def official_software(version: str, properties: Mapping[str, str] | None = None) -> Software:
    """Returns the programs of an official release, started with properties of the JVM."""
    software: Software = _OfficialSoftware(official_release(version), properties or {})
    return software


class Program:
    """A name server, a broker or a controller that can be ended and started again where it was."""

    def __init__(
        self, software: Software, kind: str, home: Path, port: int, settings: Mapping[str, str]
    ) -> None:
        """Prepares it.

        Args:
            software: Whose.
            kind: `namesrv`, `broker` or `controller`.
            home: Its own directory, for its settings and logs.
            port: Where it listens.
            settings: Its settings; the port is added.
        """
        self.address = f"127.0.0.1:{port}"
        self.settings = {**settings, "listenPort": str(port)}
        self.home = home
        self._software = software
        self._kind = kind
        self._home = home
        self._process: subprocess.Popen[str] | None = None

    @property
    def conf(self) -> Path:
        """The file of its settings."""
        return self._home / f"{self._kind}.conf"

    def become(self, software: Software) -> None:
        """Makes it a program of another's from the next start on."""
        self._software = software

    def start(self) -> None:
        """Starts it; returns when it serves.

        Raises:
            StartError: It does not.
        """
        self._home.mkdir(parents=True, exist_ok=True)
        write_log_settings(self._home)
        lines = "".join(f"{key}={value}\n" for key, value in self.settings.items())
        self.conf.write_text(lines, encoding="utf-8")
        software = self._software
        make = {
            "namesrv": software.namesrv,
            "broker": software.broker,
            "controller": software.controller,
        }[self._kind]
        self._process = subprocess.Popen(
            make(self.conf, self._home),
            env={**environment(), "ROCKETMQ_HOME": str(self._home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        what = f"{self._kind} ({self._software.name})"
        wait_until_serving(self._process, what, self._home, self._software.ready)

    def stop(self) -> None:
        """Ends it cleanly, if it runs."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it with kill -9."""
        self._end(signal.SIGKILL)

    @property
    def is_running(self) -> bool:
        """Whether it was started and nobody has ended it."""
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """Its process; None while it does not run."""
        # Read once: another thread may ask while this one ends it.
        process = self._process
        return None if process is None else process.pid

    @property
    def has_died(self) -> bool:
        """Whether it has ended without being asked to."""
        process = self._process
        return process is not None and process.poll() is not None

    def pause(self) -> None:
        """Stops its threads where they are (SIGSTOP), if it runs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on (SIGCONT), if it runs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def printed(self) -> str:
        """Returns what it has printed since its first start."""
        try:
            return (self._home / OUTPUT_FILE).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def start_error(self, what: str) -> StartError:
        """Returns what to raise where it is of no use, with the warnings of its log."""
        return StartError(what, complaints(self._home, []))

    def end(self) -> None:
        """Ends it where nobody asks how: cleanly, unless that takes long."""
        (self.stop if self._software.stops_at_once else self.kill)()

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            ended(process, how)


@dataclass(frozen=True, slots=True)
class Servers:
    """A name server and a broker that registers with it.

    Attributes:
        namesrv: The name server.
        broker: The broker.
        store: Its store directory.
    """

    namesrv: Program
    broker: Program
    store: Path

    def end(self) -> None:
        """Ends both where nobody asks how (see `Program.end`)."""
        self.broker.end()
        self.namesrv.end()


def prepared(software: Software, root: Path, config: Mapping[str, str]) -> Servers:
    """Returns servers that are not started yet, on ports that are free now."""
    store = root / "store"
    ports = free_port(), free_port()
    kept = {"kvConfigPath": str(root / "namesrv" / "kvConfig.json")}
    namesrv = Program(software, "namesrv", root / "namesrv", ports[0], kept)
    settings = {
        **_BROKER,
        "haListenPort": str(ports[1] + 1),
        "namesrvAddr": namesrv.address,
        "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
        **config,
    }
    return Servers(namesrv, Program(software, "broker", root / "broker", ports[1], settings), store)


@contextmanager
def started(servers: Servers) -> Iterator[Servers]:
    """Starts servers that are prepared, and ends them at the end.

    Raises:
        StartError: One of them does not start.
    """
    try:
        servers.namesrv.start()
        servers.broker.start()
        _wait_until_registered(servers)
        yield servers
    finally:
        servers.end()


@contextmanager
def serving(
    software: Software, root: Path, config: Mapping[str, str] | None = None
) -> Iterator[Servers]:
    """Starts a name server and a broker and ends both at the end.

    Who looks at what a broker leaves behind stops it before: official ones are killed.

    Args:
        software: Whose.
        root: A directory of their own.
        config: Settings of the broker over the usual ones.

    Raises:
        StartError: One of them does not start.
    """
    servers = _started(software, root, config or {})
    try:
        yield servers
    finally:
        servers.end()


def _wait_until_registered(servers: Servers) -> None:
    """Returns when the name server gives the broker to those who ask.

    Raises:
        StartError: It does not; with what the broker's log complains of.
    """
    settings = servers.broker.settings
    name, broker_id = settings["brokerName"], settings["brokerId"]
    try:
        wait_until(
            servers.namesrv.address,
            lambda brokers: broker_id in brokers.get(name, {}),
            START_TIMEOUT_S,
        )
    except TimeoutError as error:
        raise servers.broker.start_error("the broker is not registered") from error


def _started(software: Software, root: Path, config: Mapping[str, str]) -> Servers:
    for attempt in range(START_ATTEMPTS):
        servers = prepared(software, root, config)
        try:
            servers.namesrv.start()
            servers.broker.start()
            _wait_until_registered(servers)
        except StartError as error:
            servers.end()
            is_port_taken = "ddress already in use" in error.output
            if not is_port_taken or attempt + 1 == START_ATTEMPTS:
                raise
        except BaseException:
            servers.end()
            raise
        else:
            return servers
    raise AssertionError("the last attempt returns or raises")
