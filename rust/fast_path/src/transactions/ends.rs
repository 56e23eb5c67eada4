//! What is ended, of all loops over a store, since a transaction may end on any connection: what was ended
//! lately in shards, and what waits for an op message, each behind a lock of its own. All half messages of
//! an official broker are in one queue, so that the shard of a half message is chosen by its first offset
//! and its time. Knows no request.
//!
//! Lock order: one shard, never two, then the op messages.

use std::sync::atomic::{AtomicU64, Ordering};

use mqcore_engine::lock::{Mutex, MutexGuard};

use super::op_queues::OpQueues;
use super::remembered::{Half, Remembered};
use crate::shards::{SHARDS, Shards, shard_of_number};

/// Ends kept in memory, in all shards together: some seconds of the fastest producers. A second end of an
/// older one is taken as the first, as the official broker takes all.
const REMEMBERED_MAX: usize = 65_536;

/// What waits for an op message, and when the next one is due.
#[derive(Debug)]
struct OpMessages {
    queues: Mutex<OpQueues>,
    /// When an op message has to be written, ms; `u64::MAX` for never.
    due_ms: AtomicU64,
}

/// Ends of transactions.
#[derive(Debug)]
pub(crate) struct Ends {
    shards: Shards<Remembered>,
    op_messages: OpMessages,
}

impl Default for Ends {
    fn default() -> Self {
        Self {
            shards: Shards::from_fn(|_number| Remembered::new(REMEMBERED_MAX / SHARDS)),
            op_messages: OpMessages {
                queues: Mutex::default(),
                due_ms: AtomicU64::new(u64::MAX),
            },
        }
    }
}

impl Ends {
    /// What was ended lately, of a half message and others: for the length of one end, so that none ends
    /// twice.
    ///
    /// # Blocking
    /// While another thread ends one of the same shard.
    pub(super) fn of_half(&self, half: Half) -> MutexGuard<'_, Remembered> {
        self.shards.lock(shard_of(half))
    }

    /// Half messages whose end, or whose copies, are remembered.
    ///
    /// # Blocking
    /// While other threads end some.
    pub(crate) fn remembered(&self) -> usize {
        let shards = self.shards.all().map(|shard| shard.lock().len());
        shards.map(|(ends, copied)| ends + copied).sum()
    }

    /// Waits until every end that is being executed is done, with its op message or among those that wait.
    ///
    /// # Blocking
    /// As long as those need.
    pub(super) fn wait_executed(&self) {
        for shard in self.shards.all() {
            drop(shard.lock());
        }
    }

    /// Keeps space for what waits of one end; `None` where there is none.
    pub(super) fn space(&self, queue_id: i32) -> Option<Space<'_>> {
        let has_space = self.with_op_queues(|queues| queues.reserve(queue_id));
        has_space.then(|| Space {
            ends: self,
            queue_id,
            is_kept: true,
        })
    }

    /// Looks at what waits for op messages, or changes it.
    ///
    /// # Blocking
    /// While another thread does the same, or writes an op message of many ends.
    pub(super) fn with_op_queues<T>(&self, change: impl FnOnce(&mut OpQueues) -> T) -> T {
        let OpMessages { queues, due_ms } = &self.op_messages;
        let mut queues = queues.lock();
        let done = change(&mut queues);
        // Under the lock, so that the last one who changed it is the last one who writes; and only what
        // is new, since others have it in their caches.
        let next_ms = queues.next_due_ms().unwrap_or(u64::MAX);
        if due_ms.load(Ordering::Relaxed) != next_ms {
            due_ms.store(next_ms, Ordering::Release);
        }
        done
    }

    /// When an op message has to be written, ms. Takes no lock.
    pub(super) fn next_due_ms(&self) -> Option<u64> {
        let due_ms = self.op_messages.due_ms.load(Ordering::Acquire);
        (due_ms < u64::MAX).then_some(due_ms)
    }
}

/// Space for what waits of one end; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Space<'a> {
    ends: &'a Ends,
    queue_id: i32,
    is_kept: bool,
}

