"""`mqcore msg`: single messages, by id, by key, by queue offset."""

import sys
from typing import TYPE_CHECKING

import click

from mqcore.cli.cluster import Cluster, cluster_options, queue_of, require_queue
from mqcore.cli.message_text import json_of, print_card
from mqcore.cli.times import TIME
from mqcore.cli.trace import trace
from mqcore.errors import MQError, RemotingError, ResponseError
from mqcore.model.queues import MessageQueue

if TYPE_CHECKING:
    from mqcore.admin import Admin
    from mqcore.native import Message

# Nothing was found: a finding, not a failure.
_EXIT_NONE = 1
_FOREVER_MS = 2**63 - 1


@click.group()
def msg() -> None:
    """Look up messages."""


msg.add_command(trace)


@msg.command("get")
@click.argument("message_id", required=False)
@click.option("-t", "--topic", metavar="NAME", help="Topic of a producer's id, or of --queue.")
@click.option("--queue", metavar="BROKER:ID", help="By offset: the queue, with --offset.")
@click.option("--offset", type=click.IntRange(0), help="By offset: the queue offset.")
@cluster_options
def get(
    cluster: Cluster,
    message_id: str | None,
    topic: str | None,
    queue: str | None,
    offset: int | None,
) -> None:
    """Show the message MESSAGE_ID, or the one at a queue offset.

    A broker's id (offset id) is enough alone; a producer's id needs --topic. There is more than one
    message with a producer's id where a send was repeated after it had been stored.

    Exit code 1 when there is none.
    """
    is_by_offset = queue is not None or offset is not None
    if is_by_offset == (message_id is not None):
        raise click.UsageError("give either MESSAGE_ID, or --topic, --queue and --offset")
    if not is_by_offset:
        assert message_id is not None
        wanted = message_id.strip().upper()
        where = f" in topic {topic}" if topic is not None else ""
        asked = f"message {wanted}{where}"
        _show(cluster, cluster.ask(lambda admin: _by_id(admin, wanted, topic)), asked)
        return
    if topic is None or queue is None or offset is None:
        raise click.UsageError("a queue offset needs --topic, --queue and --offset")
    queue_named = queue_of(topic, queue)
    asked = f"message at offset {offset} of queue {queue} of topic {topic}"
    _show(cluster, cluster.ask(lambda admin: _at(admin, queue_named, offset)), asked)


async def _at(admin: "Admin", queue: MessageQueue, offset: int) -> list["Message"]:
    try:
        return await admin.messages.at(queue, offset)
    except ResponseError:
        # A queue that is not there is refused in words for programs.
        await require_queue(admin, queue)
        raise


async def _by_id(admin: "Admin", message_id: str, topic: str | None) -> list["Message"]:
    """Finds a message by either kind of id: both may be 32 hexadecimal digits."""
    if topic is not None:
        found = await admin.messages.by_unique_id(topic, message_id)
        if found:
            return found
    try:
        return [await admin.messages.by_offset_id(message_id)]
    except ResponseError:
        return []
    except MQError as error:
        if topic is not None:
            return []
        if isinstance(error, RemotingError):
            raise MQError(
                f"{error.message}. A broker's id names the broker that is asked; the id of a "
                "producer is found with its topic: add --topic NAME"
            ) from error
        raise click.UsageError(f"{error.message}: add --topic NAME") from error


@msg.command()
@click.argument("topic")
@click.argument("key")
@click.option(
    "--limit",
    type=click.IntRange(1, 64),
    default=64,
    show_default=True,
    help="At most so many from each broker.",
)
@click.option(
    "--since", "begin_ms", type=TIME, default=0, help="Stored not before: 1h, 2024-05-01."
)
@click.option("--until", "end_ms", type=TIME, default=_FOREVER_MS, help="Stored not behind.")
@cluster_options
def query(cluster: Cluster, topic: str, key: str, limit: int, begin_ms: int, end_ms: int) -> None:
    """Show the newest messages of TOPIC that have KEY among their keys.

    Exit code 1 when there is none.
    """
    _show(
        cluster,
        cluster.ask(
            lambda admin: admin.messages.by_key(
                topic, key, limit=limit, begin_ms=begin_ms, end_ms=end_ms
            )
        ),
        f"message with key {key} in topic {topic}",
        is_short=True,
    )


@msg.command("recall")
@click.argument("handle")
@click.option(
    "-g", "--group", default="mqcore-cli", show_default=True, help="Group of the producer."
)
@cluster_options
def recall(cluster: Cluster, handle: str, group: str) -> None:
    """Take back a timed message before it is delivered.

    HANDLE is the recall_handle of the send's result. Brokers allow it with recallMessageEnable.
    """
    import asyncio

    from mqcore.client.producer import Producer

    async def recalled() -> str:
        async with Producer(
            cluster.namesrv,
            group=group,
            credentials=cluster.credentials,
            tls=cluster.tls,
        ) as producer:
            return await producer.recall(handle, timeout_s=cluster.timeout_s)

    message_id = asyncio.run(recalled())
    if cluster.as_json:
        from mqcore.cli.tables import print_json

        print_json({"message_id": message_id})
    else:
        click.echo(f"message {message_id} is recalled")


@msg.command("resume-check")
@click.argument("message_id")
@cluster_options
def resume_check(cluster: Cluster, message_id: str) -> None:
    """Let brokers ask again how the transaction of a half message ended that was given up.

    MESSAGE_ID is the broker's id of it in the topic TRANS_CHECK_MAX_TIME_TOPIC.
    """
    cluster.ask(lambda admin: admin.messages.resume_check(message_id))
    if cluster.as_json:
        from mqcore.cli.tables import print_json

        print_json({"message_id": message_id})
    else:
        click.echo(f"message {message_id} is asked about again")


def _show(cluster: Cluster, found: list["Message"], asked: str, *, is_short: bool = False) -> None:
    """Prints messages, and ends with exit code 1 where there is none of what was asked for."""
    if cluster.as_json:
        for message in found:
            _print_json(message)
    elif is_short and len(found) > 1:
        _print_rows(found)
    else:
        for message in found:
            print_card(message)
    if not found:
        click.echo(f"there is no {asked}", err=True)
        sys.exit(_EXIT_NONE)


def _print_json(message: "Message") -> None:
    from mqcore.cli.tables import print_json

    print_json(json_of(message))


def _print_rows(found: list["Message"]) -> None:
    """Prints one line per message."""
    from mqcore.cli.tables import print_table, time_text

    rows = [
        [
            time_text(message.store_timestamp_ms),
            message.uniq_key or message.message_id,
            message.queue_id,
            message.queue_offset,
            message.tags or "-",
            message.keys or "-",
            message.stored_body_len_bytes,
        ]
        for message in found
    ]
    print_table(["stored", "message", "queue", "offset", "tags", "keys", "bytes"], rows)
