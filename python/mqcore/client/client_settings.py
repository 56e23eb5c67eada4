"""The options of a client: who it is, how it connects, how often it asks and reports."""

from dataclasses import dataclass
from typing import Final

from mqcore.client.option import check, option
from mqcore.client.route_table import DEFAULT_QUEUES
from mqcore.client.tls_option import TlsOption
from mqcore.remoting.client import CALL_TIMEOUT_S, CONNECT_TIMEOUT_S
from mqcore.remoting.limits import Limits
from mqcore.remoting.signing import Credentials

__all__ = ["ClientSettings", "Identity"]

# The official client heartbeats, and polls routes, every 30 s; a broker forgets it after 120 s.
_HEARTBEAT_INTERVAL_S: Final = 30.0
_ROUTE_INTERVAL_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a client is, and whether its connections are encrypted.

    Attributes:
        credentials: Who we are to servers that ask.
        namespace: Put before topics and groups.
        tls: Speak TLS: True trusts the machine's authorities; files or a context set more.
    """

    credentials: Credentials | None = option(None, change="brokers check access")
    namespace: str | None = option(None, change="several tenants share a cluster")
    tls: TlsOption = option(None, change="name servers and brokers speak TLS")

    def __post_init__(self) -> None:
        """Checks what would fail late.

        Raises:
            UsageError: A value cannot work.
        """
        check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings(Identity):
    """The options of a client.

    Attributes:
        instance_name: Part of the client's id; one of its own when not given.
        unit_name: The unit, appended to the client's id.
        default_queues: Queues of a topic that the broker makes at the first send.
        call_timeout_s: The deadline of calls that are no sends and no pulls.
        connect_timeout_s: How long making a connection may take.
        heartbeat_interval_s: How often brokers get a heartbeat.
        route_interval_s: How often routes in use are asked for again.
        limits: The bounds of connections.
    """

    instance_name: str | None = option(None, change="tools should show a name of yours")
    unit_name: str | None = option(None, change="the cluster is divided into units")
    default_queues: int = option(
        DEFAULT_QUEUES, unit="queues", low=1, change="new topics need more parallel consumers"
    )
    call_timeout_s: float = option(
        CALL_TIMEOUT_S, unit="s", above=0, change="brokers are far away or overloaded"
    )
    connect_timeout_s: float = option(
        CONNECT_TIMEOUT_S, unit="s", above=0, change="the network is slow"
    )
    heartbeat_interval_s: float = option(
        _HEARTBEAT_INTERVAL_S,
        unit="s",
        above=0,
        change="seldom: brokers forget who is silent 120 s",
    )
    route_interval_s: float = option(
        _ROUTE_INTERVAL_S, unit="s", above=0, change="new brokers must be used sooner"
    )
    limits: Limits | None = option(None, change="seldom: frames or connections exceed the bounds")
