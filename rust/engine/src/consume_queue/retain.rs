//! Following the log's retention: units of records that are gone stop counting, files that hold
//! nothing else are removed. Appends and reads go on beside it.

use std::sync::Arc;

use super::probe::first_live;
use super::queue::{Known, Queue};
use super::shared::Shared;
use crate::config::QUEUE_UNIT_BYTES;
use crate::disk::Disk;
use crate::error::Result;

/// What retention removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deleted {
    /// Queue files.
    pub files: u64,
    /// Their lengths, sparse or not.
    pub bytes: u64,
}

/// Follows the retention of the log.
pub(super) struct QueueRetention<D: Disk> {
    pub(super) shared: Shared<D>,
}

impl<D: Disk> QueueRetention<D> {
    /// As [`QueueTable::correct_min`](super::QueueTable::correct_min).
    pub(super) fn correct_min(&self, log_min: u64) -> Result<()> {
        self.shared.loader.set_log_min(log_min);
        for queue in self.shared.map.all() {
            if queue.lock().known == Known::All {
                self.correct_queue_min(&queue, log_min)?;
            }
        }
        Ok(())
    }

    fn correct_queue_min(&self, queue: &Arc<Queue>, log_min: u64) -> Result<()> {
        let log_min = log_min.cast_signed();
        let (min, end, epoch) = {
            let state = queue.lock();
            if state.is_gone || state.min == state.end || state.min_physical >= log_min {
                return Ok(());
            }
            (state.min, state.end, state.epoch)
        };
        let unit = |index| self.shared.segments.unit_at(queue, index);
        let found = first_live(min, end, log_min, unit)?;
        let mut state = queue.lock();
        if state.epoch == epoch && state.min == min {
            (state.min, state.min_physical) = found;
        }
        Ok(())
    }

    /// As [`QueueTable::retain`](super::QueueTable::retain).
    pub(super) fn retain(&self, log_min: u64) -> Result<Deleted> {
        self.shared.loader.set_log_min(log_min);
        let mut deleted = Deleted::default();
        for queue in self.shared.map.all() {
            drop(self.shared.loader.lock_known(&queue)?);
            self.correct_queue_min(&queue, log_min)?;
            let files = self.remove_expired(&queue)?;
            self.shared.extensions.retain(&queue)?;
            deleted.files += files;
            deleted.bytes += files * self.shared.segments.file_len_bytes();
        }
        Ok(deleted)
    }

    fn remove_expired(&self, queue: &Arc<Queue>) -> Result<u64> {
        let len = self.shared.segments.file_len_bytes();
        let mut removed = 0;
        loop {
            // One file at a time, so that writing never waits for more than one.
            let _gate = self.shared.pending.hold_writes();
            let base = {
                let state = queue.lock();
                let file_end = state.first_base + len;
                let is_expired = state.min * QUEUE_UNIT_BYTES >= file_end;
                if state.is_gone || !is_expired || file_end >= state.files_end {
                    return Ok(removed);
                }
                state.first_base
            };
            self.shared.witness.retire()?;
            self.shared.segments.remove_file(queue, base)?;
            queue.lock().first_base = base + len;
            removed += 1;
        }
    }
}
