"""`mqcore msg trace`: what became of a message, as a tree for people or as JSON."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from mqcore.cli.cluster import Cluster, cluster_options
from mqcore.cli.times import TIME
from mqcore.errors import MQError, NoRouteError
from mqcore.model.topics import TRACE_TOPIC

if TYPE_CHECKING:
    from rich.tree import Tree

    from mqcore.admin import Admin
    from mqcore.model.trace_lines import EndLine, PubLine, RecallLine
    from mqcore.model.traces import Delivery, GroupTrace, MessageTrace, Reported, StoredCopy

__all__ = ["trace"]

# Nothing was found: a finding, not a failure.
_EXIT_NONE = 1
_FOREVER_MS = 2**63 - 1
_DEAD_PREFIX = "%DLQ%"


@click.command("trace")
@click.argument("message_id", required=False)
@click.option("--key", metavar="KEY", help="All messages with this key, instead of one by its id.")
@click.option("--trace-topic", metavar="NAME", default=TRACE_TOPIC, show_default=True)
@click.option(
    "--since", "begin_ms", type=TIME, default=0, help="Traced not before: 1h, 2024-05-01."
)
@click.option("--until", "end_ms", type=TIME, default=_FOREVER_MS, help="Traced not behind.")
@cluster_options
def trace(
    cluster: Cluster,
    message_id: str | None,
    key: str | None,
    trace_topic: str,
    begin_ms: int,
    end_ms: int,
) -> None:
    """Show what became of the message MESSAGE_ID: sent, stored, delivered, tried again.

    MESSAGE_ID is the id that the producer made. Clients report what they did when their trace is on
    (`trace=True`, or `enableMsgTrace` in Java); brokers keep it with `traceTopicEnable`.

    Exit code 1 when nothing is reported of it.
    """
    if (message_id is None) == (key is None):
        raise click.UsageError("give either MESSAGE_ID or --key KEY")

    async def work(admin: "Admin") -> "list[MessageTrace]":
        span = {"begin_ms": begin_ms, "end_ms": end_ms}
        if key is not None:
            return await admin.traces.by_key(key, trace_topic=trace_topic, **span)
        assert message_id is not None
        wanted = message_id.strip()
        found = await admin.traces.by_id(wanted, trace_topic=trace_topic, **span)
        return [] if found is None else [found]

    try:
        found = cluster.ask(work)
    except NoRouteError as error:
        if error.topic != trace_topic:
            raise
        raise MQError(
            f"no traces are kept: there is no topic {trace_topic}. Brokers make it with "
            "traceTopicEnable=true, and clients report with trace=True"
        ) from error
    for each in found:
        if cluster.as_json:
            _print_json(each)
        else:
            _print_tree(each)
    if not found:
        asked = f"message {message_id}" if key is None else f"a message with key {key}"
        click.echo(f"no client has reported {asked} to {trace_topic}", err=True)
        sys.exit(_EXIT_NONE)


def _print_json(found: "MessageTrace") -> None:
    from mqcore.cli.tables import print_json

    print_json(_json_of(found))


def _json_of(found: "MessageTrace") -> dict[str, Any]:
    """Returns a trace as one JSON object."""
    from dataclasses import asdict

    def line_of(each: "Reported[PubLine | EndLine | RecallLine]") -> dict[str, Any]:
        return asdict(each.line) | {"host": each.host}

    return {
        "message_id": found.message_id,
        "topic": found.topic,
        "tags": found.tags,
        "keys": list(found.keys),
        "sends": [line_of(each) for each in found.sends],
        "transaction_ends": [line_of(each) for each in found.ends],
        "recalls": [line_of(each) for each in found.recalls],
        "stored": [asdict(each) for each in found.copies],
        "groups": [asdict(each) for each in found.groups],
    }


def _print_tree(found: "MessageTrace") -> None:
    from rich.text import Text
    from rich.tree import Tree

    from mqcore.cli.tables import console

    tree = Tree(Text(f"message {found.message_id}", "bold"), guide_style="dim")
    tree.add(
        Text(
            f"topic {found.topic or '-'}, tags {found.tags or '-'}, "
            f"keys {' '.join(found.keys) or '-'}"
        )
    )
    for _, text, is_ok in sorted(_own_steps(found), key=lambda step: step[0]):
        tree.add(_styled(text, is_ok=is_ok))
    if not found.groups:
        tree.add(Text("no consumer has reported it", "dim"))
    for group in found.groups:
        _grow(tree, group)
    console().print(tree)


def _own_steps(found: "MessageTrace") -> Iterator[tuple[int, str, bool | None]]:
    """Yields when, what and whether it went well, of all that happened before consumers came."""
    from mqcore.cli.tables import time_text

    for send in found.sends:
        line = send.line
        kind = "" if line.kind == "normal" else f" as {line.kind} message"
        yield (
            line.time_ms,
            f"sent      {time_text(line.time_ms)}  by {line.group} at {send.host} to {line.address}"
            f"{kind}, {line.body_bytes} bytes, {line.cost_ms} ms, {_ok_text(line.is_ok)}",
            line.is_ok,
        )
    for end in found.ends:
        asked = ", asked by the broker" if end.line.is_from_check else ""
        yield (
            end.line.time_ms,
            f"ended     {time_text(end.line.time_ms)}  {end.line.state} by {end.line.group} at "
            f"{end.host}{asked}",
            end.line.state == "COMMIT_MESSAGE",
        )
    for recall in found.recalls:
        yield (
            recall.line.time_ms,
            f"recalled  {time_text(recall.line.time_ms)}  by {recall.line.group} at {recall.host}, "
            f"{_ok_text(recall.line.is_ok)}",
            recall.line.is_ok,
        )
    for copy in found.copies:
        yield copy.stored_ms, f"stored    {_location_text(copy)}", None


def _grow(tree: "Tree", group: "GroupTrace") -> None:
    """Adds a group: its deliveries and the copies in its topics, in the order of time."""
    from rich.text import Text

    from mqcore.cli.tables import time_text

    branch = tree.add(Text(f"group {group.group or '(not reported)'}", "bold"))
    steps: list[tuple[int, str, bool | None]] = []
    for each in group.deliveries:
        when_ms = each.began_ms if each.began_ms is not None else _FOREVER_MS
        at = time_text(each.began_ms or 0)
        tries = "" if each.retry_times is None else f"try {each.retry_times + 1}"
        text = f"{tries:<9} {at}  at {each.host}, {_result_text(each)}"
        steps.append((when_ms, text, each.is_ok))
    for copy in group.copies:
        is_dead = copy.topic.startswith(_DEAD_PREFIX)
        word = "dead" if is_dead else "again"
        steps.append(
            (copy.stored_ms, f"{word:<9} {_location_text(copy)}", False if is_dead else None)
        )
    for _, text, is_ok in sorted(steps, key=lambda step: step[0]):
        branch.add(_styled(text, is_ok=is_ok))


def _location_text(copy: "StoredCopy") -> str:
    from mqcore.cli.tables import time_text

    return (
        f"{time_text(copy.stored_ms)}  in {copy.topic}, queue {copy.queue_id}, offset "
        f"{copy.queue_offset} of {copy.store_host} as {copy.offset_id}"
    )


def _result_text(delivery: "Delivery") -> str:
    if delivery.cost_ms is None:
        return "its end is not reported"
    result = delivery.result or ("SUCCESS" if delivery.is_ok else "FAILED")
    return f"{delivery.cost_ms} ms, {result}"


def _ok_text(is_ok: bool) -> str:
    return "ok" if is_ok else "failed"


def _styled(text: str, *, is_ok: bool | None) -> Any:
    from rich.text import Text

    return Text(text, "" if is_ok is None else "green" if is_ok else "red")
