//! What waits in memory: the queues with a tail to write, and the gate that is held while tails are
//! written or units are taken back. Knows no file.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::queue::{NOTHING_WAITS_MS, Queue, QueueState};
use super::unit::QueueUnit;
use crate::lock::{Mutex, MutexGuard};
use crate::units::MIB;

/// Bytes below which a round is not worth its calls.
const ROUND_BYTES_MIN: u64 = MIB;
/// Bytes at which a round begins however short its runs are.
const ROUND_BYTES_MAX: u64 = 16 * MIB;
/// Units of a run, on average, that pay for opening, writing and closing a file (8 us): with a fixed
/// round of 1 MiB, 10,000 queues were written at 0.6 million units per second, with this at some 2
/// million.
const RUN_UNITS_MIN: u64 = 20;

/// The queues with a tail to write.
pub(crate) struct Pending<U: QueueUnit> {
    queues: Mutex<Vec<Arc<Queue<U>>>>,
    bytes: AtomicU64,
    /// Largest store time appended; `i64::MIN` before the first.
    newest_ms: AtomicI64,
    write_gate: Mutex<()>,
}

impl<U: QueueUnit> Default for Pending<U> {
    fn default() -> Self {
        Self {
            queues: Mutex::new(Vec::new()),
            bytes: AtomicU64::new(0),
            newest_ms: AtomicI64::new(i64::MIN),
            write_gate: Mutex::new(()),
        }
    }
}

impl<U: QueueUnit> Pending<U> {
    /// Nobody else writes tails, takes units back or removes files while this is held.
    pub(crate) fn hold_writes(&self) -> MutexGuard<'_, ()> {
        self.write_gate.lock()
    }

    /// Bytes in the tails of all queues.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Largest store time of a unit appended so far; `i64::MIN` before the first.
    pub(crate) fn newest_ms(&self) -> i64 {
        self.newest_ms.load(Ordering::Acquire)
    }

    /// Whether a round of writing pays now: 1 MiB waits, in runs that are not too short for what a
    /// run costs, or so much waits that memory counts. Whoever appends also writes after 100 ms.
    pub(crate) fn is_write_due(&self) -> bool {
        let bytes = self.bytes();
        let run_bytes_min = RUN_UNITS_MIN * U::LEN as u64;
        bytes >= ROUND_BYTES_MAX
            || (bytes >= ROUND_BYTES_MIN
                && bytes >= self.queues.lock().len() as u64 * run_bytes_min)
    }

    /// Notes a queue that has something to write.
    #[inline]
    pub(crate) fn mark(&self, queue: &Arc<Queue<U>>, state: &mut QueueState<U>) {
        if !state.is_pending {
            state.is_pending = true;
            self.queues.lock().push(Arc::clone(queue));
        }
    }

    /// Counts a unit that was added to a tail.
    #[inline]
    pub(crate) fn count_unit(&self, store_timestamp_ms: i64) {
        self.add_bytes(U::LEN as u64);
        if store_timestamp_ms > self.newest_ms.load(Ordering::Relaxed) {
            self.newest_ms
                .fetch_max(store_timestamp_ms, Ordering::AcqRel);
        }
    }

    /// Counts bytes that came into memory.
    #[inline]
    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that are no longer in memory.
    pub(crate) fn subtract_bytes(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Empties the tail of a queue that is deleted or starts anew.
    pub(crate) fn drop_tail(&self, state: &mut QueueState<U>) {
        let dropped = std::mem::take(&mut state.tail).len() as u64;
        self.subtract_bytes(dropped);
    }

    /// Takes the queues of a round of writing.
    pub(super) fn take(&self) -> Vec<Arc<Queue<U>>> {
        std::mem::take(&mut *self.queues.lock())
    }

    /// Smallest store time in any tail.
    pub(super) fn oldest_ms(&self) -> i64 {
        let pending = self.queues.lock().clone();
        let tails = pending.iter().map(|queue| queue.lock().oldest_pending_ms);
        tails.min().unwrap_or(NOTHING_WAITS_MS)
    }
}
