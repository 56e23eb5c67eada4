//! Where each group goes on in each queue, and which of these offsets an administrator has set and no
//! consumer has gone on from yet (`ConsumerOffsetManager`). Shared by the processors of pulls, pops
//! and offsets.
//!
//! Behind a lock of its own, which is the last one taken: nothing is called and nothing waited for
//! while it is held. Knows no request and no store.

pub mod offsets;
pub mod resets;

use std::sync::atomic::{AtomicBool, Ordering};

use mqcore_engine::lock::Mutex;

use self::offsets::{Offsets, Queues};
use self::resets::Resets;

#[derive(Debug, Default)]
struct Inside {
    offsets: Offsets,
    resets: Resets,
}

/// The offsets of all groups.
#[derive(Debug, Default)]
pub struct ConsumerOffsets {
    inside: Mutex<Inside>,
    /// Whether there are resets. Nearly always there is none: asking costs no lock then.
    has_resets: AtomicBool,
}

impl ConsumerOffsets {
    /// Replaces everything, by the official keys `topic@group`.
    pub fn load(&self, table: impl IntoIterator<Item = (String, Queues)>) {
        self.inside.lock().offsets.load(table);
    }

    /// Takes what another table has of a pair, by its official key: see [`Offsets::follow`].
    pub fn follow(&self, key: &str, queues: &Queues, before: Option<&Queues>) {
        self.inside.lock().offsets.follow(key, queues, before);
    }

    /// Sets an offset; false for an empty name, and when a bound was met. A lower one than before is
    /// taken too, as the official broker does: that is how a client goes back.
    pub fn commit(&self, group: &str, topic: &str, queue_id: i32, offset: i64) -> bool {
        let mut inside = self.inside.lock();
        inside.offsets.commit(group, topic, queue_id, offset)
    }

    /// Sets an offset that a consumer commits on its way. Dropped where the queue was reset: what the
    /// consumer has in memory is older than that.
    pub(crate) fn commit_unless_reset(&self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        let mut inside = self.inside.lock();
        if !inside.resets.has(group, topic, queue_id) {
            inside.offsets.commit(group, topic, queue_id, offset);
        }
    }

    /// Sets an offset that consumers go on from, whatever they commit before they have heard of it;
    /// false when a bound was met.
    pub(crate) fn reset(&self, group: &str, topic: &str, queue_id: i32, offset: i64) -> bool {
        let mut inside = self.inside.lock();
        let is_taken = inside.offsets.commit(group, topic, queue_id, offset);
        if is_taken {
            inside.resets.put(group, topic, queue_id, offset);
            self.has_resets.store(true, Ordering::Release);
        }
        is_taken
    }

    /// Whether nobody has gone on yet from where a queue was set to.
    #[must_use]
    pub fn has_reset(&self, group: &str, topic: &str, queue_id: i32) -> bool {
        self.has_resets.load(Ordering::Acquire)
            && self.inside.lock().resets.has(group, topic, queue_id)
    }

    /// Takes out where a queue was set to.
    pub(crate) fn take_reset(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        if !self.has_resets.load(Ordering::Acquire) {
            return None;
        }
        let mut inside = self.inside.lock();
        let taken = inside.resets.take(group, topic, queue_id);
        let has_resets = !inside.resets.is_empty();
        self.has_resets.store(has_resets, Ordering::Release);
        taken
    }

    /// The offset of a group in a queue.
    #[must_use]
    pub fn find(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.inside.lock().offsets.find(group, topic, queue_id)
    }

    /// The offsets of a group in a topic.
    #[must_use]
    pub fn of(&self, group: &str, topic: &str) -> Option<Queues> {
        self.inside.lock().offsets.of(group, topic).cloned()
    }

    /// Forgets the offsets of a group, of a topic, or of a group in a topic; how many pairs that
    /// were.
    pub(crate) fn remove(&self, group: Option<&str>, topic: Option<&str>) -> usize {
        let mut inside = self.inside.lock();
        inside.resets.remove(group, topic);
        let has_resets = !inside.resets.is_empty();
        self.has_resets.store(has_resets, Ordering::Release);
        inside.offsets.remove(group, topic)
    }

