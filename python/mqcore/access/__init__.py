"""Access control: users and policies, their files, and what requests need (the model of 5.3).

The engine that decides is Rust's (`mqcore.native.Access`); here is what it decides by. Knows no
broker, no name server, no connection.
"""

from mqcore.access.bodies import BODY_PAIRS, Pair, cluster_pair, group_pair, topic_pair
from mqcore.access.control import AccessControl
from mqcore.access.gate import LOOK_S, ServerGate
from mqcore.access.model import Acl, Entry, Policy, Resource, User
from mqcore.access.plain_content import check_permissions
from mqcore.access.plain_files import PLAIN_LOOK_S, PlainFiles, plain_files
from mqcore.access.provisions import check_access, credentials_of
from mqcore.access.refusals import RefusalLog
from mqcore.access.tables import AccessTables

__all__ = [
    "BODY_PAIRS",
    "LOOK_S",
    "PLAIN_LOOK_S",
    "AccessControl",
    "AccessTables",
    "Acl",
    "Entry",
    "Pair",
    "PlainFiles",
    "Policy",
    "RefusalLog",
    "Resource",
    "ServerGate",
    "User",
    "check_access",
    "check_permissions",
    "cluster_pair",
    "credentials_of",
    "group_pair",
    "plain_files",
    "topic_pair",
]
