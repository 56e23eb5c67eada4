"""The one door to the extension: store, stored messages, directories looked at, commands as bytes.

Everything above imports from here and never from `_native` itself.
"""

import os

from mqcore.native import platform

platform.check()

from mqcore.native._native import (  # noqa: E402 - an unfit machine is refused before this loads
    Appended,
    AppendedMany,
    GetResult,
    Message,
    PackedRows,
    ReceivedMessage,
    RecordBatch,
    RowPacker,
    Scan,
    decode_records,
    door_counts,
    encode_properties,
    native_request_codes,
    note_fork,
    settings,
    sql_fault,
    write_state,
)
from mqcore.native.inspection import (  # noqa: E402
    FileSize,
    IndexHeader,
    Inspection,
    QueueState,
    Rebuilt,
    Verdict,
    rebuild,
)
from mqcore.native.lane import (  # noqa: E402
    Delivered,
    GroupPolicy,
    Handed,
    Lane,
    LaneProtocol,
    TopicPolicy,
)
from mqcore.native.members import (  # noqa: E402
    FilterBits,
    MembersPolicy,
    RegisteredFilter,
    Subscription,
)
from mqcore.native.policies import (  # noqa: E402
    BrokerPolicy,
    PopPolicy,
    TimingPolicy,
    WaitPolicy,
)
from mqcore.native.pops import OrderRow, Revived  # noqa: E402
from mqcore.native.store import OnDamage, OpenReport, QueueBounds, QueueUnit, Segment, Stats, Store  # noqa: E402
from mqcore.native.timers import Ticked, TimerProgress, Timers  # noqa: E402
from mqcore.native.transactions import (  # noqa: E402
    CheckedHalves,
    CheckQuestion,
    CheckRules,
    TransactionCount,
)
from mqcore.native.wire import (  # noqa: E402
    Command,
    Compression,
    FrameForm,
    FrameReader,
    Serialization,
    compress,
    decompress,
    encode_parts,
    parse_relaxed_json,
)

__all__ = [
    "Appended",
    "AppendedMany",
    "BrokerPolicy",
    "CheckQuestion",
    "CheckRules",
    "CheckedHalves",
    "Command",
    "Compression",
    "Delivered",
    "FileSize",
    "FilterBits",
    "FrameForm",
    "FrameReader",
    "GetResult",
    "GroupPolicy",
    "Handed",
    "IndexHeader",
    "Inspection",
    "Lane",
    "LaneProtocol",
    "MembersPolicy",
    "Message",
    "OnDamage",
    "OpenReport",
    "OrderRow",
    "PackedRows",
    "PopPolicy",
    "QueueBounds",
    "QueueState",
    "QueueUnit",
    "Rebuilt",
    "ReceivedMessage",
    "RecordBatch",
    "RegisteredFilter",
    "Revived",
    "RowPacker",
    "Scan",
    "Segment",
    "Serialization",
    "Stats",
    "Store",
    "Subscription",
    "Ticked",
    "TimerProgress",
    "Timers",
    "TimingPolicy",
    "TopicPolicy",
    "TransactionCount",
    "Verdict",
    "WaitPolicy",
    "compress",
    "decode_records",
    "decompress",
    "door_counts",
    "encode_parts",
    "encode_properties",
    "native_request_codes",
    "parse_relaxed_json",
    "rebuild",
    "settings",
    "sql_fault",
    "write_state",
]

# A forked child has neither the threads nor the maps of its parent's stores.
os.register_at_fork(after_in_child=note_fork)
