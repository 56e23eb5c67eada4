"""`mqcore dlq`: the dead letters of a group, listed and sent again."""

import sys
from typing import TYPE_CHECKING, Any

import click

from mqcore.cli.cluster import Cluster, cluster_options, confirmed
from mqcore.cli.message_text import json_of
from mqcore.cli.times import TIME

if TYPE_CHECKING:
    from mqcore.admin import DeadLetter, ResendResult

_FOREVER_MS = 2**63 - 1
_SHOWN_MAX = 100
# Some could not be sent again: a finding, not a failure.
_EXIT_LEFT = 1


@click.group()
def dlq() -> None:
    """List dead letters of groups, and send them again."""


@dlq.command("list")
@click.argument("group")
@click.option("--since", "begin_ms", type=TIME, default=0, help="Dead not before: 1h, 2024-05-01.")
@click.option("--until", "end_ms", type=TIME, default=_FOREVER_MS, help="Dead not behind.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=_SHOWN_MAX,
    show_default=True,
    help="At most so many, the oldest first.",
)
@cluster_options
def list_(cluster: Cluster, group: str, begin_ms: int, end_ms: int, limit: int) -> None:
    """List the messages that GROUP failed on too often.

    With --json one object per message, its body included.
    """
    from mqcore.cli.tables import print_json, print_table, time_text

    found = cluster.ask(
        lambda admin: admin.dead_letters.of_group(
            group, begin_ms=begin_ms, end_ms=end_ms, limit=limit
        )
    )
    if cluster.as_json:
        for letter in found:
            print_json(_json_of_letter(letter))
        return
    print_table(
        ["dead since", "message", "topic", "tags", "keys", "tried", "queue", "offset"],
        [
            [
                time_text(letter.message.store_timestamp_ms),
                letter.message_id,
                letter.origin_topic or "-",
                letter.message.tags or "-",
                letter.message.keys or "-",
                letter.message.reconsume_times,
                f"{letter.queue.broker_name}:{letter.queue.queue_id}",
                letter.message.queue_offset,
            ]
            for letter in found
        ],
        empty=f"group {group} has no dead letters",
    )


@dlq.command()
@click.argument("group")
@click.option("--id", "ids", metavar="ID", multiple=True, help="Only this message; repeatable.")
@click.option("--since", "begin_ms", type=TIME, default=0, help="Dead not before: 1h, 2024-05-01.")
@click.option("--until", "end_ms", type=TIME, default=_FOREVER_MS, help="Dead not behind.")
@click.option("--limit", type=click.IntRange(1), help="At most so many, the oldest first.")
@click.option("--only-group", is_flag=True, help="To this group alone, by its retry topic.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent, and send nothing.")
@click.option("-y", "--yes", "is_sure", is_flag=True, help="Do not ask.")
@cluster_options
def resend(
    cluster: Cluster,
    group: str,
    ids: tuple[str, ...],
    begin_ms: int,
    end_ms: int,
    limit: int | None,
    only_group: bool,
    dry_run: bool,
    is_sure: bool,
) -> None:
    """Send dead letters of GROUP again, to the topics that they came from.

    Everybody who reads such a topic gets them, unless --only-group. The dead letters stay where
    they are: who sends them twice, has them twice.

    Exit code 1 when some could not be sent, or there is none of an --id.
    """
    if not dry_run:
        which = f"{len(set(ids))} dead letters" if ids else "the dead letters"
        confirmed(f"Send {which} of group {group} again?", is_sure=is_sure)

    results = cluster.ask(
        lambda admin: admin.dead_letters.resend_all(
            group,
            ids=ids,
            begin_ms=begin_ms,
            end_ms=end_ms,
            limit=limit,
            only_group=only_group,
            dry_run=dry_run,
        )
    )
    rows = [_row(each) for each in results]
    left = _print_resent(cluster, group, rows, dry_run=dry_run)
    letters = [each.letter for each in results]
    known = {name for each in letters for name in (each.message_id, each.message.message_id)}
    # What a limit left out is not missing.
    missing = sorted(set(ids) - known) if limit is None or len(rows) < limit else []
    for name in missing:
        click.echo(f"group {group} has no dead letter {name}", err=True)
    if left or missing:
        sys.exit(_EXIT_LEFT)


def _print_resent(
    cluster: Cluster, group: str, rows: list[dict[str, Any]], *, dry_run: bool
) -> int:
    """Prints what became of dead letters; returns how many are left."""
    from mqcore.cli.tables import print_json, print_table

    left = sum(row["error"] is not None for row in rows)
    if cluster.as_json:
        print_json({"group": group, "is_dry_run": dry_run, "messages": rows})
    else:
        cells = [
            [row["message_id"], row["origin_topic"] or "-", _target_text(row), row["error"] or ""]
            for row in rows
        ]
        # Where it goes is decided when it is sent.
        columns = 2 if dry_run else 4
        print_table(
            ["message", "topic", "went to", "why not"][:columns],
            [each[:columns] for each in cells],
            empty=f"no such dead letter of group {group}",
        )
        sent = len(rows) - left
        would = f"{sent} would be sent again, nothing was sent"
        click.echo(would if dry_run else f"{sent} sent again, {left} not")
    return left


def _target_text(row: dict[str, Any]) -> str:
    if row["queue"] is None:
        return "-"
    return f"{row['topic']} {row['broker']}:{row['queue']} at {row['offset']}"


def _row(result: "ResendResult") -> dict[str, Any]:
    """Returns what became of a dead letter as one JSON object."""
    letter, resent, error = result.letter, result.resent, result.error
    return {
        "message_id": letter.message_id,
        "origin_topic": letter.origin_topic,
        "topic": None if resent is None else resent.queue.topic,
        "broker": None if resent is None else resent.queue.broker_name,
        "queue": None if resent is None else resent.queue.queue_id,
        "offset": None if resent is None else resent.offset,
        "error": None if error is None else error.message,
    }


def _json_of_letter(letter: "DeadLetter") -> dict[str, Any]:
    """Returns a dead letter as one JSON object."""
    return json_of(letter.message) | {
        "broker": letter.queue.broker_name,
        "origin_topic": letter.origin_topic,
    }
