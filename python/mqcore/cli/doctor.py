"""`mqcore doctor`: whether a machine is fit for a broker, or a cluster sound; what to change."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from mqcore.cli.cluster import Cluster, cluster_options
from mqcore.cli.findings import (
    clock_findings,
    damage_findings,
    disk_findings,
    kernel_findings,
    limit_findings,
    sync_finding,
    sync_times,
)
from mqcore.model.findings import Finding

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


def examined_cluster(cluster: Cluster) -> list[Finding]:
    """Returns everything looked at, of the servers of a cluster.

    Raises:
        MQError: No name server answers.
    """
    # Imported here: a look at the machine needs no client.
    from mqcore.admin.cluster_findings import cluster_findings

    return cluster_findings(cluster.ask(lambda admin: admin.facts()))


@click.command()
@click.argument("directory", default="~/store", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--cluster", "is_of_cluster", is_flag=True, help="Look at a cluster instead, by --namesrv."
)
@cluster_options
def doctor(directory: Path, is_of_cluster: bool, cluster: Cluster) -> None:
    """Look at this machine as a broker with its store in DIRECTORY would use it.

    Prints each value with what to change, and why. Changes nothing; the time of a sync is
    measured with a file without a name in DIRECTORY. Limits are those of this shell.

    With --cluster name servers, controllers and brokers are asked: settings that acknowledge less
    than they seem to, replicas that are behind or unseen, open ports for slaves, clocks.

    Exit code 1 when something is advised.
    """
    if is_of_cluster:
        findings = examined_cluster(cluster)
    else:
        findings = examined(directory.expanduser().absolute())
    if cluster.as_json:
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
