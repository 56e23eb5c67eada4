//! Deleting queues with their files: a topic that is deleted, or all queues of a store whose log
//! is empty. Names that are no queue file are left alone, with their directory.

use std::sync::Arc;

use super::extension::Extensions;
use super::queue::Queue;
use super::unit::Unit;
use super::witness::Witness;
use crate::disk::Disk;
use crate::error::Result;
use crate::queue_dirs::{remove_queue, remove_topic};
use crate::queue_store::{Pending, QueueMap, Segments};
use crate::units::is_topic;

/// Deletes queues.
pub(super) struct QueueRemoval<D: Disk> {
    pub(super) map: Arc<QueueMap<Unit>>,
    pub(super) segments: Arc<Segments<D, Unit>>,
    pub(super) pending: Arc<Pending<Unit>>,
    pub(super) witness: Arc<Witness<D>>,
    pub(super) extensions: Arc<Extensions<D>>,
}

impl<D: Disk> QueueRemoval<D> {
    /// As [`QueueTable::delete_topic`](super::QueueTable::delete_topic).
    pub(super) fn delete_topic(&self, topic: &[u8]) -> Result<usize> {
        let Some(name) = std::str::from_utf8(topic).ok().filter(|_| is_topic(topic)) else {
            return Ok(0);
        };
        let _gate = self.pending.hold_writes();
        self.witness.void()?;
        let mut count = 0;
        for queue in self.map.all().iter().filter(|queue| queue.topic() == name) {
            self.leave_table(queue);
            count += 1;
        }
        self.map.forget_topic(name);
        remove_topic(self.segments.disk(), self.segments.dir(), name)?;
        if self.extensions.has_any() {
            remove_topic(self.segments.disk(), self.extensions.dir(), name)?;
        }
        Ok(count)
    }

    /// As [`QueueTable::delete_queue`](super::QueueTable::delete_queue).
    pub(super) fn delete_queue(&self, topic: &[u8], queue_id: i32) -> Result<bool> {
        let Some(name) = std::str::from_utf8(topic).ok().filter(|_| is_topic(topic)) else {
            return Ok(false);
        };
        let _gate = self.pending.hold_writes();
        self.witness.void()?;
        let queue = self.map.find(topic, queue_id);
        if let Some(queue) = &queue {
            self.leave_table(queue);
        }
        for root_dir in [self.segments.dir(), self.extensions.dir()] {
            let dir = root_dir.join(name);
            remove_queue(self.segments.disk(), &dir.join(queue_id.to_string()))?;
            if self.segments.disk().stat(&dir)?.is_some() {
                self.segments.disk().sync_dir(&dir)?;
            }
        }
        Ok(queue.is_some())
    }

    /// As [`QueueTable::destroy_all`](super::QueueTable::destroy_all).
    pub(super) fn destroy_all(&self) -> Result<usize> {
        let mut topics: Vec<Arc<str>> = Vec::new();
        for queue in self.map.all() {
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
        self.map.take_out(queue);
        let mut state = queue.lock();
        state.is_gone = true;
        state.epoch = state.epoch.wrapping_add(1);
        self.pending.drop_tail(&mut state);
        let (first, files) = (state.first(), state.first_base..state.files_end);
        state.set_end(first);
        drop(state);
        for base in files.step_by(self.segments.file_len_bytes() as usize) {
            self.segments.forget_file(queue, base);
        }
        if self.extensions.has_any() {
            self.extensions.drop_queue(queue);
        }
    }
}
