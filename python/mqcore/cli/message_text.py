"""A message as commands print it: one JSON object, a card for people, or a line.

Works on what a broker stored. A body that is no text is Base64 in JSON, and marked so on a card.
"""

import base64
from typing import Any

from mqcore.errors import MQError
from mqcore.native import Message

__all__ = ["body_of", "json_of", "print_card"]

# A card shows so much of a body; JSON has all of it.
_CARD_BODY_CHARS = 4_000
# Properties that a card shows under a name for people.
_SHOWN_ELSEWHERE = frozenset({"TAGS", "KEYS", "UNIQ_KEY"})


def body_of(message: Message) -> bytes:
    """Returns the content; as it is stored where its compression is not read."""
    try:
        return message.body
    except MQError:
        return message.stored_body


def json_of(message: Message) -> dict[str, Any]:
    """Returns everything of a message; its body as `body`, or as `body_base64` if it is no text."""
    fields: dict[str, Any] = {
        "topic": message.topic,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "message_id": message.uniq_key or message.message_id,
        "offset_id": message.message_id,
        "tags": message.tags,
        "keys": (message.keys or "").split(),
        "properties": message.properties,
        "born_ms": message.born_timestamp_ms,
        "stored_ms": message.store_timestamp_ms,
        "born_host": message.born_host,
        "reconsume_times": message.reconsume_times,
    }
    body = body_of(message)
    try:
        fields["body"] = body.decode()
    except UnicodeDecodeError:
        fields["body_base64"] = base64.b64encode(body).decode()
    return fields


def print_card(message: Message) -> None:
    """Prints a message for people."""
    from mqcore.cli.tables import console, print_pairs, time_text

    fields = json_of(message)
    own = {
        name: fields["properties"][name]
        for name in fields["properties"]
        if name not in _SHOWN_ELSEWHERE
    }
    print_pairs(
        {
            "message": fields["message_id"],
            "stored as": fields["offset_id"],
            "topic": f"{message.topic}, queue {message.queue_id}, offset {message.queue_offset}",
            "tags": fields["tags"] or "-",
            "keys": " ".join(fields["keys"]) or "-",
            "born": f"{time_text(message.born_timestamp_ms)} at {message.born_host}",
            "stored": time_text(message.store_timestamp_ms),
            "tried before": message.reconsume_times,
        }
        | {f"  {name}": text for name, text in own.items()}
    )
    body = fields.get("body")
    if body is None:
        text = f"({len(body_of(message))} bytes that are no text; --json has them as Base64)"
    elif len(body) > _CARD_BODY_CHARS:
        text = f"{body[:_CARD_BODY_CHARS]}... ({len(body)} characters; --json has all of them)"
    else:
        text = body
    console().print(text, soft_wrap=True)
