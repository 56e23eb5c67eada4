"""The root of the exception tree and the store's family of it, one class per engine error.

The extension raises these: `rust/bindings/src/errors.rs` matches the engine's errors without a
wildcard. Each carries its facts as attributes, and its class has a reason. Knows no store.
"""

from enum import StrEnum
from typing import Any


class StoreReason(StrEnum):
    """Why a `StoreError` was raised."""

    # The same call may succeed later: something took too long, or is being made.
    BUSY = "busy"
    # It takes no writes now, such as while the disk is nearly full; the message has what ends that.
    NOT_WRITABLE = "not_writable"
    # A write or sync failed earlier: nothing is acknowledged until the store is opened again.
    POISONED = "poisoned"
    # The disk is full: what failed may succeed when there is space again.
    DISK_FULL = "disk_full"
    # The system refused: a disk that fails, a permission, a path that cannot be.
    IO = "io"
    # Another process, or another `Store` of this one, has it open.
    LOCKED = "locked"
    CLOSED = "closed"
    # A forked child uses what its parent opened: open stores after forking.
    FORKED = "forked"
    # A setting cannot work, or does not fit the files that are there.
    SETTING = "setting"
    # Something is in its directory that is not the store's.
    FOREIGN_FILE = "foreign_file"
    # What was whole once is not any more: `mqcore store verify`, then `repair`.
    DAMAGED = "damaged"
    # Nothing is stored at the offset.
    MISSING = "missing"
    # A bound of the store, or of the system, was met.
    LIMIT = "limit"
    # The message has a name or a property that no message may have.
    ILLEGAL = "illegal"
    TOO_LARGE = "too_large"
    # Bytes are no record.
    MALFORMED = "malformed"


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
        reason: What it means to who called; each class below has one.
    """

    status: str = "UNKNOWN_ERROR"
    stored: int = 0
    reason: StoreReason = StoreReason.IO


class StoreIOError(StoreError):
    """A system call failed.

    Attributes:
        action: What was tried.
        path: The file or directory.
        errno: The system's error number, 0 when it gave none.
        is_no_space: Whether the disk is full: it may heal when space returns; `reason` has it too.
    """

    action: str
    path: str
    errno: int
    is_no_space: bool

    def __init__(self, message: str, **facts: Any) -> None:
        """Keeps the text and each fact; see `MQError`."""
        super().__init__(message, **facts)
        if facts.get("is_no_space"):
            self.reason = StoreReason.DISK_FULL


class StoreLockedError(StoreError):
    """Another process, or another `Store`, has the directory open for writing.

    Attributes:
        path: The lock file.
    """

    reason = StoreReason.LOCKED
    path: str


class SettingError(StoreError):
    """A setting has a value that cannot work.

    Attributes:
        key: Its official name.
        value: The value given.
        why: What is wrong and what would be right.
    """

    reason = StoreReason.SETTING
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

    reason = StoreReason.SETTING
    path: str
    len_bytes: int
    expected_bytes: int
    key: str


class ForeignFileError(StoreError):
    """A file or directory is where none, or another kind, is expected.

    Attributes:
        path: The file.
        why: What is wrong with it and what to do.
    """

    reason = StoreReason.FOREIGN_FILE
    path: str
    why: str


class DamagedError(StoreError):
    """Bytes that were whole once are not any more.

    Attributes:
        path: The file.
        position: Byte in the file.
        physical_offset: The same as an offset of the log, in bytes.
        why: What does not hold there.
        whole_records: Whole records behind it.
        store: The directory of the store.
    """

    reason = StoreReason.DAMAGED
    path: str
    position: int
    physical_offset: int
    why: str
    whole_records: int
    store: str


class PoisonedError(StoreError):
    """A sync or write failed earlier: nothing more is acknowledged until the store is reopened.

    Attributes:
        why: The first failure.
    """

    reason = StoreReason.POISONED
    why: str


class NotWritableError(StoreError):
    """The store takes no writes now.

    Attributes:
        why: Why, and when it may change.
    """

    reason = StoreReason.NOT_WRITABLE
    why: str


class StoreClosedError(StoreError):
    """The store is closed, or closing."""

    reason = StoreReason.CLOSED


class ForkedError(StoreError):
    """A forked child uses what its parent opened.

    Attributes:
        opener: Process id of the opener.
    """

    reason = StoreReason.FORKED
    opener: int


class NoSegmentError(StoreError):
    """The next log file could not be made in time.

    Attributes:
        why: Why.
    """

    reason = StoreReason.BUSY
    why: str


class PageCacheBusyError(StoreError):
    """The append lock is held longer than `osPageCacheBusyTimeOutMills`.

    Attributes:
        held_ms: How long the holder has it.
    """

    reason = StoreReason.BUSY
    held_ms: int


class StoreTimeoutError(StoreError):
    """A wait came to its end before what was waited for.

    Attributes:
        what: What was waited for.
        waited_ms: How long.
    """

    reason = StoreReason.BUSY
    what: str
    waited_ms: int


class NoRecordError(StoreError):
    """Nothing is stored at this offset.

    Attributes:
        physical_offset: The offset asked for, in bytes of the log.
        why: Why there is none.
    """

    reason = StoreReason.MISSING
    physical_offset: int
    why: str


class LimitError(StoreError):
    """A bound of the store was met.

    Attributes:
        what: What was asked for.
        limit: The bound.
    """

    reason = StoreReason.LIMIT
    what: str
    limit: int


class BadTextError(StoreError):
    """A text file of the store cannot be read, nor can its earlier generation.

    Attributes:
        path: The file.
        why: What is wrong.
    """

    reason = StoreReason.DAMAGED
    path: str
    why: str


class RecordError(StoreError):
    """A message cannot be stored, or bytes are no record."""

    reason = StoreReason.MALFORMED


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
        magic: What is there in place of the magic.
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

    reason = StoreReason.TOO_LARGE
    len_bytes: int
    max_bytes: int


class PropertiesTooLongError(RecordError):
    """The properties are longer than 32767 bytes.

    Attributes:
        len_bytes: Their length.
    """

    reason = StoreReason.TOO_LARGE
    len_bytes: int


class TopicTooLongError(RecordError):
    """The topic is longer than the record's version can hold.

    Attributes:
        len_bytes: Its length.
        max_bytes: The maximum.
    """

    reason = StoreReason.TOO_LARGE
    len_bytes: int
    max_bytes: int


class TopicEmptyError(RecordError):
    """The message has no topic."""

    reason = StoreReason.ILLEGAL


class TopicIllegalError(RecordError):
    """The topic has a character that no topic may have.

    Attributes:
        at: Where, in bytes.
        byte: The character's byte.
    """

    reason = StoreReason.ILLEGAL
    at: int
    byte: int


class IllegalPropertyError(RecordError):
    """A property that could not be read back.

    Attributes:
        name: Its name.
        fault: Why.
    """

    reason = StoreReason.ILLEGAL
    name: str
    fault: str


class RecordTooLargeError(RecordError):
    """The whole record is longer than the configured maximum.

    Attributes:
        len_bytes: Its length.
        max_bytes: The maximum.
    """

    reason = StoreReason.TOO_LARGE
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

    reason = StoreReason.ILLEGAL
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
        compression: How it is marked as compressed.
        why: What is wrong.
    """

    compression: str
    why: str
