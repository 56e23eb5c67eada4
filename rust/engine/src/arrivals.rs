//! What has come into queues that somebody watches: noted by dispatch, drained by an event loop
//! after the wake descriptor was raised. Costs one atomic read per record while nobody watches.
//! Knows no log and no queue file.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::lock::Mutex;

/// Tags codes kept per queue until the next drain. Beyond it the watcher looks for itself, which
/// costs a read of the queue; 64 are what a usual dispatch round brings.
const CODES_MAX: usize = 64;

/// A queue that is watched.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchedQueue {
    /// Its topic.
    pub topic: Box<[u8]>,
    /// Its number in the topic.
    pub queue_id: i32,
}

/// What came into one queue since the last drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The queue.
    pub queue: Arc<WatchedQueue>,
    /// Queue offset behind the last record that came.
    pub next_offset: u64,
    /// Tags codes of the records, in order; empty when there were too many to keep.
    pub tags_codes: Vec<i64>,
}

#[derive(Debug)]
struct Watch {
    hash: u64,
    queue: Arc<WatchedQueue>,
    next_offset: u64,
    tags_codes: Vec<i64>,
    has_news: bool,
    is_overflown: bool,
}

#[derive(Debug, Default)]
struct Watches {
    table: HashTable<Watch>,
    hasher: DefaultHashBuilder,
    news: VecDeque<Arc<WatchedQueue>>,
}

/// The queues that are watched, and what came into them.
#[derive(Debug, Default)]
pub struct Arrivals {
    watched: AtomicUsize,
    unread: AtomicUsize,
    watches: Mutex<Watches>,
}

impl Arrivals {
    /// Watches a queue until [`Arrivals::unwatch`]. What came before is not reported: look after this.
    pub fn watch(&self, topic: &[u8], queue_id: i32) {
        let mut guard = self.watches.lock();
        let watches = &mut *guard;
        let hash = watches.hasher.hash_one((topic, queue_id));
        if watches.find(hash, topic, queue_id).is_some() {
            return;
        }
        let queue = Arc::new(WatchedQueue {
            topic: topic.into(),
            queue_id,
        });
        let watch = Watch {
            hash,
            queue,
            next_offset: 0,
            tags_codes: Vec::new(),
            has_news: false,
            is_overflown: false,
        };
        watches.table.insert_unique(hash, watch, |w| w.hash);
        self.watched.store(watches.table.len(), Ordering::SeqCst);
    }

    /// Ends the watching of a queue.
    pub fn unwatch(&self, topic: &[u8], queue_id: i32) {
        let mut guard = self.watches.lock();
        let watches = &mut *guard;
        let hash = watches.hasher.hash_one((topic, queue_id));
        let is_it = |w: &Watch| w.queue.queue_id == queue_id && *w.queue.topic == *topic;
        if let Ok(found) = watches.table.find_entry(hash, is_it) {
            found.remove();
        }
        self.watched.store(watches.table.len(), Ordering::SeqCst);
    }

    /// Ends the watching of all queues, and forgets what came into them.
    pub fn unwatch_all(&self) {
        let mut watches = self.watches.lock();
        watches.table.clear();
        watches.news.clear();
        self.watched.store(0, Ordering::SeqCst);
        self.unread.store(0, Ordering::SeqCst);
    }

    /// Queues that are watched now.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.watched.load(Ordering::SeqCst)
    }

    /// Notes a record that readers of its queue can see from now on.
    #[inline]
    pub fn note(&self, topic: &[u8], queue_id: i32, next_offset: u64, tags_code: i64) {
        if self.watched.load(Ordering::SeqCst) > 0 {
            self.note_watched(topic, queue_id, next_offset, tags_code);
        }
    }

    fn note_watched(&self, topic: &[u8], queue_id: i32, next_offset: u64, tags_code: i64) {
        let mut guard = self.watches.lock();
        let watches = &mut *guard;
        let hash = watches.hasher.hash_one((topic, queue_id));
        let Some(watch) = watches.find(hash, topic, queue_id) else {
            return;
        };
        watch.next_offset = watch.next_offset.max(next_offset);
        if watch.tags_codes.len() >= CODES_MAX {
            watch.is_overflown = true;
            watch.tags_codes.clear();
        }
        if !watch.is_overflown {
            watch.tags_codes.push(tags_code);
        }
        if !watch.has_news {
            watch.has_news = true;
            let queue = Arc::clone(&watch.queue);
            watches.news.push_back(queue);
            self.unread.store(watches.news.len(), Ordering::SeqCst);
        }
    }

    /// Whether something came into a watched queue since the last drain.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.unread.load(Ordering::SeqCst) > 0
    }

    /// Takes what came into queues that are still watched, of `queues_max` queues at the most: what is
    /// left is there for the next call.
    pub fn drain(&self, queues_max: usize, out: &mut Vec<Arrival>) {
        if !self.has_news() {
            return;
        }
        let mut guard = self.watches.lock();
        let watches = &mut *guard;
        let count = watches.news.len().min(queues_max);
        for _ in 0..count {
            let Some(queue) = watches.news.pop_front() else {
                break;
            };
            let hash = watches.hasher.hash_one((&*queue.topic, queue.queue_id));
            let Some(watch) = watches.find(hash, &queue.topic, queue.queue_id) else {
                continue;
            };
            watch.has_news = false;
            watch.is_overflown = false;
            let tags_codes = std::mem::take(&mut watch.tags_codes);
            out.push(Arrival {
                next_offset: watch.next_offset,
                queue,
                tags_codes,
            });
        }
        self.unread.store(watches.news.len(), Ordering::SeqCst);
    }
}

