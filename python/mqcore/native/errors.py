"""The root of the exception tree and the store's family of it, one class per engine error.

The extension raises these: `rust/bindings/src/errors.rs` matches the engine's errors without a
wildcard, so an engine error without a class here cannot be built. Each carries its facts as
attributes. Knows no store.
"""

from typing import Any


class MQError(Exception):
    """Everything that mqcore raises on purpose.

    Attributes:
        message: What failed, where, and what to do, in one text.
    """

    message: str

    def __init__(self, message: str, **facts: Any) -> None:
        """Keeps the text and each fact as an attribute.

        Args:
            message: What failed, where, and what to do.
            facts: Attributes of the class.
        """
        super().__init__(message)
        self.message = message
        self._facts = facts
        for name, value in facts.items():
            setattr(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Crosses to another process with its facts."""
        return (_rebuilt, (type(self), self.message, self._facts))


def _rebuilt(kind: type[MQError], message: str, facts: dict[str, Any]) -> MQError:
    return kind(message, **facts)


class StoreError(MQError):
    """The store refused or failed.

    Attributes:
        status: The official name of the status that an append with this error has
            (`SERVICE_NOT_AVAILABLE`, `MESSAGE_ILLEGAL`, ...).
        stored: How many messages of the failed call are in the log nevertheless: they come first.
    """

    status: str = "UNKNOWN_ERROR"
    stored: int = 0


class StoreIOError(StoreError):
    """A system call failed.

    Attributes:
        action: What was tried.
        path: The file or directory.
        errno: The system's error number, 0 when it gave none.
        is_no_space: Whether the disk is full: it may heal when space returns.
    """

    action: str
    path: str
    errno: int
    is_no_space: bool


class StoreLockedError(StoreError):
    """Another process, or another `Store`, has the directory open for writing.

    Attributes:
        path: The lock file.
    """

    path: str


class SettingError(StoreError):
    """A setting has a value that cannot work.

    Attributes:
        key: Its official name.
        value: The value given.
        why: What is wrong and what would be right.
    """

    key: str
    value: str
    why: str


class FileSizeError(StoreError):
    """A store file has not the size that the settings give.

    Attributes:
        path: The file.
        len_bytes: Its length.
        expected_bytes: The length that the setting asks for.
        key: The setting.
    """

    path: str
    len_bytes: int
    expected_bytes: int
    key: str


class ForeignFileError(StoreError):
    """There is a file or directory where none, or another kind, is expected.

    Attributes:
        path: The file.
        why: What is wrong with it and what to do.
    """

    path: str
    why: str


class DamagedError(StoreError):
    """Bytes that were whole once are not any more.

    Attributes:
        path: The file.
        position: Byte in the file.
        physical_offset: The same place as an offset of the log, in bytes.
        why: What does not hold there.
        whole_records: Whole records behind it.
        store: The directory of the store.
    """

    path: str
    position: int
    physical_offset: int
    why: str
    whole_records: int
    store: str


class PoisonedError(StoreError):
    """A sync or write failed earlier: nothing more is acknowledged until the store is reopened.

    Attributes:
        reason: The first failure.
    """

    reason: str


class NotWritableError(StoreError):
    """The store takes no writes now.

    Attributes:
        reason: Why, and when it may change.
    """

    reason: str


class StoreClosedError(StoreError):
    """The store is closed, or closing."""


class ForkedError(StoreError):
    """A forked child uses what its parent opened.

    Attributes:
        opener: Process id of the opener.
    """

    opener: int


class NoSegmentError(StoreError):
    """The next log file could not be made in time.

    Attributes:
        reason: Why.
    """

    reason: str


class PageCacheBusyError(StoreError):
    """The append lock is held longer than `osPageCacheBusyTimeOutMills`.

    Attributes:
        held_ms: How long the holder has it.
    """

    held_ms: int


class StoreTimeoutError(StoreError):
    """A wait came to its end before what was waited for.

    Attributes:
        what: What was waited for.
        waited_ms: How long.
    """

    what: str
    waited_ms: int


class NoRecordError(StoreError):
    """Nothing is stored at this place.

    Attributes:
        physical_offset: The place asked for, in bytes of the log.
        why: Why there is none.
    """

    physical_offset: int
    why: str


class LimitError(StoreError):
    """A bound of the store was met.

    Attributes:
        what: What was asked for.
        limit: The bound.
    """

    what: str
    limit: int


class BadTextError(StoreError):
    """A text file of the store cannot be read, nor can its earlier generation.

    Attributes:
        path: The file.
        why: What is wrong.
    """

    path: str
    why: str


class RecordError(StoreError):
    """A message cannot be stored, or bytes are no record."""


class TruncatedRecordError(RecordError):
    """The bytes end before the record does.

    Attributes:
        need_bytes: Bytes needed, as far as is known.
        have_bytes: Bytes there.
    """

    need_bytes: int
    have_bytes: int


class BadMagicError(RecordError):
    """Neither a record nor a blank starts here.

    Attributes:
        magic: What is there instead of the magic.
    """

    magic: int


class CrcMismatchError(RecordError):
    """The body is not the one that was stored.

    Attributes:
        stored_crc: The CRC in the record.
        computed_crc: The CRC of the body there.
    """

    stored_crc: int
    computed_crc: int


class LengthMismatchError(RecordError):
    """The fields do not add up to the length that the record claims.

    Attributes:
        stored_bytes: The length in the record.
        computed_bytes: The sum of its fields.
    """

    stored_bytes: int
    computed_bytes: int


class NegativeLengthError(RecordError):
    """A length is negative.

    Attributes:
        field: Whose length.
        len_bytes: The length.
    """

    field: str
    len_bytes: int


class BlankTooShortError(RecordError):
    """A blank marker claims fewer bytes than it has itself.

    Attributes:
        len_bytes: The claimed length.
    """

    len_bytes: int


class BodyTooLargeError(RecordError):
    """The body is longer than `maxMessageSize`.

    Attributes:
        len_bytes: Its length.
        max_bytes: The maximum.
    """

    len_bytes: int
    max_bytes: int


class PropertiesTooLongError(RecordError):
    """The properties are longer than 32767 bytes.

    Attributes:
        len_bytes: Their length.
    """

    len_bytes: int


class TopicTooLongError(RecordError):
    """The topic is longer than the record's version can hold.

    Attributes:
        len_bytes: Its length.
        max_bytes: The maximum.
    """

    len_bytes: int
    max_bytes: int


class TopicEmptyError(RecordError):
    """The message has no topic."""


class TopicIllegalError(RecordError):
    """The topic has a character that no topic may have.

    Attributes:
        at: Where, in bytes.
        byte: The character's byte.
    """

    at: int
    byte: int


class IllegalPropertyError(RecordError):
    """A property that could not be read back.

    Attributes:
        name: Its name.
        fault: Why.
    """

    name: str
    fault: str


class RecordTooLargeError(RecordError):
    """The whole record is longer than the configured maximum.

    Attributes:
        len_bytes: Its length.
        max_bytes: The maximum.
    """

    len_bytes: int
    max_bytes: int


class BadBatchError(RecordError):
    """A batch body does not consist of whole items.

    Attributes:
        position: Where the bad item starts in the batch body, in bytes.
        field: The field that does not fit.
        len_bytes: The length it needs; negative as read.
        have_bytes: Bytes left for it.
    """

    position: int
    field: str
    len_bytes: int
    have_bytes: int


class CrcPropertyMissingError(RecordError):
    """The record should carry a CRC property and does not."""


class BadOffsetIdError(RecordError):
    """The text is no offset id.

    Attributes:
        text: The text, cut to its first 64 characters.
    """

    text: str


class CompressionError(RecordError):
    """A body cannot be inflated.

    Attributes:
        compression: The compression that it names.
        why: What is wrong.
    """

    compression: str
    why: str
