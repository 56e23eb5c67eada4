"""The group `mqcore store`: one module per command."""

import click

from mqcore.cli.archive import archive
from mqcore.cli.damage import damage
from mqcore.cli.dump import dump
from mqcore.cli.info import info
from mqcore.cli.recover import recover
from mqcore.cli.refill import refill
from mqcore.cli.repair import repair
from mqcore.cli.restore import restore
from mqcore.cli.serve import serve
from mqcore.cli.snapshot import snapshot
from mqcore.cli.verify import verify


@click.group()
def store() -> None:
    """Look at store directories, check, archive, snapshot, mend them.

    info, verify, dump, archive, snapshot, serve and damage change no message; all but serve also
    work beside a running broker.
    """


for _command in (
    info,
    verify,
    dump,
    archive,
    snapshot,
    restore,
    serve,
    damage,
    recover,
    repair,
    refill,
):
    store.add_command(_command)
