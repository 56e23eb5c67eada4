//! How check points and acknowledgements come into the log: through the timers, so that both
//! come into the topic of check points when the messages of the pop are due
//! (`PopMessageProcessor.buildCkMsg`, `PopBufferMergeService`).

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::Store;
use mqcore_record::{Host, Message};

use super::points::{CheckPoint, POINT_TAG};
use crate::names::TIMER_TOPIC;
use crate::policy::Broker;
use crate::properties::{self, REAL_QID, REAL_TOPIC, TIMER_DELIVER_MS, TIMER_OUT_MS, UNIQ_KEY};
use crate::refusals::{self, Refused};

/// Bytes of the log that one request writes at the most before it is looked at again whether there
/// is space: a check point for each of its messages, of the longest names.
pub(super) const WRITES_MAX_BYTES: u64 = 64 * 1024;
/// How long before its messages are due a check point comes into its topic, ms: acknowledgements come
/// when they are, so that they stand behind it (`ackTimeInterval`).
const BEFORE_DUE_MS: i64 = 1_000;

/// A record for the topic of check points.
pub(super) struct PopRecord<'a> {
    pub(super) queue_id: i32,
    pub(super) tag: &'a str,
    pub(super) unique_key: &'a str,
    /// When it is to come there, on the timers' clock, ms.
    pub(super) deliver_ms: i64,
    pub(super) body: &'a [u8],
}

/// Stores a record for the topic of check points, through the timers unless its time is over.
pub(super) fn put_record<D: Disk, C: Clock>(
    store: &Store<D, C>,
    broker: &Broker,
    record: &PopRecord<'_>,
) -> Result<u64, Refused> {
    let timing = &broker.timing;
    let now_ms = store.wall_ms().saturating_add(timing.ahead_ms);
    let ahead_ms = record.deliver_ms.saturating_sub(now_ms);
    if ahead_ms > timing.max_delay_ms {
        return Err(refusals::point_too_far(ahead_ms));
    }
    let deliver = record.deliver_ms.to_string();
    let mut adds = vec![
        ("TAGS", record.tag.as_bytes()),
        (UNIQ_KEY, record.unique_key.as_bytes()),
        (TIMER_DELIVER_MS, deliver.as_bytes()),
    ];
    // As any message with a time of its own: the last step that begins before it.
    let before_ms = record.deliver_ms.saturating_sub(1);
    let slot = (before_ms / timing.step_ms * timing.step_ms).to_string();
    let queue = record.queue_id.to_string();
    let (topic, queue_id) = if ahead_ms > 0 {
        adds.extend([
            (TIMER_OUT_MS, slot.as_bytes()),
            (REAL_TOPIC, broker.pops.revive_topic.as_bytes()),
            (REAL_QID, queue.as_bytes()),
        ]);
        (TIMER_TOPIC, 0)
    } else {
        (broker.pops.revive_topic.as_str(), record.queue_id)
    };
    let mut text = Vec::new();
    properties::rewrite(&[], &[], &adds, &mut text);
    let host: Host = broker.store_host;
    let appended = store.writer().append(&Message {
        born_timestamp_ms: store.wall_ms(),
        properties: &text,
        ..Message::of(topic, queue_id, record.body, host)
    });
    appended
        .map(|appended| appended.end())
        .map_err(|error| refusals::point_not_stored(&error))
}

/// Stores a check point.
pub(super) fn put_point<D: Disk, C: Clock>(
    store: &Store<D, C>,
    broker: &Broker,
    point: &CheckPoint,
    queue_id: i32,
) -> Result<u64, Refused> {
    let (body, unique_key) = (point.json(), point.unique_key());
    let record = PopRecord {
        queue_id,
        tag: POINT_TAG,
        unique_key: &unique_key,
        deliver_ms: point.due_ms().saturating_sub(BEFORE_DUE_MS),
        body: body.as_bytes(),
    };
    put_record(store, broker, &record)
}
