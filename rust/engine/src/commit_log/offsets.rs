//! The next queue offset of each queue (`CommitLog.topicQueueTable`). Kept at the end of the log,
//! under the append lock. Knows no file: who registers a queue passes where it starts.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

struct Counter {
    hash: u64,
    topic: Box<[u8]>,
    queue_id: i32,
    next: u64,
}

/// Next queue offsets by topic and queue id.
#[derive(Default)]
pub(super) struct QueueOffsets {
    table: HashTable<Counter>,
}

/// Hashes queues: outside of the lock, once per append.
#[derive(Default)]
pub(super) struct QueueHasher(DefaultHashBuilder);

impl QueueHasher {
    pub(super) fn hash(&self, topic: &[u8], queue_id: i32) -> u64 {
        self.0.hash_one((topic, queue_id))
    }
}

impl QueueOffsets {
    /// Makes a queue known that starts at `next`; keeps the counter of a known one.
    pub(super) fn register(&mut self, hash: u64, topic: &[u8], queue_id: i32, next: u64) {
        if self.find(hash, topic, queue_id).is_none() {
            let counter = Counter {
                hash,
                topic: topic.into(),
                queue_id,
                next,
            };
            self.table.insert_unique(hash, counter, |c| c.hash);
        }
    }

    /// Makes a queue known that goes on at `next` at the least.
    pub(super) fn raise(&mut self, hash: u64, topic: &[u8], queue_id: i32, next: u64) {
        self.register(hash, topic, queue_id, next);
        if let Some(known) = self.find(hash, topic, queue_id) {
            *known = next.max(*known);
        }
    }

    /// The next queue offset of a queue that had an append since the store was opened.
    #[inline]
    pub(super) fn find(&mut self, hash: u64, topic: &[u8], queue_id: i32) -> Option<&mut u64> {
        self.table
            .find_mut(hash, |c| c.queue_id == queue_id && *c.topic == *topic)
            .map(|counter| &mut counter.next)
    }

    /// Forgets all queues: somebody else numbers their messages.
    pub(super) fn clear(&mut self) {
        self.table.clear();
    }

    /// Forgets the queues of a topic, after they were deleted.
    pub(super) fn forget(&mut self, topic: &[u8]) {
        self.table.retain(|counter| *counter.topic != *topic);
    }
}
