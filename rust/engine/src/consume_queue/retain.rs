//! Following the log's retention: units of records that are gone stop counting, files that hold
//! nothing else are removed. Appends and reads go on beside it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::load::first_live;
use super::queue::{Known, Queue};
use super::table::QueueTable;
use super::unit::Unit;
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

impl<D: Disk> QueueTable<D> {
    /// The log begins at `log_min` now: the minimum of each queue becomes its first unit of a
    /// record that is still there, the end of the queue when there is none
    /// (`ConsumeQueue.correctMinOffset`). Queues not used yet do so at their first use.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads files of queues whose minimum changes.
    pub fn correct_min(&self, log_min: u64) -> Result<()> {
        self.log_min.store(log_min, Ordering::Release);
        for queue in self.all() {
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
        let unit = |index| self.unit_at(queue, index);
        let found = first_live(min, end, log_min, unit)?;
        let mut state = queue.lock();
        if state.epoch == epoch && state.min == min {
            (state.min, state.min_physical) = found;
        }
        Ok(())
    }

    /// The unit at `index`, read without holding the queue's lock; blank where there is none.
    pub(super) fn unit_at(&self, queue: &Queue, index: u64) -> Result<Unit> {
        let in_memory = {
            let state = queue.lock();
            if index >= state.end {
                return Ok(Unit::BLANK);
            }
            state.tail_unit(index)
        };
        match in_memory {
            Some(unit) => Ok(unit),
            None => self.file_unit(queue, index),
        }
    }

    /// [`QueueTable::correct_min`], then removes the files whose units all lie below the minimum;
    /// never the newest of a queue, whose name says where it goes on.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads and removes files.
    pub fn retain(&self, log_min: u64) -> Result<Deleted> {
        self.log_min.store(log_min, Ordering::Release);
        let mut deleted = Deleted::default();
        for queue in self.all() {
            drop(self.lock_known(&queue)?);
            self.correct_queue_min(&queue, log_min)?;
            let files = self.remove_expired(&queue)?;
            self.retain_extension(&queue)?;
            deleted.files += files;
            deleted.bytes += files * self.file_len_bytes;
        }
        Ok(deleted)
    }

    fn remove_expired(&self, queue: &Arc<Queue>) -> Result<u64> {
        let len = self.file_len_bytes;
        let mut removed = 0;
        loop {
            // One file at a time, so that writing never waits for more than one.
            let _gate = self.write_gate.lock();
            let base = {
                let state = queue.lock();
                let file_end = state.first_base + len;
                let is_expired = state.min * QUEUE_UNIT_BYTES >= file_end;
                if state.is_gone || !is_expired || file_end >= state.files_end {
                    return Ok(removed);
                }
                state.first_base
            };
            self.retire_manifest()?;
            self.remove_file(queue, base)?;
            queue.lock().first_base = base + len;
            removed += 1;
        }
    }
}
