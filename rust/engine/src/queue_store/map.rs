//! All queues of one kind, found by topic and queue id without allocating. Knows no file and decides
//! nothing about units.
//!
//! Locks: a shard, in which the queues that are found may be locked; or the list of topics. Never both.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hashbrown::HashTable;

use super::queue::{Queue, QueueState};
use super::unit::QueueUnit;
use crate::lock::{Mutex, RwLock};

/// Parts of the table that are locked apart: more than the threads that dispatch and read.
const SHARDS: usize = 32;

/// The queues by topic and queue id.
pub(crate) struct QueueMap<U: QueueUnit> {
    shards: Vec<RwLock<HashTable<Arc<Queue<U>>>>>,
    topics: Mutex<HashTable<Arc<str>>>,
    seed: u64,
    next_uid: AtomicU64,
    count: AtomicUsize,
}

impl<U: QueueUnit> Default for QueueMap<U> {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::new(HashTable::new())).collect(),
            topics: Mutex::new(HashTable::new()),
            // Topics come from clients: with a seed nobody can choose names that collide.
            seed: RandomState::new().build_hasher().finish(),
            next_uid: AtomicU64::new(0),
            count: AtomicUsize::new(0),
        }
    }
}

impl<U: QueueUnit> QueueMap<U> {
    /// Hash of a key: a folded multiplication per 8 bytes.
    #[inline]
    fn hash(&self, topic: &[u8], queue_id: i32) -> u64 {
        let mut hash = self.seed ^ topic.len() as u64;
        let (words, rest) = topic.as_chunks::<8>();
        for word in words {
            hash = fold(hash ^ u64::from_le_bytes(*word));
        }
        let mut last = [0u8; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = fold(hash ^ u64::from_le_bytes(last));
        fold(hash ^ u64::from(queue_id.cast_unsigned()) ^ SECOND_FACTOR)
    }

    #[inline]
    fn shard(&self, hash: u64) -> &RwLock<HashTable<Arc<Queue<U>>>> {
        // The table itself takes the lowest and the highest bits.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// Calls `use_` with the queue, if there is one.
    #[inline]
    pub(crate) fn with_queue<T>(
        &self,
        topic: &[u8],
        queue_id: i32,
        use_: impl FnOnce(&Arc<Queue<U>>) -> T,
    ) -> Option<T> {
        let hash = self.hash(topic, queue_id);
        let shard = self.shard(hash).read();
        let queue = shard.find(hash, |queue| is_named(queue, hash, topic, queue_id))?;
        Some(use_(queue))
    }

    /// The queue, if there is one.
    pub(crate) fn find(&self, topic: &[u8], queue_id: i32) -> Option<Arc<Queue<U>>> {
        self.with_queue(topic, queue_id, Arc::clone)
    }

    /// Adds a queue, or gives the one that is there already.
    pub(crate) fn insert(&self, topic: &str, queue_id: i32, state: QueueState<U>) -> Arc<Queue<U>> {
        let name = self.intern(topic);
        let hash = self.hash(topic.as_bytes(), queue_id);
        let mut shard = self.shard(hash).write();
        let is_same = |queue: &Arc<Queue<U>>| is_named(queue, hash, topic.as_bytes(), queue_id);
        if let Some(there) = shard.find(hash, is_same) {
            return Arc::clone(there);
        }
        let uid = self.next_uid.fetch_add(1, Ordering::Relaxed);
        let queue = Arc::new(Queue::new(name, queue_id, uid, hash, state));
        shard.insert_unique(hash, Arc::clone(&queue), |queue| queue.hash());
        self.count.fetch_add(1, Ordering::Relaxed);
        queue
    }

    /// Takes a queue out of the table.
    pub(crate) fn take_out(&self, queue: &Queue<U>) {
        let hash = queue.hash();
        let mut shard = self.shard(hash).write();
        if let Ok(found) = shard.find_entry(hash, |other| other.uid() == queue.uid()) {
            let _taken = found.remove();
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// One text per topic, shared by its queues.
    fn intern(&self, topic: &str) -> Arc<str> {
        let hash = self.hash(topic.as_bytes(), 0);
        let mut topics = self.topics.lock();
        if let Some(there) = topics.find(hash, |there| **there == *topic) {
            return Arc::clone(there);
        }
        let name: Arc<str> = Arc::from(topic);
        let rehash = |there: &Arc<str>| self.hash(there.as_bytes(), 0);
        topics.insert_unique(hash, Arc::clone(&name), rehash);
        name
    }

    /// Forgets a topic's text when no queue has it any more.
    pub(crate) fn forget_topic(&self, topic: &str) {
        let hash = self.hash(topic.as_bytes(), 0);
        let mut topics = self.topics.lock();
        let is_unused = |there: &Arc<str>| **there == *topic && Arc::strong_count(there) == 1;
        if let Ok(found) = topics.find_entry(hash, is_unused) {
            let _taken = found.remove();
        }
    }

    /// Every queue, in the order in which they became known: what is done to each of them on disk
    /// is then done in the same order each time, and a crash in the middle can be reproduced.
    pub(crate) fn all(&self) -> Vec<Arc<Queue<U>>> {
        let mut all = Vec::with_capacity(self.len());
        for shard in &self.shards {
            all.extend(shard.read().iter().map(Arc::clone));
        }
        all.sort_unstable_by_key(|queue| queue.uid());
        all
    }

    /// Queues in the table.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

const FIRST_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND_FACTOR: u64 = 0xd1b5_4a32_d192_ed03;

#[inline]
fn fold(value: u64) -> u64 {
    let wide = u128::from(value) * u128::from(FIRST_FACTOR);
    (wide as u64) ^ ((wide >> 64) as u64)
}

#[inline]
fn is_named<U: QueueUnit>(queue: &Queue<U>, hash: u64, topic: &[u8], queue_id: i32) -> bool {
    queue.hash() == hash && queue.queue_id() == queue_id && queue.topic().as_bytes() == topic
}
