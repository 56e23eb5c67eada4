//! How many messages each group got of each topic, since the broker's start (`GROUP_GET_NUMS`). Knows
//! no time: whoever looks twice knows the rate.

use hashbrown::HashMap;

use crate::consumer_offsets::offsets::PAIRS_MAX;

/// The counters, by group and then by topic.
#[derive(Debug, Clone, Default)]
pub struct Gets {
    by_group: HashMap<String, HashMap<String, u64>>,
    pairs: usize,
}

impl Gets {
    /// Counts messages that a group got; a new pair beyond the bound of the offsets is left out.
    pub(crate) fn add(&mut self, group: &str, topic: &str, messages: u64) {
        if messages == 0 {
            return;
        }
        let known = self.by_group.get_mut(group);
        if let Some(count) = known.and_then(|topics| topics.get_mut(topic)) {
            *count += messages;
        } else if self.pairs < PAIRS_MAX {
            let topics = self.by_group.entry_ref(group).or_default();
            topics.insert(topic.to_owned(), messages);
            self.pairs += 1;
        }
    }

    /// Counts what somebody else has counted, too.
    pub(crate) fn add_all(&mut self, other: &Self) {
        for (group, topics) in &other.by_group {
            for (topic, messages) in topics {
                self.add(group, topic, *messages);
            }
        }
    }

    /// Forgets those of a group, of a topic, or of a group in a topic.
    pub(crate) fn remove(&mut self, group: Option<&str>, topic: Option<&str>) {
        let mut pairs = 0;
        self.by_group.retain(|its_group, topics| {
            if group.is_none_or(|group| group == its_group) {
                topics.retain(|its_topic, _count| topic.is_some_and(|topic| topic != its_topic));
            }
            pairs += topics.len();
            !topics.is_empty()
        });
        self.pairs = pairs;
    }

    /// Group, topic and messages of every pair.
    #[must_use]
    pub fn rows(&self) -> Vec<(String, String, u64)> {
        let rows = self.by_group.iter().flat_map(|(group, topics)| {
            let each = topics.iter();
            each.map(move |(topic, count)| (group.clone(), topic.clone(), *count))
        });
        rows.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_is_counted_and_forgotten() {
        let mut gets = Gets::default();
        for (group, topic, messages) in [("g", "t", 2), ("g", "t", 3), ("h", "t", 1), ("h", "u", 0)]
        {
            gets.add(group, topic, messages);
        }
        let row = |group: &str, topic: &str, count| (group.to_owned(), topic.to_owned(), count);
        let mut all = gets.rows();
        all.sort_unstable();
        assert_eq!(all, [row("g", "t", 5), row("h", "t", 1)]);
        gets.remove(Some("h"), None);
        assert_eq!(gets.rows().len(), 1);
        gets.remove(None, Some("u"));
        assert_eq!(gets.rows().len(), 1);
        gets.remove(None, Some("t"));
        assert_eq!((gets.rows().len(), gets.pairs), (0, 0));
    }
}
