"""How renewed files of certificates were taken, for the metrics. Looks at files; for a thread."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from mqcore.remoting.renewal import Renewed

__all__ = ["FileRenewals", "Protections", "file_renewals"]

# What protects connections, by their kind: `server`, `client`, `replication`. What is not made of
# files counts for nothing.
Protections: TypeAlias = Mapping[str, Iterable[object]]


@dataclass(frozen=True, slots=True)
class FileRenewals:
    """Of one kind of connection.

    Attributes:
        taken: How often changed files were taken since the start.
        is_behind: Whether the files as they are now cannot be used.
    """

    taken: int
    is_behind: bool


def file_renewals(protections: Protections) -> dict[str, FileRenewals]:
    """Returns them by the kind of connection, those that there are.

    Files that no connection has asked for since they changed are looked at here.
    """
    found: dict[str, list[Renewed[Any]]] = {
        kind: [each for each in several if isinstance(each, Renewed)]
        for kind, several in protections.items()
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
