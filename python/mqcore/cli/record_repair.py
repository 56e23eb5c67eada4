"""`mqcore store repair --from`: bad records of a directory, fetched from another replica."""

import asyncio
from pathlib import Path

import click

from mqcore.cli.cluster import tools_credentials
from mqcore.cli.replica_link import replica_link
from mqcore.errors import MQError
from mqcore.native import BadRecord, next_bad_record, replace_bad_record
from mqcore.remoting import Client, RequestCode, ResponseCode, TlsContext

__all__ = ["repair_records"]

# A broker that answers nothing for so long is gone; the record may be cold.
_TIMEOUT_S = 10.0
# With more than this the disk is to be replaced, and the replica filled anew.
_RECORDS_MAX = 10_000


def repair_records(
    directory: Path, settings: dict[str, str], address: str, *, is_dry: bool
) -> None:
    """Puts records of a running replica in place of the bad ones of a directory.

    The bytes around must be the same on both; what is replaced is kept in DIR/truncated.

    Args:
        directory: The store; no broker runs on it.
        settings: Its settings, with the sizes of its files.
        address: Where a master or slave with the same log answers requests: ours or RocketMQ's.
        is_dry: Only show what would be done.

    Raises:
        StoreError: The replicas differ in more than that, or a broker runs on the directory.
        click.ClickException: The other replica has not the record.
    """
    repaired, at, tls = 0, 0, replica_link(settings).requests
    while repaired < _RECORDS_MAX:
        bad = next_bad_record(directory, config=settings, physical_offset=at)
        if bad is None:
            break
        record, around = asyncio.run(_fetched(address, bad, tls))
        kept = replace_bad_record(
            directory,
            config=settings,
            physical_offset=bad.physical_offset,
            record=record,
            around=around,
            is_dry=is_dry,
        )
        verb = "would be replaced" if is_dry else f"was replaced, and is kept in {kept}"
        click.echo(f"the record at {bad.physical_offset}, {len(record)} bytes, {verb} ({bad.why})")
        repaired += 1
        # Without a write the walk cannot pass it: what is behind is looked at from there.
        at = bad.next_whole if is_dry else bad.physical_offset
    words = "would be" if is_dry else "were"
    click.echo(f"{repaired} records {words} repaired from {address}")


async def _fetched(
    address: str, bad: BadRecord, tls: TlsContext | None
) -> tuple[bytes, list[tuple[int, bytes]]]:
    """Returns what another replica has in place of a bad record, and around it."""
    offsets = [each for each in (bad.before, bad.next_whole) if each is not None]
    async with Client(tls=tls, credentials=tools_credentials()) as client:
        record = await _record(client, address, bad.physical_offset)
        return record, [(each, await _record(client, address, each)) for each in offsets]


async def _record(client: Client, address: str, physical_offset: int) -> bytes:
    """Returns the bytes of a record (33), as they lie in the log."""
    ext = {"offset": str(physical_offset)}
    code = RequestCode.VIEW_MESSAGE_BY_ID
    try:
        answer = await client.call(address, code, ext, timeout_s=_TIMEOUT_S)
    except MQError as error:
        raise click.ClickException(f"{address} does not answer: {error.message}") from error
    if answer.code != ResponseCode.SUCCESS or not answer.body:
        raise click.ClickException(
            f"{address} has no record at {physical_offset}: it is no copy of this log there, or "
            "the place is damaged there, too. Nothing was written for it"
        )
    return bytes(answer.body)
