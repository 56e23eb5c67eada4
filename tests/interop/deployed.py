"""The modes of deployment as `deploy` describes them, as processes on this machine.

    with deployed("2m-2s-sync", OURS, tmp_path) as cluster:
        cluster.namesrv                          # HOST:PORT[;HOST:PORT] of the name servers
        cluster.brokers["broker-a-s"].kill()     # by the name of their files
        cluster.store("broker-a-s")

The files are taken as they are: ports, directories and sizes are replaced alone. Knows nothing of
how a broker serves.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from full_disks import ON_FULL_DISKS
from interop.processes import free_port
from interop.registered import wait_until
from interop.servers import OURS, Program, Software
from mqcore.config import Program as Kind
from mqcore.config import file_layer

DEPLOY = Path(__file__).parents[2] / "deploy"
MODES = ("2m-noslave", "2m-2s-async", "2m-2s-sync", "2n-standalone")
# Sizes for a test, and no services that it does not need.
_SMALL = {
    "brokerIP1": "127.0.0.1",
    "mappedFileSizeCommitLog": str(4 << 20),
    "mappedFileSizeConsumeQueue": "60000",
    "maxMessageSize": "65536",
    "maxHashSlotNum": "10000",
    "maxIndexNum": "40000",
    "reviveQueueNum": "1",
    "timerWheelEnable": "false",
    **ON_FULL_DISKS,
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a mode consists of.

    Attributes:
        namesrv: Addresses of the name servers, joined as in a setting.
        namesrvs: The name servers.
        brokers: The brokers, by the names of their files.
        root: The directory of everything.
    """

    namesrv: str
    namesrvs: list[Program]
    brokers: dict[str, Program]
    root: Path

    def store(self, name: str) -> Path:
        """Returns the store of a broker."""
        return self.root / name / "store"

    def wait_until_registered(self) -> None:
        """Returns when each name server knows each broker, by the name and the id of its file."""
        expected: dict[str, set[str]] = {}
        for broker in self.brokers.values():
            name, number = broker.settings["brokerName"], broker.settings["brokerId"]
            expected.setdefault(name, set()).add(number)
        for address in self.namesrv.split(";"):
            wait_until(
                address, lambda known: {name: set(ids) for name, ids in known.items()} == expected
            )


def files_of(mode: str, kind: Kind) -> dict[str, Mapping[str, str]]:
    """Returns the settings in the files of a mode, by the names of the files."""
    pattern = "broker*.properties" if kind is Kind.BROKER else "namesrv*.properties"
    files = sorted((DEPLOY / mode).glob(pattern))
    return {path.stem: file_layer(path, kind).pairs for path in files}


def _placed(settings: Mapping[str, str], root: Path, namesrv: str, port: int) -> dict[str, str]:
    store = root / "store"
    placed = {**settings, **_SMALL, "namesrvAddr": namesrv}
    placed |= {"storePathRootDir": str(store), "storePathCommitLog": str(store / "commitlog")}
    if "haListenPort" in settings:
        placed["haListenPort"] = str(port + 1)
    return placed


@contextmanager
def deployed(mode: str, software: Software, root: Path) -> Iterator[Cluster]:
    """Starts everything of a mode; brokers are `software`, name servers ours. Ends all."""
    kept = files_of(mode, Kind.NAMESRV) or {"namesrv": {}}
    namesrvs = [
        Program(
            OURS,
            "namesrv",
            root / name,
            free_port(),
            {**settings, "kvConfigPath": str(root / name / "kvConfig.json")},
        )
        for name, settings in kept.items()
    ]
    namesrv = ";".join(program.address for program in namesrvs)
    brokers = {}
    for name, settings in files_of(mode, Kind.BROKER).items():
        port = free_port()
        placed = _placed(settings, root / name, namesrv, port)
        brokers[name] = Program(software, "broker", root / name, port, placed)
    all_ = [*namesrvs, *brokers.values()]
    try:
        for program in all_:
            program.start()
        yield Cluster(namesrv, namesrvs, brokers, root)
    finally:
        for program in reversed(all_):
            program.end()
