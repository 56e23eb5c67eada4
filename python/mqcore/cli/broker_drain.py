"""`mqcore broker drain` and `undrain`: a broker is taken out of use, and back.

Waits, prints how far it is, and starts what is to follow. What is done is `mqcore.admin.draining`.
"""

import asyncio
import shlex
import subprocess
from typing import TYPE_CHECKING

import click

from mqcore.cli.cluster import Cluster, cluster_options, confirmed

if TYPE_CHECKING:
    from collections.abc import Callable

    from mqcore.admin import Admin
    from mqcore.admin.draining import DrainState

# Between two looks: each asks the broker once per topic.
_LOOK_S = 2.0
# Clients ask for routes every 30 s by default: after twice that no producer has an old one.
_ROUTES_S = 60.0
# Nothing that came in this time: producers have gone over.
_QUIET_S = 5.0
# Lines of what is left that are printed at a time.
_LINES_MAX = 20
_EXIT_LEFT = 1


@click.command()
@click.argument("name", metavar="BROKER_NAME")
@click.option("--dry-run", "is_plan", is_flag=True, help="Print what is left; change nothing.")
@click.option(
    "--timeout-minutes",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="End with exit code 1 after this; the broker stays without writers.",
)
@click.option(
    "--ignore-pending",
    "ignores_pending",
    is_flag=True,
    help="Do not wait for delayed, timed and half messages.",
)
@click.option("--then", "command", help="Run this when nothing is left, such as systemctl stop.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@cluster_options
@click.pass_context
def drain(
    context: click.Context,
    cluster: Cluster,
    name: str,
    is_plan: bool,
    timeout_minutes: float,
    ignores_pending: bool,
    command: str | None,
    is_sure: bool,
) -> None:
    """Let producers leave the master of BROKER_NAME, and consumers read what it has.

    Name servers give no route for writing to it any more (205); when producers have gone over it
    refuses sends itself (brokerPermission), which holds over restarts. Then it waits until every
    group has read all, and nothing is pending. Dead letters and topics that no group reads are
    named, and not waited for. Interrupted, the same command goes on; `undrain` takes it back.

    For brokers of mqcore and RocketMQ. Exit code 1 where something is left.
    """
    if not is_plan:
        confirmed(f"{name} will take no sends any more.", is_sure=is_sure)
    state = cluster.ask(
        lambda admin: _drained(
            admin,
            name,
            is_plan=is_plan,
            limit_s=timeout_minutes * 60,
            ignores_pending=ignores_pending,
            show=_silent if cluster.as_json else _show,
        )
    )
    if cluster.as_json:
        from mqcore.cli.tables import print_json

        print_json(state.to_json())
    is_done = _is_done(state, ignores_pending=ignores_pending)
    if is_plan or not is_done:
        context.exit(0 if is_done else _EXIT_LEFT)
    if not cluster.as_json:
        click.echo(f"{name} is drained")
    if command is not None:
        context.exit(subprocess.call(shlex.split(command)))


@click.command()
@click.argument("name", metavar="BROKER_NAME")
@cluster_options
def undrain(cluster: Cluster, name: str) -> None:
    """Let the master of BROKER_NAME take sends again, after `drain`."""
    from mqcore.admin.draining import undrained

    wide = cluster.ask(lambda admin: undrained(admin, name))
    if cluster.as_json:
        from mqcore.cli.tables import print_json

        print_json({"broker": name, "allTopicsWritableAt": list(wide)})
        return
    click.echo(f"{name} takes sends again")
    for server in wide:
        click.echo(
            f"{server} gives routes for writing to all its topics, also those that were read-only, "
            "until the broker registers a change"
        )


async def _drained(
    admin: "Admin",
    name: str,
    *,
    is_plan: bool,
    limit_s: float,
    ignores_pending: bool,
    show: "Callable[[str, DrainState], None]",
) -> "DrainState":
    from mqcore.admin.draining import Draining

    draining = Draining(admin, name)
    state = await draining.look()
    if is_plan:
        show("nothing is changed", state)
        return state
    loop = asyncio.get_running_loop()
    began_s = quiet_s = loop.time()
    while True:
        if state.takes_sends or state.writable_at:
            await draining.wipe()
            state = await draining.look()
        now_s = loop.time()
        is_over = now_s - quiet_s >= _QUIET_S or now_s - began_s >= _ROUTES_S
        if state.takes_sends and is_over:
            await draining.refuse()
            state = await draining.look()
        show(_phase(state), state)
        if _is_done(state, ignores_pending=ignores_pending) or loop.time() - began_s >= limit_s:
            return state
        await asyncio.sleep(_LOOK_S)
        before, state = state, await draining.look()
        if state.written_since(before):
            quiet_s = loop.time()


def _is_done(state: "DrainState", *, ignores_pending: bool) -> bool:
    if ignores_pending:
        return not (state.takes_sends or state.writable_at or state.lag)
    return state.is_empty


def _phase(state: "DrainState") -> str:
    if state.takes_sends:
        return "producers go over"
    return "consumers read" if state.lag else "pending" if state.pending else "done"


def _silent(_phase: str, _state: "DrainState") -> None:
    """Prints nothing."""


def _show(phase: str, state: "DrainState") -> None:
    """Prints what is left: a line, and one per group that is behind."""
    click.echo(
        f"{state.name} at {state.address}: {phase}; {state.lag} messages not read, "
        f"{state.delayed} delayed, {sum(state.timed.values())} timed, {state.half} half messages"
    )
    for lag in state.lags[:_LINES_MAX]:
        click.echo(f"  {lag.topic}: {lag.group} has {lag.messages} to read")
    if len(state.lags) > _LINES_MAX:
        click.echo(f"  and {len(state.lags) - _LINES_MAX} more")
    for topic, count in (*state.unread.items(), *state.dead.items()):
        click.echo(f"  {topic}: {count} messages that no group reads stay here")
