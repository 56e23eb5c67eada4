//! Offsets that an administrator has set and no consumer has gone on from yet
//! (`ConsumerOffsetManager.assignResetOffset`). Until the next pull or pop of the queue, which begins
//! there, no client commits another offset: what it has in memory is older than the reset. They are
//! in memory only, as officially: the offset itself is among the saved ones. Knows no time.

use hashbrown::HashMap;

use super::offsets::Queues;

/// The table, by topic and then by group. Bounded by the table of offsets: only what is in that one
/// comes into this one.
#[derive(Debug, Default)]
pub struct Resets {
    by_topic: HashMap<String, HashMap<String, Queues>>,
}

impl Resets {
    /// Remembers where a queue was set to.
    pub fn put(&mut self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        let groups = self.by_topic.entry_ref(topic).or_default();
        let queues = groups.entry_ref(group).or_default();
        queues.insert(queue_id, offset);
    }

    /// Whether nobody has gone on yet from where a queue was set to.
    #[must_use]
    pub fn has(&self, group: &str, topic: &str, queue_id: i32) -> bool {
        // Nearly always there is none: that costs nothing.
        !self.by_topic.is_empty()
            && self
                .by_topic
                .get(topic)
                .and_then(|groups| groups.get(group))
                .is_some_and(|queues| queues.contains_key(&queue_id))
    }

    /// Takes out where a queue was set to.
    pub fn take(&mut self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        if self.by_topic.is_empty() {
            return None;
        }
        let groups = self.by_topic.get_mut(topic)?;
        let queues = groups.get_mut(group)?;
        let offset = queues.remove(&queue_id)?;
        if queues.is_empty() {
            groups.remove(group);
        }
        if groups.is_empty() {
            self.by_topic.remove(topic);
        }
        Some(offset)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_topic.is_empty()
    }

    /// Forgets those of a group, of a topic, or of a group in a topic.
    pub fn remove(&mut self, group: Option<&str>, topic: Option<&str>) {
        self.by_topic.retain(|its_topic, groups| {
            if topic.is_some_and(|topic| topic != its_topic) {
                return true;
            }
            groups.retain(|its_group, _queues| group.is_some_and(|group| group != its_group));
            !groups.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_taken_once() {
        let mut resets = Resets::default();
        assert_eq!(resets.take("g", "t", 0), None);
        resets.put("g", "t", 0, 7);
        resets.put("g", "t", 1, 8);
        resets.put("g", "t", 0, 9);
        assert!(resets.has("g", "t", 0));
        assert!(!resets.has("h", "t", 0));
        assert!(!resets.has("g", "t", 2));
        assert_eq!(resets.take("g", "t", 0), Some(9));
        assert_eq!(resets.take("g", "t", 0), None);
        assert_eq!(resets.take("g", "t", 1), Some(8));
        assert!(resets.by_topic.is_empty(), "nothing is left behind");
    }

    #[test]
    fn groups_and_topics_are_forgotten() {
        let mut resets = Resets::default();
        for (group, topic) in [("g", "t"), ("h", "t"), ("g", "u"), ("h", "u")] {
            resets.put(group, topic, 0, 1);
        }
        resets.remove(Some("g"), Some("t"));
        assert!(!resets.has("g", "t", 0) && resets.has("h", "t", 0) && resets.has("g", "u", 0));
        resets.remove(Some("g"), None);
        assert!(!resets.has("g", "u", 0) && resets.has("h", "u", 0));
        resets.remove(None, Some("u"));
        assert!(resets.has("h", "t", 0) && !resets.has("h", "u", 0));
        resets.remove(None, Some("t"));
        assert!(resets.by_topic.is_empty());
    }
}
