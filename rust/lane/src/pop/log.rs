//! Check points and acknowledgements on their way into the log: through the timers, so that both
//! come into the topic of check points when the messages of the pop are due
//! (`PopMessageProcessor.buildCkMsg`, `PopBufferMergeService`).

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::Store;
use mqcore_record::{Host, Message};

use super::WRITES_MAX_BYTES;
use super::buffer::PlaceId;
use super::names::normal_topic;
use super::points::{Acknowledgement, CheckPoint, POINT_TAG};
use crate::codes;
use crate::lane::Lane;
use crate::names::TIMER_TOPIC;
use crate::policy::Broker;
use crate::properties::{self, REAL_QID, REAL_TOPIC, TIMER_DELIVER_MS, TIMER_OUT_MS, UNIQ_KEY};
use crate::send::Refused;

/// How long before its messages are due a check point comes into its topic, ms: acknowledgements come
/// when they are, so that they stand behind it (`ackTimeInterval`).
const BEFORE_DUE_MS: i64 = 1_000;
/// Check points stored by one drain: some milliseconds of work.
const STORED_PER_DRAIN: usize = 512;
/// Queues with something due that one drain looks at.
const PLACES_PER_DRAIN: usize = 1_024;
/// Pause before it is tried again whether the log has room, ms.
const AGAIN_MS: u64 = 2;
/// How often unused parts of the buffer are looked for, ms, as officially.
const FORGET_MS: u64 = 30_000;

/// A record for the topic of check points.
pub(super) struct Note<'a> {
    pub(super) queue_id: i32,
    pub(super) tag: &'a str,
    pub(super) unique_key: &'a str,
    /// When it is to come there, on the timers' clock, ms.
    pub(super) deliver_ms: i64,
    pub(super) body: &'a [u8],
}

/// Stores a record for the topic of check points, through the timers unless its time is over.
pub(super) fn put_note<D: Disk, C: Clock>(
    store: &Store<D, C>,
    broker: &Broker,
    note: &Note<'_>,
) -> Result<u64, Refused> {
    let timing = &broker.timing;
    let now_ms = store.wall_ms().saturating_add(timing.ahead_ms);
    let ahead_ms = note.deliver_ms.saturating_sub(now_ms);
    if ahead_ms > timing.max_delay_ms {
        let remark = format!("a time {ahead_ms}ms ahead is beyond timerMaxDelaySec");
        return Err((codes::MESSAGE_ILLEGAL, remark));
    }
    let deliver = note.deliver_ms.to_string();
    let mut adds = vec![
        ("TAGS", note.tag.as_bytes()),
        (UNIQ_KEY, note.unique_key.as_bytes()),
        (TIMER_DELIVER_MS, deliver.as_bytes()),
    ];
    // As any message with a time of its own: the last step that begins before it.
    let before_ms = note.deliver_ms.saturating_sub(1);
    let slot = (before_ms / timing.step_ms * timing.step_ms).to_string();
    let queue = note.queue_id.to_string();
    let (topic, queue_id) = if ahead_ms > 0 {
        adds.extend([
            (TIMER_OUT_MS, slot.as_bytes()),
            (REAL_TOPIC, broker.pops.revive_topic.as_bytes()),
            (REAL_QID, queue.as_bytes()),
        ]);
        (TIMER_TOPIC, 0)
    } else {
        (broker.pops.revive_topic.as_str(), note.queue_id)
    };
    let mut text = Vec::new();
    properties::rewrite(&[], &[], &adds, &mut text);
    let host: Host = broker.store_host;
    let appended = store.append(&Message {
        topic,
        queue_id,
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: store.wall_ms(),
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: note.body,
        properties: &text,
        version: None,
    });
    appended.map(|place| place.end()).map_err(|error| {
        let remark = format!("a check point cannot be stored: {error}");
        (codes::SYSTEM_ERROR, remark)
    })
}

/// Stores a check point.
pub(super) fn put_point<D: Disk, C: Clock>(
    store: &Store<D, C>,
    broker: &Broker,
    point: &CheckPoint,
    queue_id: i32,
) -> Result<u64, Refused> {
    let (body, unique_key) = (point.json(), point.unique_key());
    let note = Note {
        queue_id,
        tag: POINT_TAG,
        unique_key: &unique_key,
        deliver_ms: point.due_ms().saturating_sub(BEFORE_DUE_MS),
        body: body.as_bytes(),
    };
    put_note(store, broker, &note)
}

impl<D: Disk, C: Clock> Lane<D, C> {
    /// The time that pops go by: that of the timers, which bring their check points.
    pub(super) fn pop_ms(&self) -> i64 {
        let ahead_ms = self.policy.broker.timing.ahead_ms;
        self.store.wall_ms().saturating_add(ahead_ms)
    }

    /// Begins to count what is in flight where that has a bound now, and ends where it has none.
    pub(crate) fn count_in_flight(&mut self) {
        let has_bound = self.policy.broker.pops.in_flight_max.is_some();
        let now_ms = self.pop_ms();
        self.pops.in_flight.count_if(has_bound, now_ms);
    }

    /// Notes that messages of a pop are settled; lets one go on that waits for the queue, where it has
    /// room again.
    pub fn land(&mut self, queue: (&str, &str, i32), pop_time_ms: i64, messages: usize) {
        let landed = self.pops.in_flight.take(queue, pop_time_ms, messages);
        let max = self.policy.broker.pops.in_flight_max;
        if let (Some((before, after)), Some(max)) = (landed, max)
            && before > max
            && after <= max
        {
            let (topic, group, queue_id) = queue;
            for queue_id in [-1, queue_id] {
                let line = (normal_topic(topic, group), group, queue_id);
                let next = self.pops.polls.next_of(line);
                self.pops.later.extend(next);
            }
        }
    }

