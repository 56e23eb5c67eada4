//! Deleting queues with their files: a topic that is deleted, or all queues of a store whose log
//! is empty. Names that are no queue file are left alone, with their directory.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::queue::Queue;
use super::table::QueueTable;
use crate::config::QUEUE_UNIT_BYTES;
use crate::disk::Disk;
use crate::error::Result;
use crate::queue_dirs::{remove_queue, remove_topic};
use crate::units::is_topic;

impl<D: Disk> QueueTable<D> {
    /// Deletes the queues of a topic with their files; gives how many there were. May be called
    /// again after a failure.
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
        self.void_witness()?;
        let mut count = 0;
        for queue in self.all().iter().filter(|queue| queue.topic() == name) {
            self.leave_table(queue);
            count += 1;
        }
        self.forget_topic(name);
        remove_topic(&self.disk, &self.dir, name)?;
        if self.extensions.has_any() {
            remove_topic(&self.disk, &self.extensions.dir, name)?;
        }
        Ok(count)
    }

    /// Deletes one queue with its files; false when there was none.
    ///
    /// # Durability
    /// The names are gone for good on return.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]; the queue is out of the table all the same.
    ///
    /// # Blocking
    /// Removes files and syncs directories.
    pub fn delete_queue(&self, topic: &[u8], queue_id: i32) -> Result<bool> {
        let Some(name) = std::str::from_utf8(topic).ok().filter(|_| is_topic(topic)) else {
            return Ok(false);
        };
        let _gate = self.write_gate.lock();
        self.void_witness()?;
        let queue = self.find(topic, queue_id);
        if let Some(queue) = &queue {
            self.leave_table(queue);
        }
        for root_dir in [&self.dir, &self.extensions.dir] {
            let dir = root_dir.join(name);
            remove_queue(&self.disk, &dir.join(queue_id.to_string()))?;
            if self.disk.stat(&dir)?.is_some() {
                self.disk.sync_dir(&dir)?;
            }
        }
        Ok(queue.is_some())
    }

    /// Deletes every queue; gives how many there were.
    ///
    /// # Durability
    /// The names are gone for good on return.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Removes files and syncs directories.
    pub fn destroy_all(&self) -> Result<usize> {
        let mut topics: Vec<Arc<str>> = Vec::new();
        for queue in self.all() {
            topics.push(Arc::clone(queue.topic_name()));
        }
        topics.sort();
        topics.dedup();
        let mut count = 0;
        for topic in topics {
            count += self.delete_topic(topic.as_bytes())?;
        }
        Ok(count)
    }

    /// With the write gate held: nobody writes the queue's files any more.
    fn leave_table(&self, queue: &Arc<Queue>) {
        self.take_out(queue);
        let mut state = queue.lock();
        state.is_gone = true;
        state.epoch = state.epoch.wrapping_add(1);
        let dropped = std::mem::take(&mut state.tail).len() as u64;
        self.pending.bytes.fetch_sub(dropped, Ordering::Relaxed);
        let (first_base, files_end) = (state.first_base, state.files_end);
        state.set_end(first_base / QUEUE_UNIT_BYTES);
        drop(state);
        for file in 0..(files_end - first_base) / self.file_len_bytes {
            let key = (queue.uid(), first_base + file * self.file_len_bytes);
            self.files.close(key);
            self.ledger.forget(key);
        }
        if self.extensions.has_any() {
            self.drop_extension(queue);
        }
    }
}
