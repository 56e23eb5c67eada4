//! One queue: what is kept of it in memory. Knows no file; the modules beside it move its tail to
//! files and read them.
//!
//! Units are counted by ordinals from the start of the queue; in a plain queue the ordinal is the
//! queue offset. Units `[first_base / LEN, written)` are in files, `[written, fill_to)` are blanks not
//! written yet, `[fill_to, end)` are in `tail`. Idle, a queue is this struct and no more: no
//! descriptor, no map, no buffer.

use std::sync::{Arc, OnceLock};

use super::unit::QueueUnit;
use crate::lock::{Mutex, MutexGuard};

/// A store time later than any: nothing waits.
pub(crate) const NOTHING_WAITS_MS: i64 = i64::MAX;
/// Physical offset of the unit at the minimum, when nobody has looked yet.
pub(crate) const MIN_UNKNOWN: i64 = -1;
/// End of the last record of a queue without records (`ConsumeQueue.maxPhysicOffset`).
pub(crate) const NO_RECORD: i64 = -1;
/// A tail takes its first memory for this many units: below it growth would cost more than appends.
const TAIL_UNITS_FIRST: usize = 16;

/// A queue of a topic: a handle that dispatch may keep.
#[derive(Debug)]
pub struct Queue<U: QueueUnit> {
    topic: Arc<str>,
    queue_id: i32,
    uid: u64,
    hash: u64,
    state: Mutex<QueueState<U>>,
    beside: OnceLock<Box<U::Beside>>,
}

impl<U: QueueUnit> Queue<U> {
    pub(super) fn new(
        topic: Arc<str>,
        queue_id: i32,
        uid: u64,
        hash: u64,
        state: QueueState<U>,
    ) -> Self {
        Self {
            topic,
            queue_id,
            uid,
            hash,
            state: Mutex::new(state),
            beside: OnceLock::new(),
        }
    }

    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The number of the queue in its topic.
    #[must_use]
    pub fn queue_id(&self) -> i32 {
        self.queue_id
    }

    /// Distinguishes this queue from every other one that this process has seen, also of the same name.
    pub(crate) fn uid(&self) -> u64 {
        self.uid
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn topic_name(&self) -> &Arc<str> {
        &self.topic
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, QueueState<U>> {
        self.state.lock()
    }

    /// What the queue has beside its state, when it was used since the store was opened.
    pub(crate) fn beside(&self) -> Option<&U::Beside> {
        self.beside.get().map(|beside| &**beside)
    }

    /// What the queue has beside its state, made if absent.
    pub(crate) fn beside_made(&self) -> &U::Beside {
        self.beside.get_or_init(Box::default)
    }
}

/// How much of a queue's state was looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// The names of its files alone.
    Names,
    /// What the manifest has; its directory was not looked at.
    Manifest,
    /// Everything.
    All,
}

/// What is known of a queue. See the head of this file.
#[derive(Debug)]
pub(crate) struct QueueState<U: QueueUnit> {
    pub(crate) known: Known,
    /// The units at the ends of its files were compared with the log, or come from this process.
    pub(crate) has_checked_ends: bool,
    /// Deleted: a handle to it is stale.
    pub(crate) is_gone: bool,
    /// In the list of queues with something to write.
    pub(crate) is_pending: bool,
    /// Rises when units were taken back: a reader that read beside it reads again.
    pub(crate) epoch: u32,
    pub(crate) min: u64,
    pub(crate) end: u64,
    pub(crate) written: u64,
    pub(crate) fill_to: u64,
    /// Ordinal behind the last durable unit, where units are counted so
    /// ([`QueueUnit::COUNTS_SYNCED`]).
    pub(crate) synced: u64,
    /// First byte of the oldest file.
    pub(crate) first_base: u64,
    /// One after the last byte of the newest file; `first_base` when there is none.
    pub(crate) files_end: u64,
    /// End in the log of the last record.
    pub(crate) last_physical_end: i64,
    /// Physical offset of the unit at `min`; [`MIN_UNKNOWN`] when not looked up.
    pub(crate) min_physical: i64,
    /// Smallest store time in the tail.
    pub(crate) oldest_pending_ms: i64,
    pub(crate) tail: Vec<u8>,
    pub(crate) own: U::Own,
}

impl<U: QueueUnit> QueueState<U> {
    /// A queue with these files and nothing else known.
    pub(crate) fn of_files(first_base: u64, files_end: u64) -> Self {
        let first = first_base / U::LEN as u64;
        Self {
            known: Known::Names,
            has_checked_ends: false,
            is_gone: false,
            is_pending: false,
            epoch: 0,
            min: first,
            end: first,
            written: first,
            fill_to: first,
            synced: first,
            first_base,
            files_end,
            last_physical_end: NO_RECORD,
            min_physical: MIN_UNKNOWN,
            oldest_pending_ms: NOTHING_WAITS_MS,
            tail: Vec::new(),
            own: U::Own::default(),
        }
    }

    /// A queue that never had a file.
    pub(crate) fn empty() -> Self {
        let mut state = Self::of_files(0, 0);
        state.known = Known::All;
        state.has_checked_ends = true;
        state
    }

    /// Ordinal of the first unit of the oldest file.
    pub(crate) fn first(&self) -> u64 {
        self.first_base / U::LEN as u64
    }

    pub(crate) fn has_files(&self) -> bool {
        self.files_end > self.first_base
    }

    /// Something is to be written.
    pub(crate) fn has_pending(&self) -> bool {
        self.end > self.written
    }

    /// True when the state needs no look at the files before it is used for appending or reading.
    #[inline]
    pub(crate) fn is_known(&self) -> bool {
        self.known == Known::All && !self.is_gone
    }

    /// Adds a unit at the end.
    #[inline]
    pub(crate) fn push(&mut self, unit: &U, store_timestamp_ms: i64) {
        if self.tail.capacity() == self.tail.len() {
            self.tail
                .reserve((TAIL_UNITS_FIRST * U::LEN).max(self.tail.len()));
        }
        unit.encode_into(&mut self.tail);
        if self.min == self.end {
            self.min_physical = unit.physical_start();
        }
        self.end += 1;
        self.last_physical_end = unit.record_end();
        self.oldest_pending_ms = self.oldest_pending_ms.min(store_timestamp_ms);
    }

    /// The unit at `index`, when it is not in a file.
    pub(crate) fn tail_unit(&self, index: u64) -> Option<U> {
        if index < self.written || index >= self.end {
            return None;
        }
        if index < self.fill_to {
            return U::BLANK;
        }
        let at = (index - self.fill_to) as usize * U::LEN;
        U::present(self.tail.get(at..at + U::LEN)?)
    }

    /// All below `end` is in files, nothing is in memory.
    pub(crate) fn set_end(&mut self, end: u64) {
        self.end = end;
        self.written = end;
        self.fill_to = end;
        self.tail = Vec::new();
        self.min = self.min.min(end);
    }
}
