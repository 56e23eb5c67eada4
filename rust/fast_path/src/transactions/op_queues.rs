//! Ends that wait for their op messages, by queue of the half topic, and what the op messages contain.
//! Pure state over passed-in times; knows no lock and no store.

use std::collections::{BTreeMap, VecDeque};

/// Ends that wait for their op message, per queue, as the official broker has it.
pub(super) const WAITING_MAX: usize = 20_000;
/// Ends that one request adds at the most: of a half message, and of its newest copy.
const ADDED_MAX: usize = 2;
/// Pause after an op message that could not be written, ms.
const FAILED_MS: u64 = 1_000;

/// How op messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpMessageRules {
    /// Whether many ends share an op message (5.1 and later).
    pub(super) is_batched: bool,
    /// Bytes of an op message at the most, but for the last number (`transactionOpMsgMaxSize`).
    pub(super) bytes_max: usize,
    /// How long an end may wait for others, ms (`transactionOpBatchInterval`).
    pub(super) interval_ms: u64,
}

#[derive(Debug, Default)]
struct Waiting {
    offsets: VecDeque<u64>,
    /// Ends that are being executed and will wait.
    reserved: usize,
    bytes: usize,
    due_ms: u64,
}

/// Ends without an op message, by queue.
#[derive(Debug, Default)]
pub(super) struct OpQueues {
    waiting: BTreeMap<i32, Waiting>,
}

impl OpQueues {
    /// Keeps space for what one end adds; false where there is none.
    pub(super) fn reserve(&mut self, queue_id: i32) -> bool {
        let waiting = self.waiting.entry(queue_id).or_default();
        let has_space = waiting.offsets.len() + waiting.reserved + ADDED_MAX <= WAITING_MAX;
        if has_space {
            waiting.reserved += ADDED_MAX;
        }
        has_space
    }

    /// Gives back space that was kept for one end.
    pub(super) fn release(&mut self, queue_id: i32) {
        if let Some(waiting) = self.waiting.get_mut(&queue_id) {
            waiting.reserved = waiting.reserved.saturating_sub(ADDED_MAX);
        }
    }

    /// Lets an end wait for its op message.
    pub(super) fn wait(&mut self, queue_id: i32, offset: u64, rules: OpMessageRules, now_ms: u64) {
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
    pub(super) fn due(&self, now_ms: u64) -> Option<i32> {
        let mut queues = self.waiting.iter();
        let found =
            queues.find(|(_, waiting)| !waiting.offsets.is_empty() && waiting.due_ms <= now_ms);
        found.map(|(queue_id, _)| *queue_id)
    }

    /// A queue that has ends without an op message, due or not.
    pub(super) fn any(&self) -> Option<i32> {
        let mut queues = self.waiting.iter();
        let found = queues.find(|(_, waiting)| !waiting.offsets.is_empty());
        found.map(|(queue_id, _)| *queue_id)
    }

    /// When the next op messages are to be written, ms.
    pub(super) fn next_due_ms(&self) -> Option<u64> {
        let queues = self.waiting.values();
        let filled = queues.filter(|waiting| !waiting.offsets.is_empty());
        filled.map(|waiting| waiting.due_ms).min()
    }

    /// Puts the body of the next op message into `body`; how many ends it names.
    pub(super) fn next_op_message(
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
    pub(super) fn written(
        &mut self,
        queue_id: i32,
        count: usize,
        rules: OpMessageRules,
        now_ms: u64,
    ) {
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
    pub(super) fn failed(&mut self, queue_id: i32, now_ms: u64) {
        if let Some(waiting) = self.waiting.get_mut(&queue_id) {
            waiting.due_ms = now_ms.saturating_add(FAILED_MS);
        }
    }

    /// Ends that have no op message yet.
    pub(super) fn waiting(&self) -> usize {
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

    fn op_messages(queues: &mut OpQueues, rules: OpMessageRules, now_ms: u64) -> Vec<String> {
        let mut found = Vec::new();
        let mut body = Vec::new();
        while let Some(queue_id) = queues.due(now_ms) {
            let count = queues.next_op_message(queue_id, rules, &mut body);
            found.push(String::from_utf8(body.clone()).unwrap());
            queues.written(queue_id, count, rules, now_ms);
        }
        found
    }

    #[test]
    fn a_single_note_is_due_at_once() {
        let mut queues = OpQueues::default();
        queues.wait(0, 7, SINGLE, 100);
        queues.wait(0, 9, SINGLE, 100);
        assert_eq!(op_messages(&mut queues, SINGLE, 100), ["7", "9"]);
        assert_eq!(queues.waiting(), 0);
    }

    #[test]
    fn a_batch_waits_for_its_time_or_its_size() {
        let mut queues = OpQueues::default();
        queues.wait(0, 7, BATCHED, 100);
        queues.wait(0, 8, BATCHED, 200);
        assert_eq!(queues.next_due_ms(), Some(3_100));
        assert_eq!(op_messages(&mut queues, BATCHED, 3_099), [""; 0]);
        assert_eq!(op_messages(&mut queues, BATCHED, 3_100), ["7,8,"]);
        for offset in 10..14 {
            queues.wait(0, offset, BATCHED, 4_000);
        }
        assert_eq!(op_messages(&mut queues, BATCHED, 4_000), ["10,11,12,"]);
        assert_eq!(queues.next_due_ms(), Some(7_000));
        queues.failed(0, 7_000);
        assert_eq!(queues.next_due_ms(), Some(8_000));
        assert_eq!(op_messages(&mut queues, BATCHED, 8_000), ["13,"]);
    }

    #[test]
    fn ends_that_cannot_be_noted_are_refused_at_a_bound() {
        let mut queues = OpQueues::default();
        let mut offset = 0;
        while queues.reserve(0) {
            queues.release(0);
            queues.wait(0, offset, BATCHED, 0);
            offset += 1;
        }
        assert!(queues.waiting() <= WAITING_MAX && queues.waiting() >= WAITING_MAX - ADDED_MAX);
        assert!(queues.reserve(1), "another queue has a bound of its own");
    }

    #[test]
    fn what_is_being_executed_counts_for_the_bound() {
        let mut queues = OpQueues::default();
        let reserved = (0..WAITING_MAX).take_while(|_at| queues.reserve(0)).count();
        assert_eq!(reserved, WAITING_MAX / ADDED_MAX);
        queues.release(0);
        assert!(queues.reserve(0) && !queues.reserve(0));
        assert_eq!((queues.waiting(), queues.any()), (0, None));
    }
}
