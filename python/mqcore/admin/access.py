"""Users and what they may: asked for at one broker, changed at the masters.

The values are those of `mqcore.access`; a broker decides what can be. A secret is answered to a
Super user alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from mqcore.access import Acl, Entry, Policy, Resource, User
from mqcore.access.model import ACTION_BITS, CUSTOM, DEFAULT, subject_of, user_of_subject
from mqcore.admin.arguments import of_type, texts_of
from mqcore.admin.transport import Transport, all_of
from mqcore.errors import UsageError
from mqcore.model.reading import as_dict, as_list, as_text
from mqcore.model.relaxed_json import compact, parse, parse_object
from mqcore.remoting import OwnRequestCode, RequestCode

__all__ = ["Access", "AccessDecision"]


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """Why a user may do something, or may not.

    Attributes:
        is_allowed: Whether it may.
        why: In words.
        matched: The entries that match, the deciding one first: each in a policy of its own.
        authorizes: Whether anybody is asked for rights there.
        is_dry_run: Whether what is refused passes all the same.
    """

    is_allowed: bool
    why: str
    matched: tuple[Policy, ...]
    authorizes: bool
    is_dry_run: bool

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns what a broker has answered."""
        found = as_dict(value)
        matched = (
            (as_text(each.get("policy")), {**each, "sourceIps": each.get("sources")})
            for each in map(as_dict, as_list(found.get("matched")))
        )
        return cls(
            found.get("allowed") is True,
            as_text(found.get("why")),
            tuple(Policy(kind, (Entry.of_json(entry),)) for kind, entry in matched),
            found.get("authorizes") is True,
            found.get("dryRun") is True,
        )


