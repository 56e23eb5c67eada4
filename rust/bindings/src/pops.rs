//! Pops for Python: rules out of settings, rows of ordered pops, and the rounds over check points,
//! kept between calls. No logic.

use std::collections::{BTreeMap, HashMap};

use mqcore_engine::lock::Mutex;
use mqcore_lane::policy::Policy;
use mqcore_lane::pop::orders::{Order, Orders};
use mqcore_lane::pop::revive::{Known, Revived, Reviver};
use mqcore_lane::pop::rules::PopRules;

use crate::policy_rows::PopRow;

/// `Revived`: done offset, read, revived, acknowledged, skipped, waiting, has more, what has to be
/// made, end.
pub(crate) type RevivedRow = (
    i64,
    u64,
    u64,
    u64,
    u64,
    u64,
    bool,
    Option<(String, String)>,
    u64,
);
/// `OrderRow`: key, queue, pop time, invisible time, offsets, visible times, counts, last time, bits,
/// attempt.
pub(crate) type OrderRow = (
    String,
    i32,
    i64,
    i64,
    Vec<i64>,
    BTreeMap<i64, i64>,
    BTreeMap<i64, i32>,
    i64,
    u64,
    Option<String>,
);

impl From<PopRow> for PopRules {
    fn from(row: PopRow) -> Self {
        Self {
            revive_queues: row.revive_queues,
            has_buffer: row.has_buffer,
            stay_ms: row.stay_ms,
            stored_before_ms: row.stored_before_ms,
            kept_max: row.kept_max,
            kept_per_queue_max: row.kept_per_queue_max,
            in_flight_max: row.bounds_in_flight.then_some(row.in_flight_max),
            retry_first_percent: row.retry_first_percent,
            has_retry_v2: row.has_retry_v2,
            reads_retry_v1: row.reads_retry_v1,
            begins_in_memory: row.begins_in_memory,
            names_retry_topic: row.names_retry_topic,
            held_per_line: row.held_per_line,
            held_max: row.held_max,
            ..Self::default()
        }
    }
}

/// The rounds that are not at work, by queue.
#[derive(Default)]
pub(crate) struct Revivers {
    idle: Mutex<HashMap<i32, Reviver>>,
}

impl Revivers {
    /// The rounds over a queue that goes on behind an offset: where they left off, or new ones where
    /// the offset is another one.
    pub(crate) fn take(&self, queue_id: i32, done_offset: i64) -> Reviver {
        let kept = self.idle.lock().remove(&queue_id);
        let kept = kept.filter(|reviver| reviver.done_offset() == done_offset);
        kept.unwrap_or_else(|| Reviver::behind(queue_id, done_offset))
    }

    /// Keeps the rounds over a queue for the next call.
    pub(crate) fn keep(&self, queue_id: i32, reviver: Reviver) {
        self.idle.lock().insert(queue_id, reviver);
    }
}

/// What the lane knows, asked under its lock name by name.
pub(crate) struct KnownTo<'a, F>(pub(crate) &'a F);

impl<F: Fn(&dyn Fn(&Policy) -> bool) -> bool> Known for KnownTo<'_, F> {
    fn has_topic(&self, name: &str) -> bool {
        (self.0)(&|policy| policy.topics.contains_key(name))
    }

    fn has_group(&self, name: &str) -> bool {
        (self.0)(&|policy| policy.groups.contains_key(name))
    }
}

pub(crate) fn revived_row(done: Revived) -> RevivedRow {
    (
        done.done_offset,
        done.read,
        done.revived,
        done.acknowledged,
        done.skipped,
        done.waiting,
        done.has_more,
        done.needs,
        done.end,
    )
}

pub(crate) fn order_rows(orders: &Orders) -> Vec<OrderRow> {
    let all = orders.all();
    all.map(|(key, queue_id, order)| {
        let order = order.clone();
        (
            key.to_owned(),
            queue_id,
            order.pop_time_ms,
            order.invisible_ms,
            order.offsets,
            order.visible_ms,
            order.counts,
            order.last_ms,
            order.bits,
            order.attempt,
        )
    })
    .collect()
}

pub(crate) fn order_of(row: OrderRow) -> (String, i32, Order) {
    let order = Order {
        pop_time_ms: row.2,
        invisible_ms: row.3,
        offsets: row.4,
        visible_ms: row.5,
        counts: row.6,
        last_ms: row.7,
        bits: row.8,
        attempt: row.9,
    };
    (row.0, row.1, order)
}
