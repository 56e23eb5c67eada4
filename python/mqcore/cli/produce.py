"""`mqcore produce`: lines, JSON lines or files become messages."""

import asyncio
import base64
import contextlib
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import click

from mqcore.cli.cluster import Cluster, cluster_options
from mqcore.cli.delay_levels import level_note
from mqcore.cli.lines import lines_of
from mqcore.cli.pace import Pace
from mqcore.cli.sending import Sending
from mqcore.cli.tables import print_json
from mqcore.cli.templates import TEMPLATE, Template, filled
from mqcore.cli.times import SPAN
from mqcore.client.message import Message
from mqcore.client.option_values import nearest
from mqcore.client.producer import Producer
from mqcore.client.properties import RESERVED, SHARDING_KEY
from mqcore.client.results import SendResult
from mqcore.errors import MessageError, MQError

_GROUP = "MQCORE_CLI_PRODUCER"
_STDIN = "-"
_MS_PER_S = 1_000
# Properties that the client makes itself.
_NOT_GIVEN = RESERVED | {SHARDING_KEY}
# What a JSON line is made of.
_TAKEN = frozenset(
    ("body", "body_base64", "tags", "keys", "properties", "sharding_key", "delay_level")
)
# What `mqcore consume --json` prints beside that: where a message was, which the new one is not.
_LEFT_OUT = frozenset(
    (
        "topic",
        "queue",
        "offset",
        "message_id",
        "offset_id",
        "born_ms",
        "stored_ms",
        "born_host",
        "reconsume_times",
        "broker",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a line, or a file, becomes a message.

    Attributes:
        topic: Where it goes.
        is_json: Whether a line is a JSON object as `mqcore consume --json` prints it.
        key: Its keys.
        tags: Its tag.
        sharding_key: What orders it.
        properties: Further properties.
        delay_level: The broker's level of delay.
        delay_s: For how long it is held back, None for not at all.
    """

    topic: str
    is_json: bool = False
    key: Template | None = None
    tags: Template | None = None
    sharding_key: Template | None = None
    properties: Mapping[str, Template]
    delay_level: int = 0
    delay_s: float | None = None

    def message(self, line: bytes, number: int, source: str) -> Message:
        """Returns the message of a line.

        Raises:
            MessageError: It cannot be one.
        """
        try:
            members = _object_of(line) if self.is_json else {}
            body = _body_of(members) if self.is_json else line
            fields = {"n": number, "file": source, "line": body.decode("utf-8", "replace")}
            key = filled(self.key, fields)
            given = {name: text for name, text in _properties_of(members) if name not in _NOT_GIVEN}
            made = {name: template.fill(fields) for name, template in self.properties.items()}
            return Message(
                self.topic,
                body,
                tags=filled(self.tags, fields) or members.get("tags") or None,
                keys=(members.get("keys") or ()) if key is None else key.split(),
                properties=given | made,
                sharding_key=filled(self.sharding_key, fields) or _sharding_key_of(members),
                delay_level=members.get("delay_level", self.delay_level),
                delay=self.delay_s,
            )
        except (ValueError, TypeError, MQError) as error:
            where = "standard input" if source == _STDIN else source
            raise MessageError(f"{where}, message {number}: {error}") from error


def _object_of(line: bytes) -> dict[str, Any]:
    try:
        members = json.loads(line)
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from error
    if not isinstance(members, dict):
        raise TypeError('a JSON object is expected, such as {"body": "text", "tags": "a"}')
    for name in members.keys() - _TAKEN - _LEFT_OUT:
        meant = nearest(name, _TAKEN)
        hint = f"did you mean {meant}?" if meant else f"it may have {', '.join(sorted(_TAKEN))}"
        raise ValueError(f"a message has no member {name!r}: {hint}")
    return members


def _body_of(members: dict[str, Any]) -> bytes:
    """Returns the body of a JSON line: a text, Base64, or any JSON value as it is."""
    if "body_base64" in members:
        return base64.b64decode(str(members["body_base64"]), validate=True)
    if "body" not in members:
        raise ValueError("it has neither body nor body_base64")
    body = members["body"]
    return (body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)).encode()


def _sharding_key_of(members: dict[str, Any]) -> str | None:
    return members.get("sharding_key") or dict(_properties_of(members)).get(SHARDING_KEY)


def _properties_of(members: dict[str, Any]) -> list[tuple[str, str]]:
    found = members.get("properties") or {}
    if not isinstance(found, dict):
        raise TypeError("properties must be an object")
    return [(name, str(text)) for name, text in found.items()]


async def _bodies(
    sources: tuple[str, ...], texts: tuple[str, ...], *, is_whole: bool
) -> AsyncGenerator[tuple[bytes, str], None]:
    """Yields what is to be sent, with where it comes from."""
    for text in texts:
        yield text.encode(), "--message"
    for source in sources or (() if texts else (_STDIN,)):
        if is_whole and source != _STDIN:
            yield await asyncio.to_thread(Path(source).read_bytes), source
            continue
        async for lines in lines_of(partial(_opened, source)):
            # The protocol knows no empty message.
            for line in filter(None, lines):
                yield line, source


def _opened(source: str) -> BinaryIO:
    if source == _STDIN:
        # Not closed at the end of the lines: it is not ours.
        return cast("BinaryIO", open(sys.stdin.fileno(), "rb", closefd=False))
    return Path(source).open("rb")


async def _produced(
    cluster: Cluster,
    shape: Shape,
    bodies: AsyncGenerator[tuple[bytes, str], None],
    pace: Pace,
    count: int | None,
    *,
    is_traced: bool,
) -> None:
    loop = asyncio.get_running_loop()
    # Not between lines that a person types, or reads.
    is_shown = sys.stderr.isatty() and not (cluster.as_json or sys.stdin.isatty())
    producer = Producer(
        cluster.namesrv,
        group=_GROUP,
        credentials=cluster.credentials,
        tls=cluster.tls,
        timeout_s=cluster.timeout_s,
        trace=is_traced,
    )
    async with producer, contextlib.aclosing(bodies):
        sending = Sending(
            producer, is_shown=is_shown, on_sent=_print_result if cluster.as_json else None
        )
        try:
            async with sending:
                async for body, source in bodies:
                    if sending.given == count:
                        break
                    message = shape.message(body, sending.given + 1, source)
                    pause_s = pace.wait_s(loop.time())
                    if pause_s > 0:
                        await asyncio.sleep(pause_s)
                    await sending.send(message)
        except MQError as error:
            raise MQError(f"{sending.summary}, then: {error.message}") from error
    if not cluster.as_json:
        click.echo(f"{sending.summary} to {shape.topic}", err=True)


def _print_result(result: SendResult) -> None:
    print_json(
        {
            "message_id": result.message_id,
            "offset_id": result.offset_message_id,
            "broker": result.queue.broker_name,
            "queue": result.queue.queue_id,
            "offset": result.queue_offset,
            "status": result.status.value,
        }
        | ({"recall_handle": result.recall_handle} if result.recall_handle else {})
    )


@click.command()
@click.argument("topic")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("-m", "--message", "texts", metavar="TEXT", multiple=True, help="A message as it is.")
@click.option(
    "-f",
    "--format",
    "form",
    type=click.Choice(["lines", "json", "file"]),
    default="lines",
    show_default=True,
    help="A message per line; per JSON line; per file.",
)
@click.option("-k", "--key", type=TEMPLATE, help="Its keys, such as order-{.id}.")
@click.option("-t", "--tags", type=TEMPLATE, help="Its tag, such as {.kind}.")
@click.option("-s", "--sharding-key", type=TEMPLATE, help="Messages of one keep their order.")
@click.option(
    "-p", "--property", "properties", metavar="NAME=TEXT", multiple=True, help="A property."
)
@click.option(
    "--delay-level", type=click.IntRange(0), default=0, help="Hold it back: 1 is 1 s, 18 is 2 h."
)
@click.option("--delay", "delay_ms", type=SPAN, help="Hold it back so long: 90s, 1h; for 5.x.")
@click.option("--trace", "is_traced", is_flag=True, help="Report sends for `mqcore msg trace`.")
@click.option("-r", "--rate", type=click.FloatRange(min=0), default=0.0, help="At most per second.")
@click.option("-c", "--count", type=click.IntRange(1), help="End after so many.")
@cluster_options
def produce(
    cluster: Cluster,
    topic: str,
    files: tuple[str, ...],
    texts: tuple[str, ...],
    form: str,
    key: Template | None,
    tags: Template | None,
    sharding_key: Template | None,
    properties: tuple[str, ...],
    delay_level: int,
    delay_ms: int | None,
    is_traced: bool,
    rate: float,
    count: int | None,
) -> None:
    """Send lines of FILES, or of standard input, to TOPIC. Empty lines are left out.

    In keys, tags and properties {n} is the number of the message, {file} its file, {line} its text,
    and {.a.b} a member of its body, where that is JSON.

    With --format json a line is an object with body (or body_base64), and tags, keys, properties,
    sharding_key, delay_level where they are wanted; what `mqcore consume --json` prints is one.

    --json prints a line per acknowledged message, with --delay also the recall_handle that
    `mqcore msg recall` takes. The first message that is not acknowledged ends
    it with exit code 2; the error message has the number of those before it.
    """
    if delay_level and delay_ms is not None:
        raise click.UsageError("give one of --delay and --delay-level")
    shape = Shape(
        topic=topic,
        is_json=form == "json",
        key=key,
        tags=tags,
        sharding_key=sharding_key,
        properties=dict(map(_property, properties)),
        delay_level=delay_level,
        delay_s=None if delay_ms is None else delay_ms / _MS_PER_S,
    )
    bodies = _bodies(files, texts, is_whole=form == "file")
    if delay_level:
        note = cluster.ask(lambda admin: level_note(admin, topic, delay_level))
        if note:
            click.echo(note, err=True)
    asyncio.run(_produced(cluster, shape, bodies, Pace(rate), count, is_traced=is_traced))


def _property(text: str) -> tuple[str, Template]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise click.BadParameter(f"{text!r}: NAME=TEXT expected", param_hint="--property")
    try:
        return name, Template(value)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--property") from error
