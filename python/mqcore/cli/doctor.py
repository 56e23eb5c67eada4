"""`mqcore doctor`: whether a machine is fit for a broker, and what to change."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from mqcore.cli.findings import (
    Finding,
    clock_findings,
    damage_findings,
    disk_findings,
    kernel_findings,
    limit_findings,
    sync_finding,
    sync_times,
)

# Something could be better: a finding, not a failure.
_EXIT_ADVISED = 1


def examined(directory: Path) -> list[Finding]:
    """Returns everything looked at, for a store in a directory or below an existing one."""
    there = directory
    while not there.is_dir():
        there = there.parent
    looked_at = Finding("directory", str(directory), "", "what follows about the disk is of it")
    if there != directory:
        value = f"{directory} does not exist: {there} is looked at instead"
        why = "a broker makes it at its first start; where one has run, the path is mistyped"
        looked_at = Finding("directory", value, "", why)
    findings = [looked_at, *kernel_findings(), *limit_findings(), *disk_findings(there)]
    findings.extend(damage_findings(there))
    try:
        findings.append(sync_finding(sync_times(there)))
    except OSError as error:
        why = "the time of a sync is measured with a nameless file in the directory"
        value = f"unknown: {error.strerror or error}"
        findings.append(Finding("fdatasync", value, "a directory that may be written to", why))
    return [*findings, *clock_findings()]


@click.command()
@click.argument("directory", default="~/store", type=click.Path(file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON list.")
def doctor(directory: Path, as_json: bool) -> None:
    """Look at this machine as a broker with its store in DIRECTORY would use it.

    Prints each value with what to change, and why. Changes nothing; the time of a sync is
    measured with a file without a name in DIRECTORY. Limits are those of this shell.

    Exit code 1 when something is advised.
    """
    findings = examined(directory.expanduser().absolute())
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=1))
        sys.exit(_exit_code(findings))
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        mark = click.style("! ", fg="yellow") if finding.advice else click.style("ok", fg="green")
        click.echo(f"{mark}  {finding.name.ljust(width)}  {finding.value}")
        indent = " " * (width + 6)
        if finding.advice:
            click.echo(f"{indent}advice: {finding.advice}")
        click.echo(f"{indent}why: {finding.why}")
    advised = sum(bool(finding.advice) for finding in findings)
    click.echo(f"{advised} of {len(findings)} could be better" if advised else "all is well")
    sys.exit(_exit_code(findings))


def _exit_code(findings: list[Finding]) -> int:
    return _EXIT_ADVISED if any(finding.advice for finding in findings) else 0
