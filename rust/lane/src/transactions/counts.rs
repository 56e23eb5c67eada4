//! Half messages by the topic they are meant for: how many wait, how many were committed and rolled
//! back (`TransactionMetrics`). Pure numbers.

use hashbrown::HashMap;

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

/// Counts by topic.
#[derive(Debug, Default)]
pub struct Counts {
    topics: HashMap<Box<str>, Count>,
    changes: u64,
}

impl Counts {
    /// Changes the count of a topic.
    pub fn change(&mut self, topic: &str, change: impl FnOnce(&mut Count)) {
        self.changes += 1;
        if let Some(count) = self.topics.get_mut(topic) {
            return change(count);
        }
        if self.topics.len() < TOPICS_MAX {
            change(self.topics.entry(topic.into()).or_default());
        }
    }

    /// Takes how many waited when they were counted last.
    pub fn load(&mut self, waiting: impl IntoIterator<Item = (Box<str>, i64)>) {
        for (topic, count) in waiting {
            self.change(&topic, |known| known.waiting = count);
        }
    }

    /// Every topic with its count.
    pub fn all(&self) -> impl Iterator<Item = (&str, Count)> {
        self.topics.iter().map(|(topic, count)| (&**topic, *count))
    }

    /// Rises with every change.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_goes_on_and_a_bound_is_kept() {
        let mut counts = Counts::default();
        counts.load([("a".into(), 3)]);
        counts.change("a", |count| {
            count.waiting -= 1;
            count.committed += 1;
        });
        let found: Vec<_> = counts.all().collect();
        let expected = Count {
            waiting: 2,
            committed: 1,
            ..Count::default()
        };
        assert_eq!(found, [("a", expected)]);
        for at in 0..TOPICS_MAX {
            counts.change(&format!("t{at}"), |count| count.waiting += 1);
        }
        assert_eq!(counts.all().count(), TOPICS_MAX);
    }
}
