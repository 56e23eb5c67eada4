"""Users and what they may, at brokers of mqcore and official ones from 5.3 on.

Each broker has users of its own, those of mqcore share them within a group: a change goes to every
broker of a cluster (`everywhere`), and what one has is asked of it alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from mqcore.access.model import ACTION_BITS, Resource
from mqcore.admin.arguments import of_type, texts_of
from mqcore.admin.transport import Transport
from mqcore.errors import UsageError
from mqcore.model.reading import as_dict, as_list, as_text
from mqcore.model.relaxed_json import compact, parse, parse_object
from mqcore.native import Command
from mqcore.remoting import OwnRequestCode, RequestCode

__all__ = ["Access", "AccessDecision", "AccessEntry", "AccessUser"]

_CUSTOM, _DEFAULT = "Custom", "Default"
_MASTER: Final = 0


@dataclass(frozen=True, slots=True)
class AccessUser:
    """A user, without the secret.

    Attributes:
        name: The name, which is the access key of clients.
        kind: `Super` or `Normal`.
        status: `enable` or `disable`.
    """

    name: str
    kind: str
    status: str

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns what a `UserInfo` describes."""
        found = as_dict(value)
        return cls(
            as_text(found.get("username")),
            as_text(found.get("userType")),
            as_text(found.get("userStatus")),
        )


@dataclass(frozen=True, slots=True)
class AccessEntry:
    """What a user is allowed, or denied, on one resource.

    Attributes:
        user: The user.
        policy: `Custom`, or `Default` for what counts where no other entry matches.
        resource: Such as `Topic:orders`, `Topic:orders*`, `Group:*`, `Cluster:*`.
        actions: Such as `Pub`, `Sub`, `Get`.
        decision: `Allow` or `Deny`.
        sources: Addresses or networks that it is for; none for all.
    """

    user: str
    policy: str
    resource: str
    actions: tuple[str, ...]
    decision: str
    sources: tuple[str, ...]

    @classmethod
    def all_of_json(cls, value: Any) -> "list[AccessEntry]":
        """Returns the entries that an `AclInfo` has, in the broker's order."""
        found = as_dict(value)
        user = as_text(found.get("subject")).partition(":")[2]
        return [
            cls(
                user,
                as_text(policy.get("policyType")) or _CUSTOM,
                as_text(entry.get("resource")),
                tuple(as_text(each) for each in as_list(entry.get("actions"))),
                as_text(entry.get("decision")),
                tuple(as_text(each) for each in as_list(entry.get("sourceIps"))),
            )
            for policy in map(as_dict, as_list(found.get("policies")))
            for entry in map(as_dict, as_list(policy.get("entries")))
        ]


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """Why a user may do something, or may not.

    Attributes:
        is_allowed: Whether it may.
        why: In words.
        matched: The entries that match, the deciding one first.
        authorizes: Whether anybody is asked for rights there.
        is_dry_run: Whether what is refused passes all the same.
    """

    is_allowed: bool
    why: str
    matched: tuple[AccessEntry, ...]
    authorizes: bool
    is_dry_run: bool

    @classmethod
    def of_json(cls, user: str, value: Any) -> Self:
        """Returns what a broker has answered about a user."""
        found = as_dict(value)
        matched = tuple(
            AccessEntry(
                user,
                as_text(each.get("policy")),
                as_text(each.get("resource")),
                tuple(as_text(x) for x in as_list(each.get("actions"))),
                as_text(each.get("decision")),
                tuple(as_text(x) for x in as_list(each.get("sources"))),
            )
            for each in map(as_dict, as_list(found.get("matched")))
        )
        return cls(
            found.get("allowed") is True,
            as_text(found.get("why")),
            matched,
            found.get("authorizes") is True,
            found.get("dryRun") is True,
        )


