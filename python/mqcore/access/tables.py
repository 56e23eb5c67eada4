"""The users and their policies: immutable tables, what may be changed in them, their files' texts.

A change makes new tables of the old ones; who has files and engine keeps the new ones when they
are written. As `AuthenticationMetadataManagerImpl` and `AuthorizationMetadataManagerImpl`. Knows no
file and no connection.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mqcore.access.model import (
    CUSTOM,
    DEFAULT,
    SUPER,
    Acl,
    Resource,
    User,
    refused,
    subject_of,
)
from mqcore.errors import BadJsonError, RefusedError
from mqcore.model.reading import as_dict, as_list, as_text
from mqcore.model.relaxed_json import parse_object, pretty
from mqcore.remoting import ResponseCode

__all__ = ["ENTRIES_MAX", "USERS_MAX", "AccessTables"]

# A table is replaced as a whole at each change: with so many that takes a tenth of a second.
USERS_MAX: Final = 20_000
ENTRIES_MAX: Final = 200_000


@dataclass(frozen=True, slots=True)
class AccessTables:
    """Users by name, and the policies of those that have some.

    Attributes:
        users: The users by name.
        acls: Their policies by name.
    """

    users: Mapping[str, User] = field(default_factory=dict, repr=False)
    acls: Mapping[str, Acl] = field(default_factory=dict, repr=False)

    @property
    def entries(self) -> int:
        """How many entries there are in all policies."""
        return sum(len(x.entries) for acl in self.acls.values() for x in acl.policies)

    # Users.

    def with_new(self, user: User) -> "AccessTables":
        """Returns the tables with one more user.

        Raises:
            RefusedError: The user cannot be, is there, or is one too many.
        """
        made = user.made()
        if made.name in self.users:
            raise refused("The user is existed")
        _bounded("users", len(self.users) + 1, USERS_MAX)
        return replace(self, users={**self.users, made.name: made})

    def with_changed(self, change: User) -> "AccessTables":
        """Returns the tables with a user changed.

        Raises:
            RefusedError: The change cannot be, or there is no such user.
        """
        old = self.users.get(change.name)
        if old is None:
            raise refused("The user is not exist")
        return replace(self, users={**self.users, change.name: old.changed(change)})

    def without_user(self, name: str) -> "AccessTables":
        """Returns the tables without a user and without its policies.

        Raises:
            RefusedError: The name is blank.
        """
        if not name.strip():
            raise refused("username can not be blank")
        return AccessTables(
            {each: user for each, user in self.users.items() if each != name},
            {each: acl for each, acl in self.acls.items() if each != name},
        )

    def users_like(self, part: str) -> list[User]:
        """Returns the users whose name has a part, in the order of names."""
        names = sorted(self.users, key=str.encode)
        return [self.users[name] for name in names if not part.strip() or part in name]

    # Policies.

    def with_policies(self, acl: Acl) -> "AccessTables":
        """Returns the tables with policies merged into those of their user.

        Raises:
            RefusedError: They cannot be, there is no such user, or they are too many.
        """
        acl.check()
        if acl.user not in self.users:
            raise refused(f"The subject of {acl.subject} is not exist.")
        merged = self.acls.get(acl.user, Acl(acl.user, ())).merged(acl.policies)
        changed = replace(self, acls={**self.acls, acl.user: merged})
        _bounded("entries of policies", changed.entries, ENTRIES_MAX)
        return changed

    def without_policies(self, user: str, kind: str, resource: Resource | None) -> "AccessTables":
        """Returns the tables without the entry of a resource, or without all of a user's policies.

        Raises:
            RefusedError: There is no such user, or it has no policies.
        """
        if user not in self.users:
            raise refused("The subject is not exist.")
        old = self.acls.get(user)
        if old is None:
            raise refused("The acl is not exist.")
        left = {name: acl for name, acl in self.acls.items() if name != user}
        if resource is not None:
            acl = old.without(kind or CUSTOM, resource)
            if acl.policies:
                left[user] = acl
        return replace(self, acls=left)

    def policies_of(self, user: str) -> Acl | None:
        """Returns the policies of a user, None for none.

        Raises:
            RefusedError: There is no such user.
        """
        if user not in self.users:
            raise refused("The subject is not exist.")
        return self.acls.get(user)

    def acls_like(self, subject_part: str, resource_part: str) -> list[Acl]:
        """Returns policies whose subject has a part, with the entries whose resource has one."""
        found = []
        for name in sorted(self.acls, key=str.encode):
            acl, subject = self.acls[name], subject_of(name)
            if subject_part.strip() and subject_part not in subject:
                continue
            # A part that the subject has counts for every entry, as officially.
            if resource_part.strip() and resource_part not in subject:
                kept = acl.found(resource_part)
                if kept is not None:
                    found.append(kept)
            else:
                found.append(acl)
        return found

    # Files.

    def users_text(self) -> bytes:
        """Returns the content of `users.json`."""
        rows = [user.to_json(with_secret=True) for user in self.users_like("")]
        return pretty({"users": rows})

    def acls_text(self) -> bytes:
        """Returns the content of `acls.json`."""
        return pretty({"acls": [acl.to_json() for acl in self.acls_like("", "")]})

    def with_users_text(self, text: bytes) -> "AccessTables":
        """Returns the tables with the users of a file.

        Raises:
            BadJsonError: It cannot be read.
        """
        users = {}
        for row in _rows(text, "users"):
            user = User.of_json(row)
            try:
                users[user.name] = user.made()
            except RefusedError as error:
                raise BadJsonError(f"user {user.name!r}: {error.message}") from error
        return replace(self, users=users)

    def with_acls_text(self, text: bytes) -> "AccessTables":
        """Returns the tables with the policies of a file.

        Raises:
            BadJsonError: It cannot be read.
        """
        acls = {}
        for row in _rows(text, "acls"):
            subject = as_text(as_dict(row).get("subject"))
            acl = Acl.of_json(row, subject.partition(":")[2])
            try:
                acl.check()
            except RefusedError as error:
                raise BadJsonError(f"{subject}: {error.message}") from error
            acls[acl.user] = acl
        return replace(self, acls=acls)

    # What the engine takes.

    def user_rows(self) -> list[tuple[str, str, str, str]]:
        """Returns name, secret, kind and status of every user."""
        return [(x.name, x.secret, x.kind, x.status) for x in self.users.values()]

    def policy_rows(
        self,
    ) -> list[tuple[str, str, str, tuple[str, ...], tuple[str, ...], str]]:
        """Returns subject, kind, resource, actions, sources and decision of every entry."""
        return [
            (acl.subject, policy.kind, str(e.resource), e.actions, e.sources, e.decision)
            for acl in self.acls.values()
            for policy in acl.policies
            for e in policy.entries
        ]

    def with_first(self, users: Iterable[User]) -> "AccessTables":
        """Returns the tables with Super users that settings name, where they are not there yet."""
        tables = self
        for user in users:
            if user.name not in tables.users:
                tables = tables.with_new(replace(user, kind=SUPER))
        return tables

    @property
    def has_super(self) -> bool:
        """Whether somebody may do everything."""
        return any(user.is_super and user.is_enabled for user in self.users.values())


def policy_kind(text: str) -> str:
    """Returns the kind of policies that a text names, empty for none (`PolicyType.getByName`)."""
    return next((x for x in (CUSTOM, DEFAULT) if x.lower() == text.lower()), "")


def _bounded(what: str, count: int, most: int) -> None:
    if count > most:
        raise RefusedError(f"{count} {what}, at most {most}", code=ResponseCode.SYSTEM_ERROR)


def _rows(text: bytes, name: str) -> list[Any]:
    found = parse_object(text).get(name)
    if not isinstance(found, list):
        raise BadJsonError(f"it has no list of {name}")
    return as_list(found)
