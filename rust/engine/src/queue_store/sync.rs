//! Making the files of queues durable. Has a thread of the engine's to itself; appends, writes and
//! reads go on beside it.

use std::sync::Arc;

use super::ledger::Dirty;
use super::pending::Pending;
use super::segments::Segments;
use super::unit::QueueUnit;
use crate::disk::Disk;
use crate::error::Result;
use crate::lock::{Mutex, MutexGuard};
use crate::poison::Poison;

/// What a sync did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Synced {
    /// Every unit appended before the call with a store time up to this is durable. `None` when
    /// nothing was appended since the store was opened, or nothing of it is durable yet.
    pub covered_ms: Option<i64>,
    /// Smallest store time of a unit that is not durable; `i64::MAX` when all are.
    pub waiting_ms: i64,
    /// Files synced.
    pub files: u64,
}

/// Syncs files of queues, one sync at a time.
pub(crate) struct QueueSync<D: Disk, U: QueueUnit> {
    segments: Arc<Segments<D, U>>,
    pending: Arc<Pending<U>>,
    /// Held while files are synced.
    gate: Mutex<()>,
    failed: Poison,
}

impl<D: Disk, U: QueueUnit> QueueSync<D, U> {
    pub(crate) fn new(segments: Arc<Segments<D, U>>, pending: Arc<Pending<U>>) -> Self {
        Self {
            segments,
            pending,
            gate: Mutex::new(()),
            failed: Poison::default(),
        }
    }

    /// No sync is under way while this is held.
    pub(crate) fn hold_syncs(&self) -> MutexGuard<'_, ()> {
        self.gate.lock()
    }

    /// Syncs the files of which at least `least_pages` pages were written (0: all), after what
    /// `before` syncs.
    ///
    /// # Durability
    /// See [`Synced::covered_ms`]. Tails that were not written are not covered.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`] when a sync failed, then [`crate::error::Error::Poisoned`]
    /// for good: after a failed sync nothing is known of the bytes.
    ///
    /// # Blocking
    /// Until the device has answered. Does not hold up appends.
    pub(crate) fn sync(
        &self,
        least_pages: u64,
        before: impl FnOnce() -> Result<()>,
    ) -> Result<Synced> {
        let _gate = self.gate.lock();
        self.failed.check()?;
        let newest_ms = self.pending.newest_ms();
        let due = self.segments.take_due(least_pages);
        let synced = before().and_then(|()| self.segments.sync_files(&due));
        if let Err(error) = synced {
            self.failed.set(error.to_string());
            return Err(error);
        }
        if U::COUNTS_SYNCED {
            for dirty in &due {
                count_synced(dirty);
            }
        }
        let waiting_ms = self.oldest_waiting_ms();
        let covered_ms = newest_ms.min(waiting_ms.saturating_sub(1));
        Ok(Synced {
            covered_ms: (covered_ms > i64::MIN).then_some(covered_ms),
            waiting_ms,
            files: due.len() as u64,
        })
    }

    /// Smallest store time of a unit that is not durable.
    fn oldest_waiting_ms(&self) -> i64 {
        // While the gate is held no tail is on its way into a file: each unit is seen in its tail
        // or in the ledger.
        let _gate = self.pending.hold_writes();
        let oldest_ms = self.pending.oldest_ms();
        oldest_ms.min(self.segments.oldest_waiting_ms())
    }
}

/// The units of a queue up to the end of a part that was synced are durable: the files before it
/// were synced with it, or before.
fn count_synced<U: QueueUnit>(dirty: &Dirty<U>) {
    let mut state = dirty.queue.lock();
    if !state.is_gone {
        let synced = (dirty.base + dirty.to) / U::LEN as u64;
        state.synced = state.synced.max(synced);
    }
}
