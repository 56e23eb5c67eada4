//! Giving space back: files whose units all belong to records that the log has lost, and topics that
//! are deleted. Appends and reads go on beside it.

use super::queue::Queue;
use super::table::BatchTable;
use crate::disk::Disk;
use crate::error::Result;
use crate::queue_dirs::remove_topic;
use crate::units::is_topic;

impl<D: Disk> BatchTable<D> {
    /// The log begins at `log_min` now and is durable up to `flushed`: removes the files whose units
    /// all lie below (`MappedFileQueue.deleteExpiredFileByOffset`); gives how many. Never the newest
    /// of a queue, and none before a file that a crash could take: the units alone give where a queue
    /// goes on.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads and removes files.
    pub fn retain(&self, log_min: u64, flushed: u64) -> Result<u64> {
        let mut removed = 0;
        for queue in self.topics.queues() {
            while self.remove_oldest(&queue, log_min, flushed)? {
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn remove_oldest(&self, queue: &Queue, log_min: u64, flushed: u64) -> Result<bool> {
        // One file at a time, so that writing never waits for more than one.
        let _gate = self.pending.hold_writes();
        let next = {
            let state = queue.lock();
            let next = state.first() + self.segments.units_per_file();
            if state.is_gone || next >= state.synced {
                return Ok(false);
            }
            next
        };
        let is_below = |at: u64, limit: u64| -> Result<bool> {
            let unit = self.segments.present_unit(queue, at)?;
            Ok(unit.is_some_and(|unit| unit.physical_offset < limit))
        };
        if !is_below(next - 1, log_min)? || !is_below(next, flushed)? {
            return Ok(false);
        }
        // Under the lock, so that a reader whose file is gone sees that the queue begins later.
        let mut state = queue.lock();
        self.segments.remove_file(queue, state.first_base)?;
        state.first_base += self.segments.file_len_bytes();
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
        let _gate = self.pending.hold_writes();
        let queues = self.topics.remove(name);
        for queue in &queues {
            self.leave(queue);
        }
        remove_topic(self.segments.disk(), self.segments.dir(), name)?;
        Ok(queues.len())
    }

    /// With the write gate held: nobody writes the queue's files any more.
    fn leave(&self, queue: &Queue) {
        let mut state = queue.lock();
        state.is_gone = true;
        self.pending.drop_tail(&mut state);
        let (first, files) = (state.first(), state.first_base..state.files_end);
        state.set_end(first);
        drop(state);
        for base in files.step_by(self.segments.file_len_bytes() as usize) {
            self.segments.forget_file(queue, base);
        }
    }
}
