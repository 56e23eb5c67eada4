//! What is popped and not acknowledged: the buffer of pops, how many messages are in flight, ordered
//! pops; stored as check points when they are due, and the offsets of groups that rest on them
//! (`PopBufferMergeService`). The one interface to it for pops, acknowledgements and resets. One for each
//! shard of the groups (`shards`).

use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::Store;

use super::buffer::{Acked, Buffer, GroupQueueId};
use super::flight::InFlight;
use super::log::{PopRecord, WRITES_MAX_BYTES, put_point, put_record};
use super::orders::Orders;
use super::other_loops::OtherLoops;
use super::points::{Acknowledgement, CheckPoint};
use crate::consumer_offsets::ConsumerOffsets;
use crate::context::Context;
use crate::policy::Policy;
use crate::refusals::Refused;

/// Check points stored by one drain: some milliseconds of work.
const STORED_PER_DRAIN: usize = 512;
/// Queues with something due that one drain looks at.
const GROUP_QUEUES_PER_DRAIN: usize = 1_024;
/// Pause before it is tried again whether the log has space, ms.
const AGAIN_MS: u64 = 2;
/// How often unused parts of the buffer are looked for, ms, as officially.
const FORGET_MS: u64 = 30_000;

/// The time that pops go by, Unix ms: that of the timers, which bring their check points.
pub(super) fn pop_ms<D: Disk, C: Clock>(store: &Store<D, C>, policy: &Policy) -> i64 {
    let ahead_ms = policy.broker.timing.ahead_ms;
    store.wall_ms().saturating_add(ahead_ms)
}

/// What one drain still does, of all shards together.
#[derive(Debug)]
pub(super) struct DrainWork {
    stored: usize,
    group_queues: usize,
}

impl Default for DrainWork {
    fn default() -> Self {
        Self {
            stored: STORED_PER_DRAIN,
            group_queues: GROUP_QUEUES_PER_DRAIN,
        }
    }
}

impl DrainWork {
    /// Whether the next drain is to go on.
    pub(super) fn is_used_up(&self) -> bool {
        self.stored == 0 || self.group_queues == 0
    }
}

/// What is popped and not acknowledged, of the groups of a shard.
#[derive(Debug)]
pub(crate) struct PopBufferMerge {
    /// The number of the shard.
    pub(super) shard: usize,
    /// What is popped and not settled.
    pub(super) buffer: Buffer,
    /// How many messages are popped and not acknowledged, while that has a bound.
    pub(super) in_flight: InFlight,
    /// Ordered pops.
    pub(crate) orders: Orders,
    /// Where groups go on.
    pub(super) offsets: Arc<ConsumerOffsets>,
    /// The loops, and what is woken there.
    pub(super) loops: OtherLoops,
    /// Check points and acknowledgements stored.
    stored: u64,
    /// When unused parts of the buffer are looked for next, ms.
    next_forget_ms: u64,
}

impl PopBufferMerge {
    pub(crate) fn new(shard: usize, offsets: Arc<ConsumerOffsets>) -> Self {
        Self {
            shard,
            buffer: Buffer::default(),
            in_flight: InFlight::default(),
            orders: Orders::default(),
            offsets,
            loops: OtherLoops::default(),
            stored: 0,
            next_forget_ms: 0,
        }
    }

    /// Begins to count what is in flight where that has a bound now, and ends where it has none.
    pub(crate) fn decide<D: Disk, C: Clock>(&mut self, store: &Store<D, C>, policy: &Policy) {
        let has_bound = policy.broker.pops.in_flight_max.is_some();
        self.in_flight.count_if(has_bound, pop_ms(store, policy));
    }

    /// Records that messages of a pop are settled; whether the queue has space again that had none.
    pub(crate) fn land(
        &mut self,
        policy: &Policy,
        queue: (&str, &str, i32),
        pop_time_ms: i64,
        messages: usize,
    ) -> bool {
        let landed = self.in_flight.take(queue, pop_time_ms, messages);
        let max = policy.broker.pops.in_flight_max;
        landed
            .zip(max)
            .is_some_and(|((before, after), max)| before > max && after <= max)
    }

