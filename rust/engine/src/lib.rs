//! The store: RocketMQ's files, appended to through mapped, populated, pre-allocated memory, synced
//! in groups, dispatched to queues and index, recovered after any end, and given back by retention.
//!
//! Knows no Python and no client socket. A module imports only from the layers below its own:
//! `store, inspect | dispatch | commit_log, flush, consume_queue, batch_queue, key_index, timer |
//! segment, checkpoint, progress, arrivals, small_state, queue_dirs, queue_store | disk, watermark | mmap,
//! config, clock, poison, notice, status, relaxed_json | error, units, lock`.

pub mod arrivals;
pub mod batch_queue;
pub mod checkpoint;
pub mod clock;
pub mod commit_log;
pub mod config;
pub mod consume_queue;
pub mod disk;
pub mod dispatch;
pub mod error;
pub mod flush;
pub mod inspect;
pub mod key_index;
pub mod lock;
pub mod mmap;
pub mod notice;
pub mod poison;
pub mod progress;
pub mod queue_dirs;
mod queue_store;
pub mod relaxed_json;
pub mod segment;
pub mod small_state;
pub mod status;
pub mod store;
pub mod timer;
pub mod units;
pub mod watermark;
