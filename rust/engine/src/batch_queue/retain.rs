//! Giving room back: files whose units all belong to records that the log has lost, and topics that
//! are deleted. Appends and reads go on beside it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::queue::BatchQueue;
use super::table::BatchTable;
use crate::disk::Disk;
use crate::error::Result;
use crate::queue_dirs::remove_topic;
use crate::units::is_topic;

impl<D: Disk> BatchTable<D> {
    /// The log begins at `log_min` now and is durable up to `flushed`: removes the files whose units
    /// all lie below (`MappedFileQueue.deleteExpiredFileByOffset`); gives how many. Never the newest
    /// of a queue, and none before a file that a crash could take: the units alone say where a queue
    /// goes on.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads and removes files.
    pub fn retain(&self, log_min: u64, flushed: u64) -> Result<u64> {
        let mut removed = 0;
        for queue in self.all() {
            while self.remove_oldest(&queue, log_min, flushed)? {
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn remove_oldest(&self, queue: &BatchQueue<D>, log_min: u64, flushed: u64) -> Result<bool> {
        // One file at a time, so that writing never waits for more than one.
        let _gate = self.write_gate.lock();
        let (first, next) = {
            let state = queue.lock();
            let next = state.first + queue.file_units;
            if state.is_gone || next >= state.synced {
                return Ok(false);
            }
            (state.first, next)
        };
        let is_below = |at: u64, limit: u64| -> Result<bool> {
            let unit = queue.file_unit(at)?;
            Ok(unit.is_some_and(|unit| unit.physical_offset < limit))
        };
        if !is_below(next - 1, log_min)? || !is_below(next, flushed)? {
            return Ok(false);
        }
        let mut state = queue.lock();
        self.disk.unlink(&queue.file_path(first))?;
        state.first = next;
        state.dirty.retain(|dirty| dirty.base != first);
        Ok(true)
    }

    /// Deletes the queues of a topic with their files: it has no batch queues any more. Gives how
    /// many there were. May be called again after a failure.
    ///
    /// # Durability
    /// The names are gone for good on return.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]; the queues are out of the table all the same.
    ///
    /// # Blocking
    /// Removes files and syncs directories.
    pub fn delete_topic(&self, topic: &[u8]) -> Result<usize> {
        let Some(name) = std::str::from_utf8(topic).ok().filter(|_| is_topic(topic)) else {
            return Ok(0);
        };
        let _gate = self.write_gate.lock();
        let queues = self.forget(name);
        for queue in &queues {
            self.leave(queue);
        }
        remove_topic(&self.disk, &self.dir, name)?;
        Ok(queues.len())
    }

    /// With the write gate held: nobody writes the queue's files any more.
    fn leave(&self, queue: &Arc<BatchQueue<D>>) {
        let mut state = queue.lock();
        state.is_gone = true;
        let dropped = std::mem::take(&mut state.tail).len() as u64;
        self.pending_bytes.fetch_sub(dropped, Ordering::Relaxed);
        state.dirty.clear();
    }
}
