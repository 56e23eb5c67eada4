//! Which topics have batch queues, and their queues. A topic is one of them when its owner names it
//! (in the settings, or later), and when it has such queues on disk; until it is deleted.
//!
//! Locks: the topics come before the shards of the map.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashSet;

use super::queue::{Queue, State};
use super::unit::BatchUnit;
use crate::lock::RwLock;
use crate::queue_store::QueueMap;
use crate::units::is_topic;

/// The topics with batch queues.
#[derive(Default)]
pub(super) struct BatchTopics {
    names: RwLock<HashSet<Box<str>>>,
    /// Nearly every store has none: one look, then, in place of a lock for each record.
    has_any: AtomicBool,
    map: QueueMap<BatchUnit>,
}

impl BatchTopics {
    /// Whether no topic has batch queues.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_any.load(Ordering::Acquire)
    }

    /// Whether a topic has batch queues.
    pub(super) fn has_topic(&self, topic: &[u8]) -> bool {
        !self.is_empty()
            && std::str::from_utf8(topic).is_ok_and(|name| self.names.read().contains(name))
    }

    /// The topics, in the order of their names.
    pub(super) fn names(&self) -> Vec<Box<str>> {
        let mut names: Vec<_> = self.names.read().iter().cloned().collect();
        names.sort_unstable();
        names
    }

    /// A queue.
    pub(super) fn find(&self, topic: &[u8], queue_id: i32) -> Option<Arc<Queue>> {
        if self.is_empty() {
            return None;
        }
        self.map.find(topic, queue_id)
    }

    /// All queues, by topic and queue id: what is done to each of them on disk is then done in the
    /// same order each time, and a crash in the middle can be reproduced.
    pub(super) fn queues(&self) -> Vec<Arc<Queue>> {
        let mut all = self.map.all();
        all.sort_by(|a, b| (a.topic(), a.queue_id()).cmp(&(b.topic(), b.queue_id())));
        all
    }

    /// How many queues there are.
    pub(super) fn queue_count(&self) -> usize {
        self.map.len()
    }

    /// From now on a topic has batch queues.
    pub(super) fn add(&self, topic: &str) {
        if is_topic(topic.as_bytes()) {
            self.names.write().insert(topic.into());
            self.has_any.store(true, Ordering::Release);
        }
    }

    /// Forgets a topic and gives its queues.
    pub(super) fn remove(&self, topic: &str) -> Vec<Arc<Queue>> {
        let mut names = self.names.write();
        names.remove(topic);
        self.has_any.store(!names.is_empty(), Ordering::Release);
        let mut queues = self.map.all();
        queues.retain(|queue| queue.topic() == topic);
        for queue in &queues {
            self.map.take_out(queue);
        }
        drop(names);
        self.map.forget_topic(topic);
        queues
    }

    /// Adds a queue, or gives the one that is there; `None` when the topic has no batch queues.
    pub(super) fn insert(&self, topic: &str, queue_id: i32, state: State) -> Option<Arc<Queue>> {
        let names = self.names.read();
        let is_named = names.contains(topic);
        is_named.then(|| self.map.insert(topic, queue_id, state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_topics_have_queues_until_they_are_removed() {
        let topics = BatchTopics::default();
        assert!(topics.is_empty());
        assert!(topics.insert("T", 0, State::empty()).is_none());
        topics.add("T");
        topics.add("..");
        assert_eq!(topics.names(), [Box::from("T")]);
        let queue = topics.insert("T", 1, State::empty()).unwrap();
        topics.insert("T", 0, State::empty()).unwrap();
        let again = topics.insert("T", 1, State::empty()).unwrap();
        assert!(Arc::ptr_eq(&queue, &again));
        let ids: Vec<_> = topics.queues().iter().map(|q| q.queue_id()).collect();
        assert_eq!((ids, topics.queue_count()), (vec![0, 1], 2));
        assert!(topics.has_topic(b"T") && topics.find(b"T", 1).is_some());
        assert_eq!(topics.remove("T").len(), 2);
        assert!(topics.is_empty() && !topics.has_topic(b"T"));
        assert!(topics.find(b"T", 1).is_none());
        assert_eq!(topics.queue_count(), 0);
    }
}
