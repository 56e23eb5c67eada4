//! Queues of units of one fixed length, whatever a unit holds: what plain queues (20-byte units) and
//! batch queues (46-byte units) share. Per topic and queue id a list of units in files of one length,
//! with the newest units in memory until a round of writing.
//!
//! Knows no record, no log, no rule about which unit a queue takes, and no thread of its own. The
//! differences between the kinds of queues are in [`QueueUnit`] and in the modules above:
//! `consume_queue` and `batch_queue`.
//!
//! | module | what |
//! |---|---|
//! | `unit` | what a unit must be able to do |
//! | `queue` | one queue: what is kept of it in memory |
//! | `map` | all queues, found by topic and queue id |
//! | `files`, `ledger` | open descriptors; which parts of files are not synced |
//! | `segments`, `read` | the files of all queues: bytes, then units |
//! | `walk` | which queues and files the directories have |
//! | `pending`, `write`, `sync` | a unit's way from memory to the device |
//!
//! Locks, always taken in this order: sync gate ([`QueueSync`]), write gate ([`Pending`]), shard
//! ([`QueueMap`]), queue ([`Queue`]), then (one at a time) the list of pending queues, the ledger, the
//! open files. Nothing waits for a disk while it holds a queue's lock, but for the first look at a
//! queue.

mod files;
mod ledger;
mod map;
mod pending;
mod queue;
mod read;
mod segments;
mod sync;
mod unit;
mod walk;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use files::{FileLength, Files};
pub(crate) use map::QueueMap;
pub(crate) use pending::Pending;
pub(crate) use queue::Queue;
pub(crate) use queue::{Known, MIN_UNKNOWN, NO_RECORD, NOTHING_WAITS_MS, QueueState};
pub use read::ReadBy;
pub(crate) use read::{Step, first_not};
pub(crate) use segments::{Segments, WriteRange};
pub(crate) use sync::QueueSync;
pub use sync::Synced;
pub(crate) use unit::QueueUnit;
pub(crate) use walk::{file_range, walk_queues};
pub(crate) use write::TailWriter;
