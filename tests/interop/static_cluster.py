"""Two masters of one name server, for topics whose queues move between them.

    with two_brokers(OURS, tmp_path) as cluster:
        cluster.namesrv.address, cluster.first.broker, cluster.second.store

Knows programs alone; nothing of topics.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from interop.registered import wait_until
from interop.servers import Program, Servers, Software, prepared, serving

FIRST, SECOND = "broker-a", "broker-b"


@dataclass(frozen=True, slots=True)
class TwoBrokers:
    """A name server with two brokers.

    Attributes:
        first: Its name server, and the broker `broker-a`.
        second: The broker `broker-b`; its name server is not started.
    """

    first: Servers
    second: Servers

    @property
    def namesrv(self) -> Program:
        """The name server of both."""
        return self.first.namesrv

    def broker(self, name: str) -> Servers:
        """Returns a broker by its name."""
        return self.first if name == FIRST else self.second

    def wait_until_registered(self) -> None:
        """Returns when the name server has both brokers."""
        wait_until(self.namesrv.address, lambda found: {FIRST, SECOND} <= found.keys())


@contextmanager
def two_brokers(
    software: Software,
    root: Path,
    config: Mapping[str, str] | None = None,
    *,
    other: Software | None = None,
) -> Iterator[TwoBrokers]:
    """Starts them, and ends them at the end.

    Args:
        software: Whose.
        root: A directory of their own.
        config: Settings of both brokers over the usual ones.
        other: Whose the second broker is, where it is another's.
    """
    settings = {"timerFlushIntervalMs": "60000", "reviveQueueNum": "1", **(config or {})}
    with serving(software, root / FIRST, {**settings, "brokerName": FIRST}) as first:
        address = {"brokerName": SECOND, "namesrvAddr": first.namesrv.address}
        second = prepared(other or software, root / SECOND, {**settings, **address})
        try:
            second.broker.start()
            cluster = TwoBrokers(first, second)
            cluster.wait_until_registered()
            yield cluster
        finally:
            second.broker.end()
