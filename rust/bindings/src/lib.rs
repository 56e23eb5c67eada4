//! The extension module `mqcore.native._native`: unpack, detach, call, map the error. No logic.
//!
//! | module | what |
//! |---|---|
//! | `fast_path` | the class over the fast path: policy, drain, delayed messages |
//! | `drained` | what a fast path gives when it is drained and asked |
//! | `reports` | what reactors report, delivered to connections |
//! | `connection` | a connection of the fast path as an event loop sees it |
//! | `consumer_offsets` | the class over the consumer offsets of a fast path |
//! | `half_messages` | the class over its half messages: their check, their counts |
//! | `pops` | the class over its pops: rounds over check points, ordered pops |
//! | `request_times` | the class over times of requests and what was stored and given |
//! | `direct` | output written to a socket past the transport |
//! | `left` | what a turn of a connection has left |
//! | `handed` | a request that the fast path does not execute |
//! | `reactors` | the reactors of a fast path, and what they report |
//! | `locked` | the fast paths of the loops, each behind its lock |
//! | `timers` | the class over the timers of a store |
//! | `units` | the units of a queue, for tools |
//! | `live_settings` | settings of an open store that change at once |
//! | `refill` | the class over a slave that copies whole files |
//! | `controller` | the class over a controller's log and state |
//! | `replication` | the classes over the threads of replication |
//! | `membership` | the classes of a replica under a controller |
//! | `bad_records` | the functions over bad records of a store |
//! | `store` | the class over an open store |
//! | `inspection` | a store directory looked at without changing it |
//! | `many` | the columns of `append_many` |
//! | `appending` | whether the GIL is kept for an append, and the wait that ends it |
//! | `batch` | records in log order, with columns |
//! | `answers` | what appends and reads by queue give |
//! | `received` | a message as a consumer's handler gets it |
//! | `frame_reader` | commands and answers out of bytes that arrive in pieces |
//! | `access` | the class over access control |
//! | `records` | a stored message, decoded field by field on request |
//! | `packing` | rows of columns packed into the bodies of requests |
//! | `calls` | requests of a client that wait for their answer |
//! | `wire` | commands, compressed bodies |
//! | `json` | RocketMQ's JSON as Python objects |
//! | `columns` | records as Arrow lays them out |
//! | `state` | small state files |
//! | `process` | what a program asks of the system for itself |
//! | `tls` | the class over what protects connections of replication |
//! | `store_reports` | what a store reports of itself |
//! | `tables` | policy tables out of named tuples, expressions judged |
//! | `gil` | calls that keep or release the GIL |
//! | `fork` | knows a forked child |
//! | `draft` | a message to append, unpacked from Python's arguments |
//! | `form` | frames of one kind, many times |
//! | `parts` | the body of a batch request |
//! | `quotas` | quotas as they are now |
//! | `buffer` | memory and descriptors that Python and Rust share |
//! | `policy_rows` | the broker's policy as Python hands it over: made from the tables of settings |
//! | `settings` | settings of a store between Python and the engine |
//! | `errors` | engine errors to exceptions |
//! | `frozen` | results that cross as frozen classes |
//! | `bulk_text` | metrics by topic and by group as text |

use pyo3::prelude::*;

mod access;
mod answers;
mod appending;
mod bad_records;
mod batch;
mod buffer;
mod bulk_text;
mod calls;
mod columns;
mod connection;
mod consumer_offsets;
mod controller;
mod direct;
mod draft;
mod drained;
mod errors;
mod fast_path;
mod fork;
mod form;
mod frame_reader;
mod frozen;
mod gil;
mod half_messages;
mod handed;
mod inspection;
mod json;
mod left;
mod live_settings;
mod locked;
mod many;
mod membership;
mod packing;
mod parts;
mod policy_rows;
mod pops;
mod process;
mod quotas;
mod reactors;
mod received;
mod records;
mod refill;
mod replication;
mod reports;
mod request_times;
mod settings;
mod state;
mod store;
mod store_reports;
mod tables;
mod timers;
mod tls;
mod units;
mod wire;

