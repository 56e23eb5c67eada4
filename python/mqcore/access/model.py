"""Users, and what they may: values as requests and files have them, with what is wrong with them.

As `User`, `Acl`, `Policy`, `PolicyEntry`, `Resource` of RocketMQ's `auth`; the texts of refusals
are its own. Knows no table and no file; decides nothing: the engine does (`mqcore.native.Access`).
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from mqcore.errors import RefusedError
from mqcore.model.reading import as_dict, as_list, as_text
from mqcore.remoting import ResponseCode

__all__ = [
    "ACTION_BITS",
    "ALLOW",
    "CUSTOM",
    "DEFAULT",
    "DENY",
    "DISABLED",
    "ENABLED",
    "NORMAL",
    "SUPER",
    "Acl",
    "Entry",
    "Policy",
    "Resource",
    "User",
    "action_bits",
    "refused",
    "subject_of",
    "user_of_subject",
]

SUPER: Final = "Super"
NORMAL: Final = "Normal"
ENABLED: Final = "enable"
DISABLED: Final = "disable"
CUSTOM: Final = "Custom"
DEFAULT: Final = "Default"
ALLOW: Final = "Allow"
DENY: Final = "Deny"
# As the engine has them.
ACTION_BITS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "Pub": 1,
        "Sub": 2,
        "Create": 4,
        "Update": 8,
        "Delete": 16,
        "Get": 32,
        "List": 64,
        "All": 128,
    }
)
_ANY_ACTION: Final = "Any"
_TYPES: Final = ("Cluster", "Namespace", "Topic", "Group")
_ANY_TYPE: Final = "Any"
_ANY: Final = "*"
_USER: Final = "User"
# A name goes into files, logs and headers; as long as a topic's may be.
_NAME_CHARS_MAX: Final = 127
# A secret beside its user in one header.
_SECRET_CHARS_MAX: Final = 1024


def refused(why: str) -> RefusedError:
    """Returns the error of what `AuthenticationException` and `AuthorizationException` report."""
    return RefusedError(why, code=ResponseCode.NO_PERMISSION)


def _one_of(text: str, known: Iterable[str]) -> str:
    """Returns a word as it is written officially, whatever its case; empty for another one."""
    folded = text.lower()
    return next((each for each in known if each.lower() == folded), "")


def subject_of(user: str) -> str:
    """Returns the subject that a user is in policies."""
    return f"{_USER}:{user}"


def user_of_subject(subject: str) -> str | None:
    """Returns the user whom a subject names (`Subject.of`), None for another kind of subject."""
    kind, _, name = subject.partition(":")
    return name if kind.lower() == _USER.lower() else None


def action_bits(names: Iterable[str]) -> int:
    """Returns actions as the engine takes them."""
    found = 0
    for name in names:
        found |= ACTION_BITS.get(name, 0)
    return found


@dataclass(frozen=True, slots=True)
class User:
    """One user.

    Attributes:
        name: The name, which is the access key of requests.
        secret: What requests are signed with; shown to Super users alone.
        kind: Super or Normal; empty in a change that leaves it.
        status: enable or disable; empty in a change that leaves it.
    """

    name: str
    secret: str = field(repr=False)
    kind: str = ""
    status: str = ""

    @property
    def is_super(self) -> bool:
        """Whether everything is allowed."""
        return self.kind == SUPER

    @property
    def is_enabled(self) -> bool:
        """Whether requests of the user are served."""
        return self.status != DISABLED

    @classmethod
    def of_json(cls, value: Any, name: str | None = None) -> "User":
        """Reads a `UserInfo`; of a header's name, which counts, or of its own.

        A word that is none counts as not given (`UserType.getByName`).
        """
        found = as_dict(value)
        return cls(
            as_text(found.get("username")) if name is None else name,
            as_text(found.get("password")),
            _one_of(as_text(found.get("userType")), (SUPER, NORMAL)),
            _one_of(as_text(found.get("userStatus")), (ENABLED, DISABLED)),
        )

    def to_json(self, *, with_secret: bool) -> dict[str, str]:
        """Returns a `UserInfo`."""
        shown = {"userStatus": self.status, "userType": self.kind, "username": self.name}
        return {"password": self.secret, **shown} if with_secret else shown

    def made(self) -> "User":
        """Returns a user that is made of it.

        Raises:
            RefusedError: A part is missing, or is longer than it may be.
        """
        self.check()
        if not self.secret.strip():
            raise refused("password can not be blank")
        return replace(self, kind=self.kind or NORMAL, status=self.status or ENABLED)

    def changed(self, change: "User") -> "User":
        """Returns the user after a change; what that leaves empty stays.

        Raises:
            RefusedError: The change cannot be.
        """
        change.check()
        return User(
            self.name,
            change.secret if change.secret.strip() else self.secret,
            change.kind or self.kind,
            change.status or self.status,
        )

    def check(self) -> None:
        """Returns where it can be, but for what a change leaves empty.

        Raises:
            RefusedError: It cannot.
        """
        if not self.name.strip():
            raise refused("username can not be blank")
        is_printable = self.name.isprintable() and self.secret.isprintable()
        if len(self.name) > _NAME_CHARS_MAX or not is_printable:
            raise refused(f"the username must have at most {_NAME_CHARS_MAX} printable characters")
        if len(self.secret) > _SECRET_CHARS_MAX:
            raise refused(f"the password must have at most {_SECRET_CHARS_MAX} characters")


@dataclass(frozen=True, slots=True)
class Resource:
    """What an entry is about: one name, those with a prefix, or all of a type.

    Attributes:
        kind: Cluster, Namespace, Topic or Group; Any for everything there is.
        name: The name, or what names begin with; None for every name.
        is_prefix: Whether `name` is what names begin with.
    """

    kind: str
    name: str | None
    is_prefix: bool = False

    @classmethod
    def of_text(cls, text: str) -> "Resource | None":
        """Reads `Type:name`, `Type:prefix*`, `Type:*` or `*`; None for anything else."""
        if text == _ANY:
            return cls(_ANY_TYPE, None)
        kind, separator, name = text.partition(":")
        known = _one_of(kind, (*_TYPES, _ANY_TYPE))
        if not known or (not separator and not text.strip()):
            return None
        if known == _ANY_TYPE or name == _ANY:
            return cls(known, None)
        if name.endswith(_ANY):
            # What is behind the first star counts for nothing, as officially.
            return cls(known, name.partition(_ANY)[0], is_prefix=True)
        return cls(known, name)

    def __str__(self) -> str:
        """Returns the text (`Resource.getResourceKey`)."""
        if self.kind == _ANY_TYPE:
            return _ANY
        if self.name is None:
            return f"{self.kind}:{_ANY}"
        return f"{self.kind}:{self.name}{_ANY if self.is_prefix else ''}"


@dataclass(frozen=True, slots=True)
class Entry:
    """What is allowed, or denied, on one resource.

    Attributes:
        resource: What it is about; None of a text that is none.
        actions: The actions, All for every one.
        sources: Addresses, or CIDRs, of clients that it is for; none for all.
        decision: Allow or Deny; empty of a text that is neither.
    """

    resource: Resource | None
    actions: tuple[str, ...]
    sources: tuple[str, ...] = ()
    decision: str = ALLOW

    @classmethod
    def of_json(cls, value: Any) -> "Entry":
        """Reads a `PolicyEntryInfo`; actions that are none are left out (`AclConverter`)."""
        found = as_dict(value)
        named = (
            _one_of(as_text(each), (*ACTION_BITS, _ANY_ACTION))
            for each in as_list(found.get("actions"))
        )
        return cls(
            Resource.of_text(as_text(found.get("resource"))),
            tuple(each for each in named if each),
            tuple(as_text(each) for each in as_list(found.get("sourceIps"))),
            _one_of(as_text(found.get("decision")), (ALLOW, DENY)),
        )

    def to_json(self) -> dict[str, Any]:
        """Returns a `PolicyEntryInfo`."""
        found: dict[str, Any] = {
            "actions": list(self.actions),
            "decision": self.decision,
            "resource": str(self.resource),
        }
        if self.sources:
            found["sourceIps"] = list(self.sources)
        return found

    def check(self) -> None:
        """Returns where it can be (`AuthorizationMetadataManagerImpl.validate`).

        Raises:
            RefusedError: It cannot.
        """
        if self.resource is None:
            raise refused("The resource is null.")
        if not self.actions:
            raise refused("The actions is empty.")
        if _ANY_ACTION in self.actions:
            raise refused("The actions can not be Any.")
        for source in self.sources:
            if not source.strip():
                raise refused("The source ip is empty.")
            try:
                ipaddress.ip_network(source, strict=False)
            except ValueError as error:
                raise refused("The source ip is invalid.") from error
        if not self.decision:
            raise refused("The decision is null or illegal.")


@dataclass(frozen=True, slots=True)
class Policy:
    """Entries of one kind; those of Default count where no Custom one matches.

    Attributes:
        kind: Custom or Default.
        entries: At most one for a resource.
    """

    kind: str
    entries: tuple[Entry, ...]

    @classmethod
    def of_json(cls, value: Any) -> "Policy":
        """Reads a `PolicyInfo`."""
        found = as_dict(value)
        kind = _one_of(as_text(found.get("policyType")), (CUSTOM, DEFAULT))
        entries = tuple(Entry.of_json(each) for each in as_list(found.get("entries")))
        return cls(kind or CUSTOM, entries)

    def to_json(self) -> dict[str, Any]:
        """Returns a `PolicyInfo`."""
        return {"entries": [each.to_json() for each in self.entries], "policyType": self.kind}

    def merged(self, entries: Iterable[Entry]) -> "Policy":
        """Returns it with entries: one of a resource that has one replaces that whole."""
        table = {each.resource: each for each in self.entries}
        for each in entries:
            table[each.resource] = each
        return Policy(self.kind, tuple(table.values()))

    def without(self, resource: Resource) -> "Policy":
        """Returns it without the entry of a resource."""
        return Policy(self.kind, tuple(x for x in self.entries if x.resource != resource))


@dataclass(frozen=True, slots=True)
class Acl:
    """All policies of a user.

    Attributes:
        user: The name.
        policies: At most one of a kind.
    """

    user: str
    policies: tuple[Policy, ...]

    @property
    def subject(self) -> str:
        """The user as policies name it."""
        return subject_of(self.user)

    @classmethod
    def of_json(cls, value: Any, user: str) -> "Acl":
        """Reads an `AclInfo` of a user; policies without an entry are left out (`AclConverter`)."""
        policies = (Policy.of_json(each) for each in as_list(as_dict(value).get("policies")))
        # Merged: a kind, and a resource in it, counts once.
        return Acl(user, ()).merged(each for each in policies if each.entries)

    def to_json(self) -> dict[str, Any]:
        """Returns an `AclInfo`."""
        return {"policies": [each.to_json() for each in self.policies], "subject": self.subject}

    def check(self) -> None:
        """Returns where it can be.

        Raises:
            RefusedError: It cannot.
        """
        if not self.policies:
            raise refused("The policies is empty.")
        for policy in self.policies:
            for entry in policy.entries:
                entry.check()

    def merged(self, policies: Iterable[Policy]) -> "Acl":
        """Returns it with policies (`Acl.updatePolicy`)."""
        table = {each.kind: each for each in self.policies}
        for each in policies:
            table[each.kind] = table.get(each.kind, Policy(each.kind, ())).merged(each.entries)
        return Acl(self.user, tuple(table.values()))

    def without(self, kind: str, resource: Resource) -> "Acl":
        """Returns it without the entry of a resource (`Acl.deletePolicy`)."""
        left = (x.without(resource) if x.kind == kind else x for x in self.policies)
        return Acl(self.user, tuple(each for each in left if each.entries))

    def found(self, resource: str) -> "Acl | None":
        """Returns it with the entries whose resource has a text; None for no such entry."""
        kept = (
            Policy(x.kind, tuple(e for e in x.entries if resource in str(e.resource)))
            for x in self.policies
        )
        policies = tuple(each for each in kept if each.entries)
        return Acl(self.user, policies) if policies else None
