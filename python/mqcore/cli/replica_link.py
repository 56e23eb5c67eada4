"""How a command that works on a broker's directory reaches another broker.

By TLS where that directory's broker has it set (`useTLS`, `mqcoreHaTls`, `tls.*`). Sends nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from mqcore.errors import MQError

if TYPE_CHECKING:
    from mqcore.native import ReplicationTls
    from mqcore.remoting import TlsContext

__all__ = ["ReplicaLink", "replica_link"]

_TLS_KEYS = ("useTLS", "mqcoreHaTls", "mqcoreHaTlsClientAuth")
_TLS_PREFIX = "tls."


@dataclass(frozen=True, slots=True)
class ReplicaLink:
    """What protects connections.

    Attributes:
        requests: That of requests; None for plain ones.
        mode: The directory's `mqcoreHaTls`.
        files: That of files of the log; None for plain ones.
    """

    requests: "TlsContext | None"
    mode: str
    files: "ReplicationTls | None"

    def files_from(self, address: str, their_mode: str) -> "ReplicationTls | None":
        """Returns what protects the copy of files from a broker with that `mqcoreHaTls`.

        Raises:
            click.ClickException: One of both speaks TLS alone, and the other not at all.
        """
        if their_mode == "enforcing" and self.mode == "disabled":
            raise click.ClickException(
                f"{address} gives its log over TLS alone: name the file of settings of the "
                "broker that is to have the directory, with mqcoreHaTls and tls.*, by -c"
            )
        if their_mode == "disabled" and self.mode == "enforcing":
            raise click.ClickException(
                f"{address} gives its log without TLS alone, and mqcoreHaTls=enforcing is set "
                "here; mqcoreHaTls=permissive takes it"
            )
        return None if their_mode == "disabled" else self.files


def replica_link(settings: Mapping[str, str]) -> ReplicaLink:
    """Returns how other brokers are reached.

    Args:
        settings: Of the broker whose directory it is; those that are not of TLS do not count.

    Raises:
        click.ClickException: Certificates or keys cannot be used.
    """
    found = {
        key: text
        for key, text in settings.items()
        if key in _TLS_KEYS or key.startswith(_TLS_PREFIX)
    }
    if not found:
        return ReplicaLink(None, "disabled", None)
    from mqcore.broker.replication.protection import ReplicationProtection
    from mqcore.config.checks import replication_tls_faults
    from mqcore.config.keys import Program
    from mqcore.config.layers import Layer
    from mqcore.config.settings import settings_of_pairs
    from mqcore.config.tls_file import tls_file_layers
    from mqcore.remoting import outgoing_tls_of

    try:
        for layer in tls_file_layers([Layer("given", found)], Program.BROKER):
            found |= layer.pairs
        made = settings_of_pairs(found)
        if faults := replication_tls_faults(made):
            raise click.ClickException("; ".join(faults))
        protection = ReplicationProtection(made)
        requests = outgoing_tls_of(made.listener)
    except MQError as error:
        raise click.ClickException(error.message) from error
    return ReplicaLink(requests, protection.mode, protection.asking())