    /// Pairs from a slot on, by the official keys, and the slot that follows; none where there are no
    /// more. Whoever reads all of them part by part sees each pair that was there all the time.
    #[must_use]
    pub fn rows(&self, start: usize, count: usize) -> (Vec<(String, Queues)>, Option<usize>) {
        let inside = self.inside.lock();
        let end = start.saturating_add(count);
        let some = inside.offsets.some(start..end);
        let rows = some.map(|(key, queues)| (key.to_owned(), queues.clone()));
        (
            rows.collect(),
            (end < inside.offsets.slots()).then_some(end),
        )
    }

    /// Everything, by the official keys.
    #[must_use]
    pub fn all(&self) -> Vec<(String, Queues)> {
        self.rows(0, usize::MAX).0
    }

    /// Rises with every change: whoever saw it before knows whether there is something to write.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.inside.lock().offsets.changes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_is_kept_until_it_is_taken() {
        let offsets = ConsumerOffsets::default();
        assert!(offsets.commit("g", "t", 0, 9));
        assert!(offsets.reset("g", "t", 0, 3));
        offsets.commit_unless_reset("g", "t", 0, 10);
        assert_eq!(offsets.find("g", "t", 0), Some(3));
        assert!(offsets.has_reset("g", "t", 0) && !offsets.has_reset("g", "t", 1));
        assert_eq!(offsets.take_reset("g", "t", 1), None);
        assert_eq!(offsets.take_reset("g", "t", 0), Some(3));
        assert_eq!(offsets.take_reset("g", "t", 0), None);
        offsets.commit_unless_reset("g", "t", 0, 10);
        assert_eq!(offsets.find("g", "t", 0), Some(10));
        assert!(!offsets.reset("", "t", 0, 1));
    }

    #[test]
    fn following_another_table_loses_nothing_newer() {
        let offsets = ConsumerOffsets::default();
        offsets.commit("g", "t", 0, 5);
        offsets.commit("g", "t", 1, 50);
        offsets.commit("g", "u", 0, 7);
        let first = Queues::from([(0, 9), (1, 40), (2, 3)]);
        offsets.follow("t@g", &first, None);
        let expected = Queues::from([(0, 9), (1, 50), (2, 3)]);
        assert_eq!(offsets.of("g", "t"), Some(expected));
        // Set back over there: here too, unless somebody has gone on from it here.
        offsets.commit("g", "t", 2, 4);
        let second = Queues::from([(0, 2), (1, 2), (2, 2)]);
        offsets.follow("t@g", &second, Some(&first));
        let expected = Queues::from([(0, 2), (1, 50), (2, 4)]);
        assert_eq!(offsets.of("g", "t"), Some(expected));
        assert_eq!(offsets.find("g", "u", 0), Some(7));
    }

    #[test]
    fn what_is_removed_has_no_reset() {
        let offsets = ConsumerOffsets::default();
        assert!(offsets.reset("g", "t", 0, 3));
        assert_eq!(offsets.remove(Some("g"), None), 1);
        assert!(!offsets.has_reset("g", "t", 0));
        assert_eq!((offsets.all(), offsets.of("g", "t")), (Vec::new(), None));
    }

    #[test]
    fn threads_commit_side_by_side() {
        let offsets = ConsumerOffsets::default();
        std::thread::scope(|scope| {
            for queue_id in 0..4 {
                let offsets = &offsets;
                scope.spawn(move || {
                    for offset in 0..1_000 {
                        assert!(offsets.commit("g", "t", queue_id, offset));
                    }
                });
            }
        });
        let all = Queues::from([(0, 999), (1, 999), (2, 999), (3, 999)]);
        assert_eq!(offsets.of("g", "t"), Some(all));
    }
}
