"""`mqcore group create`, `update`, `settings`, `mode`: how a group may consume and retry."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from mqcore.cli.cluster import Cluster, cluster_options
from mqcore.cli.lags import require_group
from mqcore.cli.times import SPAN
from mqcore.errors import MQError
from mqcore.model.groups import GroupConfig
from mqcore.model.request_modes import MODES, RequestMode
from mqcore.model.retry_policies import CustomizedPolicy, ExponentialPolicy, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

    from mqcore.admin import Admin

_USUAL = ExponentialPolicy()
# Pauses that are shown for people; JSON has the policy itself.
_PAUSES_SHOWN = 6
_MS_PER_S = 1_000


def _settings_options(command: "Callable[..., Any]") -> "Callable[..., Any]":
    """Adds the settings of a group to a command, which takes them as `changes` and `policy`."""
    options = [
        click.option("--consume/--no-consume", "is_consume_enabled", default=None),
        click.option("--broadcast/--no-broadcast", "is_broadcast_enabled", default=None),
        click.option("--notify/--no-notify", "notifies_changes", default=None),
        click.option(
            "--retries",
            "retry_max_times",
            type=click.IntRange(0),
            help="Retries before it is dead.",
        ),
        click.option("--retry-queues", type=click.IntRange(0), help="0: nothing is retried."),
        click.option("--broker", "broker_id", type=int, help="Id of the broker to read from."),
        click.option("--slow-broker", "slow_broker_id", type=int, help="The same when far behind."),
        click.option(
            "--pauses",
            metavar="SPAN,...",
            help="Retry policy of 5.x: 10s,1m,5m; the first retry takes the third.",
        ),
        click.option("--pause-first", type=SPAN, help="Retry policy of 5.x: the first pause, 5s."),
        click.option("--pause-max", type=SPAN, help="The longest pause, 2h."),
        click.option("--pause-factor", type=click.IntRange(1), help="How fast it grows, 2."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.argument("name")
@click.option("-c", "--cluster", "cluster_name", metavar="NAME", help="Only in this cluster.")
@_settings_options
@cluster_options
def create(cluster: Cluster, name: str, cluster_name: str | None, **options: Any) -> None:
    """Create the group NAME on all masters.

    A retry policy is for clients behind the proxy of 5.x; others retry by the delay levels.
    """
    changed = _changes(options)

    async def work(admin: "Admin") -> list[str]:
        known = await admin.groups.configs(cluster=cluster_name)
        if name in known:
            raise MQError(f"group {name} is there already: see `mqcore group update`")
        return await admin.groups.put(_with(GroupConfig(name), changed), cluster=cluster_name)

    _print_brokers(cluster, name, cluster.ask(work))


@click.command()
@click.argument("name")
@click.option("-c", "--cluster", "cluster_name", metavar="NAME", help="Only in this cluster.")
@_settings_options
@cluster_options
def update(cluster: Cluster, name: str, cluster_name: str | None, **options: Any) -> None:
    """Change settings of the group NAME, on every broker that has it; the rest stays."""
    changed = _changes(options)
    if not changed:
        raise click.UsageError("nothing to change was given: see `mqcore group update --help`")

    from mqcore.admin.groups import unknown_group

    async def work(admin: "Admin") -> list[str]:
        known = (await admin.groups.configs(cluster=cluster_name)).get(name)
        if not known:
            raise unknown_group(name)
        masters = (await admin.brokers.cluster()).masters(cluster_name)
        for broker, config in known.items():
            await admin.groups.put(_with(config, changed), brokers=[masters[broker]])
        return sorted(masters[broker] for broker in known)

    _print_brokers(cluster, name, cluster.ask(work))


@click.command()
@click.argument("name")
@cluster_options
def settings(cluster: Cluster, name: str) -> None:
    """Show the settings of the group NAME on each broker."""
    from mqcore.admin.groups import unknown_group
    from mqcore.cli.tables import print_json, print_pairs

    async def work(admin: "Admin") -> dict[str, GroupConfig]:
        known = (await admin.groups.configs()).get(name)
        if not known:
            raise unknown_group(name)
        return known

    known = cluster.ask(work)
    if cluster.as_json:
        print_json({broker: config.to_json() for broker, config in known.items()})
        return
    for broker, config in known.items():
        policy = config.retry_policy
        pauses = (policy.pause_ms(tries) / _MS_PER_S for tries in range(_PAUSES_SHOWN))
        shown = ", ".join(f"{pause:g}" for pause in pauses)
        print_pairs(
            {
                "broker": broker,
                "may consume": config.is_consume_enabled,
                "may broadcast": config.is_broadcast_enabled,
                "notifies members": config.notifies_changes,
                "retries": config.retry_max_times,
                "retry queues": config.retry_queues,
                "reads from": f"broker {config.broker_id}, far behind {config.slow_broker_id}",
                "retry policy": f"{config.policy_type}, s: {shown}, ...",
            }
        )


@click.command()
@click.argument("name")
@click.argument("topic")
@click.argument("mode", type=click.Choice([each.lower() for each in MODES]))
@click.option("--share", type=int, default=0, help="Of pop: members beside the own; 0: all.")
@click.option("-c", "--cluster", "cluster_name", metavar="NAME", help="Only in this cluster.")
@cluster_options
def mode(
    cluster: Cluster, name: str, topic: str, mode: str, share: int, cluster_name: str | None
) -> None:
    """Let members of the group NAME ask for TOPIC by pull or by pop.

    It holds for clients that let the broker assign their queues.
    """
    wanted = RequestMode(topic, name, mode.upper(), share)

    async def work(admin: "Admin") -> list[str]:
        await require_group(admin, name)
        return await admin.groups.set_mode(wanted, cluster=cluster_name)

    _print_brokers(cluster, name, cluster.ask(work))


def _changes(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields that options were given for.

    Raises:
        UsageError: Both kinds of a retry policy were given.
    """
    pauses = options.pop("pauses")
    growing = {name: options.pop(f"pause_{name}") for name in ("first", "max", "factor")}
    changed = {name: value for name, value in options.items() if value is not None}
    if pauses is not None and any(value is not None for value in growing.values()):
        raise click.UsageError(
            "give either --pauses, or --pause-first, --pause-max, --pause-factor"
        )
    policy: RetryPolicy | None = None
    if pauses is not None:
        policy = CustomizedPolicy(_pauses_ms(pauses))
    elif any(value is not None for value in growing.values()):
        policy = ExponentialPolicy(
            growing["first"] if growing["first"] is not None else _USUAL.initial_ms,
            growing["max"] if growing["max"] is not None else _USUAL.max_ms,
            growing["factor"] if growing["factor"] is not None else _USUAL.multiplier,
        )
    return changed | ({"policy": policy} if policy is not None else {})


def _pauses_ms(text: str) -> tuple[int, ...]:
    return tuple(SPAN.convert(part.strip(), None, None) for part in text.split(","))


def _with(config: GroupConfig, changed: dict[str, Any]) -> GroupConfig:
    fields = dict(changed)
    policy: RetryPolicy | None = fields.pop("policy", None)
    made = replace(config, **fields)
    return made if policy is None else made.with_policy(policy)


def _print_brokers(cluster: Cluster, name: str, addresses: list[str]) -> None:
    from mqcore.cli.tables import print_json

    if cluster.as_json:
        print_json({"group": name, "brokers": addresses})
    else:
        click.echo(f"group {name} is set on {', '.join(addresses)}")
