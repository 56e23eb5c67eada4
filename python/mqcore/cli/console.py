"""`mqcore console`: the web console of a cluster, and its users."""

import sys
from pathlib import Path

import click

from mqcore.cli.cluster import Cluster, cluster_options
from mqcore.cli.console_parts import console_of, default_data, require_extra
from mqcore.cli.program import ProgramOptions
from mqcore.cli.serving import serve

__all__ = ["console"]

_PORT = 8180
_ROLES = ("reader", "operator", "admin")


_DATA = click.option(
    "--data",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where users and the audit log are kept; by default below ~/.local/state.",
)


@click.group(invoke_without_command=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=_PORT,
    show_default=True,
    help="Port to listen on; 0: any free one.",
)
@_DATA
@click.option(
    "--tls-cert",
    "certificate",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Serve HTTPS with this certificate, PEM.",
)
@click.option(
    "--tls-key",
    "key",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Its private key, PEM.",
)
@click.option(
    "--behind-proxy",
    "proxies",
    metavar="ADDR",
    multiple=True,
    help="Address of a proxy that speaks HTTPS for it, and sets X-Forwarded-For and -Proto.",
)
@click.option(
    "--port-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the port chosen is written to, as JSON.",
)
@cluster_options
@click.pass_context
def console(
    ctx: click.Context,
    cluster: Cluster,
    host: str,
    port: int,
    data: Path | None,
    certificate: Path | None,
    key: Path | None,
    proxies: tuple[str, ...],
    port_file: Path | None,
) -> None:
    """Run the web console of a cluster, of mqcore or of RocketMQ, until a signal ends it.

    The first start makes the user admin, and prints the password once.
    """
    if ctx.invoked_subcommand is not None:
        return
    require_extra()
    # Imported here: the other commands need no web server.
    from mqcore.console import Console, ConsoleSettings

    settings = ConsoleSettings(
        namesrv=cluster.namesrv,
        data=(data or default_data()).expanduser().absolute(),
        host=host,
        port=port,
        credentials=cluster.credentials,
        tls=cluster.tls,
        certificate=certificate,
        key=key,
        proxies=proxies,
    )
    settings.check()
    options = ProgramOptions(port_file=port_file)
    options.start_logging()
    serve(
        options,
        "console",
        lambda: console_of(Console(settings)),
        about=f"cluster of {cluster.namesrv}, users in {settings.data}",
    )


@console.command("user")
@click.argument("name")
@click.option("--role", type=click.Choice(_ROLES), default="reader", show_default=True)
@click.option("--remove", "is_removed", is_flag=True, help="Remove the user instead.")
@_DATA
def user(name: str, role: str, is_removed: bool, data: Path | None) -> None:
    """Add the user NAME, or replace it; the password is read from standard input.

    On a terminal it is asked for. A console that runs takes it from then on.
    """
    from mqcore.console.users import Role, Users

    users = Users((data or default_data()).expanduser().absolute() / "users.json")
    if is_removed:
        if not users.remove(name):
            raise click.ClickException(f"there is no user {name}")
        click.echo(f"user {name} was removed")
        return
    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.readline().rstrip("\n")
    users.put(name, Role[role.upper()], password)
    click.echo(f"user {name} has the role {role}")
