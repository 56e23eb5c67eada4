"""The types of `**options` of clients, for type checkers and editors.

Made from the dataclasses that declare them by `python -m mqcore.client.option_sources`; a test
keeps it current. At run time the types of their values are not imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from mqcore.client.tls_option import TlsOption
    from mqcore.remoting.limits import Limits
    from mqcore.remoting.signing import Credentials

__all__ = ["ClientOptions", "IdentityOptions"]


class IdentityOptions(TypedDict, total=False):
    """Who a client is."""

    credentials: Credentials | None
    """Who we are to servers that ask. Default: None."""
    namespace: str | None
    """Put before topics and groups. Default: None."""
    tls: TlsOption
    """Speak TLS: True trusts the machine's authorities; files or a context set more. Default: None.
    """


class ClientOptions(IdentityOptions, total=False):
    """The options of a `Client`."""

    instance_name: str | None
    """Part of the client's id; one of its own when not given. Default: None."""
    unit_name: str | None
    """The unit, appended to the client's id. Default: None."""
    default_queues: int
    """Queues of a topic that the broker makes at the first send. Default: 4."""
    call_timeout_s: float
    """The deadline of calls that are no sends and no pulls. Default: 3.0."""
    connect_timeout_s: float
    """How long making a connection may take. Default: 3.0."""
    heartbeat_interval_s: float
    """How often brokers get a heartbeat. Default: 30.0."""
    route_interval_s: float
    """How often routes in use are asked for again. Default: 30.0."""
    limits: Limits | None
    """The bounds of connections. Default: None."""
