"""A message as pages show it: its body as text, JSON or hex, bounded. Pure functions of values."""

import json
from typing import Any, Final

from mqcore.console.views import url
from mqcore.errors import MQError
from mqcore.native import Message

__all__ = ["FORMS", "detail", "summary"]

FORMS: Final = ("auto", "text", "json", "hex")
# More is downloaded, not looked at.
SHOWN_BYTES_MAX: Final = 256 * 1024
_HEX_BYTES_MAX: Final = 16 * 1024
_PREVIEW_CHARS: Final = 120
_HEX_LINE: Final = 16


def summary(message: Message, broker: str = "") -> dict[str, Any]:
    """Returns a message as one row of a list.

    Args:
        message: The message.
        broker: The name of the broker it came from, where it is known.
    """
    return {
        "id": message.uniq_key or message.message_id,
        "offset_id": message.message_id,
        "topic": message.topic,
        "broker": broker,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "stored_ms": message.store_timestamp_ms,
        "born_ms": message.born_timestamp_ms,
        "tags": message.tags or "",
        "keys": message.keys or "",
        "bytes": message.stored_body_len_bytes,
        "preview": _preview(message),
        "url": url("messages", message.message_id, queue=broker),
    }


def _preview(message: Message) -> str:
    body = message.stored_body[: 4 * _PREVIEW_CHARS]
    text = body.decode("utf-8", "replace")
    return f"{text[:_PREVIEW_CHARS]}…" if len(text) > _PREVIEW_CHARS else text


def detail(message: Message, form: str) -> dict[str, Any]:
    """Returns a message with its body.

    Args:
        message: The message.
        form: One of `FORMS`.
    """
    fault, body = "", b""
    try:
        body = message.body
    except MQError as error:
        fault, body = f"the body cannot be inflated: {error.message}", message.stored_body
    used, text, is_cut = _shown(body, form)
    return {
        **summary(message),
        "properties": sorted(message.properties.items()),
        "born_host": message.born_host,
        "store_host": message.store_host,
        "physical_offset": message.physical_offset,
        "store_bytes": message.store_size_bytes,
        "sys_flag": message.sys_flag,
        "flag": message.flag,
        "reconsume_times": message.reconsume_times,
        "body_crc": message.body_crc,
        "body_bytes": len(body),
        "form": used,
        "body": text,
        "is_cut": is_cut,
        "fault": fault,
    }


def _shown(body: bytes, form: str) -> tuple[str, str, bool]:
    """Returns the form that is used, the text, and whether it is cut."""
    if form == "auto":
        form = _form_of(body)
    if form == "hex":
        return "hex", _hex(body[:_HEX_BYTES_MAX]), len(body) > _HEX_BYTES_MAX
    text = body[:SHOWN_BYTES_MAX].decode("utf-8", "replace")
    if form == "json" and len(body) <= SHOWN_BYTES_MAX:
        try:
            return "json", json.dumps(json.loads(body), indent=2, ensure_ascii=False), False
        except (ValueError, RecursionError):
            return "text", text, False
    return "text", text, len(body) > SHOWN_BYTES_MAX


def _form_of(body: bytes) -> str:
    if body[:1] in (b"{", b"["):
        return "json"
    head = body[:4_096].decode("utf-8", "ignore")
    strange = sum(not (char.isprintable() or char in "\r\n\t") for char in head)
    is_text = len(head.encode()) >= min(len(body), 4_096) - 3 and strange * 20 <= len(head)
    return "text" if is_text else "hex"


def _hex(body: bytes) -> str:
    lines = []
    for at in range(0, len(body), _HEX_LINE):
        part = body[at : at + _HEX_LINE]
        text = "".join(chr(each) if 32 <= each < 127 else "." for each in part)
        lines.append(f"{at:08x}  {part.hex(' '):<47}  {text}")
    return "\n".join(lines)
