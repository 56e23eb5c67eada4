"""`mqcore cluster`: what concerns the brokers of a name together."""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import click

from mqcore.cli.cluster import Cluster, cluster_options

if TYPE_CHECKING:
    from mqcore.admin import Admin, HandOver

# Between two looks how far a hand-over is; the whole takes less than a second.
_LOOK_S = 0.1


@click.group("cluster")
def cluster() -> None:
    """Change who is master among the brokers of a name."""


@cluster.command("hand-over")
@click.argument("broker_name")
@click.option("--to", metavar="ADDRESS", help="The next master, HOST:PORT; else whoever has most.")
@click.option("--dry-run", "is_plan", is_flag=True, help="Say who would be master; change nothing.")
@cluster_options
def hand_over(cluster: Cluster, broker_name: str, to: str | None, is_plan: bool) -> None:
    """Let the master of BROKER_NAME hand its role to a slave, with no send refused.

    For brokers of mqcore under a controller. Sends wait for a moment; then the former master
    passes on what clients go on to send to it, until they know the new one. Where it cannot be
    done the master stays what it is, and the reason is printed.
    """
    from mqcore.cli.tables import print_json
    from mqcore.errors import MQError

    async def work(admin: "Admin") -> "tuple[str, HandOver]":
        address = await _master(admin, broker_name)
        if is_plan:
            return address, await admin.brokers.plan_hand_over(address, to)
        done = await admin.brokers.hand_over(address, to)
        return address, await _until_over(admin, address, done, shows=not cluster.as_json)

    address, done = cluster.ask(work)
    if cluster.as_json:
        print_json({"brokerName": broker_name, "from": address, **_row(done)})
    elif is_plan:
        click.echo(f"{broker_name}: {address} would hand over to {done.successor}")
    elif done.phase == "done":
        click.echo(
            f"{done.successor} is master in epoch {done.epoch}; requests waited {done.parked_ms} ms"
        )
    if done.phase == "failed":
        raise MQError(f"{address} is the master as before: {done.why}")


async def _until_over(admin: "Admin", address: str, done: "HandOver", *, shows: bool) -> "HandOver":
    """Returns how a hand-over ended, and prints its steps meanwhile."""
    from mqcore.errors import ConnectionLostError

    if shows:
        click.echo(f"{address} hands over to {done.successor}")
    shown = 0
    while True:
        for step in done.steps[shown:] if shows else ():
            click.echo(f"{step.at_ms:>6} ms  {step.what}")
        shown = len(done.steps)
        if done.is_over:
            return done
        await asyncio.sleep(_LOOK_S)
        # Its store was opened anew: somebody else was elected meanwhile.
        with contextlib.suppress(ConnectionLostError):
            done = await admin.brokers.handed_over(address)


async def _master(admin: "Admin", broker_name: str) -> str:
    """Returns the address of the master of a name.

    Raises:
        UsageError: Name servers know no such name, or no master of it.
    """
    known = (await admin.brokers.cluster()).brokers
    if broker_name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise click.UsageError(f"name servers know no broker {broker_name}; they know: {names}")
    address = known[broker_name].get(0)
    if address is None:
        raise click.UsageError(f"name servers know no master of {broker_name}")
    return address


def _row(done: "HandOver") -> dict[str, Any]:
    return {
        "phase": done.phase,
        "to": done.successor,
        "toId": done.successor_id,
        "epoch": done.epoch,
        "waitedMs": done.parked_ms,
        "why": done.why,
        "steps": [{"atMs": step.at_ms, "what": step.what} for step in done.steps],
    }
