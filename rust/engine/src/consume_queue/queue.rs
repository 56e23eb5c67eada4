//! One queue: what is kept of it in memory, and the decision where a unit belongs. Knows no file;
//! the rooms beside it move its tail to files and read them.
//!
//! Units `[first_base / 20, written)` are in files, `[written, fill_to)` are blanks not written yet,
//! `[fill_to, end)` are in `tail`. Idle, a queue is this struct and no more: no descriptor, no map,
//! no buffer.

use std::sync::{Arc, OnceLock};

use crate::lock::{Mutex, MutexGuard};

use super::extension::Tail;
use super::unit::{Bounds, UNIT_LEN, Unit};
use crate::config::QUEUE_UNIT_BYTES;

/// A store time later than any: nothing waits.
pub(super) const NOTHING_WAITS_MS: i64 = i64::MAX;
/// Physical offset of the unit at the minimum, when nobody has looked yet.
pub(super) const MIN_UNKNOWN: i64 = -1;
/// End of the last record of a queue without records (`ConsumeQueue.maxPhysicOffset`).
pub(super) const NO_RECORD: i64 = -1;
/// A tail takes its first memory for this many units: below it growth would cost more than appends.
const TAIL_UNITS_FIRST: usize = 16;

/// A queue of a topic: a handle that dispatch may keep.
#[derive(Debug)]
pub struct Queue {
    topic: Arc<str>,
    queue_id: i32,
    uid: u64,
    hash: u64,
    state: Mutex<State>,
    extension: OnceLock<Box<Mutex<Tail>>>,
}

