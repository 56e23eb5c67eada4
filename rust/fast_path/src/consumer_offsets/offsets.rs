//! The live consumer offsets: where each group goes on in each queue (`ConsumerOffsetManager`).
//! Owned by the fast path; whoever writes them to a file takes a snapshot. Knows no file and no request.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;

/// Queues kept per topic and group: above every real topic, below what a peer could use to fill
/// memory with made-up queue ids.
pub const QUEUES_MAX: usize = 65_536;
/// Pairs of topic and group kept: at some 200 bytes each 200 MB, far above the largest clusters.
pub const PAIRS_MAX: usize = 1_000_000;
/// Bytes of topic and group together: official names have at most 255 each.
pub const NAMES_BYTES_MAX: usize = 510;
/// Separates topic and group in the official file.
pub const SEPARATOR: char = '@';

/// Offsets of one group by queue.
pub type Queues = BTreeMap<i32, i64>;

/// The table. A pair keeps its slot for as long as it is there, so that a snapshot may be taken in
/// parts.
#[derive(Debug, Default)]
pub struct Offsets {
    slots: HashMap<Arc<str>, usize>,
    pairs: Vec<Option<(Arc<str>, Queues)>>,
    free: Vec<usize>,
    changes: u64,
    key: String,
}

impl Offsets {
    /// Replaces everything, by the official keys `topic@group`.
    pub fn load(&mut self, table: impl IntoIterator<Item = (String, Queues)>) {
        self.slots.clear();
        self.pairs.clear();
        self.free.clear();
        for (key, queues) in table {
            self.insert(&key, queues);
        }
        self.changes += 1;
    }

    /// Takes what another table has of a pair, by its official key: an offset that is lower than ours only
    /// where ours is that which the other table had `before`, so that nothing newer is lost.
    pub fn follow(&mut self, key: &str, queues: &Queues, before: Option<&Queues>) {
        let (topic, group) = key.split_once(SEPARATOR).unwrap_or((key, ""));
        for (&queue_id, &offset) in queues {
            let ours = self.find(group, topic, queue_id);
            let was = before.and_then(|before| before.get(&queue_id)).copied();
            if ours.is_none_or(|ours| ours < offset || Some(ours) == was) {
                self.commit(group, topic, queue_id, offset);
            }
        }
    }

    fn insert(&mut self, key: &str, queues: Queues) {
        let key: Arc<str> = key.into();
        let pair = Some((Arc::clone(&key), queues));
        let slot = self.free.pop().unwrap_or(self.pairs.len());
        match self.pairs.get_mut(slot) {
            Some(free) => *free = pair,
            None => self.pairs.push(pair),
        }
        self.slots.insert(key, slot);
    }

    /// Sets an offset; false for an empty name, and when a bound was met. A lower one than before is
    /// taken too, as the official broker does: that is how a client goes back.
    pub fn commit(&mut self, group: &str, topic: &str, queue_id: i32, offset: i64) -> bool {
        let is_nameless = group.trim().is_empty() || topic.trim().is_empty();
        if is_nameless || queue_id < 0 || group.len() + topic.len() > NAMES_BYTES_MAX {
            return false;
        }
        let key = spell(&mut self.key, group, topic);
        let slot = self.slots.get(key).copied();
        match slot.and_then(|slot| self.pairs.get_mut(slot)) {
            Some(Some((_key, queues))) => {
                if queues.len() >= QUEUES_MAX && !queues.contains_key(&queue_id) {
                    return false;
                }
                if queues.insert(queue_id, offset) != Some(offset) {
                    self.changes += 1;
                }
            }
            _ if self.slots.len() >= PAIRS_MAX => return false,
            _ => {
                let key = key.to_owned();
                self.insert(&key, Queues::from([(queue_id, offset)]));
                self.changes += 1;
            }
        }
        true
    }

    /// The offset of a group in a queue.
    pub fn find(&mut self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.of(group, topic)?.get(&queue_id).copied()
    }

    /// The offsets of a group in a topic.
    pub fn of(&mut self, group: &str, topic: &str) -> Option<&Queues> {
        let key = spell(&mut self.key, group, topic);
        let slot = *self.slots.get(key)?;
        let (_key, queues) = self.pairs.get(slot)?.as_ref()?;
        Some(queues)
    }

    /// Forgets the offsets of a group, of a topic, or of a group in a topic; how many pairs that
    /// were.
    pub fn remove(&mut self, group: Option<&str>, topic: Option<&str>) -> usize {
        let before = self.slots.len();
        self.slots.retain(|key, slot| {
            let (its_topic, its_group) = key.split_once(SEPARATOR).unwrap_or((key, ""));
            let is_of_group = group.is_none_or(|group| group == its_group);
            let is_of_topic = topic.is_none_or(|topic| topic == its_topic);
            let is_kept = !(is_of_group && is_of_topic);
            if !is_kept && let Some(pair) = self.pairs.get_mut(*slot) {
                *pair = None;
                self.free.push(*slot);
            }
            is_kept
        });
        let removed = before - self.slots.len();
        self.changes += u64::from(removed > 0);
        removed
    }

    /// Everything, by the official keys.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Queues)> {
        self.some(0..self.pairs.len())
    }

    /// What is in some slots. Whoever looks through all of them part by part sees each pair that was
    /// there all the time.
    pub fn some(&self, slots: Range<usize>) -> impl Iterator<Item = (&str, &Queues)> {
        let end = slots.end.min(self.pairs.len());
        let pairs = self.pairs.get(slots.start.min(end)..end).unwrap_or(&[]);
        pairs.iter().flatten().map(|(key, queues)| (&**key, queues))
    }

    /// How many slots there are.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.pairs.len()
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
    fn a_snapshot_in_parts_has_what_was_there_all_the_time() {
        let mut offsets = Offsets::default();
        for at in 0..100 {
            assert!(offsets.commit("g", &format!("t{at}"), 0, at));
        }
        let mut seen: Vec<String> = Vec::new();
        let mut at = 0;
        while at < offsets.slots() {
            seen.extend(
                offsets
                    .some(at..at + 10)
                    .map(|(key, _queues)| key.to_owned()),
            );
            at += 10;
            // Pairs that were seen go, others come and take their slots or new ones.
            offsets.remove(None, Some(&format!("t{}", at - 1)));
            assert!(offsets.commit("h", &format!("t{at}"), 0, 1));
            assert!(offsets.commit("i", &format!("t{at}"), 0, 1));
        }
        for topic in 0..100 {
            assert!(seen.contains(&format!("t{topic}@g")), "{topic}");
        }
        assert_eq!(offsets.of("g", "t9"), None);
        assert_eq!(offsets.find("g", "t8", 0), Some(8));
        assert_eq!(offsets.all().count(), offsets.slots.len());
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
