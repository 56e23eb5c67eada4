//! Half messages by the topic they are meant for: how many wait, how many were committed and rolled
//! back (`TransactionMetrics`). Pure numbers.

use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;

use crate::shards::{Shards, shard_of_name};

/// Topics counted at the most: a broker has some thousands, and what a half message names may be
/// gone since.
pub const TOPICS_MAX: usize = 65_536;

/// What is counted of one topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Half messages that are neither ended nor given up. Below zero where they were stored before
    /// the counting began.
    pub waiting: i64,
    /// Committed since the start.
    pub committed: u64,
    /// Rolled back since the start.
    pub rolled_back: u64,
    /// Given up since the start.
    pub given_up: u64,
}

/// The topics of a shard.
#[derive(Debug, Default)]
struct Inside {
    topics: HashMap<Box<str>, Count>,
    changes: u64,
}

/// Counts by topic, in shards, each behind a lock of its own: who sends half messages and who ends them
/// count here. Nothing is called while one is held, and never two are.
#[derive(Debug, Default)]
pub struct Counts {
    shards: Shards<Inside>,
    /// Topics of all shards.
    topics: AtomicUsize,
}

impl Counts {
    /// Changes the count of a topic.
    pub fn change(&self, topic: &str, change: impl FnOnce(&mut Count)) {
        let mut inside = self.shards.lock(shard_of_name(topic));
        inside.changes += 1;
        if let Some(count) = inside.topics.get_mut(topic) {
            return change(count);
        }
        // The bound is over all shards. A topic that was counted stays, so that nothing is taken off.
        let one_more = |topics: usize| (topics < TOPICS_MAX).then_some(topics + 1);
        let counted = self
            .topics
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        if counted.is_ok() {
            change(inside.topics.entry(topic.into()).or_default());
        }
    }

    /// Takes how many waited when they were counted last.
    pub fn load(&self, waiting: impl IntoIterator<Item = (Box<str>, i64)>) {
        for (topic, count) in waiting {
            self.change(&topic, |known| known.waiting = count);
        }
    }

    /// Every topic with its count.
    #[must_use]
    pub fn all(&self) -> Vec<(String, Count)> {
        let mut all = Vec::new();
        for shard in self.shards.all() {
            let inside = shard.lock();
            let topics = inside.topics.iter();
            all.extend(topics.map(|(topic, count)| (topic.to_string(), *count)));
        }
        all
    }

    /// Rises with every change.
    #[must_use]
    pub fn changes(&self) -> u64 {
        let shards = self.shards.all();
        shards.map(|shard| shard.lock().changes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_goes_on_and_a_bound_is_kept() {
        let counts = Counts::default();
        counts.load([("a".into(), 3)]);
        counts.change("a", |count| {
            count.waiting -= 1;
            count.committed += 1;
        });
        let expected = Count {
            waiting: 2,
            committed: 1,
            ..Count::default()
        };
        assert_eq!(counts.all(), [("a".to_owned(), expected)]);
        for at in 0..TOPICS_MAX {
            counts.change(&format!("t{at}"), |count| count.waiting += 1);
        }
        assert_eq!(counts.all().len(), TOPICS_MAX);
        let changes = counts.changes();
        counts.change("one more", |count| count.waiting += 1);
        counts.change("a", |count| count.waiting += 1);
        assert_eq!(counts.changes(), changes + 2, "also of what is not counted");
        assert_eq!(counts.all().len(), TOPICS_MAX, "in all shards together");
    }

    #[test]
    fn counts_of_several_threads_add_up() {
        const TOPICS: u64 = 40;
        let counts = Counts::default();
        std::thread::scope(|scope| {
            for _thread in 0..4 {
                scope.spawn(|| {
                    for at in 0..TOPICS * 50 {
                        counts.change(&format!("t{}", at % TOPICS), |count| count.waiting += 1);
                    }
                });
            }
        });
        let all = counts.all();
        assert_eq!(all.len() as u64, TOPICS);
        assert!(all.iter().all(|(_topic, count)| count.waiting == 200));
        assert_eq!(counts.changes(), TOPICS * 200);
    }
}
