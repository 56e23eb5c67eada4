"""How renewed files of certificates were taken, for the metrics. Looks at files; for a thread."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mqcore.broker.state import BrokerState
from mqcore.remoting import TlsContext
from mqcore.remoting.renewal import Renewed

__all__ = ["FileRenewals", "file_renewals"]


@dataclass(frozen=True, slots=True)
class FileRenewals:
    """Of one kind of connection.

    Attributes:
        taken: How often changed files were taken since the start.
        is_behind: Whether the files as they are now cannot be used.
    """

    taken: int
    is_behind: bool


def file_renewals(state: BrokerState) -> dict[str, FileRenewals]:
    """Returns them by the kind of connection: server, client, replication.

    Files that no connection has asked for since they changed are looked at here.
    """
    found = {
        "server": list(_files_of(each.context for each in state.serving_tls)),
        "client": list(_files_of([state.outgoing_tls])),
        "replication": list(state.replicas.protection.ends) if state.replicas.protection else [],
    }
    for each in [each for several in found.values() for each in several]:
        each.now()
    return {
        kind: FileRenewals(
            sum(each.taken for each in several), any(each.is_behind for each in several)
        )
        for kind, several in found.items()
        if several
    }


def _files_of(contexts: Iterable[TlsContext | None]) -> Iterator[Renewed[Any]]:
    for each in contexts:
        if isinstance(each, Renewed):
            yield each
