"""The extension as type checkers see it: what the names do not say. A test compares the two."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, final

from typing_extensions import Buffer, disjoint_base

from mqcore.native._columns import (
    ColumnBatch,
    ColumnBytes,
    NativeRecordColumns,
    PackedRows,
    RecordBatch,
    RowPacker,
    Scan,
    queue_units,
    stored_units,
)
from mqcore.native._native_timers import NativeTimers
from mqcore.native._received import ReceivedMessage
from mqcore.native._wire import (
    FrameForm,
    FrameReader,
    compress,
    decompress,
    parse_relaxed_json,
)
from mqcore.native.lane import DrainedRow, GroupPolicy, OffsetRows, TopicPolicy
from mqcore.native.members import FilterBits, MembersPolicy
from mqcore.native.policies import BrokerPolicy
from mqcore.native.pops import OrderRow, RevivedRow
from mqcore.native.transactions import CheckedRow, CheckRules, HalfPlace

__all__ = [
    "Appended",
    "AppendedMany",
    "ColumnBatch",
    "ColumnBytes",
    "Command",
    "FrameForm",
    "FrameReader",
    "GetResult",
    "LaneConnection",
    "Message",
    "NativeInspection",
    "NativeLane",
    "NativeRecordColumns",
    "NativeStore",
    "NativeTimers",
    "PackedRows",
    "ReceiveBuffer",
    "ReceivedMessage",
    "RecordBatch",
    "RowPacker",
    "Scan",
    "compress",
    "decode_records",
    "decompress",
    "door_counts",
    "encode_parts",
    "encode_properties",
    "native_request_codes",
    "note_fork",
    "parse_relaxed_json",
    "queue_units",
    "rebuild",
    "settings",
    "sql_fault",
    "stored_units",
    "write_state",
]

def door_counts() -> tuple[int, int]:
    """Returns how many calls kept the GIL and how many gave it back, since the import."""

def decode_records(data: bytes, *, unwraps: bool = False) -> RecordBatch:
    """Returns the records of an answer; `unwraps` takes batches apart that are one record."""

def encode_parts(messages: list[Any], id_lead: str, first: int, tail: str) -> tuple[bytes, str]:
    """Returns a batch's body and its ids. See `mqcore.client.batches`."""

def encode_properties(
    *,
    tags: str | None = None,
    keys: str | Iterable[str] | None = None,
    properties: dict[str, str] | None = None,
) -> bytes:
    """Returns the properties text of a message, as `append_many` takes it."""

def note_fork() -> None: ...
def settings() -> list[tuple[str, str]]: ...
def write_state(path: str | Path, content: bytes) -> None:
    """Replaces a small file; what it held becomes its `.bak`. Both survive power loss on return."""

def rebuild(pairs: Sequence[tuple[str, str]]) -> tuple[int, int, int, int]:
    """Builds queues and index of a closed store again: log end, records, queues, index entries."""