/// The bytes of the store: what `mqcore.native` gives a face to.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use crate::access::{Access, AccessEntry, AccessExplanation, AccessRefusal, AccessRefusals};
    #[pymodule_export]
    use crate::answers::{Appended, Drained, GetResult, OffsetRange};
    #[pymodule_export]
    use crate::bad_records::{
        BadRecord, bad_record_at, next_bad_record, replace_bad_record, replace_record,
    };
    #[pymodule_export]
    use crate::batch::{Blank, RecordBatch, Scan, decode_records};
    #[pymodule_export]
    use crate::buffer::ReceiveBuffer;
    #[pymodule_export]
    use crate::bulk_text::BulkText;
    #[pymodule_export]
    use crate::calls::{CallTable, SendAnswer};
    #[pymodule_export]
    use crate::columns::{ColumnBatch, NativeRecordColumns, Tally, queue_units};
    #[pymodule_export]
    use crate::connection::FastPathConnection;
    #[pymodule_export]
    use crate::consumer_offsets::ConsumerOffsets;
    #[pymodule_export]
    use crate::controller::{
        BrokerSetView, ControllerAnswer, ControllerMessage, ControllerNode, ControllerStanding,
    };
    #[pymodule_export]
    use crate::draft::encode_properties;
    #[pymodule_export]
    use crate::drained::{Delivered, DrainedRequest, FastPathDrained, GroupGets, RememberedSends};
    #[pymodule_export]
    use crate::fast_path::NativeFastPath;
    #[pymodule_export]
    use crate::fork::note_fork;
    #[pymodule_export]
    use crate::form::FrameForm;
    #[pymodule_export]
    use crate::frame_reader::FrameReader;
    #[pymodule_export]
    use crate::gil::{GilCounts, gil_counts};
    #[pymodule_export]
    use crate::half_messages::{
        CheckQuestion, CheckedHalves, HalfMessages, OpMessagesWritten, ResumedHalf,
        TransactionCount,
    };
    #[pymodule_export]
    use crate::handed::Handed;
    #[pymodule_export]
    use crate::inspection::{
        FileSize, Findings, IndexCapacity, IndexHeader, LogRange, NativeInspection, Problem,
        QueueState, Rebuilt, VerifyProgress, index_capacity, rebuild, resident_parts,
    };
    #[pymodule_export]
    use crate::json::parse_relaxed_json;
    #[pymodule_export]
    use crate::live_settings::change_settings;
    #[pymodule_export]
    use crate::many::AppendedMany;
    #[pymodule_export]
    use crate::membership::{Alteration, EpochEntry, LogPositions, ReplicationEpochs, SyncState};
    #[pymodule_export]
    use crate::packing::{PackedRows, RowPacker};
    #[pymodule_export]
    use crate::parts::{EncodedParts, encode_parts};
    #[pymodule_export]
    use crate::pops::{OrderInfo, Pops, RetryTopic, Revived};
    #[pymodule_export]
    use crate::process::{bound_allocator, give_memory_back, name_failed_reads};
    #[pymodule_export]
    use crate::quotas::{QuotaRow, QuotaWait, quotas_fault};
    #[pymodule_export]
    use crate::received::ReceivedMessage;
    #[pymodule_export]
    use crate::records::Message;
    #[pymodule_export]
    use crate::refill::{RefillProgress, ReplicationRefill};
    #[pymodule_export]
    use crate::replication::{
        EndedLink, FileCopy, ReplicationMaster, ReplicationSlave, SlaveProgress, SlaveState,
    };
    #[pymodule_export]
    use crate::request_times::{
        GivenBack, QueueTraffic, RequestDuration, RequestTimes, SlowRequest, StageTimes,
        TopicSeconds, TopicTraffic,
    };
    #[pymodule_export]
    use crate::settings::settings;
    #[pymodule_export]
    use crate::state::write_state;
    #[pymodule_export]
    use crate::store::NativeStore;
    #[pymodule_export]
    use crate::store_reports::{
        DamagedRecord, Notice, OpenReport, QueueBounds, RemovedFiles, Segment, Stats,
    };
    #[pymodule_export]
    use crate::tables::{native_request_codes, sql_fault};
    #[pymodule_export]
    use crate::timers::{NativeTimers, Ticked, TimedTopic, TimerProgress, TimersMoved};
    #[pymodule_export]
    use crate::tls::ReplicationTls;
    #[pymodule_export]
    use crate::units::{QueueUnit, UnitExtension, stored_units};
    #[pymodule_export]
    use crate::wire::{Command, compress, decompress};
}