    /// Forgets what is in flight of a group, of a topic or of both together.
    pub(crate) fn remove(&mut self, group: Option<&str>, topic: Option<&str>) {
        let is_meant = |wanted: Option<&str>, name: &str| wanted.is_none_or(|it| it == name);
        self.in_flight
            .retain(|of_topic, of_group| !(is_meant(topic, of_topic) && is_meant(group, of_group)));
    }

    /// Where a group goes on in a queue; `None` where it never was.
    pub(super) fn position_of(&mut self, topic: &str, group: &str, queue_id: i32) -> Option<u64> {
        let committed = self.offsets.find(group, topic, queue_id);
        let committed = committed.and_then(|offset| u64::try_from(offset).ok());
        let buffer_slot = self.buffer.find(topic, group, queue_id);
        let latest = buffer_slot.and_then(|buffer_slot| self.buffer.latest(buffer_slot));
        committed.max(latest)
    }

    /// Lets a pop begin where its queue was set to (`resetPopOffset`).
    pub(super) fn begin_at_reset<D: Disk, C: Clock>(
        &mut self,
        cx: &Context<'_, D, C>,
        group: &str,
        topic: &str,
        queue_id: i32,
    ) {
        if let Some(offset) = self.offsets.take_reset(group, topic, queue_id) {
            // A pop that was being read from the disk at the time of the reset was kept after it.
            self.release(cx, group, topic, queue_id);
            self.offsets.commit(group, topic, queue_id, offset);
        }
    }

    /// Whether a pop is in memory and took the acknowledgement.
    pub(super) fn acknowledge(
        &mut self,
        queue: (&str, &str, i32),
        (start_offset, pop_time_ms): (i64, i64),
        offset: i64,
    ) -> bool {
        let (topic, group, queue_id) = queue;
        let Some(buffer_slot) = self.buffer.find(topic, group, queue_id) else {
            return false;
        };
        let buffer = &mut self.buffer;
        match buffer.acknowledge(buffer_slot, start_offset, pop_time_ms, offset) {
            Acked::Kept => self.commit_settled(buffer_slot),
            Acked::NoMessage => {}
            Acked::Elsewhere => return false,
        }
        true
    }

    /// Stores a check point.
    pub(super) fn put_point<D: Disk, C: Clock>(
        &mut self,
        cx: &Context<'_, D, C>,
        point: &CheckPoint,
        queue_id: i32,
    ) -> Result<u64, Refused> {
        self.stored += 1;
        put_point(cx.store, &cx.policy.broker, point, queue_id)
    }

    /// Stores an acknowledgement of messages that are due at a time. One that cannot be stored is
    /// passed over, as officially: its messages come again.
    pub(super) fn put_ack<D: Disk, C: Clock>(
        &mut self,
        cx: &Context<'_, D, C>,
        ack: &Acknowledgement,
        queue_id: i32,
        due_ms: i64,
    ) {
        let broker = &cx.policy.broker;
        if !(0..broker.pops.revive_queues).contains(&queue_id) {
            // No check point is there that it could belong to.
            return;
        }
        self.stored += 1;
        let (body, unique_key) = (ack.json(), ack.unique_key());
        let record = PopRecord {
            queue_id,
            tag: ack.tag(),
            unique_key: &unique_key,
            deliver_ms: due_ms,
            body: body.as_bytes(),
        };
        let _reported = put_record(cx.store, broker, &record);
    }

    /// Nothing of a queue up to an offset is popped: the offset of its group follows.
    pub(super) fn pass_to(&mut self, buffer_slot: GroupQueueId, next_offset: u64) {
        self.buffer.push_settled(buffer_slot, next_offset);
        self.commit_settled(buffer_slot);
    }

