//! The extension module `mqcore.native._native`: unpack, detach, call, map the error. No logic.
//!
//! | module | what |
//! |---|---|
//! | `store` | the class over an open store |
//! | `answers` | what appends and reads by queue give |
//! | `draft` | a message to append, unpacked from Python's arguments |
//! | `many` | the columns of `append_many` |
//! | `received` | a message as a consumer's handler gets it |
//! | `records` | a stored message, decoded field by field on request |
//! | `batch` | records in log order, with columns |
//! | `columns` | records as Arrow lays them out |
//! | `state` | small state files |
//! | `inspection` | a store directory looked at without changing it |
//! | `units` | the units of a queue, for tools |
//! | `wire` | commands, frames in pieces, compressed bodies |
//! | `json` | RocketMQ's JSON as Python objects |
//! | `form` | frames of one kind, many times |
//! | `parts` | the body of a batch request |
//! | `packing` | rows of columns packed into the bodies of requests |
//! | `lane` | the class over the lane |
//! | `timers` | the class over the timers of a store |
//! | `connection` | a connection of the lane as an event loop sees it |
//! | `buffer` | memory and descriptors that Python and Rust share |
//! | `policy_rows` | the broker's policy as Python hands it over: made from the tables of settings |
//! | `tables` | policy tables out of named tuples, expressions judged |
//! | `transactions` | the check of half messages, its checkers kept between calls |
//! | `numbers` | reports as dictionaries |
//! | `door` | the one place that decides whether the GIL is kept |
//! | `fork` | knows a forked child |
//! | `errors` | engine errors to exceptions |

use pyo3::prelude::*;

mod answers;
mod batch;
mod buffer;
mod columns;
mod connection;
mod door;
mod draft;
mod errors;
mod fork;
mod form;
mod inspection;
mod json;
mod lane;
mod many;
mod numbers;
mod packing;
mod parts;
mod policy_rows;
mod pops;
mod received;
mod records;
mod state;
mod store;
mod tables;
mod timers;
mod transactions;
mod units;
mod wire;

/// The bytes of the store: what `mqcore.native` gives a face to.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use crate::answers::{Appended, GetResult};
    #[pymodule_export]
    use crate::batch::{RecordBatch, Scan, decode_records};
    #[pymodule_export]
    use crate::buffer::{ColumnBytes, ReceiveBuffer};
    #[pymodule_export]
    use crate::columns::{ColumnBatch, NativeRecordColumns, queue_units};
    #[pymodule_export]
    use crate::connection::LaneConnection;
    #[pymodule_export]
    use crate::door::door_counts;
    #[pymodule_export]
    use crate::draft::encode_properties;
    #[pymodule_export]
    use crate::fork::note_fork;
    #[pymodule_export]
    use crate::form::FrameForm;
    #[pymodule_export]
    use crate::inspection::{NativeInspection, rebuild};
    #[pymodule_export]
    use crate::json::parse_relaxed_json;
    #[pymodule_export]
    use crate::lane::NativeLane;
    #[pymodule_export]
    use crate::many::AppendedMany;
    #[pymodule_export]
    use crate::numbers::settings;
    #[pymodule_export]
    use crate::packing::{PackedRows, RowPacker};
    #[pymodule_export]
    use crate::parts::encode_parts;
    #[pymodule_export]
    use crate::received::ReceivedMessage;
    #[pymodule_export]
    use crate::records::Message;
    #[pymodule_export]
    use crate::state::write_state;
    #[pymodule_export]
    use crate::store::NativeStore;
    #[pymodule_export]
    use crate::tables::{native_request_codes, sql_fault};
    #[pymodule_export]
    use crate::timers::NativeTimers;
    #[pymodule_export]
    use crate::units::stored_units;
    #[pymodule_export]
    use crate::wire::{Command, FrameReader, compress, decompress};
}
