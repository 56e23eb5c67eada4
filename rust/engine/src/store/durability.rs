//! How durable the log is, and who waits for that: syncs of the log, callers that wait for one, and
//! acknowledgements that are answered later. Knows no record and no queue.
//!
//! Locks: that of the parked acknowledgements is held for a look at the list alone, never over a sync
//! and never together with another lock of the store.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::config::{FlushDiskType, StoreConfig};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::flush::{AckQueue, Needs, Reached, Syncer, Ticket};
use crate::lock::Mutex;
use crate::progress::WakeDescriptor;
use crate::segment::LogFiles;
use crate::status::PutStatus;

/// Makes the log durable and answers who waits for it.
pub struct Durability<D: Disk, C: Clock> {
    files: Arc<LogFiles<D>>,
    clock: C,
    syncer: Arc<Syncer<D>>,
    acks: Mutex<AckQueue>,
    wake: Arc<WakeDescriptor>,
    flush_disk_type: FlushDiskType,
    sync_timeout_ms: u64,
}

impl<D: Disk, C: Clock> Durability<D, C> {
    pub(super) fn new(
        syncer: &Arc<Syncer<D>>,
        files: &Arc<LogFiles<D>>,
        clock: &C,
        wake: &Arc<WakeDescriptor>,
        config: &StoreConfig,
    ) -> Self {
        Self {
            files: Arc::clone(files),
            clock: clock.clone(),
            syncer: Arc::clone(syncer),
            acks: Mutex::new(AckQueue::default()),
            wake: Arc::clone(wake),
            flush_disk_type: config.flush_disk_type,
            sync_timeout_ms: config.sync_flush_timeout_ms,
        }
    }

    /// Whether an acknowledgement needs nothing but memory: asynchronous flush, no pool.
    #[must_use]
    pub fn acknowledges_at_once(&self) -> bool {
        self.flush_disk_type == FlushDiskType::Async && self.files.pool.is_none()
    }

    /// Waits until everything below `end` is as durable as the settings promise.
    ///
    /// # Durability
    /// As [`Store::put`](super::Store::put).
    ///
    /// # Errors
    /// The failed sync or write: what is not acknowledged yet never will be.
    ///
    /// # Blocking
    /// At most `syncFlushTimeout`.
    pub fn settle(&self, end: u64) -> Result<PutStatus> {
        if self.files.pool.is_some() {
            self.files.commit_to(end)?;
        }
        if self.flush_disk_type == FlushDiskType::Async {
            return Ok(PutStatus::PutOk);
        }
        let timeout = Duration::from_millis(self.sync_timeout_ms);
        match self.syncer.sync_to(end, timeout) {
            Ok(()) => Ok(PutStatus::PutOk),
            Err(Error::Timeout { .. }) => Ok(PutStatus::FlushDiskTimeout),
            Err(error) => Err(error),
        }
    }

    /// Parks an acknowledgement of everything below `end`: [`Durability::drain`] answers it, after the
    /// wake descriptor has become readable.
    ///
    /// # Errors
    /// [`Error::Limit`] when too many are parked.
    pub fn park(&self, end: u64, needs_replica: bool) -> Result<Ticket> {
        let is_sync = self.flush_disk_type == FlushDiskType::Sync;
        let needs = Needs {
            committed: self.files.pool.is_some(),
            flushed: is_sync,
            replicated: needs_replica,
        };
        let deadline_ms = self.clock.elapsed_ms() + self.sync_timeout_ms;
        let ticket = self.acks.lock().park(end, needs, deadline_ms)?;
        if needs.flushed {
            self.files.signals.flush.notify();
        } else if needs.committed {
            self.files.signals.commit.notify();
        } else {
            self.wake.raise();
        }
        Ok(ticket)
    }

    /// Parked acknowledgements now.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.acks.lock().len()
    }

    /// Answers what can be answered, in the order of the log; the time until the next call that is
    /// due anyway, ms.
    pub fn drain(&self, out: &mut Vec<(Ticket, PutStatus)>) -> Option<u64> {
        self.drain_some(usize::MAX, out)
    }

    /// As [`Durability::drain`], `answers_max` of them at the most: with more left the time is 0.
    pub fn drain_some(
        &self,
        answers_max: usize,
        out: &mut Vec<(Ticket, PutStatus)>,
    ) -> Option<u64> {
        self.wake.clear();
        let reached = self.reached();
        let mut acks = self.acks.lock();
        acks.drain_some(reached, answers_max, out);
        acks.next_deadline_ms()
            .map(|at| at.saturating_sub(reached.now_ms))
    }

    fn reached(&self) -> Reached {
        let positions = &self.files.positions;
        Reached {
            has_failed: self.files.poison.reason().is_some(),
            committed: self.files.in_page_cache(),
            flushed: positions.flushed.position(),
            replicated: positions.replicated.position(),
            now_ms: self.clock.elapsed_ms(),
        }
    }

    /// Wakes the owner when someone is parked.
    pub(super) fn announce(&self) {
        if !self.acks.lock().is_empty() {
            self.wake.raise();
        }
    }

    /// How many acknowledgements wait for something beyond `position`.
    pub(super) fn parked_beyond(&self, position: u64) -> usize {
        self.acks.lock().beyond(position)
    }

    /// Whether an acknowledgement waits for something beyond what is flushed.
    pub(super) fn is_sync_awaited(&self) -> bool {
        // Bound first: the lock is not held while the position is read.
        let farthest = self.acks.lock().farthest();
        farthest.is_some_and(|end| end > self.files.positions.flushed.position())
    }

    /// Syncs the log once.
    ///
    /// # Errors
    /// As [`Syncer::sync_now`].
    pub fn flush(&self) -> Result<u64> {
        let flushed = self.sync_log()?;
        self.announce();
        Ok(flushed)
    }

    /// Syncs the log once and leaves telling those who wait to the caller.
    pub(super) fn sync_log(&self) -> Result<u64> {
        if self.files.pool.is_some() {
            self.commit()?;
        }
        self.syncer.sync_now()
    }

    /// Writes what pool buffers hold.
    pub(super) fn commit(&self) -> Result<()> {
        let appended = self.files.positions.appended.position();
        self.files.commit_to(appended).map(|_committed| ())
    }
}
