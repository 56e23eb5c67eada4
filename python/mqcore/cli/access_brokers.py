"""Users and policies of brokers, as `mqcore acl` asks for and changes them. Prints nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mqcore.access.model import ACTION_BITS, Acl, Resource, User
from mqcore.cli.mqadmin.servers import Servers
from mqcore.errors import MQError, ResponseError, UsageError
from mqcore.model.reading import as_dict, as_list, as_text
from mqcore.model.relaxed_json import compact
from mqcore.remoting import OwnRequestCode, RequestCode, ResponseCode

__all__ = ["AccessBrokers", "Planned", "changes_between", "suggestions"]


@dataclass(frozen=True, slots=True)
class Planned:
    """A change that an import would make.

    Attributes:
        text: What it is, for people.
        code: The request.
        ext: Its header.
        body: Its body; a secret may be in it.
    """

    text: str
    code: RequestCode
    ext: Mapping[str, str]
    body: dict[str, Any] = field(repr=False)


class AccessBrokers:
    """The brokers that are asked: those that were named, or all, masters first."""

    def __init__(self, servers: Servers, named: tuple[str, ...]) -> None:
        """Takes the way to them."""
        self._servers = servers
        self._named = named

    async def _addresses(self) -> list[str]:
        if self._named:
            return list(self._named)
        rows = (await self._servers.cluster()).masters_first()
        found = [address for _name, _id, address in rows]
        if not found:
            raise MQError("name servers know no broker; name one with --broker")
        return found

    async def _first(self) -> str:
        return (await self._addresses())[0]

    async def state(self) -> dict[str, Any]:
        """Returns `{"users": [..], "acls": [..]}` of the first broker."""
        address = await self._first()
        return {
            "users": await self._servers.listed(address, RequestCode.AUTH_LIST_USER),
            "acls": await self._servers.listed(address, RequestCode.AUTH_LIST_ACL),
        }

    async def put(self, user: str, policies: list[dict[str, Any]]) -> list[str]:
        """Merges policies into those of a user, at each broker; returns the addresses."""
        for policy in policies:
            for entry in policy["entries"]:
                if Resource.of_text(entry["resource"]) is None:
                    raise UsageError(
                        f"{entry['resource']} is no resource: Topic:orders, Topic:orders*, "
                        "Group:*, Cluster:* or * is expected"
                    )
        body = {"subject": f"User:{user}", "policies": policies}
        return await self._each(RequestCode.AUTH_CREATE_ACL, {"subject": f"User:{user}"}, body)

    async def revoke(self, user: str, resource: str, kind: str) -> list[str]:
        """Deletes the entry of a resource, or all, at each broker; returns the addresses."""
        ext = {"subject": f"User:{user}"}
        if resource:
            if Resource.of_text(resource) is None:
                raise UsageError(f"{resource} is no resource")
            ext |= {"resource": resource, "policyType": kind}
        return await self._each(RequestCode.AUTH_DELETE_ACL, ext, None)

    async def _each(
        self, code: RequestCode, ext: Mapping[str, str], body: dict[str, Any] | None
    ) -> list[str]:
        addresses = await self._addresses()
        for address in addresses:
            await self._servers.ask(address, code, ext, b"" if body is None else compact(body))
        return addresses

    async def perform(self, change: Planned) -> None:
        """Makes a change at each broker."""
        await self._each(change.code, change.ext, change.body)

    async def explained(self, user: str, action: str, resource: str, source: str) -> dict[str, Any]:
        """Returns why a user may do something, or may not (`ACCESS_EXPLAINED`)."""
        ext = {"username": user, "resource": resource, "actions": ACTION_BITS[action]}
        if source:
            ext["source"] = source
        return await self._servers.json(await self._first(), OwnRequestCode.ACCESS_EXPLAINED, ext)

    async def refusals(self) -> list[dict[str, Any]]:
        """Returns what brokers have refused, or would have, each with its broker."""
        found = []
        for address in await self._addresses():
            try:
                body = await self._servers.json(address, OwnRequestCode.ACCESS_REFUSALS)
            except ResponseError as error:
                if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    continue
                raise
            found += [as_dict(x) | {"broker": address} for x in as_list(body.get("refusals"))]
        return found


def changes_between(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[Planned]:
    """Returns what makes brokers have all users and entries of a file.

    Args:
        there: What they have.
        wanted: What the file has.
    """
    known = {x.name: x for x in map(User.of_json, as_list(there.get("users")))}
    changes = []
    for row in as_list(wanted.get("users")):
        user = User.of_json(row)
        old, ext, body = known.get(user.name), {"username": user.name}, as_dict(row)
        if old is None:
            if not user.secret:
                raise UsageError(f"user {user.name} is not there, and has no password in the file")
            text = f"user {user.name}: make ({user.kind or 'Normal'})"
            changes.append(Planned(text, RequestCode.AUTH_CREATE_USER, ext, body))
            continue
        parts = [
            name
            for name, is_other in (
                # Who is no Super user does not see it: then it is set.
                ("password", bool(user.secret) and user.secret != old.secret),
                ("kind", bool(user.kind) and user.kind != old.kind),
                ("status", bool(user.status) and user.status != old.status),
            )
            if is_other
        ]
        if parts:
            text = f"user {user.name}: change {', '.join(parts)}"
            changes.append(Planned(text, RequestCode.AUTH_UPDATE_USER, ext, body))
    return changes + _policies_between(there, wanted)


def _policies_between(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[Planned]:
    known = {x.user: x for x in map(_acl, as_list(there.get("acls")))}
    changes = []
    for acl in map(_acl, as_list(wanted.get("acls"))):
        acl.check()
        old = known.get(acl.user, Acl(acl.user, ()))
        missing = [
            f"{policy.kind} {entry.decision} {','.join(entry.actions)} {entry.resource}"
            for policy in acl.policies
            for entry in policy.entries
            if entry not in {e for x in old.policies if x.kind == policy.kind for e in x.entries}
        ]
        if missing:
            text = f"{acl.subject}: {'; '.join(missing)}"
            ext = {"subject": acl.subject}
            changes.append(Planned(text, RequestCode.AUTH_CREATE_ACL, ext, acl.to_json()))
    return changes


def _acl(row: Any) -> Acl:
    return Acl.of_json(row, as_text(as_dict(row).get("subject")).partition(":")[2])


def suggestions(refusals: list[dict[str, Any]]) -> list[str]:
    """Returns the commands that would have let refused requests pass, and what no grant lets.

    One action of several is enough: the first is suggested, all of a resource in one command.
    """
    grants: dict[tuple[str, str], dict[str, None]] = {}
    others: dict[str, int] = {}
    for row in refusals:
        user, resource = as_text(row.get("user")), as_text(row.get("resource"))
        actions = [as_text(each) for each in as_list(row.get("actions"))]
        if row.get("reason") == "no policy" and user and resource and actions:
            grants.setdefault((user, resource), {})[actions[0]] = None
            continue
        text = f"{row.get('request')} of {user or 'nobody'} from {row.get('source')}"
        line = f"# {text}: {row.get('remark')}"
        others[line] = others.get(line, 0) + int(row.get("count", 1))
    lines = [
        f"mqcore acl grant {user} {','.join(actions)} '{resource}'"
        for (user, resource), actions in sorted(grants.items())
    ]
    return lines + [f"{line} ({count} times)" for line, count in others.items()]
