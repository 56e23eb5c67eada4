"""mqadmin's commands about users and their policies."""

from collections.abc import Iterable
from typing import Any

from mqcore.cli.mqadmin import java
from mqcore.cli.mqadmin.call import Call
from mqcore.errors import MQError
from mqcore.model.reading import as_dict, as_list, as_text
from mqcore.model.relaxed_json import compact
from mqcore.remoting import RequestCode

__all__ = [
    "copy_acls",
    "copy_users",
    "create_acl",
    "create_user",
    "delete_acl",
    "delete_user",
    "list_acls",
    "list_users",
    "show_acl",
    "show_user",
    "update_acl",
    "update_user",
]

_USER_LAYOUT = "%-16s  %-22s  %-22s  %-22s"
_ACL_LAYOUT = "%-16s  %-10s  %-22s  %-20s  %-24s  %-10s"


async def create_user(call: Call) -> None:
    """Makes a user."""
    name = call.text("u")
    user = _given({"username": name, "password": call.text("p"), "userType": call.text("t")})
    await _on_each(call, RequestCode.AUTH_CREATE_USER, {"username": name}, user, "create user")


async def update_user(call: Call) -> None:
    """Changes secret, kind or status of a user."""
    name = call.text("u")
    texts = {"password": call.text("p"), "userType": call.text("t"), "userStatus": call.text("s")}
    user = _given({"username": name, **texts})
    await _on_each(call, RequestCode.AUTH_UPDATE_USER, {"username": name}, user, "update user")


async def delete_user(call: Call) -> None:
    """Deletes a user with its policies."""
    ext = {"username": call.text("u")}
    await _on_each(call, RequestCode.AUTH_DELETE_USER, ext, None, "delete user")


async def show_user(call: Call) -> None:
    """Prints a user, of the first broker that has it."""
    for address in await _masters(call):
        user = await _user(call, address, call.text("u"))
        if user:
            _print_users(call, [user])
            call.out.give(user)
            return


async def list_users(call: Call) -> None:
    """Prints users whose name has a part, of the first broker that has some."""
    for address in await _masters(call):
        users = await _users(call, address, call.text("f"))
        if users:
            _print_users(call, users)
            if call.has("c"):
                call.out.line(f"get user from {address} success.")
            call.out.give(users)
            return


async def copy_users(call: Call) -> None:
    """Copies users from one broker to another: those that are there are changed."""
    source, target = call.text("f"), call.text("t")
    names = _parts(call.text("u"))
    if names:
        found = [await _user(call, source, name) for name in names]
        users = [user for user in found if user]
    else:
        users = await _users(call, source, "")
    copied = []
    for user in users:
        name = as_text(user.get("username"))
        if not as_text(user.get("password")):
            raise MQError(
                f"{source} does not answer the password of {name}: it is answered to a Super user"
            )
        is_there = bool(await _user(call, target, name))
        code = RequestCode.AUTH_UPDATE_USER if is_there else RequestCode.AUTH_CREATE_USER
        await call.servers.ask(target, code, {"username": name}, compact(user))
        call.out.line(f"copy user of {name} from {source} to {target} success.")
        copied.append(name)
    call.out.give({"users": copied, "from": source, "to": target})


async def create_acl(call: Call) -> None:
    """Gives a user policies: an entry for each resource."""
    await _put_acl(call, RequestCode.AUTH_CREATE_ACL, "create acl")


async def update_acl(call: Call) -> None:
    """Changes policies of a user: the entries of these resources."""
    await _put_acl(call, RequestCode.AUTH_UPDATE_ACL, "update acl")


async def delete_acl(call: Call) -> None:
    """Deletes the entry of a resource, or all policies of a user."""
    ext = _given({"subject": call.text("s"), "resource": call.text("r")})
    await _on_each(call, RequestCode.AUTH_DELETE_ACL, ext, None, "delete acl")


async def show_acl(call: Call) -> None:
    """Prints the policies of a user, as each broker has them."""
    given = {}
    for address in await _masters(call):
        acl = await _acl(call, address, call.text("s"))
        if acl:
            _print_acls(call, [acl])
            given[address] = acl
    call.out.give(given)


