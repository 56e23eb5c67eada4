"""`mqcore acl`: users and what they may, tests of a decision, and what a dry run would refuse.

What is asked of brokers is in `access_brokers`; here is what is typed and printed.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mqcore.cli.cluster import Cluster, cluster_options, confirmed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mqcore.cli.access_brokers import AccessBrokers

_Result = TypeVar("_Result")
_ACTIONS = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List", "All")
_EXIT_FINDING = 1

_broker_option = click.option(
    "-b",
    "--broker",
    "brokers",
    metavar="HOST:PORT",
    multiple=True,
    help="Only this broker; all that name servers know without it.",
)


@click.group()
def acl() -> None:
    """Users, what they may do, and why something is refused."""


def _ask(
    cluster: Cluster,
    brokers: tuple[str, ...],
    work: "Callable[[AccessBrokers], Awaitable[_Result]]",
) -> _Result:
    from mqcore.cli.access_brokers import AccessBrokers
    from mqcore.cli.mqadmin.servers import Servers

    async def asked() -> _Result:
        async with Servers(cluster) as servers:
            return await work(AccessBrokers(servers, brokers))

    return asyncio.run(asked())


@acl.command()
@_broker_option
@cluster_options
def users(cluster: Cluster, brokers: tuple[str, ...]) -> None:
    """List users: kind, status, entries of policies."""
    from mqcore.cli.tables import print_json, print_table

    found = _ask(cluster, brokers, lambda x: x.state())
    rows = [
        {
            "user": user["username"],
            "kind": user.get("userType", ""),
            "status": user.get("userStatus", ""),
            "entries": sum(
                len(policy["entries"])
                for each in found["acls"]
                if each["subject"] == f"User:{user['username']}"
                for policy in each["policies"]
            ),
        }
        for user in found["users"]
    ]
    if cluster.as_json:
        print_json(rows)
        return
    print_table(("user", "kind", "status", "entries"), [tuple(row.values()) for row in rows])


@acl.command()
@click.argument("user")
@click.argument("actions", metavar="ACTION,..")
@click.argument("resources", metavar="RESOURCE...", nargs=-1, required=True)
@click.option("--from", "sources", metavar="IP|CIDR", multiple=True, help="Only from there.")
@click.option("--deny", "is_denied", is_flag=True, help="Deny it.")
@click.option("--default", "is_default", is_flag=True, help="Where no other policy matches.")
@_broker_option
@cluster_options
def grant(
    cluster: Cluster,
    user: str,
    actions: str,
    resources: tuple[str, ...],
    sources: tuple[str, ...],
    brokers: tuple[str, ...],
    *,
    is_denied: bool,
    is_default: bool,
) -> None:
    """Let USER do ACTIONs on RESOURCEs: Topic:orders, Topic:orders*, Group:*, Cluster:*.

    An entry of the same resource is replaced as a whole.
    """
    decision = "Deny" if is_denied else "Allow"
    entry: dict[str, Any] = {"actions": _actions_of(actions), "decision": decision}
    if sources:
        entry["sourceIps"] = list(sources)
    policy = {
        "policyType": "Default" if is_default else "Custom",
        "entries": [entry | {"resource": each} for each in resources],
    }
    _done(cluster, _ask(cluster, brokers, lambda x: x.put(user, [policy])))


@acl.command()
@click.argument("user")
@click.argument("resource", required=False)
@click.option("--default", "is_default", is_flag=True, help="An entry of the default policy.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask before all is revoked.")
@_broker_option
@cluster_options
def revoke(
    cluster: Cluster,
    user: str,
    resource: str | None,
    brokers: tuple[str, ...],
    *,
    is_default: bool,
    is_sure: bool,
) -> None:
    """Take the entry of RESOURCE from USER; all entries without one."""
    if resource is None:
        confirmed(f"Revoke everything that {user} may?", is_sure=is_sure)
    kind = "Default" if is_default else "Custom"
    _done(cluster, _ask(cluster, brokers, lambda x: x.revoke(user, resource or "", kind)))


@acl.command()
@click.argument("user", required=False)
@_broker_option
@cluster_options
def show(cluster: Cluster, user: str | None, brokers: tuple[str, ...]) -> None:
    """Print the entries of USER, or of all, in the order of the broker."""
    from mqcore.cli.tables import print_json, print_table

    found = _ask(cluster, brokers, lambda x: x.state())
    acls = [x for x in found["acls"] if user is None or x["subject"] == f"User:{user}"]
    if cluster.as_json:
        print_json(acls)
    else:
        rows = [
            (
                each["subject"],
                policy["policyType"],
                entry["decision"],
                ",".join(entry["actions"]),
                entry["resource"],
                ",".join(entry.get("sourceIps", ())) or "anywhere",
            )
            for each in acls
            for policy in each["policies"]
            for entry in policy["entries"]
        ]
        print_table(("subject", "policy", "decision", "actions", "resource", "from"), rows)
    if not acls:
        sys.exit(_EXIT_FINDING)


@acl.command("export")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
@click.option("--with-secrets", is_flag=True, help="With the secrets of users; a Super user asks.")
@_broker_option
@cluster_options
def export(
    cluster: Cluster, file: Path | None, brokers: tuple[str, ...], *, with_secrets: bool
) -> None:
    """Write users and policies to FILE, or to standard output."""
    found = _ask(cluster, brokers, lambda x: x.state())
    if with_secrets and any("password" not in user for user in found["users"]):
        raise click.ClickException("secrets are given to a Super user alone")
    if not with_secrets:
        for user in found["users"]:
            user.pop("password", None)
    text = json.dumps(found, ensure_ascii=False, indent=2) + "\n"
    if file is None:
        click.echo(text, nl=False)
        return
    from mqcore.cli.access_files import write_private

    write_private(file, text)


@acl.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", "is_dry", is_flag=True, help="Print what would be changed.")
@_broker_option
@cluster_options
def import_(cluster: Cluster, file: Path, brokers: tuple[str, ...], *, is_dry: bool) -> None:
    """Make users and policies as FILE has them; nothing is deleted.

    A user that is not there yet needs its secret in FILE.
    """
    from mqcore.cli.access_brokers import changes_between
    from mqcore.model.relaxed_json import parse_object

    wanted = parse_object(file.read_bytes())

    async def work(there: "AccessBrokers") -> list[str]:
        changes = changes_between(await there.state(), wanted)
        if not is_dry:
            for change in changes:
                await there.perform(change)
        return [change.text for change in changes]

    texts = _ask(cluster, brokers, work)
    if cluster.as_json:
        click.echo(json.dumps({"changes": texts, "done": not is_dry}, ensure_ascii=False))
        return
    for text in texts or ["nothing differs"]:
        click.echo(text)


@acl.command()
@click.argument("user")
@click.argument("action", type=click.Choice(_ACTIONS, case_sensitive=False))
@click.argument("resource")
@click.option("--from", "source", metavar="IP", default="", help="From where; from here without.")
@_broker_option
@cluster_options
def test(
    cluster: Cluster,
    user: str,
    action: str,
    resource: str,
    source: str,
    brokers: tuple[str, ...],
) -> None:
    """Print whether USER may do ACTION on RESOURCE, and which entry decides.

    The exit code is 0 where it is allowed, 1 where it is not.
    """
    name = next(each for each in _ACTIONS if each.lower() == action.lower())
    found = _ask(cluster, brokers, lambda x: x.explained(user, name, resource, source))
    if cluster.as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
    else:
        outcome = "allowed" if found["allowed"] else "refused"
        click.echo(f"{outcome}: {found['why']}")
        for number, entry in enumerate(found["matched"]):
            mark = "->" if number == 0 else "  "
            where = ",".join(entry["sources"]) or "anywhere"
            actions = ",".join(entry["actions"])
            click.echo(
                f"{mark} {entry['policy']} {entry['decision']} {actions} "
                f"{entry['resource']} from {where}"
            )
        if not found["authorizes"]:
            click.echo("authorization is off there: nobody is asked for rights")
        elif found["dryRun"]:
            click.echo("a dry run: what is refused passes, and is noted")
    if not found["allowed"]:
        sys.exit(_EXIT_FINDING)


@acl.command()
@click.argument("code")
def explain(code: str) -> None:
    """Print what a request needs: CODE is its number or its official name."""
    from mqcore.remoting.request_codes import RULES, OwnRequestCode, RequestCode

    names = {each.name.lower(): each for kind in (RequestCode, OwnRequestCode) for each in kind}
    numbers = {int(each): each for each in names.values()}
    found = numbers.get(int(code)) if code.isdecimal() else names.get(code.lower())
    if found is None:
        raise click.UsageError(f"no request {code}")
    rule = RULES.get(int(found))
    click.echo(f"{found.name} ({int(found)}): {rule or 'no server answers it'}")


@acl.command()
@_broker_option
@cluster_options
def suggest(cluster: Cluster, brokers: tuple[str, ...]) -> None:
    """Print the grants that what was refused needs: after a dry run for all that is used.

    Refusals for want of a signature or of a user are listed behind them.
    """
    from mqcore.cli.access_brokers import suggestions

    refusals = _ask(cluster, brokers, lambda x: x.refusals())
    if cluster.as_json:
        click.echo(json.dumps(refusals, ensure_ascii=False))
        return
    lines = suggestions(refusals)
    for line in lines:
        click.echo(line)
    if not lines:
        click.echo("# nothing was refused")


def _actions_of(text: str) -> list[str]:
    known = {each.lower(): each for each in _ACTIONS}
    found = []
    for part in text.split(","):
        action = known.get(part.strip().lower())
        if action is None:
            raise click.BadParameter(f"{part!r}: {', '.join(_ACTIONS)} are expected")
        found.append(action)
    return found


def _done(cluster: Cluster, brokers: list[str]) -> None:
    if cluster.as_json:
        click.echo(json.dumps({"brokers": brokers}))
        return
    for address in brokers:
        click.echo(f"done at {address}")
