//! How durable the log is, and who waits for that: syncs of the log, callers that wait for one, and
//! acknowledgements that are answered later. Knows no record and no queue.
//!
//! Locks: none of its own. Those of parked acknowledgements (`event_loops`) are taken one after another,
//! never over a sync and never together with another lock of the store.

use std::sync::Arc;
use std::time::Duration;

use super::event_loops::{EventLoops, LoopEvents};
use crate::clock::Clock;
use crate::config::{FlushDiskType, StoreConfig};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::flush::{Deadlines, Needs, Reached, Syncer, Ticket};
use crate::segment::LogFiles;
use crate::status::PutStatus;

/// Makes the log durable and answers who waits for it.
pub struct Durability<D: Disk, C: Clock> {
    files: Arc<LogFiles<D>>,
    clock: C,
    syncer: Arc<Syncer<D>>,
    loops: Arc<EventLoops>,
    flush_disk_type: FlushDiskType,
    sync_timeout_ms: u64,
    replicas_timeout_ms: u64,
}

impl<D: Disk, C: Clock> Durability<D, C> {
    pub(super) fn new(
        syncer: &Arc<Syncer<D>>,
        files: &Arc<LogFiles<D>>,
        clock: &C,
        loops: &Arc<EventLoops>,
        config: &StoreConfig,
    ) -> Self {
        Self {
            files: Arc::clone(files),
            clock: clock.clone(),
            syncer: Arc::clone(syncer),
            loops: Arc::clone(loops),
            flush_disk_type: config.flush_disk_type,
            sync_timeout_ms: config.sync_flush_timeout_ms,
            replicas_timeout_ms: config.replicas_timeout_ms,
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

    /// As [`Durability::park_for`], for the first loop.
    ///
    /// # Errors
    /// [`Error::Limit`] when too many are parked.
    pub fn park(&self, end: u64, needs_replica: bool) -> Result<Ticket> {
        self.park_for(self.loops.first(), end, needs_replica)
    }

    /// Parks an acknowledgement of everything below `end` for a loop over this store:
    /// [`Durability::drain_for`] of the same loop answers it, after its wake descriptor has become
    /// readable. Tickets of different loops may be the same.
    ///
    /// # Errors
    /// [`Error::Limit`] when the loop has parked too many.
    pub fn park_for(&self, events: &LoopEvents, end: u64, needs_replica: bool) -> Result<Ticket> {
        let is_sync = self.flush_disk_type == FlushDiskType::Sync;
        let needs = Needs {
            committed: self.files.pool.is_some(),
            flushed: is_sync,
            replicated: needs_replica,
        };
        let now_ms = self.clock.elapsed_ms();
        let until = Deadlines {
            disk_ms: now_ms + self.sync_timeout_ms,
            replicas_ms: now_ms + self.replicas_timeout_ms,
        };
        let ticket = events.park(end, needs, until)?;
        if needs.flushed {
            self.files.signals.flush.notify();
        } else if needs.committed {
            self.files.signals.commit.notify();
        } else if !needs.replicated || self.files.positions.replicated.position() >= end {
            events.wake_descriptor().raise();
        }
        Ok(ticket)
    }

    /// As many replicas as acknowledgements wait for have everything below `end`: answers those that wait
    /// for nothing else. Never falls.
    pub fn note_replicated(&self, end: u64) {
        self.files.positions.replicated.raise(end);
        self.loops.wake_reached(end);
    }

    /// How far the log is synced.
    #[must_use]
    pub fn synced(&self) -> u64 {
        self.files.positions.flushed.position()
    }

    /// Parked acknowledgements now, of all loops.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.loops.parked()
    }

    /// The end that the nearest parked acknowledgement waits for, of all loops.
    #[must_use]
    pub fn nearest_parked(&self) -> Option<u64> {
        self.loops.nearest()
    }

    /// Answers all that can be answered of what was parked for the first loop, as
    /// [`Durability::drain_for`].
    pub fn drain(&self, out: &mut Vec<(Ticket, PutStatus)>) -> Option<u64> {
        self.drain_for(self.loops.first(), usize::MAX, out)
    }

    /// Answers what can be answered of what a loop has parked, in the order of the log, `answers_max` of
    /// them at the most; the time until the next call that is due anyway, ms: 0 with more left.
    pub fn drain_for(
        &self,
        events: &LoopEvents,
        answers_max: usize,
        out: &mut Vec<(Ticket, PutStatus)>,
    ) -> Option<u64> {
        events.wake_descriptor().clear();
        let reached = self.reached();
        let next_ms = events.drain(reached, answers_max, out);
        next_ms.map(|at| at.saturating_sub(reached.now_ms))
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

    /// Wakes the loops that have parked something.
    pub(super) fn announce(&self) {
        self.loops.wake_parked();
    }

    /// How many acknowledgements wait for something beyond `position`.
    pub(super) fn parked_beyond(&self, position: u64) -> usize {
        self.loops.parked_beyond(position)
    }

    /// Whether an acknowledgement waits for something beyond what is flushed.
    pub(super) fn is_sync_awaited(&self) -> bool {
        let farthest = self.loops.farthest();
        farthest.is_some_and(|end| end > self.files.positions.flushed.position())
    }

    /// Syncs the log once. Whether or not that works, those who wait are woken: after a failure they are
    /// answered with it.
    ///
    /// # Errors
    /// As [`Syncer::sync_now`].
    pub fn flush(&self) -> Result<u64> {
        let flushed = self.sync_log();
        self.announce();
        flushed
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
