"""The extension as type checkers see it: what the names do not show.

`mypy.stubtest` compares the two (`make lint`).
"""

from asyncio import Future
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, final

from typing_extensions import Buffer, CapsuleType, disjoint_base

from mqcore.model.queues import MessageQueue
from mqcore.native.bulk import BulkOrder
from mqcore.native.columns import ArrowCapsules, ArrowColumns, Asked
from mqcore.native.controller import AlterSetRow, ClaimRow, ControllerGroupRow, ElectRow
from mqcore.native.fast_path import GroupPolicy, TopicPolicy
from mqcore.native.members import ExpressionBits, MembersPolicy
from mqcore.native.policies import BrokerPolicy
from mqcore.native.replication import (
    ReplicationMembership,
    ReplicationPace,
    ReplicationQuorum,
)
from mqcore.native.store import BatchMessage
from mqcore.native.transactions import CheckRules

__all__ = [
    "Access",
    "AccessEntry",
    "AccessExplanation",
    "AccessRefusal",
    "AccessRefusals",
    "Alteration",
    "Appended",
    "AppendedMany",
    "BadRecord",
    "Blank",
    "BrokerSetView",
    "BulkText",
    "CallTable",
    "CheckQuestion",
    "CheckedHalves",
    "ColumnBatch",
    "Command",
    "ConsumerOffsets",
    "ControllerAnswer",
    "ControllerMessage",
    "ControllerNode",
    "ControllerStanding",
    "DamagedRecord",
    "Delivered",
    "Drained",
    "DrainedRequest",
    "EncodedParts",
    "EndedLink",
    "EpochEntry",
    "FastPathConnection",
    "FastPathDrained",
    "FileCopy",
    "FileSize",
    "Findings",
    "FrameForm",
    "FrameReader",
    "GetResult",
    "GilCounts",
    "GivenBack",
    "GroupGets",
    "HalfMessages",
    "Handed",
    "IndexCapacity",
    "IndexHeader",
    "LogPositions",
    "LogRange",
    "Message",
    "NativeFastPath",
    "NativeInspection",
    "NativeRecordColumns",
    "NativeStore",
    "Notice",
    "OffsetRange",
    "OpMessagesWritten",
    "OpenReport",
    "OrderInfo",
    "PackedRows",
    "Pops",
    "Problem",
    "QueueBounds",
    "QueueState",
    "QueueTraffic",
    "QueueUnit",
    "QuotaRow",
    "QuotaWait",
    "Rebuilt",
    "ReceiveBuffer",
    "ReceivedMessage",
    "RecordBatch",
    "RefillProgress",
    "RememberedSends",
    "RemovedFiles",
    "ReplicationEpochs",
    "ReplicationMaster",
    "ReplicationRefill",
    "ReplicationSlave",
    "ReplicationTls",
    "RequestDuration",
    "RequestTimes",
    "ResumedHalf",
    "RetryTopic",
    "Revived",
    "RowPacker",
    "Scan",
    "Segment",
    "SendAnswer",
    "SlaveProgress",
    "SlaveState",
    "SlowRequest",
    "StageTimes",
    "Stats",
    "SyncState",
    "Tally",
    "Ticked",
    "TimedTopic",
    "TimerProgress",
    "Timers",
    "TimersMoved",
    "TopicSeconds",
    "TopicTraffic",
    "TransactionCount",
    "UnitExtension",
    "VerifyProgress",
    "bad_record_at",
    "bound_allocator",
    "change_settings",
    "compress",
    "decode_records",
    "decompress",
    "encode_parts",
    "encode_properties",
    "gil_counts",
    "give_memory_back",
    "index_capacity",
    "name_failed_reads",
    "native_request_codes",
    "next_bad_record",
    "note_fork",
    "parse_relaxed_json",
    "queue_units",
    "quotas_fault",
    "rebuild",
    "replace_bad_record",
    "replace_record",
    "resident_parts",
    "settings",
    "sql_fault",
    "stored_units",
    "write_state",
]

def compress(body: Buffer, kind: int, level: int = ...) -> bytes:
    """Returns a body made small; the kinds are those of `mqcore.native.wire.Compression`."""

def decode_records(data: bytes, *, unwraps: bool = False) -> RecordBatch:
    """Returns the records of an answer; `unwraps` takes batches apart that are one record."""

def decompress(body: Buffer, kind: int, limit_bytes: int) -> bytes:
    """Returns a body as it was before, of at most `limit_bytes`."""

def encode_parts(messages: list[Any], id_lead: str, first: int, tail: str) -> EncodedParts:
    """Returns what a batch request has of its messages. See `mqcore.client.batches`."""

def encode_properties(
    *,
    tags: str | None = None,
    keys: str | Iterable[str] | None = None,
    properties: dict[str, str] | None = None,
) -> bytes:
    """Returns the properties text of a message, as `append_many` takes it."""

def gil_counts() -> GilCounts:
    """Returns how many calls kept the GIL and how many released it, since the import."""

def bound_allocator(processors: int) -> bool:
    """Has the allocator keep little of what was freed, for the whole process.

    Args:
        processors: How many the process has: so many arenas there are, and four at the least.

    Returns:
        Whether it takes such a bound: glibc's does.
    """

def give_memory_back() -> bool:
    """Gives memory that was freed back to the system, where the allocator keeps it for later.

    Returns:
        Whether there was any. Takes milliseconds, without the interpreter's lock.
    """

def name_failed_reads() -> None:
    """Has the file named on standard error whose mapped bytes cannot be read (SIGBUS).

    The process ends of that as before: handlers that are there already are called afterwards.

    Raises:
        OSError: The system refuses.
    """

def native_request_codes() -> dict[str, int]:
    """Returns the request codes that the fast path executes, by official name."""

def note_fork() -> None:
    """Notes that this process is a forked child."""

def parse_relaxed_json(text: Buffer) -> Any:
    """Returns the value of RocketMQ's JSON. See `mqcore.native.wire`."""

def queue_units(data: Buffer, first_queue_offset: int) -> ColumnBatch:
    """Returns the units in a piece of a queue file: offset, place, size, tags code."""

def index_capacity(folder: str, slots: int, entries: int) -> IndexCapacity | None:
    """Returns how much index files hold. See `mqcore.native.inspection.index_capacity`."""

def resident_parts(path: str, parts: int) -> list[int] | None:
    """Returns what of a file is in memory. See `mqcore.native.inspection.resident_parts`."""

def bad_record_at(store: NativeStore, physical_offset: int) -> BadRecord | None:
    """Returns the bad record that begins at a place of an open store.

    Args:
        store: The store.
        physical_offset: Where a record begins.

    Returns:
        The bad record, with whole ones behind it; None where none begins there. Reads the file of
        the log up to there.
    """

def next_bad_record(settings: dict[str, str], physical_offset: int) -> BadRecord | None:
    """Returns the first bad record. See `mqcore.native.inspection.next_bad_record`."""

def rebuild(settings: dict[str, str]) -> Rebuilt:
    """Builds queues and index of a closed store again. See `mqcore.native.inspection.rebuild`."""

def replace_bad_record(
    settings: dict[str, str],
    physical_offset: int,
    record: bytes,
    around: list[tuple[int, bytes]],
    *,
    is_dry: bool,
) -> str:
    """Replaces a bad record. See `mqcore.native.inspection.replace_bad_record`."""

def replace_record(
    store: NativeStore, physical_offset: int, record: bytes, around: list[tuple[int, bytes]]
) -> str:
    """Puts a record of another replica in place of a bad one of an open store.

    Args:
        store: The store.
        physical_offset: Where the bad record begins.
        record: What the other replica has there.
        around: What it has at `before` and `next_whole` of the bad record.

    Returns:
        The path at which the bad bytes are kept.

    Raises:
        NotWritableError: The replicas differ in more than that record, theirs is none of this
            place, the place is beyond what is confirmed, or its file is mapped: it is too new.
    """

def settings() -> dict[str, str]:
    """Returns every key that a store knows, with its default."""

def sql_fault(text: str) -> str | None:
    """Returns what is wrong with an SQL92 text, and where; None for one that is right."""

def quotas_fault(text: str) -> str | None:
    """Returns what is wrong with rules of `mqcoreQuotas`, and with which; None for right ones."""

def change_settings(store: NativeStore, settings: dict[str, str]) -> None:
    """Lets a store take settings that may change while it is open; see `Store.change_settings`."""

def stored_units(
    store: NativeStore, topic: str, queue_id: int, first: int, count: int
) -> list[QueueUnit]:
    """Returns the units of a queue. See `mqcore.native.Store.units`."""

def write_state(path: str | Path, content: bytes, *, is_private: bool = False) -> None:
    """Replaces a small file; what it held becomes its `.bak`. Both survive power loss on return.

    Nobody but the owner may read one that is private: it holds secrets.
    """

@disjoint_base
class NativeStore:
    """A store that is open for writing. See `mqcore.native.store.Store`."""

    def __new__(
        cls,
        settings: dict[str, str],
        *,
        on_damage: str = "refuse",
        store_host: str | None = None,
        is_member: bool = False,
        cut_at: int | None = None,
    ) -> Self: ...
    @property
    def unknown_settings(self) -> list[str]: ...
    @property
    def settings(self) -> dict[str, str]: ...
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
        messages: Sequence[BatchMessage],
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
        message. At the first message that is refused the error has how many were `stored`.
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
    def bounds(self, topic: str, queue_id: int) -> OffsetRange | None:
        """Returns the bounds of a queue; None for one without a message."""

    def ends_behind_queues(self) -> dict[str, dict[int, int]]:
        """Returns where queues end by what the log holds and they have not got yet.

        By topic and then by queue id, only those with such a record. Reads the log. The bounds of
        queues are to be asked for afterwards, as they grow meanwhile.
        """

    def queues(self) -> list[QueueBounds]:
        """Returns every queue with its bounds, by topic and queue id."""

    def damaged_records(self) -> list[DamagedRecord]:
        """Returns the damaged records that were found since the store was opened."""

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
    ) -> RemovedFiles:
        """Removes the oldest log files."""

    def stats_beside(self, minor_faults: int, major_faults: int) -> Stats:
        """Returns the store in numbers, with the page faults of this process."""

    def open_report(self) -> OpenReport:
        """Returns what opening found and did."""

    def take_notices(self) -> list[Notice]: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def wake_descriptor(self) -> int: ...
    def park(self, end: int, *, needs_replica: bool = False) -> int: ...
    def drain(self) -> Drained: ...
    def close(self) -> bool: ...
    def abandon(self) -> None: ...