class Access:
    """Users and their policies. An address is `host:port` of a broker."""

    def __init__(self, transport: Transport) -> None:
        """Takes the way to the servers."""
        self._transport = transport

    async def everywhere(self, cluster: str | None = None) -> list[str]:
        """Returns whom a change has to reach: all brokers of one cluster or all, masters first.

        Raises:
            NameServerError: No name server answers.
        """
        info = await self._transport.cluster()
        numbered = [
            (broker_id != _MASTER, name, broker_id, address)
            for name, by_id in info.brokers.items()
            if cluster is None or info.cluster_of(name) == cluster
            for broker_id, address in by_id.items()
        ]
        return [address for *_order, address in sorted(numbered)]

    async def users(self, address: str) -> list[AccessUser]:
        """Returns the users of a broker, by name (3005).

        Raises:
            ResponseError: It refused, or has no access control of 5.3.
        """
        answer = await self._transport.ask(address, RequestCode.AUTH_LIST_USER)
        found = [AccessUser.of_json(each) for each in _listed(answer)]
        return sorted(found, key=lambda each: each.name)

    async def entries(self, address: str) -> list[AccessEntry]:
        """Returns what all users are allowed and denied at a broker (3010).

        Raises:
            ResponseError: It refused, or has no access control of 5.3.
        """
        answer = await self._transport.ask(address, RequestCode.AUTH_LIST_ACL)
        return [entry for each in _listed(answer) for entry in AccessEntry.all_of_json(each)]

    async def create_user(
        self, address: str, name: str, secret: str, *, kind: str = "Normal"
    ) -> None:
        """Makes a user (3001).

        Args:
            address: The broker.
            name: The name, which is the access key of clients.
            secret: The secret key of clients.
            kind: `Super` or `Normal`; a Super user alone makes another one.

        Raises:
            ResponseError: It is there already, or the broker refused.
        """
        body = {"username": name, "password": secret, "userType": kind}
        await self._change(address, RequestCode.AUTH_CREATE_USER, {"username": name}, body)

    async def change_user(
        self, address: str, name: str, *, secret: str = "", kind: str = "", status: str = ""
    ) -> None:
        """Changes a user; what is empty stays (3002).

        Args:
            address: The broker.
            name: The name.
            secret: The new secret.
            kind: `Super` or `Normal`.
            status: `enable` or `disable`.

        Raises:
            ResponseError: There is no such user, or the broker refused.
        """
        given = {"password": secret, "userType": kind, "userStatus": status}
        body = {"username": name} | {key: value for key, value in given.items() if value}
        await self._change(address, RequestCode.AUTH_UPDATE_USER, {"username": name}, body)

    async def delete_user(self, address: str, name: str) -> None:
        """Deletes a user with its policies; one that is not there is no error (3003).

        Raises:
            ResponseError: The broker refused.
        """
        await self._change(address, RequestCode.AUTH_DELETE_USER, {"username": name}, None)

    async def grant(
        self,
        address: str,
        user: str,
        actions: Iterable[str],
        resources: Iterable[str],
        *,
        sources: Iterable[str] = (),
        is_denied: bool = False,
        is_default: bool = False,
    ) -> None:
        """Lets a user do something; an entry of the same resource is replaced as a whole (3006).

        Args:
            address: The broker.
            user: The user.
            actions: Such as `Pub`, `Sub`, `Get`.
            resources: Such as `Topic:orders*`.
            sources: Addresses or networks that it is for; none for all.
            is_denied: Whether it is denied instead.
            is_default: Whether it counts only where no other entry matches.

        Raises:
            UsageError: An action or a resource is none.
            ResponseError: There is no such user, or the broker refused.
        """
        entry: dict[str, Any] = {
            "actions": _actions(texts_of("actions", actions)),
            "decision": "Deny" if is_denied else "Allow",
        }
        from_where = texts_of("sources", sources)
        if from_where:
            entry["sourceIps"] = from_where
        entries = [
            entry | {"resource": _resource(each)} for each in texts_of("resources", resources)
        ]
        policy = {"policyType": _DEFAULT if is_default else _CUSTOM, "entries": entries}
        ext = {"subject": f"User:{user}"}
        body = {**ext, "policies": [policy]}
        await self._change(address, RequestCode.AUTH_CREATE_ACL, ext, body)

    async def revoke(
        self, address: str, user: str, resource: str, *, is_default: bool = False
    ) -> None:
        """Takes the entry of a resource from a user (3008).

        Args:
            address: The broker.
            user: The user.
            resource: Such as `Topic:orders*`.
            is_default: Whether it is an entry of the default policy.

        Raises:
            UsageError: The resource is none.
            ResponseError: The user has no policies, or the broker refused.
        """
        kind = _DEFAULT if is_default else _CUSTOM
        ext = {"subject": f"User:{user}", "resource": _resource(resource), "policyType": kind}
        await self._change(address, RequestCode.AUTH_DELETE_ACL, ext, None)

    async def decision(
        self, address: str, user: str, action: str, resource: str, *, source: str = ""
    ) -> AccessDecision:
        """Returns whether a user may do something, and why; a broker of mqcore answers it.

        Args:
            address: The broker.
            user: The user.
            action: Such as `Pub`.
            resource: Such as `Topic:orders`.
            source: From which address; from ours where it is empty.

        Raises:
            UsageError: Action or resource is none.
            ResponseError: It refused, or is official.
        """
        (name,) = _actions([action])
        ext = {
            "username": user,
            "resource": _resource(resource),
            "actions": str(ACTION_BITS[name]),
        }
        if source:
            ext["source"] = source
        answer = await self._transport.ask(address, OwnRequestCode.ACCESS_EXPLAINED, ext)
        return AccessDecision.of_json(user, parse_object(answer.body))

    async def _change(
        self, address: str, code: RequestCode, ext: dict[str, str], body: dict[str, Any] | None
    ) -> None:
        for name, text in ext.items():
            of_type(name, text, str)
        await self._transport.ask(address, code, ext, b"" if body is None else compact(body))


def _listed(answer: Command) -> list[Any]:
    return as_list(parse(answer.body)) if answer.body else []


def _actions(names: Sequence[str]) -> list[str]:
    known = {each.lower(): each for each in ACTION_BITS}
    for name in names:
        if name.lower() not in known:
            raise UsageError(f"action {name[:40]!r}: {', '.join(ACTION_BITS)} are expected")
    if not names:
        raise UsageError("an action is to be named")
    return [known[name.lower()] for name in names]


def _resource(text: str) -> str:
    of_type("resource", text, str)
    if Resource.of_text(text) is None:
        raise UsageError(
            f"resource {text[:100]!r}: Topic:orders, Topic:orders*, Group:*, Cluster:* or * "
            "is expected"
        )
    return text
