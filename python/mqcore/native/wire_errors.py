"""Exceptions about bytes that a peer sent or commands that cannot be written, one per error.

The extension raises these: `rust/bindings/src/errors.rs` matches the errors of the wire without a
wildcard. Each carries its facts as attributes. Knows no socket.
"""

from mqcore.native.errors import CompressionError, MQError

__all__ = [
    "BinaryHeaderError",
    "CodeTooLargeError",
    "CommandTooLongError",
    "CompressionError",
    "FrameError",
    "FrameLengthError",
    "FrameTooLargeError",
    "HeaderLengthError",
    "HeaderTextError",
    "JsonHeaderError",
    "JsonTextError",
    "RowError",
    "TooManyFieldsError",
    "UnknownSerializationError",
]


class FrameError(MQError):
    """Bytes are no frame or no header, or a command cannot become one.

    Raised while reading, it ends the connection: nobody knows where the next frame begins.
    """


class FrameTooLargeError(FrameError):
    """The length of a frame is more than frames may have.

    Attributes:
        len_bytes: Length of the frame with its length word.
        max_bytes: The maximum.
    """

    len_bytes: int
    max_bytes: int


class FrameLengthError(FrameError):
    """The length of a frame is negative, or too short to hold a header's length.

    Attributes:
        len_bytes: The length word as read.
    """

    len_bytes: int


class HeaderLengthError(FrameError):
    """The length of a header is more than its frame has.

    Attributes:
        len_bytes: Length of the header as read.
        have_bytes: Bytes of the frame left for it.
    """

    len_bytes: int
    have_bytes: int


class UnknownSerializationError(FrameError):
    """No known way of writing headers has this number.

    Attributes:
        kind: The number.
    """

    kind: int


class JsonHeaderError(FrameError):
    """The JSON of a header is broken, or a member has an impossible type.

    Attributes:
        why: What is wrong.
        line: Line of the header, from 1.
        column: Byte of the line, from 1.
    """

    why: str
    line: int
    column: int


class BinaryHeaderError(FrameError):
    """A part of a binary header does not fit into it.

    Attributes:
        part: The part.
        need_bytes: Length that it gives, bytes; negative as read.
        have_bytes: Bytes left for it.
    """

    part: str
    need_bytes: int
    have_bytes: int


class HeaderTextError(FrameError):
    """A text of a binary header is not UTF-8.

    Attributes:
        part: The text.
    """

    part: str


class TooManyFieldsError(FrameError):
    """A header has more fields than any request has.

    Attributes:
        max_fields: The maximum.
    """

    max_fields: int


class CommandTooLongError(FrameError):
    """A part of a command is too long to be written.

    Attributes:
        part: The part.
        len_bytes: Its length.
        max_bytes: The maximum.
    """

    part: str
    len_bytes: int
    max_bytes: int


class CodeTooLargeError(FrameError):
    """The code does not fit into a binary header.

    Attributes:
        code: The code.
    """

    code: int


class JsonTextError(MQError):
    """A text is not the JSON that RocketMQ writes.

    Attributes:
        position: Byte of the text.
        line: Line, from 1.
        column: Byte of the line, from 1.
        why: What is wrong there.
    """

    position: int
    line: int
    column: int
    why: str


class RowError(MQError):
    """A row of columns cannot become a message.

    Attributes:
        row: Its number among all rows that were packed, from 0.
        why: Why.
    """

    row: int
    why: str
