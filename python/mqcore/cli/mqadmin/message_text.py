"""Messages as mqadmin prints them: one line, or a card with who has consumed it."""

import os
import re
import tempfile
from pathlib import Path
from typing import Any, Final

from mqcore.cli.mqadmin import java
from mqcore.cli.mqadmin.call import Call
from mqcore.cli.mqadmin.groups import connection_of
from mqcore.cli.mqadmin.progress import progress_of
from mqcore.cli.mqadmin.topics import groups_of
from mqcore.errors import MQError, ResponseError
from mqcore.model.reading import as_dict, as_list, as_text
from mqcore.native import Message
from mqcore.remoting import ResponseCode

__all__ = ["body_of", "data_of", "line_of", "print_card", "shown_body"]

_FORMAT: Final = "%-20s %s"
# Bodies are kept beside one another, as mqadmin keeps them; only we may look into the folder.
_FOLDER: Final = "mqcore-msgbodys-{}"
_PRIVATE: Final = 0o700
_UNSAFE: Final = re.compile(r"[^\w.-]")
_NAME_CHARS_MAX: Final = 120
_SIGNED: Final = 128
_BYTE: Final = 256


def body_of(message: Message) -> bytes:
    """Returns the body; as it is stored where it cannot be inflated."""
    try:
        return message.body
    except MQError:
        return message.stored_body


def shown_body(message: Message, charset: str) -> str:
    """Returns the body as text.

    Raises:
        MQError: There is no such charset.
    """
    try:
        return body_of(message).decode(charset, "replace")
    except LookupError as error:
        raise MQError(f"{charset}: an unknown charset; UTF-8 is usual") from error


def id_of(message: Message) -> str:
    """Returns the producer's id; the broker's where there is none."""
    return message.uniq_key or message.message_id


def line_of(message: Message, broker_name: str, properties: dict[str, str]) -> str:
    """Returns `MessageExt.toString` of a message that was pulled."""
    shown = message.properties | properties
    is_half = shown.get("TRAN_MSG") == "true"
    signed = (each - _BYTE if each >= _SIGNED else each for each in body_of(message))
    text = (
        f"Message{{topic='{message.topic}', flag={message.flag}, "
        f"properties={java.mapping_text(shown)}, body=[{', '.join(map(str, signed))}], "
        f"transactionId='{message.uniq_key if is_half else 'null'}'}}"
    )
    return (
        f"MessageExt [brokerName={broker_name}, queueId={message.queue_id}, "
        f"storeSize={message.store_size_bytes}, queueOffset={message.queue_offset}, "
        f"sysFlag={message.sys_flag}, bornTimestamp={message.born_timestamp_ms}, "
        f"bornHost=/{message.born_host}, storeTimestamp={message.store_timestamp_ms}, "
        f"storeHost=/{message.store_host}, msgId={message.message_id}, "
        f"commitLogOffset={message.physical_offset}, bodyCRC={message.body_crc}, "
        f"reconsumeTimes={message.reconsume_times}, "
        f"preparedTransactionOffset={message.prepared_transaction_offset}, toString()={text}]"
    )


def data_of(message: Message, charset: str = "utf-8") -> dict[str, Any]:
    """Returns a message as data, its body as text."""
    return {
        "message_id": id_of(message),
        "offset_message_id": message.message_id,
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "physical_offset": message.physical_offset,
        "born_ms": message.born_timestamp_ms,
        "born_host": message.born_host,
        "store_ms": message.store_timestamp_ms,
        "store_host": message.store_host,
        "reconsume_times": message.reconsume_times,
        "sys_flag": message.sys_flag,
        "flag": message.flag,
        "properties": message.properties,
        "body": shown_body(message, charset),
    }