    /// Forgets the offsets of a group, of a topic or of both together, and what is in flight of them;
    /// how many offsets those were.
    pub fn remove_offsets(&mut self, group: Option<&str>, topic: Option<&str>) -> usize {
        let is_meant = |wanted: Option<&str>, name: &str| wanted.is_none_or(|it| it == name);
        self.pops
            .in_flight
            .retain(|of_topic, of_group| !(is_meant(topic, of_topic) && is_meant(group, of_group)));
        self.resets.remove(group, topic);
        self.gets.remove(group, topic);
        self.offsets.remove(group, topic)
    }

    /// Whether a request that writes has to wait for the next log file.
    pub(super) fn waits_for_log(&self) -> bool {
        self.has_deferred() || !self.store.is_ready_for(WRITES_MAX_BYTES)
    }

    pub(super) fn put_point(&mut self, point: &CheckPoint, queue_id: i32) -> Result<u64, Refused> {
        self.pops.stored += 1;
        put_point(&self.store, &self.policy.broker, point, queue_id)
    }

    /// Stores an acknowledgement of messages that are due at a time. One that cannot be stored is
    /// passed over, as officially: its messages come again.
    pub(super) fn put_ack(&mut self, ack: &Acknowledgement, queue_id: i32, due_ms: i64) {
        if !(0..self.policy.broker.pops.revive_queues).contains(&queue_id) {
            // No check point is there that it could belong to.
            return;
        }
        self.pops.stored += 1;
        let (body, unique_key) = (ack.json(), ack.unique_key());
        let note = Note {
            queue_id,
            tag: ack.tag(),
            unique_key: &unique_key,
            deliver_ms: due_ms,
            body: body.as_bytes(),
        };
        let _told = put_note(&self.store, &self.policy.broker, &note);
    }

    /// Stores the open pops of a queue that are due by a time, and commits what that settles; tells
    /// whether all are.
    pub(super) fn settle_place(&mut self, place: PlaceId, until_ms: u64, most: &mut usize) -> bool {
        let mut buffer = std::mem::take(&mut self.pops.buffer);
        let broker = &self.policy.broker;
        let store = &self.store;
        let mut stored = 0;
        let times = (until_ms, self.now_ms + AGAIN_MS);
        let is_all = buffer.settle(place, times, &broker.name, |point, queue_id| {
            let has_room = *most > 0 && store.is_ready_for(WRITES_MAX_BYTES);
            let is_stored = has_room && put_point(store, broker, point, queue_id).is_ok();
            *most -= usize::from(is_stored);
            stored += u64::from(is_stored);
            is_stored
        });
        self.pops.buffer = buffer;
        self.pops.stored += stored;
        self.commit_settled(place);
        is_all
    }

    /// Commits the offset of a queue as far as its pops are settled.
    pub(super) fn commit_settled(&mut self, place: PlaceId) {
        let buffer = &mut self.pops.buffer;
        let Some(next_offset) = buffer.take_settled(place) else {
            return;
        };
        if let Some((topic, group, queue_id)) = buffer.names(place) {
            let next_offset = next_offset.cast_signed();
            self.offsets.commit(group, topic, queue_id, next_offset);
        }
    }

    /// Stores what has to be by now, and forgets what is unused.
    pub(crate) fn settle_due_pops(&mut self) {
        let mut most = STORED_PER_DRAIN;
        for place in self.pops.buffer.take_due(self.now_ms, PLACES_PER_DRAIN) {
            self.settle_place(place, self.now_ms, &mut most);
        }
        if self.now_ms >= self.pops.next_forget_ms {
            self.pops.next_forget_ms = self.now_ms + FORGET_MS;
            let policy = &self.policy;
            let is_known = |topic: &str, group: &str| {
                policy.topics.contains_key(topic) && policy.groups.contains_key(group)
            };
            self.pops.buffer.forget(self.now_ms, is_known);
            self.pops.in_flight.retain(is_known);
            let now_ms = self
                .store
                .wall_ms()
                .saturating_add(policy.broker.timing.ahead_ms);
            self.pops.orders.forget(now_ms, is_known);
        }
    }

    /// Stores every open pop: at a stop. Tells whether all are stored.
    pub fn store_pops(&mut self) -> bool {
        let mut is_all = true;
        for place in self.pops.buffer.all() {
            is_all &= self.settle_all(place);
        }
        is_all
    }

    /// Lets the pops of a queue go before its group goes on at another offset: they are stored.
    pub fn release_pops(&mut self, group: &str, topic: &str, queue_id: i32) {
        self.pops.in_flight.clear((topic, group, queue_id));
        if self.pops.orders.changes() > 0 {
            self.pops.orders.clear(topic, group, queue_id);
        }
        if self.pops.buffer.is_empty() {
            return;
        }
        if let Some(place) = self.pops.buffer.find(topic, group, queue_id) {
            self.settle_all(place);
        }
    }

    /// Stores the open pops of a queue, whenever they are due; tells whether all are.
    pub(super) fn settle_all(&mut self, place: PlaceId) -> bool {
        let mut most = usize::MAX;
        self.settle_place(place, u64::MAX, &mut most)
    }
}
