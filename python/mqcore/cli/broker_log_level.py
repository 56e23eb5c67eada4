"""`mqcore broker log-level`: from which level on a running broker logs, all of it or a logger."""

import click

from mqcore.cli.cluster import Cluster, cluster_options

_ALL = "mqcoreLogLevel"
_SINGLE = "mqcoreLogLevels"
# In place of a level: as its parent again.
_DEFAULT = "default"


@click.command("log-level")
@click.argument("address", metavar="HOST:PORT")
@click.argument("levels", metavar="[LOGGER=]LEVEL", nargs=-1)
@cluster_options
def log_level(cluster: Cluster, address: str, levels: tuple[str, ...]) -> None:
    """Print or change from which level on the broker at HOST:PORT logs.

    LEVEL is debug, info, warning or error, of everything; LOGGER=LEVEL of one logger, such as
    mqcore.remoting=debug, and LOGGER=default takes that back. It holds at once, and is kept in the
    broker's file where it has one. Without a level the present ones are printed.
    """
    from mqcore.admin import Admin
    from mqcore.cli.tables import print_json
    from mqcore.config.log_levels import log_levels_of, log_levels_text

    async def work(admin: Admin) -> tuple[str, dict[str, str]]:
        config = await admin.brokers.config(address)
        whole, single = config.get(_ALL, ""), log_levels_of(config.get(_SINGLE, ""))
        changes: dict[str, str] = {}
        for each in levels:
            name, sign, level = each.partition("=")
            if not sign:
                whole = changes[_ALL] = name
            elif level == _DEFAULT:
                single.pop(name, None)
            else:
                single[name] = level
        if any("=" in each for each in levels):
            changes[_SINGLE] = log_levels_text(single)
        if changes:
            await admin.brokers.change_config(address, changes)
        return whole, single

    whole, single = cluster.ask(work)
    if cluster.as_json:
        print_json({"level": whole, "loggers": single})
        return
    click.echo(whole or "unknown: it is no broker of mqcore")
    for name, level in sorted(single.items()):
        click.echo(f"{name}={level}")
