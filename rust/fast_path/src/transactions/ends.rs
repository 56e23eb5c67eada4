//! What is ended: the op messages that are not written yet, and a memory of what was ended lately,
//! so that a half message that was stored anew ends together with its copies, and none ends twice.
//! Pure state over passed-in times.

use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashMap;

use crate::requests::Decision;

/// Ends kept in memory: some seconds of the fastest producers. A second end of an older one is
/// taken as the first, as the official broker takes all.
pub const REMEMBERED_MAX: usize = 65_536;
/// Ends that wait for their op message, per queue, as the official broker has it.
pub const WAITING_MAX: usize = 20_000;
/// Pause after an op message that could not be written, ms.
const FAILED_MS: u64 = 1_000;

/// A half message, or a copy of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Half {
    /// Its queue of the half topic.
    pub queue_id: i32,
    /// Its offset in the queue: what op messages name.
    pub offset: u64,
    /// The offset of the first copy.
    pub first: u64,
    /// Time on its producer's clock, ms: distinguishes it from others at this offset when the topic
    /// is deleted and its queue begins anew.
    pub born_ms: i64,
}

/// What all copies of a half message have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    queue_id: i32,
    first: u64,
    born_ms: i64,
}

impl Half {
    const fn key(self) -> Key {
        Key {
            queue_id: self.queue_id,
            first: self.first,
            born_ms: self.born_ms,
        }
    }
}

/// How op messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpMessageRules {
    /// Whether many ends share an op message (5.1 and later).
    pub is_batched: bool,
    /// Bytes of an op message at the most, but for the last number (`transactionOpMsgMaxSize`).
    pub bytes_max: usize,
    /// How long an end may wait for others, ms (`transactionOpBatchInterval`).
    pub interval_ms: u64,
}

#[derive(Debug, Default)]
struct Waiting {
    offsets: VecDeque<u64>,
    bytes: usize,
    due_ms: u64,
}

/// Ends of transactions.
#[derive(Debug, Default)]
pub struct Ends {
    waiting: BTreeMap<i32, Waiting>,
    decided: HashMap<Key, Decision>,
    decided_order: VecDeque<Key>,
    /// Offset of the newest copy.
    newest_of: HashMap<Key, u64>,
    copied_order: VecDeque<Key>,
}

impl Ends {
    /// How a half message, or the one that it is a copy of, was ended; `None` when that is unknown.
    #[must_use]
    pub fn decided(&self, half: Half) -> Option<Decision> {
        self.decided.get(&half.key()).copied()
    }

    /// Whether another end can wait for its op message.
    #[must_use]
    pub fn has_space(&self, queue_id: i32) -> bool {
        let waiting = self.waiting.get(&queue_id);
        waiting.is_none_or(|waiting| waiting.offsets.len() + 2 <= WAITING_MAX)
    }

    /// Records an end: of the half message, and of its newest copy.
    pub fn decide(&mut self, half: Half, decision: Decision, rules: OpMessageRules, now_ms: u64) {
        let key = half.key();
        if self.decided.insert(key, decision).is_none() {
            self.decided_order.push_back(key);
        }
        if self.decided_order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.decided_order.pop_front()
        {
            self.decided.remove(&oldest);
        }
        self.wait(half.queue_id, half.offset, rules, now_ms);
        match self.newest_of.get(&key).copied() {
            Some(newest) if newest != half.offset => {
                self.wait(half.queue_id, newest, rules, now_ms);
            }
            Some(_) | None => {}
        }
    }

    /// Records that a half message was stored anew at another offset. True when it had been ended
    /// meanwhile: then the copy is ended too.
    pub fn copied(&mut self, half: Half, to: u64, rules: OpMessageRules, now_ms: u64) -> bool {
        let key = half.key();
        if self.newest_of.insert(key, to).is_none() {
            self.copied_order.push_back(key);
        }
        if self.copied_order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.copied_order.pop_front()
        {
            self.newest_of.remove(&oldest);
        }
        let is_ended = self.decided.contains_key(&key);
        if is_ended {
            self.wait(half.queue_id, to, rules, now_ms);
        }
        is_ended
    }

