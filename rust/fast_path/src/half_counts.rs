//! Half messages by the topic they are meant for: how many wait, how many were committed and rolled
//! back (`TransactionMetrics`). Pure numbers.

use hashbrown::HashMap;
use mqcore_engine::lock::Mutex;

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

#[derive(Debug, Default)]
struct Inside {
    topics: HashMap<Box<str>, Count>,
    changes: u64,
}

impl Inside {
    fn change(&mut self, topic: &str, change: impl FnOnce(&mut Count)) {
        self.changes += 1;
        if let Some(count) = self.topics.get_mut(topic) {
            return change(count);
        }
        if self.topics.len() < TOPICS_MAX {
            change(self.topics.entry(topic.into()).or_default());
        }
    }
}

/// Counts by topic, behind a lock of their own: who sends half messages and who ends them count here.
/// Nothing is called while it is held.
#[derive(Debug, Default)]
pub struct Counts {
    inside: Mutex<Inside>,
}

impl Counts {
    /// Changes the count of a topic.
    pub fn change(&self, topic: &str, change: impl FnOnce(&mut Count)) {
        self.inside.lock().change(topic, change);
    }

    /// Takes how many waited when they were counted last.
    pub fn load(&self, waiting: impl IntoIterator<Item = (Box<str>, i64)>) {
        let mut inside = self.inside.lock();
        for (topic, count) in waiting {
            inside.change(&topic, |known| known.waiting = count);
        }
    }

    /// Every topic with its count.
    #[must_use]
    pub fn all(&self) -> Vec<(String, Count)> {
        let inside = self.inside.lock();
        let all = inside.topics.iter();
        all.map(|(topic, count)| (topic.to_string(), *count))
            .collect()
    }

    /// Rises with every change.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.inside.lock().changes
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
    }
}
