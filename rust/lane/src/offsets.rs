//! The live consumer offsets: where each group goes on in each queue (`ConsumerOffsetManager`).
//! Owned by the lane; whoever writes them to a file takes a snapshot. Knows no file and no request.

use std::collections::BTreeMap;

use hashbrown::HashMap;

/// Queues kept per topic and group: above every real topic, below what a peer could use to fill
/// memory with made-up queue ids.
pub const QUEUES_MAX: usize = 65_536;
/// Pairs of topic and group kept: at some 200 bytes each 200 MB, far above the largest clusters.
pub const PAIRS_MAX: usize = 1_000_000;
/// Bytes of topic and group together: official names have at most 255 each.
pub const NAMES_BYTES_MAX: usize = 510;
/// Stands between topic and group in the official file.
pub const SEPARATOR: char = '@';

/// Offsets of one group by queue.
pub type Queues = BTreeMap<i32, i64>;

/// The table.
#[derive(Debug, Default)]
pub struct Offsets {
    by_pair: HashMap<Box<str>, Queues>,
    changes: u64,
    key: String,
}

impl Offsets {
    /// Replaces everything, by the official keys `topic@group`.
    pub fn load(&mut self, table: impl IntoIterator<Item = (String, Queues)>) {
        let pairs = table.into_iter();
        self.by_pair = pairs
            .map(|(key, queues)| (key.into_boxed_str(), queues))
            .collect();
        self.changes += 1;
    }

    /// Sets an offset; false for an empty name, and when a bound was met. A lower one than before is taken too, as the
    /// official broker does: that is how a client goes back.
    pub fn commit(&mut self, group: &str, topic: &str, queue_id: i32, offset: i64) -> bool {
        let is_nameless = group.trim().is_empty() || topic.trim().is_empty();
        if is_nameless || queue_id < 0 || group.len() + topic.len() > NAMES_BYTES_MAX {
            return false;
        }
        let pairs = self.by_pair.len();
        let key = spell(&mut self.key, group, topic);
        match self.by_pair.get_mut(key) {
            Some(queues) => {
                if queues.len() >= QUEUES_MAX && !queues.contains_key(&queue_id) {
                    return false;
                }
                if queues.insert(queue_id, offset) != Some(offset) {
                    self.changes += 1;
                }
            }
            None if pairs >= PAIRS_MAX => return false,
            None => {
                let queues = Queues::from([(queue_id, offset)]);
                self.by_pair.insert(key.into(), queues);
                self.changes += 1;
            }
        }
        true
    }

    /// The offset of a group in a queue.
    pub fn find(&mut self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        let key = spell(&mut self.key, group, topic);
        self.by_pair.get(key)?.get(&queue_id).copied()
    }

    /// The offsets of a group in a topic.
    pub fn of(&mut self, group: &str, topic: &str) -> Option<&Queues> {
        let key = spell(&mut self.key, group, topic);
        self.by_pair.get(key)
    }

    /// Forgets the offsets of a group, of a topic, or of a group in a topic; how many pairs that
    /// were.
    pub fn remove(&mut self, group: Option<&str>, topic: Option<&str>) -> usize {
        let before = self.by_pair.len();
        self.by_pair.retain(|key, _queues| {
            let (its_topic, its_group) = key.split_once(SEPARATOR).unwrap_or((key, ""));
            let is_of_group = group.is_none_or(|group| group == its_group);
            let is_of_topic = topic.is_none_or(|topic| topic == its_topic);
            !(is_of_group && is_of_topic)
        });
        let removed = before - self.by_pair.len();
        self.changes += u64::from(removed > 0);
        removed
    }

    /// Everything, by the official keys.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Queues)> {
        self.by_pair.iter().map(|(key, queues)| (&**key, queues))
    }

    /// Rises with every change: whoever saw it before knows whether there is something to write.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }
}

fn spell<'k>(key: &'k mut String, group: &str, topic: &str) -> &'k str {
    key.clear();
    key.push_str(topic);
    key.push(SEPARATOR);
    key.push_str(group);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_committed_is_found_and_counted_as_a_change() {
        let mut offsets = Offsets::default();
        assert_eq!(offsets.find("g", "t", 0), None);
        assert!(offsets.commit("g", "t", 0, 7));
        assert!(offsets.commit("g", "t", 3, 1));
        let changes = offsets.changes();
        assert!(offsets.commit("g", "t", 0, 7));
        assert_eq!(offsets.changes(), changes, "the same again is no change");
        assert!(offsets.commit("g", "t", 0, 2), "going back is allowed");
        assert!(offsets.changes() > changes);
        assert_eq!(offsets.find("g", "t", 0), Some(2));
        assert_eq!(offsets.of("g", "t"), Some(&Queues::from([(0, 2), (3, 1)])));
        assert!(!offsets.commit("g", "t", -1, 2));
        for (group, topic) in [("", "t"), ("g", ""), (" ", "t"), ("", "")] {
            assert!(!offsets.commit(group, topic, 0, 1), "{group:?} {topic:?}");
        }
    }

    #[test]
    fn groups_and_topics_are_forgotten_by_themselves() {
        let mut offsets = Offsets::default();
        let table = ["a@g", "b@g", "a@h"].map(|key| (key.to_owned(), Queues::from([(0, 1)])));
        offsets.load(table);
        assert_eq!(offsets.remove(Some("g"), Some("b")), 1);
        assert_eq!(offsets.remove(None, Some("a")), 2);
        assert_eq!(offsets.all().count(), 0);
        assert_eq!(offsets.remove(Some("g"), None), 0);
    }

    #[test]
    fn made_up_queues_do_not_fill_memory() {
        let mut offsets = Offsets::default();
        for queue_id in 0..QUEUES_MAX as i32 {
            assert!(offsets.commit("g", "t", queue_id, 0));
        }
        assert!(!offsets.commit("g", "t", i32::MAX, 0));
        assert!(offsets.commit("g", "t", 5, 9), "known ones go on");
        assert!(!offsets.commit(&"g".repeat(300), &"t".repeat(300), 0, 1));
    }
}