@final
class Appended:
    """Where a message went, and the official status (`PUT_OK`, `FLUSH_DISK_TIMEOUT`, ...)."""

    @property
    def physical_offset(self) -> int: ...
    @property
    def queue_offset(self) -> int: ...
    @property
    def len_bytes(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def store_timestamp_ms(self) -> int: ...
    @property
    def status(self) -> str: ...
    @property
    def message_id(self) -> str: ...

@final
class Message:
    """One stored message, decoded on request; `record` is all of it, as it lies in the log.

    `stored_body` is the body as stored, `body` the inflated one (`CompressionError` where that
    cannot be). `properties` is made anew each time; of a name that occurs twice the last value
    wins. `message_id` names the place: store host and physical offset.
    """

    @property
    def topic(self) -> str: ...
    @property
    def queue_id(self) -> int: ...
    @property
    def queue_offset(self) -> int: ...
    @property
    def physical_offset(self) -> int: ...
    @property
    def record(self) -> bytes: ...
    @property
    def store_size_bytes(self) -> int: ...
    @property
    def magic(self) -> int: ...
    @property
    def sys_flag(self) -> int: ...
    @property
    def flag(self) -> int: ...
    @property
    def born_timestamp_ms(self) -> int: ...
    @property
    def store_timestamp_ms(self) -> int: ...
    @property
    def born_host(self) -> str: ...
    @property
    def store_host(self) -> str: ...
    @property
    def reconsume_times(self) -> int: ...
    @property
    def prepared_transaction_offset(self) -> int: ...
    @property
    def body_crc(self) -> int: ...
    @property
    def stored_body(self) -> bytes: ...
    @property
    def stored_body_len_bytes(self) -> int: ...
    @property
    def body(self) -> bytes: ...
    @property
    def tags(self) -> str | None: ...
    @property
    def keys(self) -> str | None: ...
    @property
    def uniq_key(self) -> str | None: ...
    @property
    def properties(self) -> dict[str, str]: ...
    @property
    def message_id(self) -> str: ...

@final
class GetResult:
    """What a read by queue offset gave, with the official status (`FOUND`, ...)."""

    @property
    def status(self) -> str: ...
    @property
    def messages(self) -> list[Message]: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def min_offset(self) -> int: ...
    @property
    def max_offset(self) -> int: ...
    @property
    def suggests_replica(self) -> bool: ...

@disjoint_base
class NativeStore:
    """A store that is open for writing. See `mqcore.native.store.Store`."""

    def __new__(
        cls,
        pairs: Sequence[tuple[str, str]],
        *,
        on_damage: str = "refuse",
        store_host: str | None = None,
    ) -> Self: ...
    @property
    def unknown_settings(self) -> list[str]: ...
    @property
    def settings(self) -> list[tuple[str, str]]: ...
    def append(
        self,
        topic: str,
        body: Buffer,
        *,
        queue_id: int = 0,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        properties: dict[str, str] | None = None,
        flag: int = 0,
        sys_flag: int = 0,
        born_timestamp_ms: int | None = None,
        born_host: str | None = None,
        wait: bool = True,
    ) -> Appended:
        """Appends one message, as durable as the settings promise; without `wait` ask `durable`."""

    def append_batch(
        self,
        topic: str,
        messages: Sequence[tuple[Buffer, dict[str, str] | None]],
        *,
        queue_id: int = 0,
        born_timestamp_ms: int | None = None,
        born_host: str | None = None,
        wait: bool = True,
    ) -> list[Appended]:
        """Appends bodies with their properties to one queue: all or none, offsets in a row."""

    def append_many(
        self,
        topic: str,
        bodies: Buffer,
        lens: Buffer,
        *,
        queue_ids: int | Buffer | None = None,
        properties: Buffer | None = None,
        properties_lens: Buffer | None = None,
        flag: int = 0,
        born_timestamp_ms: int | None = None,
        born_host: str | None = None,
        wait: bool = True,
    ) -> AppendedMany:
        """Appends many messages of a topic in one crossing.

        `bodies` holds all bodies one after another, `lens` their lengths as unsigned 32-bit
        numbers (`array("I")`). `queue_ids` is one number or signed 32-bit numbers (`array("i")`).
        `properties` is one text for all (`encode_properties`), or, with `properties_lens`, one per
        message. At the first message that is refused the error says how many were `stored`.
        """

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int = 32,
        *,
        max_bytes: int = 262144,
        tags: str | None = None,
    ) -> GetResult:
        """Reads messages of a queue. `tags` (`a||b`) tests hashes, as a broker does."""

    def message_at(self, physical_offset: int) -> Message: ...
    def scan(
        self,
        from_offset: int | None = None,
        to_offset: int | None = None,
        *,
        topics: Sequence[str] | None = None,
        batch_bytes: int = 1048576,
    ) -> Scan:
        """Walks what is readable now, from a record's first byte, in batches of some bytes."""

    def query(
        self, topic: str, key: str, max_count: int = 64, *, begin_ms: int = 0, end_ms: int = ...
    ) -> list[Message]:
        """Returns the newest messages whose key has the hash asked for, ascending by place."""

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, *, is_upper: bool = False
    ) -> int | None: ...
    def bounds(self, topic: str, queue_id: int) -> tuple[int, int] | None: ...
    def queue_rows(self) -> list[tuple[str, int, int, int]]: ...
    def damaged_rows(self) -> list[tuple[int, str, int, int, str]]: ...
    def flush(self) -> int: ...
    def wait_dispatched(self, physical_offset: int, *, timeout_ms: int = 10000) -> None: ...
    def delete_topic(self, topic: str) -> None: ...
    def declare_batch_queues(self, topic: str) -> None: ...
    def remove_oldest(
        self,
        *,
        expired_before_ms: int | None = None,
        max_files: int = 10,
        unread_from: int | None = None,
    ) -> tuple[int, int, int]:
        """Removes the oldest log files; returns files, bytes, and bytes that were unread."""

    def stat_numbers(self) -> dict[str, Any]: ...
    def report_numbers(self) -> dict[str, Any]: ...
    def take_notices(self) -> list[tuple[int, str]]: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def wake_descriptor(self) -> int: ...
    def park(self, end: int, *, needs_replica: bool = False) -> int: ...
    def drain(self) -> tuple[list[tuple[int, str]], int | None]: ...
    def close(self) -> bool: ...
    def abandon(self) -> None: ...

