"""Remoting: servers and clients of the protocol, from accepted socket to dispatched request.

A server is a `Dispatcher` of handlers behind a `Server`; a `Client` calls by address. Everything
here lives on one event loop; what only looks at bytes or states takes its time as an argument.
Knows no topic and no message.
"""

from mqcore.remoting.address import (
    Address,
    AdvertisedWatch,
    TcpAddress,
    UnixAddress,
    parse_address,
)
from mqcore.remoting.addresses import Addresses
from mqcore.remoting.body_limits import BODY_BYTES_AT_ONCE, body_bytes_max
from mqcore.remoting.client import CALL_TIMEOUT_S, Client, expect
from mqcore.remoting.connection import Connection
from mqcore.remoting.descriptors import connections_within, raised_descriptors
from mqcore.remoting.dispatch import VERSION, Answer, Dispatcher, Handler, Request
from mqcore.remoting.gates import ReadGate
from mqcore.remoting.hub import Hub, LinkEvents
from mqcore.remoting.limits import Limits
from mqcore.remoting.link import Link
from mqcore.remoting.listener import Listener, SocketOptions
from mqcore.remoting.request_checks import check_handlers, check_native
from mqcore.remoting.request_codes import (
    CODES,
    RULES,
    AnsweredBy,
    Family,
    OwnRequestCode,
    RequestCode,
    answered_by,
    code_name,
    family,
)
from mqcore.remoting.response_codes import ResponseCode
from mqcore.remoting.server import GRACE_S, Server
from mqcore.remoting.signing import Credentials, signed
from mqcore.remoting.slices import Slices, finished, in_slices
from mqcore.remoting.tls import (
    ServerTls,
    TlsContext,
    TlsFiles,
    TlsMode,
    client_context,
    server_context,
)
from mqcore.remoting.users import UserHold, Users
from mqcore.remoting.wiring import (
    ListenerLike,
    OutgoingLike,
    limits_of,
    listen_as,
    outgoing_tls_of,
    tls_of,
)

__all__ = [
    "BODY_BYTES_AT_ONCE",
    "CALL_TIMEOUT_S",
    "CODES",
    "GRACE_S",
    "RULES",
    "VERSION",
    "Address",
    "Addresses",
    "AdvertisedWatch",
    "Answer",
    "AnsweredBy",
    "Client",
    "Connection",
    "Credentials",
    "Dispatcher",
    "Family",
    "Handler",
    "Hub",
    "Limits",
    "Link",
    "LinkEvents",
    "Listener",
    "ListenerLike",
    "OutgoingLike",
    "OwnRequestCode",
    "ReadGate",
    "Request",
    "RequestCode",
    "ResponseCode",
    "Server",
    "ServerTls",
    "Slices",
    "SocketOptions",
    "TcpAddress",
    "TlsContext",
    "TlsFiles",
    "TlsMode",
    "UnixAddress",
    "UserHold",
    "Users",
    "answered_by",
    "body_bytes_max",
    "check_handlers",
    "check_native",
    "client_context",
    "code_name",
    "connections_within",
    "expect",
    "family",
    "finished",
    "in_slices",
    "limits_of",
    "listen_as",
    "outgoing_tls_of",
    "parse_address",
    "raised_descriptors",
    "server_context",
    "signed",
    "tls_of",
]