    /// Stores the open pops of a queue that are due by a time, and commits what that settles;
    /// returns whether all are.
    fn settle_group_queue<D: Disk, C: Clock>(
        &mut self,
        cx: &Context<'_, D, C>,
        buffer_slot: GroupQueueId,
        until_ms: u64,
        most: &mut usize,
    ) -> bool {
        let (broker, store) = (&cx.policy.broker, cx.store);
        let mut stored = 0;
        let times = (until_ms, cx.now_ms + AGAIN_MS);
        let buffer = &mut self.buffer;
        let is_all = buffer.settle(buffer_slot, times, &broker.name, |point, queue_id| {
            let has_space = *most > 0 && store.writer().is_ready_for(WRITES_MAX_BYTES);
            let is_stored = has_space && put_point(store, broker, point, queue_id).is_ok();
            *most -= usize::from(is_stored);
            stored += u64::from(is_stored);
            is_stored
        });
        self.stored += stored;
        self.commit_settled(buffer_slot);
        is_all
    }

    /// Commits the offset of a queue as far as its pops are settled.
    fn commit_settled(&mut self, buffer_slot: GroupQueueId) {
        let Some(next_offset) = self.buffer.take_settled(buffer_slot) else {
            return;
        };
        if let Some((topic, group, queue_id)) = self.buffer.names(buffer_slot) {
            let next_offset = next_offset.cast_signed();
            self.offsets.commit(group, topic, queue_id, next_offset);
        }
    }

    /// Stores what has to be by now, and forgets what is unused.
    pub(super) fn settle_due<D: Disk, C: Clock>(
        &mut self,
        cx: &Context<'_, D, C>,
        work: &mut DrainWork,
    ) {
        let due = self.buffer.take_due(cx.now_ms, work.group_queues);
        work.group_queues -= due.len();
        for buffer_slot in due {
            self.settle_group_queue(cx, buffer_slot, cx.now_ms, &mut work.stored);
        }
        if cx.now_ms >= self.next_forget_ms {
            self.next_forget_ms = cx.now_ms + FORGET_MS;
            let policy = cx.policy;
            let is_known = |topic: &str, group: &str| {
                policy.topics.contains_key(topic) && policy.groups.contains_key(group)
            };
            self.buffer.forget(cx.now_ms, is_known);
            self.in_flight.retain(is_known);
            self.orders.forget(pop_ms(cx.store, policy), is_known);
        }
    }

    /// Stores every open pop: at a stop. Returns whether all are stored.
    pub(crate) fn store_all<D: Disk, C: Clock>(&mut self, cx: &Context<'_, D, C>) -> bool {
        let mut is_all = true;
        for buffer_slot in self.buffer.all() {
            is_all &= self.settle_all(cx, buffer_slot);
        }
        is_all
    }

    /// Lets the pops of a queue go before its group goes on at another offset: they are stored.
    pub(crate) fn release<D: Disk, C: Clock>(
        &mut self,
        cx: &Context<'_, D, C>,
        group: &str,
        topic: &str,
        queue_id: i32,
    ) {
        self.in_flight.clear((topic, group, queue_id));
        if self.orders.changes() > 0 {
            self.orders.clear(topic, group, queue_id);
        }
        if self.buffer.is_empty() {
            return;
        }
        if let Some(buffer_slot) = self.buffer.find(topic, group, queue_id) {
            self.settle_all(cx, buffer_slot);
        }
    }

    /// Stores the open pops of a queue, whenever they are due; returns whether all are.
    pub(super) fn settle_all<D: Disk, C: Clock>(
        &mut self,
        cx: &Context<'_, D, C>,
        buffer_slot: GroupQueueId,
    ) -> bool {
        let mut most = usize::MAX;
        self.settle_group_queue(cx, buffer_slot, u64::MAX, &mut most)
    }

    /// Check points and acknowledgements stored since the broker started: offsets of groups may rest
    /// on them.
    pub(crate) fn stored(&self) -> u64 {
        self.stored
    }

    /// When a pop has to be stored, ms.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.buffer.next_due_ms()
    }

    /// When unused parts are looked for, ms.
    pub(super) fn next_forget_ms(&self) -> u64 {
        self.next_forget_ms
    }

    /// Pops that are open.
    pub(crate) fn open(&self) -> usize {
        self.buffer.open()
    }
}