@final
class Access:
    """Access control of one server: checks requests by tables that whoever owns users gives it.

    Off until `replace` was called with settings that switch it on. Any thread.

    Args:
        rules: The rule of each request code, as `mqcore.remoting.request_codes` has them.

    Raises:
        ValueError: A rule cannot be read: its code, its place, and why.
    """

    def __new__(cls, rules: dict[int, str]) -> Self: ...
    @property
    def version(self) -> int: ...
    @property
    def late_refusals(self) -> int:
        """Answers to wrong signatures that were late."""

    @property
    def silent_refusals(self) -> int:
        """Answers to wrong signatures that were not given."""

    @property
    def is_on(self) -> bool: ...
    def replace(
        self,
        users: Sequence[tuple[str, str, str, str]],
        policies: Sequence[tuple[str, str, str, Sequence[str], Sequence[str], str]],
        settings: dict[str, str],
        plain: tuple[
            Sequence[str],
            Sequence[
                tuple[
                    str,
                    str,
                    str,
                    bool,
                    tuple[int, int],
                    Sequence[tuple[str, int]],
                    Sequence[tuple[str, int]],
                ]
            ],
        ]
        | None = None,
    ) -> int:
        """Puts other tables in force, whole; returns their version.

        Args:
            users: Name, secret (empty: it only comes with a certificate), `Super` or `Normal`,
                `enable` or `disable`.
            policies: Subject (`User:NAME`), `Custom` or `Default`, resource (`*`, `Topic:*`,
                `Topic:orders*`, `Topic:orders`), official names of actions, addresses and ranges
                (empty: from anywhere), `Allow` or `Deny`.
            settings: `authenticate`, `authorize`, `dry_run`, `like_official`, `requires_tls`:
                `true` or `false`; `super_from`: addresses and ranges by comma, `*` for anywhere,
                empty for this machine; `white_codes_authentication`,
                `white_codes_authorization`: codes by comma; `cluster`.
            plain: What files of 4.x have, where they count: addresses from which nobody needs a
                signature; accounts, each with access key, secret key, addresses from which it needs
                none, whether it is an administrator, what it may with topics and groups that are
                not listed, topics, groups. What it may: 1 Pub, 2 Sub, 3 both, 0 neither.

        Raises:
            ValueError: A row or a setting cannot be taken, which is named; the tables before stay.
        """

    def check(self, command: Command, source: str, *, is_tls: bool, principal: str = "") -> str:
        """Checks a request as the fast path does: its signature, and the pairs of its header.

        Args:
            command: The request.
            source: Where it came from, with or without a port.
            is_tls: Whether its connection has TLS.
            principal: The user that a checked certificate names.

        Returns:
            The user; empty where none is needed.

        Raises:
            RefusedError: With the official text.
        """

    def decide(
        self, user: str, source: str, pairs: Sequence[tuple[str, int]], *, code: int = 0
    ) -> None:
        """Decides about pairs that a request asks for beside its header: all must pass.

        Args:
            user: Who passed `check`, or came up with the request.
            source: Where from.
            pairs: Resources as `Topic:orders`, each with the bits of actions any of which will do:
                Pub 1, Sub 2, Create 4, Update 8, Delete 16, Get 32, List 64.
            code: The request code, for lists of codes that need no rights, and for the audit.

        Raises:
            RefusedError: With the official text for the first that does not pass.
            ValueError: A resource is none.
        """

    def explain(self, user: str, source: str, resource: str, actions: int) -> AccessExplanation:
        """Returns what a decision rests on, by the tables in force; nothing is kept of it.

        Raises:
            ValueError: The resource is none.
        """

    def take_refusals(self) -> AccessRefusals:
        """Takes what was refused since the last call; 4,096 are kept, those behind them counted."""