async def list_acls(call: Call) -> None:
    """Prints policies by parts of subject and resource, as each broker has them."""
    given = {}
    for address in await _masters(call):
        acls = await _acls(call, address, call.text("s"), call.text("r"))
        if acls:
            _print_acls(call, acls)
            given[address] = acls
    call.out.give(given)


async def copy_acls(call: Call) -> None:
    """Copies policies from one broker to another: merged into those that are there."""
    source, target = call.text("f"), call.text("t")
    subjects = _parts(call.text("s"))
    if subjects:
        found = [await _acl(call, source, subject) for subject in subjects]
        acls = [acl for acl in found if acl]
    else:
        acls = await _acls(call, source, "", "")
    copied = []
    for acl in acls:
        subject = as_text(acl.get("subject"))
        is_there = bool(await _acl(call, target, subject))
        code = RequestCode.AUTH_UPDATE_ACL if is_there else RequestCode.AUTH_CREATE_ACL
        await call.servers.ask(target, code, {"subject": subject}, compact(acl))
        call.out.line(f"copy acl of {subject} from {source} to {target} success.")
        copied.append(subject)
    call.out.give({"subjects": copied, "from": source, "to": target})


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _given(texts: dict[str, str]) -> dict[str, str]:
    """Returns what was given: Java leaves out what is null."""
    return {name: text for name, text in texts.items() if text}


async def _masters(call: Call) -> list[str]:
    """Returns the broker of `-b`, or the masters of `-c`."""
    return await call.masters()


async def _on_each(
    call: Call, code: RequestCode, ext: dict[str, str], body: object, done: str
) -> None:
    """Asks the broker of `-b`, or masters and slaves of `-c`."""
    brokers = await (call.servers.all_of(call.text("c")) if call.has("c") else call.masters())
    for address in brokers:
        await call.servers.ask(address, code, ext, b"" if body is None else compact(body))
        call.out.line(f"{done} to {address} success.")
    call.out.give({"brokers": brokers})


async def _put_acl(call: Call, code: RequestCode, done: str) -> None:
    subject = call.text("s")
    entry: dict[str, Any] = {"actions": _parts(call.text("a")), "decision": call.text("d")}
    sources = _parts(call.text("i"))
    if sources:
        entry["sourceIps"] = sources
    entries = [entry | {"resource": each} for each in _parts(call.text("r"))]
    acl = {"subject": subject, "policies": [{"entries": entries}]}
    await _on_each(call, code, {"subject": subject}, acl, done)


async def _user(call: Call, address: str, name: str) -> dict[str, Any]:
    return await call.servers.json(address, RequestCode.AUTH_GET_USER, {"username": name})


async def _users(call: Call, address: str, part: str) -> list[dict[str, Any]]:
    ext = _given({"filter": part})
    return await call.servers.listed(address, RequestCode.AUTH_LIST_USER, ext)


async def _acl(call: Call, address: str, subject: str) -> dict[str, Any]:
    """Returns policies, none for a user that is not there."""
    return await call.servers.json(address, RequestCode.AUTH_GET_ACL, {"subject": subject})


async def _acls(call: Call, address: str, subject: str, resource: str) -> list[dict[str, Any]]:
    ext = _given({"subjectFilter": subject, "resourceFilter": resource})
    return await call.servers.listed(address, RequestCode.AUTH_LIST_ACL, ext)


def _print_users(call: Call, users: Iterable[dict[str, Any]]) -> None:
    call.out.row(_USER_LAYOUT, "#UserName", "#Password", "#UserType", "#UserStatus")
    for user in users:
        cells = (user.get(name) for name in ("username", "password", "userType", "userStatus"))
        call.out.row(_USER_LAYOUT, *map(java.text, cells))


def _print_acls(call: Call, acls: Iterable[dict[str, Any]]) -> None:
    heads = ("#Subject", "#PolicyType", "#Resource", "#Actions", "#SourceIp", "#Decision")
    call.out.row(_ACL_LAYOUT, *heads)
    for acl in acls:
        subject = as_text(acl.get("subject"))
        for policy in map(as_dict, as_list(acl.get("policies"))):
            for entry in map(as_dict, as_list(policy.get("entries"))):
                names = ("resource", "actions", "sourceIps", "decision")
                cells = (policy.get("policyType"), *(entry.get(name) for name in names))
                call.out.row(_ACL_LAYOUT, subject, *map(java.text, cells))