class Access:
    """The users of a cluster, and their policies. An address is `host:port`.

    A change goes to the masters, which pass it on to their slaves; `brokers` or `cluster` name
    fewer of them.
    """

    def __init__(self, transport: Transport) -> None:
        """Takes the way to the servers."""
        self._transport = transport

    # Asked for.

    async def users_at(self, address: str, name_part: str = "") -> list[User]:
        """Returns the users of one broker whose name has a part, in the order of names (3005).

        Their secrets are empty for whoever is no Super user.
        """
        of_type("name_part", name_part, str)
        ext = {"filter": name_part} if name_part else {}
        answer = await self._transport.ask(address, RequestCode.AUTH_LIST_USER, ext)
        rows = as_list(parse(answer.body)) if answer.body else []
        return [User.of_json(row) for row in rows]

    async def user_at(self, address: str, name: str) -> User | None:
        """Returns one user of one broker (3004); None where there is none of the name."""
        ext = {"username": _name(name)}
        answer = await self._transport.ask(address, RequestCode.AUTH_GET_USER, ext)
        return User.of_json(parse_object(answer.body)) if answer.body else None

    async def policies_at(self, address: str, user: str) -> Acl | None:
        """Returns what a user may at one broker (3009); None where it has no policies.

        Raises:
            ResponseError: There is no such user.
        """
        ext = {"subject": subject_of(_name(user))}
        answer = await self._transport.ask(address, RequestCode.AUTH_GET_ACL, ext)
        return Acl.of_json(parse_object(answer.body), user) if answer.body else None

    async def all_policies_at(
        self, address: str, *, subject_part: str = "", resource_part: str = ""
    ) -> list[Acl]:
        """Returns what users may at one broker (3010).

        Args:
            address: The broker.
            subject_part: What the subject, `User:NAME`, has in it.
            resource_part: What the resources, as `Topic:orders`, have in them: only those entries
                are returned.
        """
        of_type("subject_part", subject_part, str)
        of_type("resource_part", resource_part, str)
        given = {"subjectFilter": subject_part, "resourceFilter": resource_part}
        ext = {name: value for name, value in given.items() if value}
        answer = await self._transport.ask(address, RequestCode.AUTH_LIST_ACL, ext)
        found = []
        for row in as_list(parse(answer.body)) if answer.body else []:
            name = user_of_subject(as_text(as_dict(row).get("subject")))
            if name is not None:
                found.append(Acl.of_json(row, name))
        return found

    async def decision(
        self, address: str, user: str, action: str, resource: Resource, *, source: str = ""
    ) -> AccessDecision:
        """Returns whether a user may do something, and why; a broker of mqcore answers it.

        Args:
            address: The broker.
            user: The user.
            action: Such as `Pub`.
            resource: Such as `Topic:orders`.
            source: From which address; from ours where it is empty.

        Raises:
            UsageError: The action is none.
            ResponseError: It refused, or is official.
        """
        of_type("resource", resource, Resource)
        of_type("action", action, str)
        bits = ACTION_BITS.get(action)
        if bits is None:
            raise UsageError(f"action {action[:40]!r}: one of {', '.join(ACTION_BITS)} is expected")
        ext = {"username": _name(user), "resource": str(resource), "actions": str(bits)}
        if source:
            of_type("source", source, str)
            ext["source"] = source
        answer = await self._transport.ask(address, OwnRequestCode.ACCESS_EXPLAINED, ext)
        return AccessDecision.of_json(parse_object(answer.body))

    # Changed.

    async def create_user(
        self, user: User, *, brokers: Iterable[str] = (), cluster: str | None = None
    ) -> list[str]:
        """Makes a user (3001).

        Args:
            user: Its name and secret; of no kind and status it is Normal and enabled.
            brokers: Addresses; without them all masters.
            cluster: Only the masters of this cluster.

        Returns:
            The addresses of the brokers that have it now.

        Raises:
            ResponseError: A broker refuses it: it is there already.
            UsageError: An argument cannot work; nothing was sent.
        """
        of_type("user", user, User)
        body = compact(user.to_json(with_secret=True))
        ext = {"username": _name(user.name)}
        return await self._each(RequestCode.AUTH_CREATE_USER, ext, body, brokers, cluster)

    async def change_user(
        self, user: User, *, brokers: Iterable[str] = (), cluster: str | None = None
    ) -> list[str]:
        """Changes secret, kind or status of a user; what is empty stays (3002).

        Args:
            user: Its name, and what changes.
            brokers: Addresses; without them all masters.
            cluster: Only the masters of this cluster.

        Returns:
            The addresses of the brokers that have changed it.

        Raises:
            ResponseError: A broker refuses it: there is no such user.
            UsageError: An argument cannot work; nothing was sent.
        """
        of_type("user", user, User)
        body = compact(user.to_json(with_secret=True))
        ext = {"username": _name(user.name)}
        return await self._each(RequestCode.AUTH_UPDATE_USER, ext, body, brokers, cluster)

    async def delete_user(
        self, name: str, *, brokers: Iterable[str] = (), cluster: str | None = None
    ) -> list[str]:
        """Deletes a user with its policies; one that is not there is deleted already (3003).

        Returns:
            The addresses of the brokers that have it no more.

        Raises:
            ResponseError: A broker refuses it.
            UsageError: An argument cannot work; nothing was sent.
        """
        ext = {"username": _name(name)}
        return await self._each(RequestCode.AUTH_DELETE_USER, ext, b"", brokers, cluster)

    async def grant(
        self,
        user: str,
        *entries: Entry,
        is_default: bool = False,
        brokers: Iterable[str] = (),
        cluster: str | None = None,
    ) -> list[str]:
        """Gives a user entries; one of a resource that has one replaces that whole (3007).

        Args:
            user: Its name.
            entries: What is allowed or denied, each on one resource.
            is_default: Whether they count only where no other entry matches.
            brokers: Addresses; without them all masters.
            cluster: Only the masters of this cluster.

        Returns:
            The addresses of the brokers that have them now.

        Raises:
            ResponseError: A broker refuses it: there is no such user.
            UsageError: An argument cannot work; nothing was sent.
        """
        if not entries:
            raise UsageError("entries: there is none")
        for entry in entries:
            of_type("entries", entry, Entry)
        acl = Acl(_name(user), (Policy(DEFAULT if is_default else CUSTOM, entries),))
        ext, body = {"subject": acl.subject}, compact(acl.to_json())
        return await self._each(RequestCode.AUTH_UPDATE_ACL, ext, body, brokers, cluster)

    async def revoke(
        self,
        user: str,
        resource: Resource | None = None,
        *,
        is_default: bool = False,
        brokers: Iterable[str] = (),
        cluster: str | None = None,
    ) -> list[str]:
        """Takes a user's entry of a resource away, or all of its policies (3008).

        Args:
            user: Its name.
            resource: What the entry is about; None for all policies.
            is_default: Whether it is an entry that counts only where no other one matches.
            brokers: Addresses; without them all masters.
            cluster: Only the masters of this cluster.

        Returns:
            The addresses of the brokers that have it no more.

        Raises:
            ResponseError: A broker refuses it: there is no such user, or it has no policies.
            UsageError: An argument cannot work; nothing was sent.
        """
        ext = {"subject": subject_of(_name(user))}
        if resource is not None:
            of_type("resource", resource, Resource)
            kind = DEFAULT if is_default else CUSTOM
            ext |= {"resource": str(resource), "policyType": kind}
        return await self._each(RequestCode.AUTH_DELETE_ACL, ext, b"", brokers, cluster)

    async def _each(
        self,
        code: RequestCode,
        ext: Mapping[str, str],
        body: bytes,
        brokers: Iterable[str],
        cluster: str | None,
    ) -> list[str]:
        addresses = texts_of("brokers", brokers)
        if not addresses:
            addresses = list((await self._transport.masters(cluster)).values())
        await all_of(addresses, lambda address: self._transport.ask(address, code, ext, body))
        return addresses


def _name(user: str) -> str:
    of_type("user", user, str)
    if not user.strip():
        raise UsageError("user: the name is blank")
    return user
