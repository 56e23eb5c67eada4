//! The rounds of the flush: with synchronous flush a sync for all who wait, else one when enough is
//! unflushed or enough time has gone by. Waits on the machine's own clock for a batch to gather.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::durability::Durability;
use crate::clock::Clock;
use crate::config::{FlushDiskType, StoreConfig};
use crate::disk::Disk;
use crate::error::Result;
use crate::flush::{Cadence, CommitBatch};
use crate::segment::LogFiles;

/// Between two looks at a batch: the system makes some 70 us of it, in which a thread appends a
/// hundred records.
const LOOK_AT_BATCH: Duration = Duration::from_micros(20);

/// When the log is synced next, and how large batches of waiting appends were.
pub(super) struct FlushRounds<'a, D: Disk, C: Clock> {
    durability: &'a Durability<D, C>,
    files: Arc<LogFiles<D>>,
    clock: C,
    is_sync: bool,
    cadence: Cadence,
    commit_batch: CommitBatch,
}

impl<'a, D: Disk, C: Clock> FlushRounds<'a, D, C> {
    pub(super) fn new(
        durability: &'a Durability<D, C>,
        files: &Arc<LogFiles<D>>,
        clock: &C,
        config: &StoreConfig,
    ) -> Self {
        Self {
            durability,
            files: Arc::clone(files),
            is_sync: config.flush_disk_type == FlushDiskType::Sync,
            cadence: Cadence::new(
                config.flush_least_pages,
                config.flush_thorough_interval_ms,
                clock.elapsed_ms(),
            ),
            commit_batch: CommitBatch::default(),
            clock: clock.clone(),
        }
    }

    /// One round; true when somebody waits for the next one.
    ///
    /// # Errors
    /// The failed sync or write.
    ///
    /// # Blocking
    /// For a batch to gather, and until the device has answered.
    pub(super) fn step(&mut self) -> Result<bool> {
        if self.is_sync && self.durability.is_sync_awaited() {
            self.sync_commit_batch()?;
            // Answered now or, where a pool held bytes back, after the next round.
            return Ok(self.durability.is_sync_awaited());
        }
        let positions = &self.files.positions;
        let (done, end) = (positions.flushed.position(), self.files.in_page_cache());
        if end > done {
            // After a rest the pages next to the append may be gone.
            self.files.signals.prepare.notify();
        }
        if self.cadence.is_due(done, end, self.clock.elapsed_ms()) {
            self.durability.flush()?;
        } else {
            self.durability.announce();
        }
        Ok(false)
    }

    /// Waits shortly for those who are about to append again, then syncs for all of them.
    fn sync_commit_batch(&mut self) -> Result<()> {
        let flushed = self.files.positions.flushed.position();
        let gathering = Instant::now();
        let mut seen = 0;
        loop {
            let parked = self.durability.parked_beyond(flushed);
            let came = parked.saturating_sub(seen);
            if self.commit_batch.is_full(parked, came, gathering.elapsed()) {
                break;
            }
            seen = parked;
            std::thread::sleep(LOOK_AT_BATCH);
        }
        let begun = Instant::now();
        let synced = self.durability.sync_log();
        if synced.is_ok() {
            let parked = self.durability.parked_beyond(flushed);
            self.commit_batch.note(parked, begun.elapsed());
        }
        // After a failure too: whoever waits is answered with it.
        self.durability.announce();
        synced.map(|_flushed| ())
    }
}