@final
class AppendedMany:
    """Where many messages went: `count` of them, up to physical offset `end`, with columns."""

    @property
    def count(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def status(self) -> str: ...
    @property
    def physical_offsets(self) -> memoryview[int]: ...
    @property
    def queue_offsets(self) -> memoryview[int]: ...
    def __len__(self) -> int: ...

@disjoint_base
class NativeInspection:
    """A store directory, read only. See `mqcore.native.inspection.Inspection`."""

    def __new__(cls, root: str, pairs: Sequence[tuple[str, str]] = ...) -> Self: ...
    @property
    def settings(self) -> list[tuple[str, str]]: ...
    @property
    def log_range(self) -> tuple[int, int]: ...
    def scan(
        self,
        from_offset: int | None = None,
        to_offset: int | None = None,
        *,
        topics: Sequence[str] | None = None,
        batch_bytes: int = 1048576,
        verify_crc: bool = True,
    ) -> Scan: ...
    def file_rows(self) -> list[tuple[str, int, int, int | None]]: ...
    def queue_rows(self) -> list[tuple[str, int, int, int, int | None]]: ...
    def index_numbers(self) -> list[dict[str, Any]]: ...
    def checkpoint(self) -> list[int] | None: ...
    def has_abort(self) -> bool: ...
    def verify_numbers(self) -> dict[str, Any]: ...
    def progress(self) -> tuple[int, int]: ...

@final
class Command:
    """A request or response; `encode` raises `FrameError` where a part is too long.

    `ext` is a dictionary of its own and may be changed; its values must be strings. `language` is
    a number (0 is JAVA, 3 PYTHON), `serialization` 0 for JSON and 1 for ROCKETMQ.
    """

    code: int
    opaque: int
    flag: int
    language: int
    version: int
    remark: str | None
    ext: dict[str, str]
    body: bytes

    def __new__(
        cls,
        code: int,
        *,
        ext: dict[str, str] | None = None,
        body: bytes | None = None,
        remark: str | None = None,
        opaque: int = 0,
        flag: int = 0,
        language: int = 0,
        version: int = ...,
        serialization: int = 0,
    ) -> Self: ...
    @staticmethod
    def response_to(
        request: Command,
        code: int,
        *,
        remark: str | None = None,
        ext: dict[str, str] | None = None,
        body: bytes | None = None,
        version: int = ...,
    ) -> Command: ...
    @property
    def serialization(self) -> int: ...
    @property
    def is_response(self) -> bool: ...
    @property
    def is_oneway(self) -> bool: ...
    def encode(self) -> bytes: ...

def native_request_codes() -> dict[str, int]:
    """Returns the request codes that the fast path executes, by official name."""

# What is wrong with an SQL92 text, and where; None for one that is right.
def sql_fault(text: str) -> str | None: ...

@final
class ReceiveBuffer:
    """Where the transports of a loop put what they receive; a buffer, as this Python cannot say."""

@disjoint_base
class NativeLane:
    """Executes hot requests. See `mqcore.native.lane.Lane`."""

    def __new__(
        cls, store: NativeStore, broker: BrokerPolicy, *, reader_threads: int = ...
    ) -> Self: ...
    @property
    def offset_changes(self) -> int: ...
    def set_broker(self, broker: BrokerPolicy) -> None: ...
    def set_timers(self, timers: NativeTimers) -> None: ...
    def set_bounds(self, half_frames: int, output: int, deferred: int, turn_us: int) -> None: ...
    def set_delay_levels(self, text: str) -> None: ...
    def set_topics(self, topics: Mapping[str, TopicPolicy]) -> None: ...
    def set_topic(self, name: str, topic: TopicPolicy | None) -> None: ...
    def set_groups(self, groups: Mapping[str, GroupPolicy]) -> None: ...
    def set_group(self, name: str, group: GroupPolicy | None) -> None: ...
    def set_group_lock(self, group: str, until_ms: int | None) -> None: ...
    def set_filter_bits(self, rows: Sequence[tuple[str, str, FilterBits]]) -> int: ...
    def set_members(self, group: str, members: MembersPolicy | None) -> None: ...
    def remember(self, length_ms: int, memory_bytes: int) -> tuple[int, int, int, int]: ...
    def load_offsets(self, table: Mapping[str, Mapping[int, int]]) -> None: ...
    def group_gets(self) -> list[tuple[str, str, int]]: ...
    def offset_rows(self, start: int, count: int) -> OffsetRows: ...
    def offsets_of(self, group: str, topic: str) -> dict[int, int]: ...
    def offset(self, group: str, topic: str, queue_id: int) -> int | None: ...
    def commit_offset(self, group: str, topic: str, queue_id: int, offset: int) -> bool: ...
    def reset_offset(self, group: str, topic: str, queue_id: int, offset: int) -> bool: ...
    def remove_offsets(self, *, group: str | None = None, topic: str | None = None) -> int: ...
    def deliver(
        self, level: int, offset: int, *, limit: int = ..., now_ms: int | None = None
    ) -> tuple[int, int, int | None, int, bool, int]: ...
    def write_op_messages(self) -> tuple[bool, int]: ...
    def check(self, at: HalfPlace, rules: CheckRules, until: int | None) -> CheckedRow: ...
    def transaction_rows(self) -> list[tuple[str, int, int, int, int]]: ...
    def load_transactions(self, waiting: dict[str, int]) -> None: ...
    def transaction_changes(self) -> int: ...
    def store_pops(self) -> bool: ...
    def pop_records(self) -> int: ...
    def revive_row(
        self, queue_id: int, done_offset: int, timers_ms: int, *, limit: int = ...
    ) -> RevivedRow: ...
    def order_rows(self) -> list[tuple[Any, ...]]: ...
    def load_orders(self, rows: Sequence[OrderRow]) -> None: ...
    def order_changes(self) -> int: ...
    def drain_all(self, now_ms: int | None = None) -> DrainedRow: ...
    def numbers(self) -> dict[str, int]: ...

@disjoint_base
class LaneConnection:
    """A connection of a lane. See `mqcore.native.lane.LaneProtocol`."""

    def __new__(cls, *_args: object, **_kwargs: object) -> Self: ...
    def bind(self, lane: NativeLane) -> None: ...
    def attach(
        self, write: Callable[[bytes], object], *, descriptor: int, peer: str, born_host: str | None
    ) -> None: ...
    def detach(self) -> None: ...
    def get_buffer(self, sizehint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...
    def take_turn(self) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def write(self, data: Buffer) -> None: ...
    def execute(self, command: Command) -> bool: ...
    def traffic(self) -> int: ...
    def half_frame_ms(self) -> int: ...
