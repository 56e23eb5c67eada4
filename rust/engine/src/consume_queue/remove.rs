//! Deleting queues with their files: a topic that is deleted, or all queues of a store whose log
//! is empty. Names that are no queue file are left alone, with their directory.

use std::sync::Arc;

use super::queue::Queue;
use super::shared::Shared;
use crate::disk::Disk;
use crate::error::Result;
use crate::queue_dirs::{remove_queue, remove_topic};
use crate::units::is_topic;

/// Deletes queues.
pub(super) struct QueueRemoval<D: Disk> {
    pub(super) shared: Shared<D>,
}

impl<D: Disk> QueueRemoval<D> {
    /// As [`QueueTable::delete_topic`](super::QueueTable::delete_topic).
    pub(super) fn delete_topic(&self, topic: &[u8]) -> Result<usize> {
        let Some(name) = std::str::from_utf8(topic).ok().filter(|_| is_topic(topic)) else {
            return Ok(0);
        };
        let _gate = self.shared.pending.hold_writes();
        self.shared.witness.void()?;
        let mut count = 0;
        let all = self.shared.map.all();
        for queue in all.iter().filter(|queue| queue.topic() == name) {
            self.leave_table(queue);
            count += 1;
        }
        self.shared.map.forget_topic(name);
        remove_topic(
            self.shared.segments.disk(),
            self.shared.segments.dir(),
            name,
        )?;
        if self.shared.extensions.has_any() {
            remove_topic(
                self.shared.segments.disk(),
                self.shared.extensions.dir(),
                name,
            )?;
        }
        Ok(count)
    }

    /// As [`QueueTable::delete_queue`](super::QueueTable::delete_queue).
    pub(super) fn delete_queue(&self, topic: &[u8], queue_id: i32) -> Result<bool> {
        let Some(name) = std::str::from_utf8(topic).ok().filter(|_| is_topic(topic)) else {
            return Ok(false);
        };
        let _gate = self.shared.pending.hold_writes();
        self.shared.witness.void()?;
        let queue = self.shared.map.find(topic, queue_id);
        if let Some(queue) = &queue {
            self.leave_table(queue);
        }
        for root_dir in [self.shared.segments.dir(), self.shared.extensions.dir()] {
            let dir = root_dir.join(name);
            remove_queue(self.shared.segments.disk(), &dir.join(queue_id.to_string()))?;
            if self.shared.segments.disk().stat(&dir)?.is_some() {
                self.shared.segments.disk().sync_dir(&dir)?;
            }
        }
        Ok(queue.is_some())
    }

    /// As [`QueueTable::destroy_all`](super::QueueTable::destroy_all).
    pub(super) fn destroy_all(&self) -> Result<usize> {
        let mut topics: Vec<Arc<str>> = Vec::new();
        for queue in self.shared.map.all() {
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
        self.shared.map.take_out(queue);
        let mut state = queue.lock();
        state.is_gone = true;
        state.epoch = state.epoch.wrapping_add(1);
        self.shared.pending.drop_tail(&mut state);
        let (first, files) = (state.first(), state.first_base..state.files_end);
        state.set_end(first);
        drop(state);
        for base in files.step_by(self.shared.segments.file_len_bytes() as usize) {
            self.shared.segments.forget_file(queue, base);
        }
        if self.shared.extensions.has_any() {
            self.shared.extensions.drop_queue(queue);
        }
    }
}
