"""`mqcore broker quotas`: the limits of brokers that are at work, and whom they hold back."""

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from mqcore.cli.cluster import Cluster, cluster_options, some_at_once
from mqcore.errors import MQError

if TYPE_CHECKING:
    from mqcore.admin import Admin, BrokerLimits

_COLUMNS = ("rule", "limits, a second", "waiting", "held", "s in all", "refused", "most behind")
_MS_PER_S = 1_000


@click.command()
@click.option(
    "-b", "--broker", "address", metavar="HOST:PORT", help="This broker; otherwise all of them."
)
@cluster_options
def quotas(cluster: Cluster, address: str | None) -> None:
    """Show quotas with whom they hold back, connections by address and user, wrong signatures.

    Rules are set by mqcoreQuotas, such as
    `mqcore admin updateBrokerConfig -c CLUSTER -k mqcoreQuotas -v
    'topic:orders*=producer_byte_rate:1048576'`. With --json one object per broker.
    """
    asyncio.run(_shown(cluster, address))


async def _shown(cluster: Cluster, address: str | None) -> None:
    from mqcore.cli.tables import console, print_json, table_of

    async with cluster.admin() as admin:
        asked = [("", address)] if address else await _brokers(admin)
        found = zip(asked, await some_at_once(asked, _asking(admin, asked)), strict=True)
        for (name, at), limits in found:
            if limits is None:
                # A broker of RocketMQ does not know the request.
                continue
            if cluster.as_json:
                print_json({"broker": name, "address": at, **asdict(limits)})
                continue
            rows = [_row(each) for each in limits.quotas]
            title = f"{name} {at}".strip()
            console().print(table_of(_COLUMNS, rows, title=title))
            for line in _lines(limits):
                click.echo(line)


async def _brokers(admin: "Admin") -> list[tuple[str, str]]:
    known = await admin.brokers.cluster()
    return [(name, at) for name, all_ in known.brokers.items() for at in all_.values()]


def _asking(admin: "Admin", asked: list[tuple[str, str]]) -> Any:
    async def one(who: tuple[str, str]) -> "BrokerLimits | None":
        try:
            return await admin.brokers.limits(who[1])
        except MQError:
            if len(asked) == 1:
                raise
            return None

    return one


def _row(each: Any) -> list[Any]:
    limits = ", ".join(f"{name} {rate:,}" for name, rate in each.limits.items())
    owing = ", ".join(f"{name} {ms / _MS_PER_S:.1f} s" for name, ms in each.owing.items())
    held_s = round(each.held_ms / _MS_PER_S, 1)
    return [each.rule, limits, each.waiting, each.held, held_s, each.refused, owing]


def _lines(limits: "BrokerLimits") -> list[str]:
    most = ", ".join(f"{address} {count}" for address, count in limits.addresses.items())
    users = ", ".join(f"{each.user} {each.connections}" for each in limits.users)
    bound = f"{limits.held_bytes_per_user:,} bytes" if limits.held_bytes_per_user else "any amount"
    return [
        f"connections: {limits.connections_per_address or 'any number'} per address, "
        f"{limits.connections_refused} refused; most: {most or 'none'}",
        f"users: {limits.connections_per_user or 'any number'} of connections, {bound} held; "
        f"{limits.users_refused} refused, {limits.users_paused} times read no further; "
        f"most: {users or 'none'}",
        f"wrong signatures: {limits.failures_late} answered late, "
        f"{limits.failures_unanswered} not at all",
        f"changes: {limits.changes_per_second or 'any number'} a second per user, "
        f"{limits.changes_held} held back, {limits.changes_refused} refused",
    ]
