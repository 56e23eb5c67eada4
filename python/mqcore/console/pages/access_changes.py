"""What is changed about users and policies: at every broker of a cluster that answers.

A new password is made here, goes to the brokers, and is shown once: no file and no audit has it.
"""

import secrets
from collections.abc import Sequence
from typing import Final

from mqcore.access import Entry, Resource, User
from mqcore.console.access_at import AccessTables, at_each, cluster_of, entry_text, tables_of
from mqcore.console.pages.access import ACTIONS
from mqcore.console.users import Role
from mqcore.console.views import Asked, Change, Done, InputError, Plan, command, url
from mqcore.errors import MQError

__all__ = ["CHANGES"]

# Of 24 bytes: nobody guesses it.
_PASSWORD_BYTES: Final = 24
_KINDS: Final = ("Normal", "Super")
_STATUSES: Final = ("enable", "disable")
_COLUMNS: Final = ("broker", "now", "afterwards")
_RESOURCES_MAX: Final = 20
_SOURCES_MAX: Final = 20


def _name(asked: Asked) -> str:
    name = asked.parts.get("user") or asked.form.get("name", "").strip()
    try:
        User(name, "").check()
    except MQError as error:
        raise InputError(error.message) from error
    return name


def _one_of(asked: Asked, name: str, words: tuple[str, ...]) -> str:
    found = asked.form.get(name, words[0])
    if found not in words:
        raise InputError(f"{name}: one of {', '.join(words)} is expected")
    return found


async def _tables(asked: Asked) -> tuple[str, AccessTables]:
    """Returns the cluster, and what its brokers have; none may be without an answer.

    Raises:
        InputError: A broker does not answer: it would be left as it is.
    """
    cluster, _ = await cluster_of(asked)
    tables = await tables_of(asked.questions, cluster)
    if asked.questions.faults:
        why = "; ".join(f"{each.where}: {each.text}" for each in asked.questions.faults)
        raise InputError(f"every broker of the cluster has to take it: {why}")
    if tables.without:
        why = "; ".join(f"{broker}: {each}" for broker, each in tables.without.items())
        raise InputError(f"every broker of the cluster has to take it: {why}")
    if not tables.brokers:
        raise InputError("there is no broker to change it at")
    return cluster, tables


async def _known(asked: Asked) -> tuple[str, AccessTables, str]:
    cluster, tables = await _tables(asked)
    name = _name(asked)
    if name not in tables.users:
        raise InputError(f"there is no user {name[:100]!r}")
    return cluster, tables, name


def _with_failures(text: str, failed: Sequence[str]) -> str:
    """Returns what was done, and at which brokers it was not."""
    return f"{text}; not done at {'; '.join(failed)}" if failed else text


async def _plan_create(asked: Asked) -> Plan:
    name, kind = _name(asked), _one_of(asked, "kind", _KINDS)
    cluster, tables = await _tables(asked)
    if name in tables.users:
        raise InputError(f"there is a user {name} already")
    words = ("createUser", "-c", cluster, "-u", name, "-p", "PASSWORD", "-t", kind)
    return Plan(
        f"Make user {name}",
        "Make it, and show its password",
        _COLUMNS,
        tuple((broker, "not there", f"{kind}, enable") for broker in tables.brokers),
        command(asked, words, tool="mqadmin"),
        url("access", cluster=cluster),
        warning="A Super user may do everything." if kind == "Super" else "",
    )


async def _create(asked: Asked) -> Done:
    name, kind = _name(asked), _one_of(asked, "kind", _KINDS)
    cluster, tables = await _tables(asked)
    password, access = secrets.token_urlsafe(_PASSWORD_BYTES), asked.questions.admin.access
    failed = await at_each(
        tables.brokers,
        lambda address: access.create_user(User(name, password, kind), brokers=[address]),
    )
    text = f"user {name} was made; its password, shown this once: {password}"
    return Done(_with_failures(text, failed), url("access", name, cluster=cluster))