    fn wait(&mut self, queue_id: i32, offset: u64, rules: OpMessageRules, now_ms: u64) {
        let waiting = self.waiting.entry(queue_id).or_default();
        let interval_ms = if rules.is_batched {
            rules.interval_ms
        } else {
            0
        };
        if waiting.offsets.is_empty() {
            waiting.due_ms = now_ms.saturating_add(interval_ms);
        }
        waiting.bytes += digits(offset) + 1;
        waiting.offsets.push_back(offset);
        if waiting.bytes > rules.bytes_max {
            waiting.due_ms = waiting.due_ms.min(now_ms);
        }
    }

    /// A queue whose op messages are to be written now.
    #[must_use]
    pub fn due(&self, now_ms: u64) -> Option<i32> {
        let mut queues = self.waiting.iter();
        let found =
            queues.find(|(_, waiting)| !waiting.offsets.is_empty() && waiting.due_ms <= now_ms);
        found.map(|(queue_id, _)| *queue_id)
    }

    /// A queue that has ends without an op message, due or not.
    #[must_use]
    pub fn any(&self) -> Option<i32> {
        let mut queues = self.waiting.iter();
        let found = queues.find(|(_, waiting)| !waiting.offsets.is_empty());
        found.map(|(queue_id, _)| *queue_id)
    }

    /// When the next op messages are to be written, ms.
    #[must_use]
    pub fn next_due_ms(&self) -> Option<u64> {
        let queues = self.waiting.values();
        let filled = queues.filter(|waiting| !waiting.offsets.is_empty());
        filled.map(|waiting| waiting.due_ms).min()
    }

    /// Puts the body of the next op message into `body`; how many ends it names.
    pub fn next_op_message(
        &self,
        queue_id: i32,
        rules: OpMessageRules,
        body: &mut Vec<u8>,
    ) -> usize {
        body.clear();
        let Some(waiting) = self.waiting.get(&queue_id) else {
            return 0;
        };
        if !rules.is_batched {
            let first = waiting.offsets.front();
            body.extend(first.map(u64::to_string).unwrap_or_default().bytes());
            return usize::from(first.is_some());
        }
        let mut count = 0;
        for offset in &waiting.offsets {
            if body.len() >= rules.bytes_max.max(1) {
                break;
            }
            body.extend(offset.to_string().bytes());
            body.push(b',');
            count += 1;
        }
        count
    }

    /// Forgets ends whose op message was written.
    pub fn written(&mut self, queue_id: i32, count: usize, rules: OpMessageRules, now_ms: u64) {
        let Some(waiting) = self.waiting.get_mut(&queue_id) else {
            return;
        };
        for offset in waiting.offsets.drain(..count.min(waiting.offsets.len())) {
            waiting.bytes -= digits(offset) + 1;
        }
        if rules.is_batched && waiting.bytes <= rules.bytes_max {
            waiting.due_ms = now_ms.saturating_add(rules.interval_ms);
        }
    }

    /// Lets the ends of a queue wait after an op message that could not be written.
    pub fn failed(&mut self, queue_id: i32, now_ms: u64) {
        if let Some(waiting) = self.waiting.get_mut(&queue_id) {
            waiting.due_ms = now_ms.saturating_add(FAILED_MS);
        }
    }

    /// Ends that have no op message yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let queues = self.waiting.values();
        queues.map(|waiting| waiting.offsets.len()).sum()
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINGLE: OpMessageRules = OpMessageRules {
        is_batched: false,
        bytes_max: 4_096,
        interval_ms: 3_000,
    };
    const BATCHED: OpMessageRules = OpMessageRules {
        is_batched: true,
        bytes_max: 8,
        ..SINGLE
    };

    fn at(offset: u64) -> Half {
        copy_of(offset, offset)
    }

    fn copy_of(first: u64, offset: u64) -> Half {
        Half {
            queue_id: 0,
            offset,
            first,
            born_ms: 7,
        }
    }