impl Queue {
    pub(super) fn new(topic: Arc<str>, queue_id: i32, uid: u64, hash: u64, state: State) -> Self {
        Self {
            topic,
            queue_id,
            uid,
            hash,
            state: Mutex::new(state),
            extension: OnceLock::new(),
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

    /// Tells this queue from every other one that this process has seen, also of the same name.
    pub(super) fn uid(&self) -> u64 {
        self.uid
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn topic_name(&self) -> &Arc<str> {
        &self.topic
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Its extension, when it was written to since the store was opened.
    pub(super) fn extension(&self) -> Option<&Mutex<Tail>> {
        self.extension.get().map(|extension| &**extension)
    }

    /// Its extension, made if absent.
    pub(super) fn extension_made(&self) -> &Mutex<Tail> {
        self.extension.get_or_init(Box::default)
    }
}

/// How much of a queue's state was looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// The names of its files alone.
    Names,
    /// What the manifest says; its directory was not looked at.
    Manifest,
    /// Everything.
    All,
}

/// What is known of a queue. See the head of this file.
#[derive(Debug)]
pub(super) struct State {
    pub(super) known: Known,
    /// The units at the ends of its files were compared with the log, or come from this process.
    pub(super) has_checked_ends: bool,
    /// Deleted: a handle to it is stale.
    pub(super) is_gone: bool,
    /// In the table's list of queues with something to write.
    pub(super) is_pending: bool,
    /// Rises when units were taken back: a reader that read beside it reads again.
    pub(super) epoch: u32,
    pub(super) min: u64,
    pub(super) end: u64,
    pub(super) written: u64,
    pub(super) fill_to: u64,
    /// First byte of the oldest file.
    pub(super) first_base: u64,
    /// One after the last byte of the newest file; `first_base` when there is none.
    pub(super) files_end: u64,
    /// End in the log of the last record.
    pub(super) last_physical_end: i64,
    /// Physical offset of the unit at `min`; [`MIN_UNKNOWN`] when not looked up.
    pub(super) min_physical: i64,
    /// Smallest store time in the tail.
    pub(super) oldest_pending_ms: i64,
    pub(super) tail: Vec<u8>,
}

/// Where a unit belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// At the end.
    Next,
    /// Nowhere: it, or a later one, is in the queue.
    Duplicate,
    /// At the start of an empty queue whose earlier messages are elsewhere or gone.
    First,
    /// After the end: the units between were never seen.
    Gap(u64),
    /// At 0 again, later in the log: the topic was deleted and made anew there.
    Restart,
    /// Below the end, later in the log: two records claim one place.
    Taken,
}

impl State {
    /// A queue with these files and nothing else known.
    pub(super) fn of_files(first_base: u64, files_end: u64) -> Self {
        let first = first_base / QUEUE_UNIT_BYTES;
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
            first_base,
            files_end,
            last_physical_end: NO_RECORD,
            min_physical: MIN_UNKNOWN,
            oldest_pending_ms: NOTHING_WAITS_MS,
            tail: Vec::new(),
        }
    }

    /// A queue that never had a file.
    pub(super) fn empty() -> Self {
        let mut state = Self::of_files(0, 0);
        state.known = Known::All;
        state.has_checked_ends = true;
        state
    }

    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            min: self.min,
            max: self.end,
        }
    }

    pub(super) fn has_files(&self) -> bool {
        self.files_end > self.first_base
    }

    /// Something is to be written.
    pub(super) fn has_pending(&self) -> bool {
        self.end > self.written
    }

    /// Decides as `ConsumeQueue.putMessagePositionInfo` does, with two differences that keep every
    /// unit at the index that its message says: a gap is filled (there the unit goes to the end),
    /// and a queue that starts again at 0 is emptied first (there its first unit goes to the end
    /// and the following ones are dropped until they reach it).
    #[inline]
    pub(super) fn place(&self, queue_offset: u64, unit: &Unit) -> Place {
        if unit.physical_end() <= self.last_physical_end {
            return Place::Duplicate;
        }
        if queue_offset == self.end {
            return Place::Next;
        }
        if queue_offset > self.end {
            if !self.has_files() && self.end == 0 {
                return Place::First;
            }
            return Place::Gap(queue_offset - self.end);
        }
        if queue_offset == 0 {
            Place::Restart
        } else {
            Place::Taken
        }
    }

    /// Adds a unit at the end.
    #[inline]
    pub(super) fn push(&mut self, unit: &Unit, store_timestamp_ms: i64) {
        if self.tail.capacity() == self.tail.len() {
            self.tail
                .reserve((TAIL_UNITS_FIRST * UNIT_LEN).max(self.tail.len()));
        }
        self.tail.extend_from_slice(&unit.encode());
        if self.min == self.end {
            self.min_physical = unit.physical_offset;
        }
        self.end += 1;
        self.last_physical_end = unit.physical_end();
        self.oldest_pending_ms = self.oldest_pending_ms.min(store_timestamp_ms);
    }

    /// An empty queue without files begins at `queue_offset`: blanks from the start of the file up
    /// to it (`ConsumeQueue.fillPreBlank`).
    pub(super) fn begin_at(&mut self, queue_offset: u64, file_len_bytes: u64) {
        let position = queue_offset * QUEUE_UNIT_BYTES;
        self.first_base = position - position % file_len_bytes;
        self.files_end = self.first_base;
        self.written = self.first_base / QUEUE_UNIT_BYTES;
        self.fill_to = queue_offset;
        self.end = queue_offset;
        self.min = queue_offset;
        self.min_physical = MIN_UNKNOWN;
        self.last_physical_end = NO_RECORD;
        self.oldest_pending_ms = NOTHING_WAITS_MS;
        self.tail = Vec::new();
    }

    /// The unit at `index`, when it is not in a file.
    pub(super) fn tail_unit(&self, index: u64) -> Option<Unit> {
        if index < self.written || index >= self.end {
            return None;
        }
        if index < self.fill_to {
            return Some(Unit::BLANK);
        }
        let at = (index - self.fill_to) as usize * UNIT_LEN;
        let bytes = self.tail.get(at..at + UNIT_LEN)?;
        Unit::decode_all(bytes).next()
    }
}