async def _plan_password(asked: Asked) -> Plan:
    cluster, tables, name = await _known(asked)
    words = ("updateUser", "-c", cluster, "-u", name, "-p", "PASSWORD")
    return Plan(
        f"Give {name} a new password",
        "Make it, and show it",
        _COLUMNS,
        tuple((broker, "the old one", "a new one") for broker in tables.has(name)),
        command(asked, words, tool="mqadmin"),
        url("access", name, cluster=cluster),
        warning="Clients with the old one are refused from then on.",
    )


async def _password(asked: Asked) -> Done:
    cluster, tables, name = await _known(asked)
    password, access = secrets.token_urlsafe(_PASSWORD_BYTES), asked.questions.admin.access
    failed = await at_each(
        tables.has(name),
        lambda address: access.change_user(User(name, password), brokers=[address]),
    )
    text = f"the new password of {name}, shown this once: {password}"
    return Done(_with_failures(text, failed), url("access", name, cluster=cluster))


async def _plan_status(asked: Asked) -> Plan:
    cluster, tables, name = await _known(asked)
    status = _one_of(asked, "status", _STATUSES)
    shapes = tables.shapes_of(name)
    return Plan(
        f"{status.capitalize()} {name}",
        f"{status.capitalize()} it",
        _COLUMNS,
        tuple((broker, shapes[broker], status) for broker in tables.has(name)),
        command(asked, ("updateUser", "-c", cluster, "-u", name, "-s", status), tool="mqadmin"),
        url("access", name, cluster=cluster),
        warning="" if status == "enable" else "Its clients are refused from then on.",
    )


async def _status(asked: Asked) -> Done:
    cluster, tables, name = await _known(asked)
    status, access = _one_of(asked, "status", _STATUSES), asked.questions.admin.access
    failed = await at_each(
        tables.has(name),
        lambda address: access.change_user(User(name, "", status=status), brokers=[address]),
    )
    return Done(_with_failures(f"{name}: {status}d", failed), url("access", name, cluster=cluster))


async def _plan_delete(asked: Asked) -> Plan:
    cluster, tables, name = await _known(asked)
    shapes = tables.shapes_of(name)
    entries = sum(key[0] == name for key in tables.entries)
    return Plan(
        f"Delete user {name}",
        "Delete it",
        _COLUMNS,
        tuple((broker, shapes[broker], "gone") for broker in tables.has(name)),
        command(asked, ("deleteUser", "-c", cluster, "-u", name), tool="mqadmin"),
        url("access", name, cluster=cluster),
        warning=f"Its {entries} entries go with it; its clients are refused from then on.",
        confirm=name,
    )


async def _delete(asked: Asked) -> Done:
    cluster, tables, name = await _known(asked)
    access = asked.questions.admin.access
    failed = await at_each(
        tables.has(name), lambda address: access.delete_user(name, brokers=[address])
    )
    return Done(_with_failures(f"user {name} was deleted", failed), url("access", cluster=cluster))


def _words(text: str, what: str, most: int) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(text.replace(",", " ").split()))
    if len(found) > most:
        raise InputError(f"at most {most} {what}")
    return found


def _grant_of(asked: Asked) -> list[Entry]:
    """Returns the entries of a form, alike but for their resources."""
    actions = asked.chosen or _words(asked.form.get("actions", ""), "actions", len(ACTIONS))
    resources = _words(asked.form.get("resource", ""), "resources", _RESOURCES_MAX)
    sources = _words(asked.form.get("sources", ""), "addresses", _SOURCES_MAX)
    if not actions or any(each not in ACTIONS for each in actions):
        raise InputError(f"actions: some of {', '.join(ACTIONS)} are expected")
    if not resources:
        raise InputError("a resource is to be named, such as Topic:orders*")
    decision = _one_of(asked, "decision", ("Allow", "Deny"))
    entries = []
    for each in resources:
        entry = Entry(Resource.of_text(each), actions, sources, decision)
        try:
            entry.check()
        except MQError as error:
            raise InputError(f"{each[:100]}: {error.message}") from error
        entries.append(entry)
    return entries


def _policy(asked: Asked) -> str:
    return _one_of(asked, "policy", ("Custom", "Default"))


