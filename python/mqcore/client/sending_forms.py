"""The forms in which users give what is to be sent: a `Message`, or a topic and a body."""

from collections.abc import Iterable
from typing import Any, TypeAlias, TypedDict

from mqcore.client.message import Message
from mqcore.client.preparing import QueueSelector
from mqcore.client.results import QueueRef
from mqcore.errors import MessageError

__all__ = [
    "BatchOptions",
    "Body",
    "QueueOptions",
    "SendOptions",
    "message_of",
    "messages_of",
]

# The content of a message; text becomes UTF-8.
Body: TypeAlias = bytes | bytearray | memoryview | str


class QueueOptions(TypedDict, total=False):
    """Where a message must go."""

    queue: QueueRef | None
    selector: QueueSelector | None
    argument: Any


class SendOptions(QueueOptions, total=False):
    """Where a message must go, and by when."""

    timeout_s: float | None


class BatchOptions(TypedDict, total=False):
    """Where messages must go together, and by when."""

    timeout_s: float | None
    queue: QueueRef | None


def message_of(message: Message | str, body: Body | None) -> Message:
    """Returns the message that a call gives.

    Args:
        message: A message, or a topic.
        body: What is sent to the topic.

    Raises:
        MessageError: It is neither of both forms.
    """
    if body is None and not isinstance(message, str):
        return message
    if not isinstance(message, str):
        raise MessageError(
            f"a topic is expected before the body, not {type(message).__name__}: give a "
            "mqcore.Message alone, or a topic and a body"
        )
    if body is None:
        raise MessageError(
            f"a mqcore.Message is expected, not str; or a topic and a body: ({message!r}, b'...')"
        )
    return Message(message, body)


def messages_of(messages: Iterable[Message] | str, bodies: Iterable[Body] | None) -> list[Message]:
    """Returns the messages that a call gives.

    Args:
        messages: Messages, or a topic.
        bodies: What is sent to the topic.

    Raises:
        MessageError: It is neither of both forms.
    """
    if isinstance(messages, str):
        if bodies is None or isinstance(bodies, str | bytes | bytearray | memoryview):
            raise MessageError(
                f"bodies are missing: give messages, or a topic and several bodies: "
                f"({messages!r}, [b'...'])"
            )
        return [Message(messages, body) for body in bodies]
    if bodies is not None:
        raise MessageError("messages have bodies already: give them alone, or a topic with bodies")
    if not isinstance(messages, Iterable):
        raise MessageError(
            f"several messages are expected, not one {type(messages).__name__}: give a list, or "
            "call send"
        )
    return list(messages)
