"""Users, policies and accounts of 4.x as tools make, change, list and delete them, unsigned."""

from typing import Final

from recorded.conversation import Conversation, good, malformed, refused, step
from recorded.requests import compact

__all__ = ["CONVERSATIONS"]

_USER: Final = {"username": "u", "password": "p", "userType": "Normal"}
_NAMED: Final = {"username": "u"}
_SUBJECT: Final = {"subject": "User:u"}


def _acl(
    resource: str = "Topic:t",
    actions: tuple[str, ...] = ("Pub",),
    *,
    subject: str = "User:u",
    **more: object,
) -> bytes:
    """Returns the body of AUTH_CREATE_ACL with one entry."""
    entry = {"actions": list(actions), "decision": "Allow", "resource": resource, **more}
    policies = [{"entries": [entry], "policyType": "Custom"}]
    return compact({"policies": policies, "subject": subject})


_USERS = Conversation(
    "users",
    [
        good(3005, note="none"),
        good(3001, _NAMED, compact(_USER)),
        refused(3001, _NAMED, compact(_USER), note="it is there"),
        refused(3001, {"username": ""}, compact(_USER | {"username": ""})),
        malformed(3001),
        malformed(3001, _NAMED, b"{"),
        malformed(3001, _NAMED, compact(_USER | {"username": "v", "userType": "King"})),
        good(3004, _NAMED),
        refused(3004, {"username": "nobody"}, answers=(0,)),
        malformed(3004, {}),
        good(3002, _NAMED, compact({"userStatus": "disable"})),
        good(3002, _NAMED, compact({"password": "other"})),
        refused(3002, {"username": "nobody"}, compact({"userStatus": "enable"})),
        malformed(3002),
        malformed(3002, _NAMED, b"3"),
        good(3005),
        good(3005, {"filter": "u"}),
        refused(3005, {"filter": "x"}, answers=(0,), note="none has it"),
        malformed(3005, {"unknown": "field"}, b"and a body"),
        refused(52, note="without aclEnable"),
        good(3003, _NAMED),
        refused(3003, {"username": ""}),
        malformed(3003, {}),
        good(3005),
    ],
)

_POLICIES = Conversation(
    "policies",
    [
        step(3001, _NAMED, compact(_USER)),
        good(3010, note="none"),
        good(3006, _SUBJECT, _acl()),
        good(3006, _SUBJECT, _acl("Group:g*", ("Sub", "Get"), sourceIps=["10.0.0.0/8"])),
        refused(3006, {"subject": "User:nobody"}, _acl(subject="User:nobody")),
        refused(3006, _SUBJECT, _acl("Queue:q")),
        malformed(3006),
        malformed(3006, _SUBJECT, b"{"),
        good(3009, _SUBJECT),
        refused(3009, {"subject": "User:nobody"}),
        malformed(3009, {}),
        good(3007, _SUBJECT, _acl("Topic:t", ("Pub", "Sub"), decision="Deny")),
        refused(3007, {"subject": "User:nobody"}, _acl(subject="User:nobody")),
        malformed(3007),
        malformed(3007, _SUBJECT, b"3"),
        good(3010),
        good(3010, {"subjectFilter": "u", "resourceFilter": "Group"}),
        refused(3010, {"subjectFilter": "x"}, answers=(0,), note="none has it"),
        malformed(3010, {"unknown": "field"}, b"and a body"),
        good(3008, {**_SUBJECT, "resource": "Topic:t"}),
        good(3009, _SUBJECT),
        refused(3008, {"subject": "User:nobody"}),
        malformed(3008, {}),
        good(3008, _SUBJECT),
        good(3010),
    ],
)

_ACCOUNT: Final = {"accessKey": "account1", "secretKey": "12345678"}
_ACCOUNTS = Conversation(
    "accounts",
    [
        good(52, note="no file"),
        good(50, {**_ACCOUNT, "admin": "false", "topicPerms": "t=PUB|SUB", "groupPerms": "g=DENY"}),
        good(50, {**_ACCOUNT, "defaultTopicPerm": "PUB", "whiteRemoteAddress": "10.1.*.*"}),
        refused(50, {**_ACCOUNT, "accessKey": "short"}),
        refused(50, {**_ACCOUNT, "topicPerms": "t=ALL"}),
        refused(50, {**_ACCOUNT, "whiteRemoteAddress": "10.0.0.300"}),
        malformed(50),
        malformed(50, {"accessKey": "account1"}, b"and a body"),
        good(53, {"globalWhiteAddrs": "10.2.*.*,10.3.0.1"}),
        refused(53, {"globalWhiteAddrs": "10.2.*.*", "aclFileFullPath": "/etc/other.yml"}),
        refused(53, {"globalWhiteAddrs": "10.0.0.300"}),
        malformed(53),
        good(52),
        malformed(52, {"unknown": "field"}, b"and a body"),
        good(51, {"accessKey": "account1"}),
        refused(51, {"accessKey": "account1"}),
        malformed(51),
    ],
    settings={
        "aclEnable": "true",
        "rocketmqHome": "home",
        # Whoever names no user needs no signature for these.
        "authenticationEnabled": "true",
        "authenticationWhitelist": "50,51,52,53",
    },
)

CONVERSATIONS: Final = (_USERS, _POLICIES, _ACCOUNTS)