impl Space<'_> {
    /// Adds what waits, in place of the space.
    pub(super) fn fill<T>(mut self, add: impl FnOnce(&mut OpQueues) -> T) -> T {
        self.is_kept = false;
        let queue_id = self.queue_id;
        self.ends.with_op_queues(|queues| {
            queues.release(queue_id);
            add(queues)
        })
    }
}

impl Drop for Space<'_> {
    fn drop(&mut self) {
        if self.is_kept {
            let queue_id = self.queue_id;
            self.ends.with_op_queues(|queues| queues.release(queue_id));
        }
    }
}

/// The same for all copies of a half message.
fn shard_of(half: Half) -> usize {
    let born = half.born_ms.cast_unsigned().rotate_left(32);
    let queue = u64::from(half.queue_id.cast_unsigned()).rotate_left(48);
    shard_of_number(half.first ^ born ^ queue)
}

#[cfg(test)]
mod tests {
    use super::super::op_queues::OpMessageRules;
    use super::*;
    use crate::requests::Decision;

    const BATCHED: OpMessageRules = OpMessageRules {
        is_batched: true,
        bytes_max: 4_096,
        interval_ms: 3_000,
    };

    fn at(offset: u64) -> Half {
        Half {
            queue_id: 0,
            offset,
            first: offset,
            born_ms: 1_795_249_596_000 + offset.cast_signed(),
        }
    }

    #[test]
    fn half_messages_of_one_queue_are_spread_and_copies_stay_with_their_first() {
        let mut halves_of = [0; SHARDS];
        for offset in 0..SHARDS as u64 * 64 {
            let half = at(offset);
            halves_of[shard_of(half)] += 1;
            let copy = Half {
                offset: offset + 1_000_000,
                ..half
            };
            assert_eq!(shard_of(copy), shard_of(half));
        }
        let (least, most) = (halves_of.iter().min(), halves_of.iter().max());
        assert!(least > Some(&32) && most < Some(&128), "{halves_of:?}");
    }

    #[test]
    fn the_memory_is_bounded_over_all_shards() {
        let ends = Ends::default();
        let all = REMEMBERED_MAX as u64 * 2;
        for offset in 0..all {
            let half = at(offset);
            let mut remembered = ends.of_half(half);
            assert_eq!(remembered.decide(half, Decision::Commit), None);
            assert!(remembered.copied(half, offset + all));
        }
        let lens = ends.shards.all().map(|shard| shard.lock().len());
        let sums = lens.fold((0, 0), |sums, len| (sums.0 + len.0, sums.1 + len.1));
        assert_eq!(sums, (REMEMBERED_MAX, REMEMBERED_MAX));
        let known = |half: Half| ends.of_half(half).decided(half).is_some();
        let newest = all - REMEMBERED_MAX as u64 / 2..all;
        assert!(newest.map(at).all(known), "spread evenly, none goes early");
        assert!(!known(at(0)));
    }

    #[test]
    fn space_that_is_not_filled_is_given_back() {
        let ends = Ends::default();
        let mut kept = Vec::new();
        while let Some(space) = ends.space(0) {
            kept.push(space);
        }
        assert!(ends.space(0).is_none());
        drop(kept.pop());
        let space = ends.space(0).unwrap();
        space.fill(|queues| queues.wait(0, 7, BATCHED, 0));
        assert!(ends.space(0).is_none(), "one waits, and takes half of it");
        drop(kept);
        assert!(ends.space(0).is_some());
        assert_eq!(ends.with_op_queues(|queues| queues.waiting()), 1);
    }

    #[test]
    fn when_an_op_message_is_due_is_known_without_the_lock() {
        let ends = Ends::default();
        assert_eq!(ends.next_due_ms(), None);
        ends.with_op_queues(|queues| queues.wait(0, 7, BATCHED, 100));
        let locked = ends.op_messages.queues.lock();
        assert_eq!(ends.next_due_ms(), Some(3_100));
        drop(locked);
        ends.with_op_queues(|queues| queues.written(0, 1, BATCHED, 3_100));
        assert_eq!(ends.next_due_ms(), None);
    }
}
