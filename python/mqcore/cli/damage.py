"""`mqcore store damage`: what recoveries cut off a store's log or replaced in it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from mqcore.broker.damage_reports import DamageReport, damage_reports
from mqcore.broker.damage_reports import acknowledge as note_seen
from mqcore.cli.tables import time_text


@click.command("damage")
@click.argument(
    "directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--all", "with_acknowledged", is_flag=True, help="Acknowledged reports too.")
@click.option(
    "--acknowledge",
    is_flag=True,
    help="Note that they were seen: doctor, info and metrics are silent about them from then on.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def damage(directory: Path, with_acknowledged: bool, acknowledge: bool, as_json: bool) -> None:
    """Print what recoveries cut off the log of DIR or replaced in it.

    Exit code 1 when there is something that nobody acknowledged. The bytes themselves are in
    DIR/truncated and stay there.
    """
    if acknowledge:
        seen = note_seen(directory)
        click.echo(f"{len(seen)} reports acknowledged")
        return
    reports = damage_reports(directory, acknowledged=with_acknowledged)
    for report in reports:
        if as_json:
            click.echo(json.dumps(report_fields(report), ensure_ascii=False))
        else:
            mark = " (acknowledged)" if report.is_acknowledged else ""
            click.echo(f"{time_text(report.at_ms)}  {report}{mark}")
    if not reports and not as_json:
        click.echo("nothing was cut off or replaced")
    if any(not report.is_acknowledged for report in reports):
        raise SystemExit(1)


def report_fields(report: DamageReport) -> dict[str, Any]:
    """Returns a report as what JSON can hold."""
    return asdict(report) | {"path": str(report.path)}