    fn op_messages(ends: &mut Ends, rules: OpMessageRules, now_ms: u64) -> Vec<String> {
        let mut found = Vec::new();
        let mut body = Vec::new();
        while let Some(queue_id) = ends.due(now_ms) {
            let count = ends.next_op_message(queue_id, rules, &mut body);
            found.push(String::from_utf8(body.clone()).unwrap());
            ends.written(queue_id, count, rules, now_ms);
        }
        found
    }

    #[test]
    fn a_single_note_is_due_at_once() {
        let mut ends = Ends::default();
        ends.decide(at(7), Decision::Commit, SINGLE, 100);
        ends.decide(at(9), Decision::Rollback, SINGLE, 100);
        assert_eq!(op_messages(&mut ends, SINGLE, 100), ["7", "9"]);
        assert_eq!(ends.waiting(), 0);
        assert_eq!(ends.decided(at(9)), Some(Decision::Rollback));
    }

    #[test]
    fn a_batch_waits_for_its_time_or_its_size() {
        let mut ends = Ends::default();
        ends.decide(at(7), Decision::Commit, BATCHED, 100);
        ends.decide(at(8), Decision::Commit, BATCHED, 200);
        assert_eq!(ends.next_due_ms(), Some(3_100));
        assert_eq!(op_messages(&mut ends, BATCHED, 3_099), [""; 0]);
        assert_eq!(op_messages(&mut ends, BATCHED, 3_100), ["7,8,"]);
        for offset in 10..14 {
            ends.decide(at(offset), Decision::Commit, BATCHED, 4_000);
        }
        assert_eq!(op_messages(&mut ends, BATCHED, 4_000), ["10,11,12,"]);
        assert_eq!(ends.next_due_ms(), Some(7_000));
        ends.failed(0, 7_000);
        assert_eq!(ends.next_due_ms(), Some(8_000));
        assert_eq!(op_messages(&mut ends, BATCHED, 8_000), ["13,"]);
    }

    #[test]
    fn a_half_message_ends_with_its_copies() {
        let mut ends = Ends::default();
        assert!(!ends.copied(at(1), 20, SINGLE, 0));
        assert!(!ends.copied(copy_of(1, 20), 30, SINGLE, 0));
        ends.decide(at(1), Decision::Commit, SINGLE, 0);
        assert_eq!(op_messages(&mut ends, SINGLE, 0), ["1", "30"]);
        for offset in [1, 20, 30] {
            assert_eq!(ends.decided(copy_of(1, offset)), Some(Decision::Commit));
        }
        let reborn = Half {
            born_ms: 8,
            ..at(1)
        };
        assert_eq!(ends.decided(reborn), None, "another one at the same place");
        let late = copy_of(1, 30);
        assert!(ends.copied(late, 40, SINGLE, 0), "ended meanwhile");
        assert_eq!(op_messages(&mut ends, SINGLE, 0), ["40"]);
        ends.decide(at(50), Decision::Rollback, SINGLE, 0);
        assert_eq!(op_messages(&mut ends, SINGLE, 0), ["50"]);
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut ends = Ends::default();
        for offset in 0..REMEMBERED_MAX as u64 + 10 {
            ends.decide(at(offset), Decision::Commit, SINGLE, 0);
            ends.copied(at(offset + 1_000_000), offset + 2_000_000, SINGLE, 0);
            let count = ends.waiting();
            ends.written(0, count, SINGLE, 0);
        }
        assert_eq!(ends.decided(at(9)), None);
        assert_eq!(ends.decided(at(10)), Some(Decision::Commit));
        assert_eq!(ends.decided.len(), REMEMBERED_MAX);
        assert_eq!(ends.newest_of.len(), REMEMBERED_MAX);
    }

    #[test]
    fn ends_that_cannot_be_noted_are_refused_at_a_bound() {
        let mut ends = Ends::default();
        let mut offset = 0;
        while ends.has_space(0) {
            ends.decide(at(offset), Decision::Commit, BATCHED, 0);
            offset += 1;
        }
        assert!(ends.waiting() <= WAITING_MAX && ends.waiting() >= WAITING_MAX - 2);
    }
}
