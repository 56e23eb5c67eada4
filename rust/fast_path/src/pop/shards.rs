//! What is popped, in shards by consumer group, each behind a lock of its own: pops of groups of different
//! shards do not wait for one another. The retry topic of a group belongs to the shard of its group.
//! Knows no request.
//!
//! Lock order: one shard at a time, never two; after the fast path's own lock, before those of the
//! consumer offsets and of the store. What concerns all groups goes through the shards one by one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::lock::Mutex;
use mqcore_engine::store::LoopEvents;

use super::merge::{DrainWork, PopBufferMerge};
use super::orders::Order;
use super::other_loops::{LoopNumber, OwnedLine};
use crate::consumer_offsets::ConsumerOffsets;
use crate::context::Context;
use crate::shards::{SHARDS, shard_of_name};

/// The groups of a shard.
#[derive(Debug)]
pub(crate) struct PopShard {
    merge: Mutex<PopBufferMerge>,
    /// When a pop of it has to be stored, ms; `u64::MAX` for never.
    due_ms: AtomicU64,
    /// When unused parts of it are looked for, ms.
    forget_ms: AtomicU64,
    /// Whether lines wait for a loop to take them.
    has_lines: AtomicBool,
}

impl PopShard {
    fn new(number: usize, offsets: Arc<ConsumerOffsets>) -> Self {
        Self {
            merge: Mutex::new(PopBufferMerge::new(number, offsets)),
            due_ms: AtomicU64::new(u64::MAX),
            forget_ms: AtomicU64::new(0),
            has_lines: AtomicBool::new(false),
        }
    }

    /// Looks at what is popped, or changes it; wakes the loops that have pops to run again, after the
    /// lock.
    ///
    /// # Blocking
    /// While another thread does the same with this shard.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut PopBufferMerge) -> T) -> T {
        let (done, woken) = {
            let merge = &mut self.merge.lock();
            let done = change(merge);
            // Under the lock, so that the last one who changed it is the last one who publishes.
            publish(&self.due_ms, merge.next_due_ms().unwrap_or(u64::MAX));
            publish(&self.forget_ms, merge.next_forget_ms());
            let has_lines = merge.loops.has_lines();
            if self.has_lines.load(Ordering::Relaxed) != has_lines {
                self.has_lines.store(has_lines, Ordering::Release);
            }
            (done, merge.loops.take_woken())
        };
        for events in woken {
            events.wake_descriptor().raise();
        }
        done
    }

    fn due_ms(&self) -> u64 {
        self.due_ms.load(Ordering::Acquire)
    }

    fn is_due(&self, now_ms: u64) -> bool {
        self.due_ms().min(self.forget_ms.load(Ordering::Acquire)) <= now_ms
    }
}

/// Writes where that changes something: others have the line in their caches.
fn publish(published_ms: &AtomicU64, at_ms: u64) {
    if published_ms.load(Ordering::Relaxed) != at_ms {
        published_ms.store(at_ms, Ordering::Release);
    }
}

/// All shards.
#[derive(Debug)]
pub(crate) struct PopShards {
    shards: [PopShard; SHARDS],
}

impl PopShards {
    pub(crate) fn new(offsets: &Arc<ConsumerOffsets>) -> Self {
        Self {
            shards: std::array::from_fn(|number| PopShard::new(number, Arc::clone(offsets))),
        }
    }

    /// The shard of a group.
    pub(crate) fn of_group(&self, group: &str) -> &PopShard {
        let [first, ..] = &self.shards;
        self.shards.get(shard_of_name(group)).unwrap_or(first)
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &PopShard> {
        self.shards.iter()
    }

    /// Takes a loop in; it has the same number in all shards.
    pub(super) fn join(&self, events: &Arc<LoopEvents>) -> LoopNumber {
        let [first, others @ ..] = &self.shards;
        let number = first.with(|merge| merge.loops.join(events));
        for shard in others {
            shard.with(|merge| merge.loops.join_as(number, events));
        }
        number
    }

    /// Takes the lines that others have woken for a loop.
    pub(super) fn take_lines_of(&self, number: LoopNumber) -> Vec<OwnedLine> {
        let mut lines = Vec::new();
        for shard in self.all() {
            if shard.has_lines.load(Ordering::Acquire) {
                lines.extend(shard.with(|merge| merge.loops.take_lines(number)));
            }
        }
        lines
    }

    /// Records that a loop holds no pop any more, in the shards of `mask`.
    pub(super) fn has_none_held(&self, number: LoopNumber, mask: u64) {
        for (at, shard) in self.all().enumerate() {
            if mask & (1 << at) != 0 {
                shard.with(|merge| merge.loops.set_held(number, 0));
            }
        }
    }

    /// Stores what has to be by now, and forgets what is unused: as much as one drain does of all shards
    /// together, beginning with another one each time.
    pub(crate) fn settle_due_of_all<D: Disk, C: Clock>(&self, cx: &Context<'_, D, C>) {
        let mut work = DrainWork::default();
        let first = usize::try_from(cx.now_ms).unwrap_or(0) % SHARDS;
        let (before, from) = self.shards.split_at(first);
        for shard in from.iter().chain(before) {
            if shard.is_due(cx.now_ms) && !work.is_used_up() {
                shard.with(|merge| merge.settle_due(cx, &mut work));
            }
        }
    }

    /// Stores every open pop: at a stop. Returns whether all are stored.
    pub(crate) fn store_all_of_all<D: Disk, C: Clock>(&self, cx: &Context<'_, D, C>) -> bool {
        let mut is_all = true;
        for shard in self.all() {
            is_all &= shard.with(|merge| merge.store_all(cx));
        }
        is_all
    }

    /// Replaces all ordered pops, each in the shard of its group.
    pub(crate) fn load_orders(&self, table: impl IntoIterator<Item = (String, i32, Order)>) {
        let mut tables: [Vec<_>; SHARDS] = std::array::from_fn(|_number| Vec::new());
        for row in table {
            let group = row.0.split_once('@').map_or("", |(_topic, group)| group);
            if let Some(of_shard) = tables.get_mut(shard_of_name(group)) {
                of_shard.push(row);
            }
        }
        for (shard, of_shard) in self.all().zip(tables) {
            shard.with(|merge| merge.orders.load(of_shard));
        }
    }

    /// When a pop has to be stored, ms. Takes no lock.
    pub(super) fn first_due_ms(&self) -> Option<u64> {
        let first = self.all().map(PopShard::due_ms).min();
        first.filter(|due_ms| *due_ms < u64::MAX)
    }

    /// Check points and acknowledgements stored since the broker started.
    pub(crate) fn sum_stored(&self) -> u64 {
        self.all()
            .map(|shard| shard.with(|merge| merge.stored()))
            .sum()
    }

    /// Pops that are open.
    pub(crate) fn sum_open(&self) -> usize {
        self.all()
            .map(|shard| shard.with(|merge| merge.open()))
            .sum()
    }
}