@final
class AccessRefusal:
    """A request that was refused, or would have been without a dry run.

    Attributes:
        time_ms: When, Unix ms.
        code: Its code; 0 where it is not known.
        user: The user as the request names it; empty without one.
        source: From where, without a port.
        resource: The resource that it is about, as `Topic:orders`; empty without one.
        actions: The official names of what was asked for: any of them would have done.
        reason: Why, in a word or two.
        remark: The remark of the answer.
        is_dry_run: Whether it passed all the same.
    """

    @property
    def time_ms(self) -> int: ...
    @property
    def code(self) -> int: ...
    @property
    def user(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def resource(self) -> str: ...
    @property
    def actions(self) -> list[str]: ...
    @property
    def reason(
        self,
    ) -> Literal[
        "no user",
        "bad signature",
        "disabled",
        "needs TLS",
        "super from",
        "needs super",
        "no policy",
        "denied",
        "user gone",
    ]: ...
    @property
    def remark(self) -> str: ...
    @property
    def is_dry_run(self) -> bool: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class AccessRefusals:
    """What was refused since somebody asked last.

    Attributes:
        refusals: The first of them, in their order.
        left_out: How many came when there were too many already.
    """

    @property
    def refusals(self) -> list[AccessRefusal]: ...
    @property
    def left_out(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class AccessEntry:
    """An entry of a policy that matches.

    Attributes:
        policy: The policy that has it.
        resource: As `Topic:orders*`.
        actions: Official names.
        sources: Addresses and ranges; empty: from anywhere.
        decision: `Allow` or `Deny`.
    """

    @property
    def policy(self) -> Literal["Custom", "Default"]: ...
    @property
    def resource(self) -> str: ...
    @property
    def actions(self) -> list[str]: ...
    @property
    def sources(self) -> list[str]: ...
    @property
    def decision(self) -> Literal["Allow", "Deny"]: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class AccessExplanation:
    """What a decision rests on.

    Attributes:
        is_allowed: Whether it is allowed.
        why: Why.
        matched: The entries that match, in the order of precedence: the first decides, where the
            user is no Super one.
    """

    @property
    def is_allowed(self) -> bool: ...
    @property
    def why(self) -> str: ...
    @property
    def matched(self) -> list[AccessEntry]: ...
    __match_args__: ClassVar[tuple[str, ...]]

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

@final
class OffsetRange:
    """The bounds of a queue.

    Attributes:
        min_offset: First queue offset that is kept.
        max_offset: Queue offset behind the last message.
    """

    @property
    def min_offset(self) -> int: ...
    @property
    def max_offset(self) -> int: ...
    def __new__(cls, min_offset: int, max_offset: int) -> Self: ...

@final
class Drained:
    """Acknowledgements that were waited for.

    Attributes:
        statuses: Official statuses by ticket, in the order of the log.
        next_ms: Milliseconds until the next call is due although nothing is announced.
    """

    @property
    def statuses(self) -> dict[int, str]: ...
    @property
    def next_ms(self) -> int | None: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class QueueBounds:
    """One queue.

    Attributes:
        topic: Its topic.
        queue_id: Its number in the topic.
        min_offset: First queue offset that is kept.
        max_offset: Queue offset behind the last message.
    """

    @property
    def topic(self) -> str: ...
    @property
    def queue_id(self) -> int: ...
    @property
    def min_offset(self) -> int: ...
    @property
    def max_offset(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class QueueUnit:
    """One unit of a queue, as it is stored there.

    Attributes:
        queue_offset: Queue offset of its first message.
        physical_offset: Where its record begins in the log.
        size_bytes: Length of the record.
        tags_code: Hash of its tags, or when a delayed message is delivered.
        is_extended: Whether the extension of the queue has the code; then the code here is a place
            there where `extension` is None.
        extension: What the extension has of the unit, where it has it.
    """

    @property
    def queue_offset(self) -> int: ...
    @property
    def physical_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def tags_code(self) -> int: ...
    @property
    def is_extended(self) -> bool: ...
    @property
    def extension(self) -> UnitExtension | None: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class UnitExtension:
    """What the extension of a queue has of a unit.

    Attributes:
        store_timestamp_ms: Store time of the message.
        bits: Bits that represent filters; empty for none.
    """

    @property
    def store_timestamp_ms(self) -> int: ...
    @property
    def bits(self) -> bytes: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class DamagedRecord:
    """A record of the log that is damaged.

    Attributes:
        physical_offset: Where it begins, bytes of the log.
        topic: Its topic; empty where it cannot be read.
        queue_id: Its queue; -1 where it cannot be read.
        queue_offset: Its place there; -1 where it cannot be read.
        why: What is wrong.
    """

    @property
    def physical_offset(self) -> int: ...
    @property
    def topic(self) -> str: ...
    @property
    def queue_id(self) -> int: ...
    @property
    def queue_offset(self) -> int: ...
    @property
    def why(self) -> str: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class RemovedFiles:
    """What was removed of the oldest part of a store.

    Attributes:
        log_files: Log files.
        log_bytes: Their bytes.
        unread_bytes: Bytes of the log that somebody still wanted to read.
    """

    @property
    def log_files(self) -> int: ...
    @property
    def log_bytes(self) -> int: ...
    @property
    def unread_bytes(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class Notice:
    """Something that the store has to report to its user.

    Attributes:
        level: The level, as Python's `logging` numbers it.
        text: What happened.
    """

    @property
    def level(self) -> int: ...
    @property
    def text(self) -> str: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class Stats:
    """The store in numbers, at one moment. Positions are physical offsets (bytes of the log).

    Attributes:
        log_start: First byte that is kept.
        appended: End of what was appended.
        committed: End of what survives the process.
        flushed: End of what survives power loss.
        dispatched: End of what is readable through queues.
        commit_lag_bytes: Appended, not committed.
        flush_lag_bytes: Committed, not flushed.
        dispatch_lag_bytes: Appended, not dispatched.
        follower_lag_bytes: The same per follower of the log: queues, index.
        syncs: Syncs of the log since the store was opened.
        records_dispatched: Records dispatched since then.
        mapped_bytes: Bytes of log files mapped.
        locked_bytes: Bytes of them locked in memory.
        resident_bytes: Bytes of them in memory.
        segments_ready: Log files ready ahead of need.
        warmed_bytes: Bytes that the warm-up has populated.
        pool_buffers_free: Free buffers of the transient pool.
        pool_buffers: All of them, 0 without a pool.
        parked: Parked acknowledgements.
        queue_pending_bytes: Queue units that are in memory only.
        queues: Queues known.
        queues_mended: Queues of which something was made again since the store was opened.
        units_mended: Their units that were made again from the log.
        units_lost: Their queue offsets for which the log has no record.
        records_damaged: Damaged records found by the scrub or by reads.
        scrub_rounds: Rounds of the scrub that were finished.
        lock_held_ms: How long the append lock is held at this moment.
        refused: Why appends are refused; empty when they are not.
        poisoned: Why nothing is acknowledged any more, or None.
        segments: Log files.
        minor_faults: Page faults of this process without a read.
        major_faults: Page faults of this process that read a disk.
    """

    @property
    def log_start(self) -> int: ...
    @property
    def appended(self) -> int: ...
    @property
    def committed(self) -> int: ...
    @property
    def flushed(self) -> int: ...
    @property
    def dispatched(self) -> int: ...
    @property
    def commit_lag_bytes(self) -> int: ...
    @property
    def flush_lag_bytes(self) -> int: ...
    @property
    def dispatch_lag_bytes(self) -> int: ...
    @property
    def follower_lag_bytes(self) -> dict[str, int]: ...
    @property
    def syncs(self) -> int: ...
    @property
    def records_dispatched(self) -> int: ...
    @property
    def mapped_bytes(self) -> int: ...
    @property
    def locked_bytes(self) -> int: ...
    @property
    def resident_bytes(self) -> int: ...
    @property
    def segments_ready(self) -> int: ...
    @property
    def warmed_bytes(self) -> int: ...
    @property
    def pool_buffers_free(self) -> int: ...
    @property
    def pool_buffers(self) -> int: ...
    @property
    def parked(self) -> int: ...
    @property
    def queue_pending_bytes(self) -> int: ...
    @property
    def queues(self) -> int: ...
    @property
    def queues_mended(self) -> int: ...
    @property
    def units_mended(self) -> int: ...
    @property
    def units_lost(self) -> int: ...
    @property
    def records_damaged(self) -> int: ...
    @property
    def scrub_rounds(self) -> int: ...
    @property
    def lock_held_ms(self) -> int: ...
    @property
    def refused(self) -> list[str]: ...
    @property
    def poisoned(self) -> str | None: ...
    @property
    def segments(self) -> list[Segment]: ...
    @property
    def minor_faults(self) -> int: ...
    @property
    def major_faults(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class Segment:
    """One log file.

    Attributes:
        physical_offset: First byte of it in the log.
        len_bytes: Its length.
        is_mapped: Whether it is mapped.
        is_locked: Whether it is locked in memory.
        resident_bytes: Bytes of its map in memory.
        populated_bytes: Bytes made present ahead of the append.
    """

    @property
    def physical_offset(self) -> int: ...
    @property
    def len_bytes(self) -> int: ...
    @property
    def is_mapped(self) -> bool: ...
    @property
    def is_locked(self) -> bool: ...
    @property
    def resident_bytes(self) -> int: ...
    @property
    def populated_bytes(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class OpenReport:
    """What opening found and did. Positions are physical offsets (bytes of the log).

    Attributes:
        was_clean: Whether the last end was clean.
        scanned_from: Where the walk of the log began.
        scanned_bytes: Bytes walked.
        records: Records walked.
        end: Where the log ends now.
        kept_aside_bytes: Bytes behind the end that were not zero.
        kept_in: Files that hold them now.
        removed: Log files behind the end that were removed.
        whole_records: Whole records among the bytes that were cut off.
        missing_bytes: Bytes that were durable once and that no file had any more.
        cut_why: What was wrong where the log was cut, or None where nothing was taken out of it.
        recorded_in: Files that describe what was taken out of the log, until they are acknowledged.
        replaced_bytes: Bad bytes of which others took the place, so that what follows them stays.
        replaced_at: Where they stood.
        whole_records_kept: Whole records behind the first of them.
        end_why: What was wrong at the end of the log, or None.
        used_manifest: Whether no queue had to be looked at.
        dispatched_from: Where the queues are built on from.
        index_from: Where the index is built on from, or None.
        is_tail_certain: Whether nothing can be missing at the end that was there once: the last end
            was clean, every append was synced, or no page was lost since.
    """

    @property
    def was_clean(self) -> bool: ...
    @property
    def scanned_from(self) -> int: ...
    @property
    def scanned_bytes(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def kept_aside_bytes(self) -> int: ...
    @property
    def kept_in(self) -> list[str]: ...
    @property
    def removed(self) -> list[str]: ...
    @property
    def whole_records(self) -> int: ...
    @property
    def missing_bytes(self) -> int: ...
    @property
    def cut_why(self) -> str | None: ...
    @property
    def recorded_in(self) -> list[str]: ...
    @property
    def replaced_bytes(self) -> int: ...
    @property
    def replaced_at(self) -> list[int]: ...
    @property
    def whole_records_kept(self) -> int: ...
    @property
    def end_why(self) -> str | None: ...
    @property
    def used_manifest(self) -> bool: ...
    @property
    def is_tail_certain(self) -> bool: ...
    @property
    def dispatched_from(self) -> int: ...
    @property
    def index_from(self) -> int | None: ...
    __match_args__: ClassVar[tuple[str, ...]]

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
class ReceivedMessage:
    """A message that came, decoded field by field when it is asked for.

    Attributes:
        local_attempts: How often an orderly consumer tried it in vain, which no broker counts.
    """

    local_attempts: int

    def __new__(cls, record: Message, queue: MessageQueue, topic: str) -> Self: ...
    @property
    def record(self) -> Message:
        """Everything the broker keeps of it."""
    @property
    def queue(self) -> MessageQueue:
        """The queue that it came from."""
    @property
    def topic(self) -> str:
        """The topic that was subscribed, without the namespace.

        Of a retried message the one that it was first sent to.
        """
    @property
    def properties(self) -> dict[str, str]:
        """All its properties: the user's, the client's, the broker's; the same object each time."""
    @property
    def body(self) -> bytes:
        """The content, inflated where it came small."""
    @property
    def tags(self) -> str | None:
        """Its tag."""
    @property
    def keys(self) -> tuple[str, ...]:
        """Its keys."""
    @property
    def sharding_key(self) -> str | None:
        """What orders it."""
    @property
    def message_id(self) -> str:
        """Its unique id, which its sender made; the broker's where it has none."""
    @property
    def offset_message_id(self) -> str:
        """The broker's id: store address and physical offset."""
    @property
    def queue_offset(self) -> int:
        """Its place in the queue."""
    @property
    def physical_offset(self) -> int:
        """Its place in the broker's log, in bytes."""
    @property
    def reconsume_times(self) -> int:
        """How often it was given back before."""
    @property
    def attempt(self) -> int:
        """Which delivery this is, from 1."""
    @property
    def born_timestamp_ms(self) -> int:
        """When it was sent, in ms since 1970 by the sender's clock."""
    @property
    def store_timestamp_ms(self) -> int:
        """When it was stored, in ms since 1970 by the broker's clock."""
    @property
    def born_host(self) -> str:
        """The address that it was sent from."""
    @property
    def store_host(self) -> str:
        """The address of the broker that it was stored at."""
    @property
    def flag(self) -> int:
        """The user's number."""
    @property
    def delay_level(self) -> int:
        """The level of delay that it was sent with; 0 for none."""
    def body_text(self, encoding: str = "utf-8") -> str:
        """Returns the content as text.

        Raises:
            UnicodeDecodeError: It is none.
        """
    def json(self) -> Any:
        """Returns the value of a content that is JSON.

        Raises:
            ValueError: It is none.
        """

@final
class RecordBatch(Sequence[Message]):
    """Records that lie side by side in the log: a sequence of messages, and columns of all.

    `blanks`: ends of files; `wrapped`: batches left as they are.
    """

    def __len__(self) -> int: ...
    def received(self, queue: MessageQueue, topic: str) -> list[ReceivedMessage]: ...
    def __getitem__(self, key: int, /) -> Message: ...  # type: ignore[override]
    @property
    def topics(self) -> list[str]: ...
    @property
    def queue_ids(self) -> memoryview[int]: ...
    @property
    def queue_offsets(self) -> memoryview[int]: ...
    @property
    def physical_offsets(self) -> memoryview[int]: ...
    @property
    def store_timestamps_ms(self) -> memoryview[int]: ...
    @property
    def stored_body_lens_bytes(self) -> memoryview[int]: ...
    @property
    def stored_bodies(self) -> list[bytes]: ...
    @property
    def wrapped(self) -> int: ...
    @property
    def blanks(self) -> list[Blank]: ...

@final
class Blank:
    """The end of a log file that holds no record.

    Attributes:
        physical_offset: Where it begins, bytes of the log.
        len_bytes: Its length.
    """

    @property
    def physical_offset(self) -> int: ...
    @property
    def len_bytes(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class Scan(Iterator[RecordBatch]):
    """Batches in log order; `end_why`: what ended them, unless that is the limit or zeros."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> RecordBatch: ...
    @property
    def position(self) -> int: ...
    @property
    def end_why(self) -> str | None: ...

@disjoint_base
class NativeInspection:
    """A store directory, read only. See `mqcore.native.inspection.Inspection`."""

    def __new__(cls, root: str, settings: dict[str, str]) -> Self: ...
    @property
    def settings(self) -> dict[str, str]: ...
    @property
    def log_range(self) -> LogRange: ...
    def scan(
        self,
        from_offset: int | None = None,
        to_offset: int | None = None,
        *,
        topics: Sequence[str] | None = None,
        batch_bytes: int = 1048576,
        verify_crc: bool = True,
    ) -> Scan: ...
    def files(self) -> list[FileSize]:
        """Returns every file below the directory. Asks the kernel for the pages of each."""

    def queues(self) -> list[QueueState]:
        """Returns every queue with its bounds, by topic and queue id."""

    def index_headers(self) -> list[IndexHeader]:
        """Returns the headers of the index files, oldest first."""

    def checkpoint(self) -> list[int] | None: ...
    def has_abort(self) -> bool: ...
    def verify(self) -> Findings:
        """Walks log, queues and index and returns everything that disagrees.

        `progress` may be called meanwhile from another thread.
        """

    def progress(self) -> VerifyProgress:
        """Returns how far a running `verify` is."""

@final
class FileSize:
    """One file of a store.

    Attributes:
        path: Its path below the store's directory.
        len_bytes: Its length.
        allocated_bytes: Bytes it takes on the device.
        resident_bytes: Bytes of it in memory, None where the system does not report it.
    """

    @property
    def path(self) -> str: ...
    @property
    def len_bytes(self) -> int: ...
    @property
    def allocated_bytes(self) -> int: ...
    @property
    def resident_bytes(self) -> int | None: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class QueueState:
    """One queue as its files have it.

    Attributes:
        topic: Its topic.
        queue_id: Its number in the topic.
        min_offset: First queue offset whose record the log still has.
        max_offset: Queue offset behind the last unit.
        min_physical_offset: Place of the first record, bytes of the log; None in an empty queue.
    """

    @property
    def topic(self) -> str: ...
    @property
    def queue_id(self) -> int: ...
    @property
    def min_offset(self) -> int: ...
    @property
    def max_offset(self) -> int: ...
    @property
    def min_physical_offset(self) -> int | None: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class IndexCapacity:
    """How much an index file holds.

    Attributes:
        slots: Hash slots.
        entries: Entries.
    """

    @property
    def slots(self) -> int: ...
    @property
    def entries(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class IndexHeader:
    """The header of an index file.

    Attributes:
        path: The file.
        begin_timestamp_ms: Store time of the first entry.
        end_timestamp_ms: Store time of the latest entry.
        begin_physical_offset: Record of the first entry, bytes of the log.
        end_physical_offset: Record of the latest entry.
        slots_used: Hash slots in use.
        entries: Entries.
    """

    @property
    def path(self) -> str: ...
    @property
    def begin_timestamp_ms(self) -> int: ...
    @property
    def end_timestamp_ms(self) -> int: ...
    @property
    def begin_physical_offset(self) -> int: ...
    @property
    def end_physical_offset(self) -> int: ...
    @property
    def slots_used(self) -> int: ...
    @property
    def entries(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class LogRange:
    """The files of a log: physical offsets.

    Attributes:
        start: First byte.
        end: Byte behind the last one.
    """

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class Findings:
    """What a verification found.

    Attributes:
        log_start: First byte of the log that is there.
        log_end: Byte behind the last good record.
        records: Records of the log.
        blanks: Blank ends of files.
        queues: Queues looked at.
        units: Queue units looked at.
        index_files: Index files looked at.
        index_entries: Index entries looked at.
        problem_count: How many disagreements there are.
        problems: The first thousand of them.
        notes: What looks odd and has a lawful reason.
    """

    @property
    def log_start(self) -> int: ...
    @property
    def log_end(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def blanks(self) -> int: ...
    @property
    def queues(self) -> int: ...
    @property
    def units(self) -> int: ...
    @property
    def index_files(self) -> int: ...
    @property
    def index_entries(self) -> int: ...
    @property
    def problem_count(self) -> int: ...
    @property
    def problems(self) -> list[Problem]: ...
    @property
    def notes(self) -> list[str]: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class Problem:
    """A disagreement inside a store.

    Attributes:
        part: The part of the store.
        at: Where in it: a file, an offset.
        why: What disagrees.
    """

    @property
    def part(self) -> str: ...
    @property
    def at(self) -> str: ...
    @property
    def why(self) -> str: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class VerifyProgress:
    """How far a verification is, bytes of the log.

    Attributes:
        seen_bytes: Bytes it has seen.
        total_bytes: All of them.
    """

    @property
    def seen_bytes(self) -> int: ...
    @property
    def total_bytes(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class Rebuilt:
    """What a rebuild made.

    Attributes:
        log_end: Physical offset behind the last record of the log.
        records: Records walked.
        queues: Queues made.
        index_entries: Entries of the index.
    """

    @property
    def log_end(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def queues(self) -> int: ...
    @property
    def index_entries(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@disjoint_base
class NativeRecordColumns:
    """A reading. See `mqcore.native.columns.RecordColumns`."""

    def __new__(cls, asked: Asked) -> Self: ...
    def feed(self, data: Buffer, physical_offset: int | None = None) -> list[ColumnBatch]:
        """Takes the next piece of the log, or the body of an answer where no place is given."""

    def flush(self) -> list[ColumnBatch]:
        """Gives the rows that wait for a full batch."""

    def finish(self) -> list[ColumnBatch]:
        """Ends the reading and gives the rest."""

    @property
    def next_position(self) -> int: ...
    @property
    def is_done(self) -> bool: ...
    @property
    def good_end(self) -> int: ...
    @property
    def tally(self) -> Tally: ...

@final
class ColumnBatch:
    """Rows by column, for `pyarrow.record_batch` and others that know Arrow's C interface."""

    def __len__(self) -> int: ...
    @property
    def rows(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: CapsuleType | None = None) -> ArrowCapsules:
        """Returns the schema and the array; another schema cannot be had."""

@final
class Tally:
    """What a reading of records has come upon.

    Attributes:
        records: Whole records.
        skipped: Damaged places that were left out.
        skipped_bytes: Bytes of these.
    """

    @property
    def records(self) -> int: ...
    @property
    def skipped(self) -> int: ...
    @property
    def skipped_bytes(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class RowPacker:
    """The open requests of a task: rows of Arrow's columns in, bodies of requests out."""

    def __new__(
        cls,
        *,
        batch_bytes: int,
        message_bytes_max: int,
        open_bytes_max: int,
        compression_kind: int | None,
        compression_level: int,
        compress_above_bytes: int,
        shared_len_bytes: int,
        is_marked: bool,
        system_names: Sequence[str],
    ) -> Self: ...
    @property
    def rows(self) -> int: ...
    def topic(self, name: str, queues: Sequence[MessageQueue]) -> int:
        """Takes a topic and its queues; returns its number."""

    def pack(
        self,
        columns: ArrowColumns,
        id_lead: str,
        id_first: int,
        topic_number: int | None = None,
    ) -> list[PackedRows]:
        """Takes rows; returns the requests that are full. `RowError` names a row that cannot go.

        Columns are texts as `binary`, numbers as `int64`, properties as `map<binary, binary>`.
        """

    def finish(self) -> list[PackedRows]:
        """Closes what is open; the last request of each topic comes behind all others."""

@final
class PackedRows:
    """What one request carries. See `mqcore.spark.topic_sink`."""

    @property
    def topic(self) -> int: ...
    @property
    def queue(self) -> int | None: ...
    @property
    def sys_flag(self) -> int: ...
    @property
    def is_batch(self) -> bool: ...
    @property
    def body(self) -> bytes: ...
    @property
    def properties(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def first_row(self) -> int: ...
    @property
    def last_row(self) -> int: ...
    @property
    def topic_rows(self) -> int | None: ...
    def __len__(self) -> int: ...

@final
class Command:
    """A request or response; `encode` raises `FrameError` where a part is too long.

    `ext` is a dictionary of its own and may be changed; its values must be strings. `language` is
    a number (0 is JAVA, 3 PYTHON), `serialization` 0 for JSON and 1 for ROCKETMQ. `user` is whose
    signature a request has, where access control was asked; it is not on the wire.
    """

    code: int
    opaque: int
    flag: int
    language: int
    version: int
    remark: str | None
    ext: dict[str, str]
    body: bytes
    user: str

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

@final
class FrameForm:
    """Requests of one kind: `encode` takes the values of its fields; None leaves a field out."""

    def __new__(cls, code: int, names: Sequence[str], language: int, version: int) -> Self: ...
    def encode(self, opaque: int, values: tuple[Any, ...], body: bytes, flag: int = 0) -> bytes: ...

@final
class FrameReader:
    """Commands out of bytes that arrive in any pieces, for one connection.

    `feed` raises `FrameError` at the first bad frame; what came whole before is in `before_error`.
    Answers that a call of `calls` waits for are given to it and not returned. `made_whole` is
    whether the last feed made a frame whole.
    """

    def __new__(cls, max_frame_bytes: int = ...) -> Self: ...
    def feed(self, data: Buffer, calls: CallTable | None = None) -> list[Command]: ...
    @property
    def before_error(self) -> list[Command]: ...
    @property
    def made_whole(self) -> bool: ...
    @property
    def kept_bytes(self) -> int: ...

@final
class SendAnswer:
    """The usual answer to a send: stored, with nothing else in it.

    Attributes:
        queue_id: The queue that it is in.
        queue_offset: Its offset there.
        offset_message_id: The broker's id of it.
    """

    @property
    def queue_id(self) -> int: ...
    @property
    def queue_offset(self) -> int: ...
    @property
    def offset_message_id(self) -> str: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class CallTable:
    """Our requests on one connection that wait for their answer, by their number.

    A future is resolved with a `Command`; that of `ask_send` with a `SendAnswer` if the answer is
    the usual one. `ask_send` writes a frame besides; `take_unsent` returns those that were written
    since its last call. `take_late` and `take_all` take futures out in the order in which they
    began.
    """

    def __new__(cls) -> Self: ...
    def __len__(self) -> int: ...
    @property
    def has_deadlines(self) -> bool: ...
    def begin(self, opaque: int, future: Future[Any], deadline_s: float = ...) -> None: ...
    def ask_send(
        self,
        form: FrameForm,
        opaque: int,
        values: tuple[Any, ...],
        body: bytes,
        future: Future[Any],
        deadline_s: float,
    ) -> None: ...
    def take_unsent(self) -> bytes: ...
    def end(self, opaque: int) -> None: ...
    def resolve(self, response: Command) -> bool: ...
    def take_late(self, now_s: float) -> list[Future[Any]]: ...
    def take_all(self) -> list[Future[Any]]: ...

@final
class EncodedParts:
    """The messages of a batch request.

    Attributes:
        body: The body of the request.
        ids: The unique ids of the messages, with commas between.
    """

    @property
    def body(self) -> bytes: ...
    @property
    def ids(self) -> str: ...
    __match_args__: ClassVar[tuple[str, ...]]

@disjoint_base
class NativeFastPath:
    """Executes hot requests. See `mqcore.native.fast_path.FastPath`."""

    def __new__(
        cls,
        store: NativeStore,
        broker: BrokerPolicy,
        *,
        reader_threads: int = ...,
        reactors: int = 0,
    ) -> Self: ...
    @property
    def offsets(self) -> ConsumerOffsets: ...
    @property
    def half_messages(self) -> HalfMessages: ...
    @property
    def pops(self) -> Pops: ...
    @property
    def times(self) -> RequestTimes: ...
    def bind(self, connection: FastPathConnection) -> None:
        """Makes a new connection one of this fast path."""

    def start_reactors(self, busy_poll_us: int) -> None:
        """Starts the reactors: connections that are attached from now on are theirs.

        Args:
            busy_poll_us: For how long one looks for events before it sleeps, while that pays.
        """

    def connections_of_reactors(self) -> list[int]:
        """Returns how many connections each reactor has."""

    def even_out_reactors(self) -> None:
        """Lets idle connections of the reactor with the most go where there are far fewer."""

    def settle_reactors(self) -> None:
        """Waits until the reactors have done what was asked of them before; not long."""

    def stop_reactors(self) -> None:
        """Ends the reactors; waits for their turns."""

    def set_access(self, access: Access) -> None:
        """Checks requests from now on, once; new tables are in force at once.

        Raises:
            ValueError: A rule asks for the body of a request that is executed here, and nobody here
                reads it.
        """

    def set_broker(self, broker: BrokerPolicy) -> None: ...
    def quotas(self) -> list[QuotaRow]:
        """Returns the rules of `mqcoreQuotas` as they are now, in their order."""

    def admit_send(self, user: str, topic: str, group: str, bytes: int) -> QuotaWait:
        """Returns what becomes of a send that Python executes; its time is taken."""

    def admit_read(self, user: str, topic: str, group: str) -> QuotaWait:
        """Returns what becomes of a read that Python executes: it goes when nothing is owed."""

    def have_read(self, user: str, topic: str, group: str, messages: int, bytes: int) -> None:
        """Counts what such a read has brought."""

    def set_timers(self, timers: Timers) -> None: ...
    def set_bounds(self, half_frames: int, output: int, deferred: int, turn_us: int) -> None: ...
    def set_delay_levels(self, text: str) -> None: ...
    def set_topics(self, topics: Mapping[str, TopicPolicy]) -> None: ...
    def set_topic(self, name: str, topic: TopicPolicy | None) -> None: ...
    def set_groups(self, groups: Mapping[str, GroupPolicy]) -> None: ...
    def set_group(self, name: str, group: GroupPolicy | None) -> None: ...
    def set_group_lock(self, group: str, until_ms: int | None) -> None: ...
    def set_filter_bits(self, rows: Sequence[ExpressionBits]) -> int:
        """Lets expressions set bits of messages; returns since when they do, Unix ms."""

    def set_members(self, group: str, members: MembersPolicy | None) -> None: ...
    def remember(self, length_ms: int, memory_bytes: int) -> RememberedSends:
        """Answers sends that come again within a time with the place of the first."""

    def group_gets(self) -> list[GroupGets]:
        """Returns how many messages each group got of each topic since the start."""

    def deliver_due(
        self, level: int, offset: int, *, limit: int = ..., now_ms: int | None = None
    ) -> Delivered:
        """Delivers what is due of a level of delayed messages. May wait for the disk; any thread.

        Args:
            level: From 1.
            offset: Where the level goes on, from its queue.
            limit: Messages looked at, at the most.
            now_ms: Unix ms; the store's clock otherwise.

        Raises:
            StoreError: The first message could not be read or stored; nothing has happened.
        """

    def drain_all(self, now_ms: int | None = None) -> FastPathDrained: ...
    def numbers(self) -> dict[str, int]: ...

@final
class QuotaWait:
    """What becomes of a request that Python answers, by the quotas of who asks.

    Attributes:
        wait_ms: It waits for so long, ms; 0 for not at all.
        refusal: It is refused then, with these words.
    """

    @property
    def wait_ms(self) -> int: ...
    @property
    def refusal(self) -> str | None: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class QuotaRow:
    """A rule of `mqcoreQuotas` as it is now.

    Attributes:
        rule: Whose, as it is written: `topic:orders*`.
        rates: Messages that may be sent a second, bytes sent, messages read, bytes read; 0 for no
            bound.
        held: Requests that were held back.
        held_ms: For how long in all, ms.
        refused: Requests that were refused.
        waiting: Requests that are held back now.
        names: Names that use it now.
        owing: Those that owe most.
        owed_ms: The time until each of them owes nothing, ms.
    """

    @property
    def rule(self) -> str: ...
    @property
    def rates(self) -> list[int]: ...
    @property
    def held(self) -> int: ...
    @property
    def held_ms(self) -> int: ...
    @property
    def refused(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def names(self) -> int: ...
    @property
    def owing(self) -> list[str]: ...
    @property
    def owed_ms(self) -> list[int]: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class FastPathDrained:
    """What a fast path could answer.

    Attributes:
        next_ms: Milliseconds until the next call is due although nothing is announced.
        statuses: Official statuses by ticket, of tickets that are not the fast path's, in the order
            of the log.
        handed: Requests for Python.
    """

    @property
    def next_ms(self) -> int | None: ...
    @property
    def statuses(self) -> dict[int, str]: ...
    @property
    def handed(self) -> list[DrainedRequest]: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class DrainedRequest:
    """A request for Python that came up while the fast path drained.

    Attributes:
        connection: Whose it is.
        request: The request.
    """

    @property
    def connection(self) -> FastPathConnection: ...
    @property
    def request(self) -> Handed: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class Handed:
    """A request for Python.

    Attributes:
        command: The request.
        need: Why: `code`, the fast path does not execute it; `topic` and `group`, `name` is not
            known; `check`, the policy asks for a look; `pass on`, it is for the master, which
            another broker is. After `topic`, `group` and `check` call `FastPathProtocol.execute`:
            what still does not hold then gets the official refusal.
        name: The topic or group.
    """

    @property
    def command(self) -> Command: ...
    @property
    def need(self) -> Literal["code", "topic", "group", "check", "pass on"]: ...
    @property
    def name(self) -> str: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class Delivered:
    """What was delivered of a level of delayed messages.

    Attributes:
        count: Messages delivered.
        bytes: Bytes of their records.
        next_offset: Where the level goes on.
        next_due_ms: When the next one is due, Unix ms, where it is known.
        end: End of the last one in the log: write `next_offset` down only when the log is flushed
            up to it. 0 without one.
        has_more: Whether more may be due now.
        skipped: Messages passed over: gone by retention, or with nowhere to go.
    """

    @property
    def count(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def next_due_ms(self) -> int | None: ...
    @property
    def end(self) -> int: ...
    @property
    def has_more(self) -> bool: ...
    @property
    def skipped(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class RememberedSends:
    """The sends that a fast path has read to remember them.

    Attributes:
        start: Where in the log it began, bytes.
        end: Where it ended.
        records: Records of the time that is remembered.
        keys: Those among them with a unique key, which count.
    """

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def keys(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class GroupGets:
    """How much a group got of a topic.

    Attributes:
        group: The group.
        topic: The topic.
        messages: Messages since the start.
        bytes: Bytes of their records.
        pulls: Pulls that were answered with messages, by queue id.
        pulls_us: How long they took together, without the time for which they were held, by queue
            id, us.
    """

    @property
    def group(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def messages(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def pulls(self) -> list[int]: ...
    @property
    def pulls_us(self) -> list[int]: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class RequestTimes:
    """How long requests take and what was stored: sums over all loops, since the start."""

    REQUEST_BOUNDS_US: ClassVar[list[int]]
    DELAY_BOUNDS_S: ClassVar[list[int]]
    FINISH_BOUNDS_S: ClassVar[list[int]]
    SIZE_BOUNDS: ClassVar[list[int]]
    @property
    def elapsed_us(self) -> int: ...
    @property
    def untimed(self) -> int: ...
    def slowest(self, after_us: int) -> list[SlowRequest]:
        """Returns the slowest of the last minutes that were answered behind a time."""

    def stages(self) -> list[StageTimes]:
        """Returns the times by kind and stage."""

    def requests(self) -> list[RequestDuration]:
        """Returns the times by request and response code."""

    def topics(self) -> list[TopicTraffic]:
        """Returns what was stored, by topic and kind."""

    def queues(self, queues_max: int) -> list[QueueTraffic]:
        """Returns what was stored, by queue; nothing where there are more than so many."""

    def topic_seconds(self) -> list[TopicSeconds]:
        """Returns times of the messages of topics."""

    def given_back(self) -> list[GivenBack]:
        """Returns what groups gave back."""

    def bulk_text(self, order: BulkOrder) -> BulkText:
        """Returns metrics by topic and by group as text; may read the disk, for 100 ms at most."""

@final
class SlowRequest:
    """A slow request.

    Attributes:
        answered_us: When it was answered, us of the clock that `elapsed_us` reads.
        total_us: From its bytes to its answer, without the time for which it was held, us.
        code: The request code.
        response: The response code.
        peer: Where its client is.
        group: The group that read; empty for others.
        topic: The topic that was read; empty for others.
        queue_id: The queue; -1 where it had none.
        queue_offset: The place in the queue; -1 where it had none.
        physical_offset: Where the message was stored in the log; -1 for others.
        messages: Messages that were given.
        bytes: Bytes that were stored or given.
        stages: How long each of its stages took, us, by name.
    """

    @property
    def answered_us(self) -> int: ...
    @property
    def total_us(self) -> int: ...
    @property
    def code(self) -> int: ...
    @property
    def response(self) -> int: ...
    @property
    def peer(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def queue_id(self) -> int: ...
    @property
    def queue_offset(self) -> int: ...
    @property
    def physical_offset(self) -> int: ...
    @property
    def messages(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def stages(self) -> dict[str, int]: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class StageTimes:
    """How long a stage took, all requests of a kind together.

    Attributes:
        kind: `send`, `pull` or `other`.
        stage: The stage.
        counts: How many took at most 1, 2, 4, 8 us and so on, each without those before; the last
            has the rest.
        sum_us: All of them together, us.
        max_us: The longest, us.
    """

    @property
    def kind(self) -> str: ...
    @property
    def stage(self) -> str: ...
    @property
    def counts(self) -> list[int]: ...
    @property
    def sum_us(self) -> int: ...
    @property
    def max_us(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class RequestDuration:
    """How long requests with a request and a response code took.

    Attributes:
        code: The request code.
        response: The response code.
        is_held: Whether it was held.
        is_oneway: Whether nobody waited for an answer.
        counts: How many took at most so long as each of `REQUEST_BOUNDS_US`, each without those
            before; the last has the rest.
        sum_us: All of them together, us.
    """

    @property
    def code(self) -> int: ...
    @property
    def response(self) -> int: ...
    @property
    def is_held(self) -> bool: ...
    @property
    def is_oneway(self) -> bool: ...
    @property
    def counts(self) -> list[int]: ...
    @property
    def sum_us(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class TopicTraffic:
    """What was stored of a topic.

    Attributes:
        topic: The topic.
        kind: The kind of message: `normal`, `fifo`, `delay`, `transaction` or `priority`.
        messages: Messages.
        bytes: Bytes of their records.
        sizes: Messages by size, as `SIZE_BOUNDS` has it; the last has the rest.
        sizes_sum: All sizes together.
    """

    @property
    def topic(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def messages(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def sizes(self) -> list[int]: ...
    @property
    def sizes_sum(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class TopicSeconds:
    """Times of the messages of a topic, s, as `DELAY_BOUNDS_S` and `FINISH_BOUNDS_S` have it.

    Attributes:
        topic: The topic.
        delays: For how long timed messages are to wait.
        delays_sum: All of them together.
        finishes: From half messages to their commit.
        finishes_sum: All of them together.
    """

    @property
    def topic(self) -> str: ...
    @property
    def delays(self) -> list[int]: ...
    @property
    def delays_sum(self) -> int: ...
    @property
    def finishes(self) -> list[int]: ...
    @property
    def finishes_sum(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class TimersMoved:
    """Timed messages of a topic since the start.

    Attributes:
        topic: The topic.
        entered: Entered.
        left: Delivered, or deleted before.
    """

    @property
    def topic(self) -> str: ...
    @property
    def entered(self) -> int: ...
    @property
    def left(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class GivenBack:
    """What a group gave back of a topic.

    Attributes:
        group: The group.
        topic: The topic.
        retried: Messages for its retry topic.
        dead: Messages that became dead letters.
        acked: Messages acknowledged after a pop, or given another time.
        points: Check points that were kept for pops.
    """

    @property
    def group(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def retried(self) -> int: ...
    @property
    def dead(self) -> int: ...
    @property
    def acked(self) -> int: ...
    @property
    def points(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class QueueTraffic:
    """What was stored of a queue.

    Attributes:
        topic: The topic.
        queue_id: The queue.
        messages: Messages.
        bytes: Bytes of their records.
        answers: Sends that were answered; one may have brought many messages.
        answers_us: How long they took together, from their bytes to their answer, us.
    """

    @property
    def topic(self) -> str: ...
    @property
    def queue_id(self) -> int: ...
    @property
    def messages(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def answers(self) -> int: ...
    @property
    def answers_us(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class BulkText:
    """Metrics as text, taken in pieces.

    Attributes:
        left_out: How many series of a family are in the sum of others, where there are some.
        own_behind_ms: For how long the first message that the group reported by itself has not read
            has been there, ms.
    """

    @property
    def left_out(self) -> dict[str, int]: ...
    @property
    def own_behind_ms(self) -> int | None: ...
    def __len__(self) -> int: ...
    def piece(self, start: int, len: int) -> bytes:
        """Returns a piece of the text."""

@final
class ConsumerOffsets:
    """The live consumer offsets of a fast path. `changes` rises with each change."""

    def load(self, table: Mapping[str, Mapping[int, int]]) -> None:
        """Takes offsets by queue of the official keys `topic@group`, in place of all others."""

    def follow(
        self, table: Mapping[str, Mapping[int, int]], before: Mapping[str, Mapping[int, int]]
    ) -> None:
        """Takes what another table has; it had `before` when it was followed last.

        An offset that is lower than ours counts only where ours is the one of `before`: what was
        committed here meanwhile is newer. None is removed. Waits for nobody.
        """

    def snapshot(self) -> dict[str, dict[int, int]]:
        """Returns all offsets by queue of the official keys `topic@group`.

        Taken part by part, so that in a thread of its own it keeps nobody waiting: each pair is as
        it was at some moment of the call.
        """

    def of(self, group: str, topic: str) -> dict[int, int]:
        """Returns the offsets of a group by queue of a topic."""

    def find(self, group: str, topic: str, queue_id: int) -> int | None: ...
    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Takes an offset, also a lower one; False where a bound keeps it out."""

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Does the same, and the next pull or pop of the group begins there."""

    def remove(self, *, group: str | None = None, topic: str | None = None) -> int:
        """Removes offsets of a group, a topic, or both together; returns how many pairs went."""

    @property
    def changes(self) -> int: ...

@final
class HalfMessages:
    """The half messages of a fast path. `changes` rises with each change of their counts."""

    def write_op_messages(self) -> OpMessagesWritten:
        """Writes the op messages of every transaction that is ended."""

    def check(
        self,
        queue_id: int,
        half_offset: int,
        note_offset: int,
        rules: CheckRules,
        *,
        until: int | None = None,
    ) -> CheckedHalves:
        """Goes on with a round over a half queue. May wait for the disk; any thread.

        Args:
            queue_id: The queue of the half topic.
            half_offset: Where it goes on.
            note_offset: Where the op queue goes on.
            rules: What the round goes by.
            until: That of the round's first call; None for the first call.

        Raises:
            StoreError: Something could not be read or stored; nothing has happened.
        """

    def resume(self, physical_offset: int) -> ResumedHalf:
        """Stores a half message that was given up anew, as one that nobody was asked about yet.

        May wait for the disk; any thread.

        Raises:
            StoreError: It could not be read or stored.
        """

    def counts(self) -> list[TransactionCount]:
        """Returns the transactions of every topic that had some."""

    def load(self, waiting: Mapping[str, int]) -> None:
        """Takes how many half messages waited, by topic."""

    @property
    def changes(self) -> int: ...

@final
class OpMessagesWritten:
    """The op messages of ends of transactions.

    Attributes:
        is_all: Whether every end has one in the log.
        end: End of the log behind them.
    """

    @property
    def is_all(self) -> bool: ...
    @property
    def end(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class CheckedHalves:
    """What a check did.

    Attributes:
        half_offset: Where the half queue goes on.
        note_offset: Where the op queue goes on.
        until: Where the half queue ended when the round began: for the next call of the round.
        questions: What to ask whom.
        copied: Half messages stored anew.
        given_up: Half messages given up.
        has_more: Whether the round goes on with another call.
        needs_topic: Whether it cannot go on before the topic for what is given up is there.
        end: End of what was stored in the log: write both offsets down only when the log is flushed
            up to it. 0 when nothing was.
    """

    @property
    def half_offset(self) -> int: ...
    @property
    def note_offset(self) -> int: ...
    @property
    def until(self) -> int: ...
    @property
    def questions(self) -> list[CheckQuestion]: ...
    @property
    def copied(self) -> int: ...
    @property
    def given_up(self) -> int: ...
    @property
    def has_more(self) -> bool: ...
    @property
    def needs_topic(self) -> bool: ...
    @property
    def end(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class CheckQuestion:
    """What to ask the producers of a half message.

    Attributes:
        group: Their group.
        unique_id: The id that the producer gave.
        offset_id: The id of the half message's newest copy.
        half_offset: Its offset in the half queue.
        physical_offset: Its place in the log.
        record: The message as its producers read it.
    """

    @property
    def group(self) -> str: ...
    @property
    def unique_id(self) -> str | None: ...
    @property
    def offset_id(self) -> str: ...
    @property
    def half_offset(self) -> int: ...
    @property
    def physical_offset(self) -> int: ...
    @property
    def record(self) -> bytes: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class ResumedHalf:
    """What came of a half message that was to be asked about again.

    Attributes:
        end: End of its new record in the log; None where it was not stored.
        found_in: The topic of a message that was not given up.
    """

    @property
    def end(self) -> int | None: ...
    @property
    def found_in(self) -> str | None: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class TransactionCount:
    """The transactions of one topic.

    Attributes:
        topic: The topic that the messages are meant for.
        waiting: Half messages that are neither ended nor given up.
        committed: Committed since the start.
        rolled_back: Rolled back since the start.
        given_up: Given up since the start.
    """

    @property
    def topic(self) -> str: ...
    @property
    def waiting(self) -> int: ...
    @property
    def committed(self) -> int: ...
    @property
    def rolled_back(self) -> int: ...
    @property
    def given_up(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class Pops:
    """What is popped. `records_stored` counts what was stored of pops since the start.

    `order_changes` rises with each change of what was popped in order.
    """

    def store(self) -> bool:
        """Stores every open pop; returns whether it could."""

    @property
    def records_stored(self) -> int: ...
    def revive(
        self, queue_id: int, done_offset: int, timers_ms: int, *, limit: int = ...
    ) -> Revived:
        """Goes on with a round over a queue of check points. May wait for the disk; any thread.

        Args:
            queue_id: The queue of the topic of check points.
            done_offset: The last offset of it that is done; -1 for none.
            timers_ms: Up to which time the timers have brought everything, Unix ms.
            limit: Records read at the most.

        Raises:
            StoreError: Something could not be read or stored; nothing has happened.
        """

    def orders(self) -> list[OrderInfo]:
        """Returns what groups popped in order."""

    def load_orders(self, orders: Sequence[OrderInfo]) -> None:
        """Takes what was popped in order as it was saved."""

    @property
    def order_changes(self) -> int: ...

@final
class Revived:
    """What a round over a queue of check points did.

    Attributes:
        done_offset: The last offset of the queue that is done; -1 for none.
        read: Records read.
        revived: Messages stored for another try.
        acknowledged: Check points whose messages were all acknowledged.
        skipped: What was passed over: gone, or of topics and groups that are gone.
        waiting: Check points that are not due.
        has_more: Whether the round goes on with another call.
        needs: The retry topic that has to be made first.
        end: End of the last message stored; 0 for none. Write the offset down only when the log is
            flushed up to it.
    """

    @property
    def done_offset(self) -> int: ...
    @property
    def read(self) -> int: ...
    @property
    def revived(self) -> int: ...
    @property
    def acknowledged(self) -> int: ...
    @property
    def skipped(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def has_more(self) -> bool: ...
    @property
    def needs(self) -> RetryTopic | None: ...
    @property
    def end(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class RetryTopic:
    """A retry topic that has to be made.

    Attributes:
        topic: Its name.
        group: The group that it is for.
    """

    @property
    def topic(self) -> str: ...
    @property
    def group(self) -> str: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class OrderInfo:
    """What a group popped last from a queue, in order.

    Attributes:
        key: The official key, `topic@group`.
        queue_id: The queue.
        pop_time_ms: When, Unix ms.
        invisible_ms: For how long.
        offsets: The queue offsets, ascending.
        visible_ms: When a message is visible again, where that was changed, by its offset.
        counts: How often a message was given before, by its offset.
        last_ms: When the queue was popped from last, Unix ms.
        bits: Which messages are acknowledged, by their places in `offsets`.
        attempt: The attempt that may repeat the pop.
    """

    @property
    def key(self) -> str: ...
    @property
    def queue_id(self) -> int: ...
    @property
    def pop_time_ms(self) -> int: ...
    @property
    def invisible_ms(self) -> int: ...
    @property
    def offsets(self) -> list[int]: ...
    @property
    def visible_ms(self) -> dict[int, int]: ...
    @property
    def counts(self) -> dict[int, int]: ...
    @property
    def last_ms(self) -> int: ...
    @property
    def bits(self) -> int: ...
    @property
    def attempt(self) -> str | None: ...
    def __new__(
        cls,
        *,
        key: str,
        queue_id: int,
        pop_time_ms: int,
        invisible_ms: int,
        offsets: list[int],
        visible_ms: dict[int, int],
        counts: dict[int, int],
        last_ms: int,
        bits: int,
        attempt: str | None,
    ) -> Self: ...

@disjoint_base
class FastPathConnection:
    """A connection of a fast path. See `mqcore.native.fast_path.FastPathProtocol`."""

    def __new__(cls, *_args: object, **_kwargs: object) -> Self: ...
    def attach(
        self, write: Callable[[bytes], object], *, descriptor: int, peer: str, born_host: str | None
    ) -> None: ...
    def attach_socket(self, descriptor: int, *, peer: str, born_host: str | None) -> None:
        """Opens it, and gives its socket to a reactor, which closes it in the end."""

    def identify(self, is_tls: bool, principal: str) -> None:
        """Sets who is on it, beside its address; an attached one.

        Args:
            is_tls: Whether it has TLS.
            principal: The user that a checked certificate names; empty without one.
        """

    def detach(self) -> None: ...
    def hold(self) -> None:
        """Its reactor reads no more of it."""

    def release(self) -> None:
        """Its reactor reads it again."""

    def get_buffer(self, sizehint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...
    def take_turn(self) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def write(self, data: Buffer) -> None: ...
    def execute(self, command: Command) -> bool: ...
    def let_name_hosts(self) -> None: ...
    def traffic(self) -> int: ...
    def half_frame_ms(self) -> int: ...

@final
class ReceiveBuffer:
    """Where the transports of a loop put what they receive; a buffer, by its protocol."""

@final
class Timers:
    """The timers of an open store; `flush` makes durable what was done, deliveries included.

    `step_ms` is the length of a step: a message is delivered at the first step that does not begin
    before its time. Times are Unix ms; the store's clock without one.
    """

    def __new__(cls, store: NativeStore, now_ms: int | None = None) -> Self: ...
    @property
    def step_ms(self) -> int: ...
    def is_due(self, now_ms: int | None = None) -> bool:
        """Returns whether `tick` would do anything; True while one is under way."""

    def tick(self, now_ms: int | None = None, *, limit: int = ...) -> Ticked:
        """Enters what came, and delivers what is due. Bounded; may wait for the disk.

        Raises:
            StoreError: The first message could not be stored; the next call goes on there.
        """

    def follow_master(self, read_ms: int, queue_offset: int, now_ms: int | None = None) -> Ticked:
        """Goes on to where the timers of a master were; delivers nothing. May wait for the disk.

        To be called only when the log has what the master had delivered by then. Nothing is done
        while the master had entered less than we have.

        Args:
            read_ms: The master had delivered the slots before it, Unix ms.
            queue_offset: It had entered what is before it in the queue.
            now_ms: The time.

        Returns:
            What was done; `delivered` counts messages that were passed over, since the master
            delivered them.

        Raises:
            StoreError: The first message could not be entered; the next call goes on there.
        """

    def flush(self, now_ms: int | None = None) -> bool:
        """Makes durable what was done; returns whether the files of the timers were written.

        Of a member of a group they are once what was delivered is confirmed.
        """

    def retain(self) -> int: ...
    def check_point(self) -> bytes:
        """Returns the body of GET_TIMER_CHECK_POINT."""

    def moved(self) -> list[TimersMoved]:
        """Returns what came and left since the start, by topic."""

    def waiting(self) -> list[TimedTopic]:
        """Returns how many messages of each topic wait."""

    def set_waiting(self, topics: Sequence[TimedTopic]) -> None:
        """Takes what waits of each topic as it was saved."""

    def forget(self, topic: str) -> None:
        """Forgets how many wait for a topic that is deleted."""

    def waiting_between(self, from_ms: int, to_ms: int) -> int: ...
    def progress(self) -> TimerProgress:
        """Returns how far the timers are. Waits for a call that is under way."""

@final
class Ticked:
    """What a call did.

    Attributes:
        entered: Messages taken from the queue.
        delivered: Messages stored in their topic.
        rolled: Messages that go around the wheel again.
        deleted: Messages that were recalled.
        skipped: Messages passed over: gone by retention, or with nowhere to go.
        late_ms: How late the last one was delivered, behind the end of its step.
        has_more: Whether more can be done now.
    """

    @property
    def entered(self) -> int: ...
    @property
    def delivered(self) -> int: ...
    @property
    def rolled(self) -> int: ...
    @property
    def deleted(self) -> int: ...
    @property
    def skipped(self) -> int: ...
    @property
    def late_ms(self) -> int: ...
    @property
    def has_more(self) -> bool: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class TimerProgress:
    """How far the timers are.

    Attributes:
        read_ms: Time of the first slot that is not delivered, Unix ms.
        queue_offset: Next queue offset to enter.
        behind: Messages in the queue that are not entered.
        waiting: Messages in slots that are not delivered.
        changes: Rises with each change of what waits.
        entered: Messages entered since the start.
        delivered: Messages delivered since the start.
        log_bytes: Bytes of the timer log on the disk.
        wheel_bytes: Bytes of the wheel in memory.
    """

    @property
    def read_ms(self) -> int: ...
    @property
    def queue_offset(self) -> int: ...
    @property
    def behind(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def changes(self) -> int: ...
    @property
    def entered(self) -> int: ...
    @property
    def delivered(self) -> int: ...
    @property
    def log_bytes(self) -> int: ...
    @property
    def wheel_bytes(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class TimedTopic:
    """The messages of a topic that wait for their time.

    Attributes:
        topic: The topic.
        count: How many wait.
        changed_ms: When that changed last, Unix ms.
    """

    @property
    def topic(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def changed_ms(self) -> int: ...
    def __new__(cls, topic: str, count: int, changed_ms: int) -> Self: ...

@final
class GilCounts:
    """Calls into the engine since the module was loaded.

    Attributes:
        kept: Calls that kept the GIL.
        released: Calls that released it.
    """

    @property
    def kept(self) -> int: ...
    @property
    def released(self) -> int: ...
    __match_args__: ClassVar[tuple[str, ...]]

@final
class EndedLink:
    """A link of replication that has ended.

    Attributes:
        address: The address of the other end.
        why: Why it ended.
        cut_at: Of a slave: where its log must end before the master can be followed, as the epochs
            show; None where no cut helps. Close the store and open it with this `cut_at`.
    """

    __match_args__ = ("address", "why", "cut_at")
    @property
    def address(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def cut_at(self) -> int | None: ...

@final
class SlaveState:
    """How far a slave of a master is. Positions are physical offsets (bytes of the log).

    Attributes:
        address: Its address.
        requested: Where it asked to begin; None before its first report.
        sent: End of what was sent to it.
        acknowledged: What it reported last.
        lag_bytes: How far it is behind the log, bytes.
        lag_ms: For how long it has not held everything that the log held at one time, ms.
        bytes_per_second: Bytes sent in the last second.
        controller_id: The id that its controller gave it; None in classic replication, and before
            it has introduced itself.
        is_learner: Whether it is never to be in the sync-state set (`asyncLearner`).
        counts: Whether what it reports counts: not of somebody who is no member.
    """

    __match_args__ = (
        "address",
        "requested",
        "sent",
        "acknowledged",
        "lag_bytes",
        "lag_ms",
        "bytes_per_second",
        "controller_id",
        "is_learner",
        "counts",
    )
    @property
    def address(self) -> str: ...
    @property
    def requested(self) -> int | None: ...
    @property
    def sent(self) -> int: ...
    @property
    def acknowledged(self) -> int: ...
    @property
    def lag_bytes(self) -> int: ...
    @property
    def lag_ms(self) -> int: ...
    @property
    def bytes_per_second(self) -> int: ...
    @property
    def controller_id(self) -> int | None: ...
    @property
    def is_learner(self) -> bool: ...
    @property
    def counts(self) -> bool: ...

@final
class SlaveProgress:
    """How a slave follows its master. Positions are physical offsets (bytes of the log).

    Attributes:
        address: Address of the master; empty while there is no connection.
        appended: End of the log here.
        announced: End of what the master has announced.
        reported: What was reported last; None before the first report of a connection.
        received_bytes: Bytes that have come since the start.
        silent_ms: For how long nothing has come, ms; None before the first byte of a connection.
        last_store_ms: Store time of the newest record, Unix ms; 0 for none.
    """

    __match_args__ = (
        "address",
        "appended",
        "announced",
        "reported",
        "received_bytes",
        "silent_ms",
        "last_store_ms",
    )
    @property
    def address(self) -> str: ...
    @property
    def appended(self) -> int: ...
    @property
    def announced(self) -> int: ...
    @property
    def reported(self) -> int | None: ...
    @property
    def received_bytes(self) -> int: ...
    @property
    def silent_ms(self) -> int | None: ...
    @property
    def last_store_ms(self) -> int: ...

@final
class EpochEntry:
    """What one master wrote of a log (`EpochEntry`). Positions are physical offsets.

    Attributes:
        epoch: The epoch of the master.
        start: Where its log began.
        end: Where the next epoch begins; of the last one, where the log ends now.
    """

    __match_args__ = ("epoch", "start", "end")
    @property
    def epoch(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...

@final
class LogPositions:
    """How far a member's log is. Positions are physical offsets (bytes of the log).

    Attributes:
        start: First byte that is kept.
        end: End of the log (`maxPhyOffset`).
        confirmed: The confirm offset: no reader sees what is behind it.
        dispatched: End of what queues have.
    """

    __match_args__ = ("start", "end", "confirmed", "dispatched")
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def confirmed(self) -> int: ...
    @property
    def dispatched(self) -> int: ...

@final
class Alteration:
    """A sync-state set that a master asks its controller for (request code 1001).

    Attributes:
        members: Controller ids, the master's own among them, in ascending order.
        set_epoch: The epoch of the set that it is to replace (`syncStateSetEpoch`).
    """

    __match_args__ = ("members", "set_epoch")
    @property
    def members(self) -> list[int]: ...
    @property
    def set_epoch(self) -> int: ...

@final
class SyncState:
    """The sync-state set of a master. Ids are those of the controller, in ascending order.

    Attributes:
        members: The set as the controller has it.
        set_epoch: Its epoch.
        asked: Ids of alterations that were given out and are not answered: sends wait for them too.
        joining: Ids for which sends wait, and which are asked for as soon as they have all that was
            acknowledged without them.
    """

    __match_args__ = ("members", "set_epoch", "asked", "joining")
    @property
    def members(self) -> list[int]: ...
    @property
    def set_epoch(self) -> int: ...
    @property
    def asked(self) -> list[int]: ...
    @property
    def joining(self) -> list[int]: ...

@final
class ReplicationEpochs:
    """The epochs of the log of an open store, and the file that keeps them (`EpochFileCache`).

    Entries that begin behind the end of the log are forgotten: a power loss took what they were
    about. One object per open store: the master and the slave of the store share it.

    Args:
        store: The store, opened with `is_member`.
        path: The file (`storePathEpochFile`); beside it is its `.bak`.

    Raises:
        BadTextError: Neither the file nor its `.bak` can be read.
        StoreError: The disk fails.
    """

    def __new__(cls, store: NativeStore, path: str) -> Self: ...
    def note_asked(self, epoch: int, set_epoch: int) -> None:
        """Notes durably that the master of an epoch is going to ask for another set.

        To be called before it does. A later start does not lead that epoch on while the set is
        still that of `set_epoch`: the request may be on its way yet.

        Raises:
            StoreError: It cannot be written: the set must not be asked for.
        """

    def settle_end(self) -> None:
        """Forgets that the log may have lost its end: its controller has decided about it.

        Until then every open of the store reports it (`OpenReport.is_tail_certain`).

        Raises:
            StoreError: The disk fails.
        """

    def entries(self) -> list[EpochEntry]:
        """Returns all entries, oldest first (request code 1007)."""

    def epoch_before(self, offset: int) -> int:
        """Returns the epoch of the byte before a physical offset; -1 where it has none."""

    def has(self, epoch: int, offset: int) -> bool:
        """Returns whether the log has what a log had that ended at an offset.

        Masters of two epochs may have written other bytes there.

        Args:
            epoch: That of the last byte of that log, as `epoch_before` returned it.
            offset: The physical offset of its end.
        """

    @property
    def last_epoch(self) -> int:
        """The epoch of the last entry; -1 without one."""

    def positions(self) -> LogPositions:
        """Returns how far the log is."""

@final
class ReplicationMaster:
    """Ships the log of a store to slaves, on a thread of its own.

    With `membership` and `epochs` it speaks AutoSwitch, and the store takes appends once `lead` has
    returned.
    """

    def __new__(
        cls,
        store: NativeStore,
        *,
        heartbeat_ms: int,
        silence_max_ms: int,
        pace: ReplicationPace,
        quorum: ReplicationQuorum | None = None,
        membership: ReplicationMembership | None = None,
        epochs: ReplicationEpochs | None = None,
    ) -> Self: ...
    @staticmethod
    def require(store: NativeStore) -> None:
        """Lets what is stored wait for slaves from now on.

        Nothing counts as copied until a master ships, and its slaves report.
        """

    def lead(
        self, epoch: int, members: list[int], set_epoch: int, *, timeout_ms: int = 3000
    ) -> bool:
        """Makes the store that of the master of an epoch; may be called again for a later one.

        The epoch is in its file before this returns; connections go on. To be called when no
        slave of the store follows any more.

        Args:
            epoch: The epoch of the master.
            members: The sync-state set, the own id among them.
            set_epoch: Its epoch.
            timeout_ms: How long to wait at the most until queues have what the log holds.

        Returns:
            Whether they have. Appends are taken in either case, at the right queue offsets.

        Raises:
            NotWritableError: The log has a later epoch; `members` is without the own id.
            NoRecordError: The log ends in the middle of a record: the store must be opened anew,
                with `cut_at` as the error's `physical_offset`.
            StoreError: The file of epochs cannot be written.
        """

    def adopt(self, members: list[int], set_epoch: int) -> bool:
        """Takes the sync-state set that the controller has now.

        It replaces what was asked for where its epoch is larger than that of the known set; else
        nothing changes. After an alteration whose outcome is not known nothing is dropped until
        the controller has shown a larger epoch.

        Returns:
            Whether it was taken.
        """

    def wanted(self) -> Alteration | None:
        """Returns the set that is to be asked for; None while the known one is right.

        What is returned counts as asked until `adopt` or `refuse`: sends wait for its members too.
        """

    def refuse(self) -> None:
        """Takes back what was asked for: the controller has refused it, and took nothing of it."""

    def rest(self) -> None:
        """Lets the log take no append until `go_on`, or until its store follows another master.

        For a role that is handed over. An append that another thread has begun is not waited for.
        """

    def go_on(self) -> None:
        """Takes appends again after `rest`."""

    def sync_state(self) -> SyncState:
        """Returns the sync-state set, with what is asked for."""

    def add(
        self,
        descriptor: int,
        address: str,
        *,
        counts: bool = True,
        tls: ReplicationTls | None = None,
    ) -> None:
        """Ships to somebody who has connected. The descriptor is owned here from now on.

        Args:
            descriptor: The socket.
            address: Where it comes from.
            counts: Whether what it reports counts; otherwise it gets the log, acknowledges nothing
                and is in no set.
            tls: What protects the connection; None for a plain one.
        """

    def set_counts(self, address: str, counts: bool) -> None:
        """Lets what the slave at an address reports count from now on, or not."""

    def open_links(self) -> int:
        """Returns how many connections are open, those among them that were just added."""

    def slaves(self) -> list[SlaveState]:
        """Returns the slaves that are connected."""

    def copies(self) -> list[FileCopy]:
        """Returns who copies whole files of the log."""

    def take_ended(self) -> list[EndedLink]:
        """Takes the links that have ended."""

    def fileno(self) -> int:
        """Returns a descriptor to watch.

        It is readable while links have ended that were not taken, and when `wanted` may have
        something new; `take_ended` clears it.
        """

    def stop(self) -> None:
        """Closes all connections and ends the thread. Does nothing the second time."""

@final
class ReplicationSlave:
    """Grows the log of a store by that of its master, on a thread per connection.

    The store takes no appends of its own any more, until a master of it leads. With `epochs` it
    speaks AutoSwitch.

    Args:
        store: The store.
        heartbeat_ms: After this long without a report it is sent again.
        silence_max_ms: A master from which nothing has come for so long is given up.
        epochs: The epochs of the store's log; None for classic replication.
        controller_id: The own id, in AutoSwitch.
        from_last_file: Whether an empty log begins with the last file of the master
            (`syncFromLastFile`).
        is_learner: Whether it is never to be in the sync-state set (`asyncLearner`).
    """

    def __new__(
        cls,
        store: NativeStore,
        *,
        heartbeat_ms: int,
        silence_max_ms: int,
        epochs: ReplicationEpochs | None = None,
        controller_id: int = 0,
        from_last_file: bool = False,
        is_learner: bool = False,
    ) -> Self: ...
    def follow(
        self,
        descriptor: int,
        address: str,
        *,
        from_start: bool = False,
        tls: ReplicationTls | None = None,
    ) -> None:
        """Follows a master over a connection, until that ends; an earlier one is closed.

        The descriptor is owned here from now on.

        Args:
            descriptor: A connected socket.
            address: The master's.
            from_start: Of a master that gives whole files: a log that holds nothing begins with its
                first byte, and not with its last file.
            tls: What protects the connection; None for a plain one.

        Raises:
            StoreError: The address has no host that a certificate could name.
        """

    def progress(self) -> SlaveProgress:
        """Returns how it follows now."""

    def take_ended(self) -> list[EndedLink]:
        """Takes the links that have ended."""

    def fileno(self) -> int:
        """Returns a descriptor that is readable while links have ended that were not taken."""

    def stop(self) -> None:
        """Closes the connection and ends its thread. Does nothing without one."""

@final
class FileCopy:
    """Somebody who copies whole files of a master's log.

    Attributes:
        address: The address.
        sent_bytes: Bytes that were sent.
    """

    __match_args__ = ("address", "sent_bytes")
    @property
    def address(self) -> str: ...
    @property
    def sent_bytes(self) -> int: ...

@final
class BadRecord:
    """A record that is bad, with whole ones behind it. Positions are physical offsets.

    Attributes:
        physical_offset: Where it begins.
        before: Where the whole record before it in the same file begins; None where there is none.
        next_whole: Where the first whole record behind it begins.
        why: What is wrong.
    """

    __match_args__ = ("physical_offset", "before", "next_whole", "why")
    @property
    def physical_offset(self) -> int: ...
    @property
    def before(self) -> int | None: ...
    @property
    def next_whole(self) -> int: ...
    @property
    def why(self) -> str: ...

@final
class RefillProgress:
    """How far the copy of whole files is. Positions are physical offsets (bytes of the log).

    Attributes:
        began: Where the log ended when it began.
        log_end: Where the log ends.
        to: End of the last whole file of the master; 0 before it is known.
        received_bytes: Bytes that have come.
        kept_bytes: Bytes of files that were whole already, and not copied again.
        is_over: Whether the log has everything that the master has in whole files.
    """

    __match_args__ = ("began", "log_end", "to", "received_bytes", "kept_bytes", "is_over")
    @property
    def began(self) -> int: ...
    @property
    def log_end(self) -> int: ...
    @property
    def to(self) -> int: ...
    @property
    def received_bytes(self) -> int: ...
    @property
    def kept_bytes(self) -> int: ...
    @property
    def is_over(self) -> bool: ...

@final
class ReplicationTls:
    """One end of TLS 1.3 for connections of replication; both ends are mqcore's."""

    @staticmethod
    def serving(
        certificate: bytes,
        key: bytes,
        *,
        password: str | None = None,
        trusted: bytes | None = None,
        takes_plain: bool = False,
    ) -> ReplicationTls:
        """Returns the end of a master, with which the first byte of a connection decides.

        Args:
            certificate: The chain, PEM, leaf first.
            key: The private key, PEM; with a password in the form of PKCS #8.
            password: Its password; None for a key without one.
            trusted: Authorities, PEM, of the certificate that a slave must show; None asks for
                none.
            takes_plain: Whether a connection without TLS is served too.

        Raises:
            ValueError: Which of them cannot be used, and why.
        """

    @staticmethod
    def asking(
        trusted: bytes,
        *,
        certificate: bytes | None = None,
        key: bytes | None = None,
        password: str | None = None,
    ) -> ReplicationTls:
        """Returns the end of a slave, which refuses a master that does not name the host dialled.

        Args:
            trusted: Authorities, PEM, of the master's certificate.
            certificate: The chain that is shown where it is asked for, PEM.
            key: Its private key, PEM.
            password: The password of that, as above.

        Raises:
            ValueError: Which of them cannot be used, and why.
        """

@final
class ReplicationRefill:
    """Copies whole files of a master's log to the end of a slave's, on a thread per connection.

    Each file is looked at and compared with the master's hash before it is taken into the log. The
    master is to be asked before whether it gives files: `OwnRequestCode.REFILL_OFFER`.

    Args:
        store: The store, which follows a master.
        epochs: The epochs of its log, which get those of the master; None for classic replication.
    """

    def __new__(cls, store: NativeStore, *, epochs: ReplicationEpochs | None = None) -> Self: ...
    def may_begin(self) -> bool:
        """Returns whether whole files may be copied: the log holds nothing, or ends with a file."""

    def add(self, descriptor: int, address: str, *, tls: ReplicationTls | None = None) -> None:
        """Copies over one connection more; the descriptor is owned here from now on.

        Args:
            descriptor: A connected socket.
            address: The master's.
            tls: What protects the connection; None for a plain one.
        """

    def progress(self) -> RefillProgress:
        """Returns how far it is."""

    def take_ended(self) -> list[EndedLink]:
        """Takes the connections that have ended, without a reason where everything is there."""

    def fileno(self) -> int:
        """Returns a descriptor that is readable while there are ended ones that were not taken."""

    def stop(self) -> None:
        """Closes all connections and ends their threads. Does nothing the second time.

        What is whole beside the log stays for the next time, unless the log has everything.
        """

@final
class BrokerSetView:
    """What a controller keeps of a broker name.

    Attributes:
        cluster: Its cluster.
        next_id: The next id that is given.
        master: The master's id; None where there is none.
        master_address: The master's address.
        master_epoch: Grows with every master.
        in_sync: Ids of brokers that have every message that may have been acknowledged, in order.
        set_epoch: Grows with every change of that set.
        replicas: The address of every broker by its id, in order.
        check_codes: What names the process of every broker by its id, in order; what it applied
            with, of RocketMQ's.
        eligible: Ids of brokers that may be elected beside the set, in order.
    """

    __match_args__ = (
        "cluster",
        "next_id",
        "master",
        "master_address",
        "master_epoch",
        "in_sync",
        "set_epoch",
        "replicas",
        "check_codes",
        "eligible",
    )
    @property
    def cluster(self) -> str: ...
    @property
    def next_id(self) -> int: ...
    @property
    def master(self) -> int | None: ...
    @property
    def master_address(self) -> str | None: ...
    @property
    def master_epoch(self) -> int: ...
    @property
    def in_sync(self) -> list[int]: ...
    @property
    def set_epoch(self) -> int: ...
    @property
    def replicas(self) -> dict[int, str]: ...
    @property
    def check_codes(self) -> dict[int, str]: ...
    @property
    def eligible(self) -> list[int]: ...

@final
class ControllerAnswer:
    """What came of a request to a controller.

    Attributes:
        code: The official code.
        remark: Why it was refused; empty where it was done.
        is_changed: Whether the state is another one.
        view: The broker name behind it; None where it is not known.
    """

    __match_args__ = ("code", "remark", "is_changed", "view")
    @property
    def code(self) -> int: ...
    @property
    def remark(self) -> str: ...
    @property
    def is_changed(self) -> bool: ...
    @property
    def view(self) -> BrokerSetView | None: ...

@final
class ControllerMessage:
    """A request to another controller.

    Attributes:
        ticket: Names it when its response is delivered.
        peer: The number of the controller that it goes to.
        content: The request.
    """

    __match_args__ = ("ticket", "peer", "content")
    @property
    def ticket(self) -> int: ...
    @property
    def peer(self) -> int: ...
    @property
    def content(self) -> bytes: ...

@final
class ControllerStanding:
    """The state of a controller among its peers.

    Attributes:
        is_leader: Whether what it is asked can be agreed on.
        leader: The number of the leader; None where none is known.
        applied: Entries that were applied since its log began.
        failure: Why nothing is agreed on any more; None where nothing failed.
    """

    __match_args__ = ("is_leader", "leader", "applied", "failure")
    @property
    def is_leader(self) -> bool: ...
    @property
    def leader(self) -> int | None: ...
    @property
    def applied(self) -> int: ...
    @property
    def failure(self) -> str | None: ...

@final
class ControllerNode:
    """A controller's log and state: what it answers is durable.

    Raises:
        StoreIOError: The log cannot be read or written.
        ForeignFileError: Another controller runs on the directory, or the log is damaged.
    """

    def __new__(cls, directory: Path, group: ControllerGroupRow) -> Self: ...
    def alter_set(self, row: AlterSetRow) -> ControllerAnswer:
        """A master wants another set."""

    def elect(self, row: ElectRow) -> ControllerAnswer:
        """Somebody wants a master."""

    def apply_id(self, cluster: str, name: str, id: int, check_code: str) -> ControllerAnswer:
        """A broker wants an id."""

    def register(
        self, name: str, id: int, address: str, claim: ClaimRow | None
    ) -> ControllerAnswer:
        """A broker with an id is there."""

    def fence(self, name: str, master: int, master_epoch: int, set_epoch: int) -> ControllerAnswer:
        """A master wants every other set that it has asked for to be refused from now on."""

    def clean(
        self, name: str, ids: Sequence[int], alive: Sequence[int], allows_living: bool
    ) -> ControllerAnswer:
        """Brokers are to be forgotten; without ids the whole name."""

    def confirm(self) -> bool:
        """Returns whether it leads, and has applied all that was agreed on before the call."""

    def outgoing(self, wait_ms: int) -> list[ControllerMessage]:
        """Takes requests to other controllers; waits for one, for a time."""

    def deliver(self, ticket: int, response: bytes | None) -> None:
        """Gives the response to a request to another controller; None where there is none."""

    def answer(self, request: bytes) -> bytes | None:
        """Returns the response to the request of another controller; None where it is none."""

    def view(self, name: str) -> BrokerSetView | None:
        """Returns what is kept of a broker name; None where it is not known."""

    def names(self) -> list[str]:
        """Returns every broker name, in order."""

    def standing(self) -> ControllerStanding:
        """Returns its state among its peers."""

    def close(self) -> None:
        """Closes the log. Does nothing the second time."""