impl Watches {
    fn find(&mut self, hash: u64, topic: &[u8], queue_id: i32) -> Option<&mut Watch> {
        self.table.find_mut(hash, |w| {
            w.queue.queue_id == queue_id && *w.queue.topic == *topic
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drained(arrivals: &Arrivals) -> Vec<(i32, u64, Vec<i64>)> {
        let mut out = Vec::new();
        arrivals.drain(usize::MAX, &mut out);
        out.into_iter()
            .map(|a| (a.queue.queue_id, a.next_offset, a.tags_codes))
            .collect()
    }

    #[test]
    fn only_watched_queues_are_reported_and_each_once() {
        let arrivals = Arrivals::default();
        arrivals.note(b"t", 0, 1, 5);
        assert!(!arrivals.has_news());
        arrivals.watch(b"t", 0);
        arrivals.watch(b"t", 0);
        arrivals.watch(b"t", 1);
        assert_eq!(arrivals.watched(), 2);
        arrivals.note(b"t", 0, 2, 6);
        arrivals.note(b"u", 0, 9, 6);
        arrivals.note(b"t", 0, 3, 7);
        assert!(arrivals.has_news());
        assert_eq!(drained(&arrivals), [(0, 3, vec![6, 7])]);
        assert_eq!(drained(&arrivals), []);
    }

    #[test]
    fn too_many_codes_are_reported_as_none_and_the_next_drain_begins_anew() {
        let arrivals = Arrivals::default();
        arrivals.watch(b"t", 0);
        for at in 0..=CODES_MAX as u64 {
            arrivals.note(b"t", 0, at + 1, 1);
        }
        assert_eq!(drained(&arrivals), [(0, CODES_MAX as u64 + 1, vec![])]);
        arrivals.note(b"t", 0, 70, 2);
        assert_eq!(drained(&arrivals), [(0, 70, vec![2])]);
    }

    #[test]
    fn what_is_not_watched_any_more_is_not_reported() {
        let arrivals = Arrivals::default();
        arrivals.watch(b"t", 0);
        arrivals.note(b"t", 0, 1, 1);
        arrivals.unwatch(b"t", 0);
        assert_eq!(drained(&arrivals), []);
        assert_eq!(arrivals.watched(), 0);
        for queue_id in 0..2 {
            arrivals.watch(b"t", queue_id);
            arrivals.note(b"t", queue_id, 2, 1);
        }
        arrivals.unwatch_all();
        assert_eq!((arrivals.watched(), arrivals.has_news()), (0, false));
        arrivals.watch(b"t", 1);
        assert_eq!(drained(&arrivals), []);
    }

    #[test]
    fn a_drain_takes_so_many_queues_and_leaves_the_rest() {
        let arrivals = Arrivals::default();
        for queue_id in 0..5 {
            arrivals.watch(b"t", queue_id);
            arrivals.note(b"t", queue_id, 1, 7);
        }
        let mut out = Vec::new();
        arrivals.drain(2, &mut out);
        assert_eq!((out.len(), arrivals.has_news()), (2, true));
        arrivals.note(b"t", 4, 2, 8);
        arrivals.drain(usize::MAX, &mut out);
        let reported: Vec<_> = out.iter().map(|arrival| arrival.queue.queue_id).collect();
        assert_eq!(reported, [0, 1, 2, 3, 4]);
        assert_eq!(out.last().unwrap().tags_codes, [7, 8]);
        assert!(!arrivals.has_news());
    }
}
