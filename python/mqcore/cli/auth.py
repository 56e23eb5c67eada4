"""`mqcore auth`: the first Super user, and the file by which tools are it."""

import asyncio
import os
import secrets
from pathlib import Path

import click

# Of 32 bytes: nobody guesses it.
_SECRET_BYTES = 32
_TIMEOUT_S = 5.0


@click.group()
def auth() -> None:
    """Begin with access control."""


@auth.command()
@click.argument(
    "directory",
    metavar="[DIR]",
    required=False,
    type=click.Path(file_okay=False, path_type=Path),
)
@click.option("--namesrv", "is_plain", is_flag=True, help="DIR is that of users.json itself.")
@click.option("--broker", metavar="HOST:PORT", help="A broker that runs, without access control.")
@click.option("--user", default="admin", show_default=True, help="The name of the user.")
@click.option(
    "--tools",
    "tools",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="The file of credentials; $MQCORE_TOOLS_FILE, else tools.yml here.",
)
def init(
    directory: Path | None,
    broker: str | None,
    user: str,
    tools: Path | None,
    *,
    is_plain: bool,
) -> None:
    """Make a Super user with a random secret, and write that to a file for tools.

    DIR is the store of a broker that is stopped, or with --namesrv the directory of users.json of a
    name server or controller; a running broker is named with --broker. mqadmin reads the file as
    conf/tools.yml below ROCKETMQ_HOME, mqcore by MQCORE_TOOLS_FILE. Only its owner may read it.
    """
    from mqcore.cli.access_files import write_private
    from mqcore.model.tools_file import TOOLS_FILE_VARIABLE, tools_text

    if (directory is None) == (broker is None):
        raise click.UsageError("name either DIR or --broker")
    target = tools or Path(os.environ.get(TOOLS_FILE_VARIABLE) or "tools.yml")
    if target.exists():
        raise click.ClickException(f"{target} is there already: name another file with --tools")
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    # The file first: a user whose secret nobody has would be of no use.
    write_private(target, tools_text(user, secret))
    try:
        if broker is not None:
            asyncio.run(_make_at(broker, user, secret))
        else:
            assert directory is not None
            where = directory if is_plain else directory / "config"
            asyncio.run(_make_in(where, user, secret))
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    click.echo(f"user {user} is a Super user; {target} has its secret")
    click.echo("Super users come from this machine alone, until mqcoreSuperFrom has others")


async def _make_at(address: str, user: str, secret: str) -> None:
    from mqcore.access.model import SUPER, User
    from mqcore.model.relaxed_json import compact
    from mqcore.remoting import Client, RequestCode, expect

    body = compact(User(user, secret, SUPER).to_json(with_secret=True))
    async with Client() as client:
        code, ext = RequestCode.AUTH_CREATE_USER, {"username": user}
        expect(await client.call(address, code, ext, body, timeout_s=_TIMEOUT_S), address)


async def _make_in(where: Path, user: str, secret: str) -> None:
    from mqcore.access import AccessControl
    from mqcore.access.model import SUPER, User
    from mqcore.config import settings_of_pairs

    settings = settings_of_pairs({})
    control = AccessControl(settings.access, cluster=settings.cluster, directory=where)
    await asyncio.to_thread(control.load)
    await control.change(lambda tables: tables.with_new(User(user, secret, SUPER)))