def _kept_body(message: Message, suffix: str) -> Path:
    """Writes the body into a file of its own; returns where."""
    folder = Path(tempfile.gettempdir()) / _FOLDER.format(os.getuid())
    folder.mkdir(mode=_PRIVATE, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise MQError(f"{folder} belongs to somebody else: bodies are not written there")
    # The id comes from a producer: it names no path.
    name = _UNSAFE.sub("_", id_of(message))[:_NAME_CHARS_MAX]
    path = folder / f"{name.lstrip('.') or 'body'}{suffix}"
    path.write_bytes(body_of(message))
    return path


async def print_card(
    call: Call,
    message: Message,
    *,
    charset: str | None = None,
    number: int = 0,
    names_offset_id: bool = True,
    bounds: dict[str, str] | None = None,
) -> None:
    """Prints a message, and what became of it in each group that reads its topic.

    Args:
        call: The way to the servers, and where to print.
        message: The message.
        charset: Print the body too, as text of this charset.
        number: Which of several with one id it is, for the file of its body.
        names_offset_id: Print the broker's id.
        bounds: Properties that a pull adds.
    """
    tracks = await tracks_of(call, message)
    call.out.give(data_of(message, charset or "utf-8") | {"groups": tracks})
    if call.out.as_json:
        return
    path = _kept_body(message, f"_{number}" if number else "")
    rows = [("OffsetID:", message.message_id)] if names_offset_id else []
    rows += [
        ("Topic:", message.topic),
        ("Tags:", f"[{java.text(message.tags)}]"),
        ("Keys:", f"[{java.text(message.keys)}]"),
        ("Queue ID:", str(message.queue_id)),
        ("Queue Offset:", str(message.queue_offset)),
        ("CommitLog Offset:", str(message.physical_offset)),
        ("Reconsume Times:", str(message.reconsume_times)),
        ("Born Timestamp:", java.time_ms(message.born_timestamp_ms)),
        ("Store Timestamp:", java.time_ms(message.store_timestamp_ms)),
        ("Born Host:", message.born_host),
        ("Store Host:", message.store_host),
        ("System Flag:", str(message.sys_flag)),
        ("Properties:", java.mapping_text(message.properties | (bounds or {}))),
        ("Message Body Path:", str(path)),
    ]
    if charset is not None:
        rows.append(("Message Body:", shown_body(message, charset)))
    for row in rows:
        call.out.row(_FORMAT, *row)
    call.out.line()
    call.out.line()
    if not tracks:
        call.out.line("WARN: No Consumer")
    for track in tracks:
        call.out.line(
            f"MessageTrack [consumerGroup={track['group']}, trackType={track['track']}, "
            f"exceptionDesc={java.text(track['error'])}]"
        )


async def tracks_of(call: Call, message: Message) -> list[dict[str, Any]]:
    """Returns what became of a message in each group (`messageTrackDetail`)."""
    try:
        groups = await groups_of(call, message.topic)
    except MQError:
        # As mqadmin: the message is worth printing without them.
        return []
    tracks = []
    for group in groups:
        track, fault = await _track_of(call, message, group)
        tracks.append({"group": group, "track": track, "error": fault})
    return tracks


async def _track_of(call: Call, message: Message, group: str) -> tuple[str, str | None]:
    try:
        found = await connection_of(call, group)
    except ResponseError as error:
        is_offline = error.code == ResponseCode.CONSUMER_NOT_ONLINE
        track = "NOT_ONLINE" if is_offline else "UNKNOWN"
        return track, f"CODE:{error.code} DESC:{error.remark}"
    except MQError as error:
        return "UNKNOWN", error.message
    if as_text(found.get("consumeType")) == "CONSUME_ACTIVELY":
        return "PULL", None
    if as_text(found.get("messageModel")) == "BROADCASTING":
        return "CONSUME_BROADCASTING", None
    try:
        states = (await progress_of(call, group)).states
    except MQError as error:
        return "UNKNOWN", error.message
    masters = {address: name for name, address in (await call.servers.cluster()).masters().items()}
    name = masters.get(message.store_host)
    is_consumed = any(
        queue.topic == message.topic
        and queue.queue_id == message.queue_id
        and queue.broker_name == name
        and state.group > message.queue_offset
        for queue, state in states.items()
    )
    if not is_consumed:
        return "NOT_CONSUME_YET", None
    return ("CONSUMED" if _is_wanted(found, message) else "CONSUMED_BUT_FILTERED"), None


def _is_wanted(found: dict[str, Any], message: Message) -> bool:
    """Whether a group's subscription takes the tags of a message."""
    wanted = as_dict(as_dict(found.get("subscriptionTable")).get(message.topic))
    tags = {as_text(each) for each in as_list(wanted.get("tagsSet"))}
    return not tags or "*" in tags or message.tags in tags