def _at(tables: AccessTables, cluster: str, clusters: list[str]) -> list[str]:
    """Returns the words of `mqcore acl` that name the brokers, where it is not all there are."""
    if clusters == [cluster]:
        return []
    return [word for address in tables.brokers.values() for word in ("-b", address)]


async def _plan_grant(asked: Asked) -> Plan:
    cluster, tables, name = await _known(asked)
    _, clusters = await cluster_of(asked)
    entries, policy = _grant_of(asked), _policy(asked)
    first, resources = entries[0], [str(each.resource) for each in entries]
    after = entry_text(first)
    rows = tuple(
        (
            broker,
            f"{each}: {entry_text(tables.entries.get((name, policy, each), {}).get(broker))}",
            f"{each}: {after}",
        )
        for broker in tables.has(name)
        for each in resources
    )
    words = ["acl", "grant", name, ",".join(first.actions), *resources]
    words += [word for each in first.sources for word in ("--from", each)]
    words += ["--deny"] if first.decision == "Deny" else []
    words += ["--default"] if policy == "Default" else []
    return Plan(
        f"{first.decision} {name} something",
        "Do it",
        _COLUMNS,
        rows,
        command(asked, [*words, *_at(tables, cluster, clusters)]),
        url("access", name, cluster=cluster),
        warning="An entry of the same resource is replaced as a whole.",
    )


async def _grant(asked: Asked) -> Done:
    cluster, tables, name = await _known(asked)
    entries = _grant_of(asked)
    is_default, access = _policy(asked) == "Default", asked.questions.admin.access
    failed = await at_each(
        tables.has(name),
        lambda address: access.grant(name, *entries, is_default=is_default, brokers=[address]),
    )
    what = "is denied" if entries[0].decision == "Deny" else "may"
    resources = ", ".join(str(each.resource) for each in entries)
    text = f"{name} {what} {','.join(entries[0].actions)} on {resources}"
    return Done(_with_failures(text, failed), url("access", name, cluster=cluster))


async def _entry(asked: Asked) -> tuple[str, AccessTables, str, str, str]:
    cluster, tables, name = await _known(asked)
    policy, resource = _policy(asked), asked.form.get("resource", "").strip()
    if (name, policy, resource) not in tables.entries:
        raise InputError(f"{name} has no entry of {resource[:100]!r} ({policy})")
    return cluster, tables, name, policy, resource


async def _plan_revoke(asked: Asked) -> Plan:
    cluster, tables, name, policy, resource = await _entry(asked)
    _, clusters = await cluster_of(asked)
    at = tables.entries[name, policy, resource]
    words = ["acl", "revoke", name, resource]
    words += ["--default"] if policy == "Default" else []
    return Plan(
        f"Take {resource} from {name}",
        "Take it",
        _COLUMNS,
        tuple((broker, entry_text(at[broker]), "gone") for broker in at),
        command(asked, [*words, *_at(tables, cluster, clusters)]),
        url("access", name, cluster=cluster),
        warning="Its clients see it with their next request.",
    )


async def _revoke(asked: Asked) -> Done:
    cluster, tables, name, policy, resource = await _entry(asked)
    at, access = tables.entries[name, policy, resource], asked.questions.admin.access
    addresses = {broker: tables.brokers[broker] for broker in at}
    what = next(iter(at.values())).resource
    failed = await at_each(
        addresses,
        lambda address: access.revoke(
            name, what, is_default=policy == "Default", brokers=[address]
        ),
    )
    return Done(
        _with_failures(f"{resource} was taken", failed), url("access", name, cluster=cluster)
    )


_ADMIN: Final = Role.ADMIN
CHANGES: Final = (
    Change("/access", "user create", _ADMIN, _plan_create, _create),
    Change("/access/{user:path}/password", "user password", _ADMIN, _plan_password, _password),
    Change("/access/{user:path}/status", "user status", _ADMIN, _plan_status, _status),
    Change("/access/{user:path}/delete", "user delete", _ADMIN, _plan_delete, _delete),
    Change("/access/{user:path}/grant", "grant", _ADMIN, _plan_grant, _grant),
    Change("/access/{user:path}/revoke", "revoke", _ADMIN, _plan_revoke, _revoke),
)
