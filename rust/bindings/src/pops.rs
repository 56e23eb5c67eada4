//! The class over the pops of a fast path: what is popped and not acknowledged, what was popped in order,
//! and the rounds over check points, which are kept between calls. No logic.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mqcore_engine::lock::Mutex;
use mqcore_fast_path::policy::{Policy, PopRules};
use mqcore_fast_path::pop::orders::Order;
use mqcore_fast_path::pop::revive::{self, Known, Revived as Done, Reviver};
use mqcore_fast_path::pop_run::names::revive_topic;
use pyo3::prelude::*;

use crate::errors::raised;
use crate::frozen::{frozen, shown};
use crate::gil::{Gil, gil_call};
use crate::locked::LockedFastPath;
use crate::policy_rows::PopRow;

frozen! {
    /// A retry topic that has to be made.
    RetryTopic {
        /// Its name.
        topic: String,
        /// The group that it is for.
        group: String,
    }

    /// What a round over a queue of check points did.
    Revived {
        /// The last offset of the queue that is done; -1 for none.
        done_offset: i64,
        /// Records read.
        read: u64,
        /// Messages stored for another try.
        revived: u64,
        /// Check points whose messages were all acknowledged.
        acknowledged: u64,
        /// What was passed over: gone, or of topics and groups that are gone.
        skipped: u64,
        /// Check points that are not due.
        waiting: u64,
        /// Whether the round goes on with another call.
        has_more: bool,
        /// The retry topic that has to be made first.
        needs: Option<Py<RetryTopic>>,
        /// End of the last message stored; 0 for none. Write the offset down only when the log is
        /// flushed up to it.
        end: u64,
    }
}

/// What a group popped last from a queue, in order.
#[pyclass(frozen, get_all, eq, module = "mqcore.native._native")]
#[derive(Clone, PartialEq)]
pub(crate) struct OrderInfo {
    /// The official key, `topic@group`.
    key: String,
    /// The queue.
    queue_id: i32,
    /// When, Unix ms.
    pop_time_ms: i64,
    /// For how long.
    invisible_ms: i64,
    /// The queue offsets, ascending.
    offsets: Vec<i64>,
    /// When a message is visible again, where that was changed, by its offset.
    visible_ms: BTreeMap<i64, i64>,
    /// How often a message was given before, by its offset.
    counts: BTreeMap<i64, i32>,
    /// When the queue was popped from last, Unix ms.
    last_ms: i64,
    /// Which messages are acknowledged, by their places in `offsets`.
    bits: u64,
    /// The attempt that may repeat the pop.
    attempt: Option<String>,
}

#[pymethods]
impl OrderInfo {
    #[new]
    #[pyo3(signature = (*, key, queue_id, pop_time_ms, invisible_ms, offsets, visible_ms, counts,
        last_ms, bits, attempt))]
    #[expect(
        clippy::too_many_arguments,
        reason = "the file of orders has that many members"
    )]
    fn new(
        key: String,
        queue_id: i32,
        pop_time_ms: i64,
        invisible_ms: i64,
        offsets: Vec<i64>,
        visible_ms: BTreeMap<i64, i64>,
        counts: BTreeMap<i64, i32>,
        last_ms: i64,
        bits: u64,
        attempt: Option<String>,
    ) -> Self {
        Self {
            key,
            queue_id,
            pop_time_ms,
            invisible_ms,
            offsets,
            visible_ms,
            counts,
            last_ms,
            bits,
            attempt,
        }
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let shown_fields = [
            "key",
            "queue_id",
            "pop_time_ms",
            "offsets",
            "bits",
            "attempt",
        ];
        shown(slf.as_any(), "OrderInfo", &shown_fields)
    }
}

impl OrderInfo {
    fn of(key: &str, queue_id: i32, order: Order) -> Self {
        Self {
            key: key.to_owned(),
            queue_id,
            pop_time_ms: order.pop_time_ms,
            invisible_ms: order.invisible_ms,
            offsets: order.offsets,
            visible_ms: order.visible_ms,
            counts: order.counts,
            last_ms: order.last_ms,
            bits: order.bits,
            attempt: order.attempt,
        }
    }

    fn order(self) -> (String, i32, Order) {
        let order = Order {
            pop_time_ms: self.pop_time_ms,
            invisible_ms: self.invisible_ms,
            offsets: self.offsets,
            visible_ms: self.visible_ms,
            counts: self.counts,
            last_ms: self.last_ms,
            bits: self.bits,
            attempt: self.attempt,
        };
        (self.key, self.queue_id, order)
    }
}

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
            priority_retry_first_percent: row.priority_retry_first_percent,
            is_priority_ascending: row.is_priority_ascending,
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

/// The pops of a fast path.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct Pops {
    fast_path: Arc<LockedFastPath>,
    /// The rounds over check points that are not at work, by queue.
    idle: Mutex<HashMap<i32, Reviver>>,
}

impl Pops {
    pub(crate) fn new(fast_path: Arc<LockedFastPath>) -> Self {
        Self {
            fast_path,
            idle: Mutex::default(),
        }
    }

    /// The rounds over a queue that goes on behind an offset: where they left off, or new ones where
    /// the offset is another one.
    fn reviver(&self, queue_id: i32, done_offset: i64) -> Reviver {
        let kept = self.idle.lock().remove(&queue_id);
        let kept = kept.filter(|reviver| reviver.done_offset() == done_offset);
        kept.unwrap_or_else(|| Reviver::behind(queue_id, done_offset))
    }
}

#[pymethods]
impl Pops {
    fn store(&self, py: Python<'_>) -> bool {
        gil_call(py, Gil::Released, || {
            self.fast_path.locked().path.store_pops()
        })
    }

    #[getter]
    fn records_stored(&self) -> u64 {
        self.fast_path.shared.pops_stored()
    }

    #[pyo3(signature = (queue_id, done_offset, timers_ms, *, limit=revive::LIMIT_MAX))]
    fn revive(
        &self,
        py: Python<'_>,
        queue_id: i32,
        done_offset: i64,
        timers_ms: i64,
        limit: usize,
    ) -> PyResult<Revived> {
        let done = gil_call(py, Gil::Released, || {
            let broker = Arc::clone(&self.fast_path.locked().path.policy.broker);
            let rules = revive::Rules {
                topic: &revive_topic(&broker.cluster),
                timers_ms,
                broker: &broker.name,
                store_host: broker.store_host,
                has_retry_v2: broker.pops.has_retry_v2,
                limit,
            };
            let ask = |asked: &dyn Fn(&Policy) -> bool| asked(&self.fast_path.locked().path.policy);
            let mut reviver = self.reviver(queue_id, done_offset);
            let done = reviver.go_on(&self.fast_path.engine, rules, &KnownTo(&ask));
            self.idle.lock().insert(queue_id, reviver);
            done
        });
        let done = done.map_err(|error| raised(py, &error))?;
        let mut inside = self.fast_path.locked();
        for landed in &done.landed {
            let queue = (
                landed.topic.as_str(),
                landed.group.as_str(),
                landed.queue_id,
            );
            inside.path.land(queue, landed.pop_time_ms, 1);
        }
        self.fast_path.of_python().wake_before_deadline(&mut inside);
        drop(inside);
        Revived::of(py, done)
    }

    fn orders(&self) -> Vec<OrderInfo> {
        let mut orders = Vec::new();
        self.fast_path.shared.each_order(|key, queue_id, order| {
            orders.push(OrderInfo::of(key, queue_id, order.clone()));
        });
        orders
    }

    fn load_orders(&self, orders: Vec<Bound<'_, OrderInfo>>) {
        let orders = orders.into_iter().map(|order| order.get().clone().order());
        let orders: Vec<_> = orders.collect();
        self.fast_path.shared.load_orders(orders);
    }

    #[getter]
    fn order_changes(&self) -> u64 {
        self.fast_path.shared.order_changes()
    }
}

/// What the fast path knows, asked under its lock name by name.
struct KnownTo<'a, F>(&'a F);

impl<F: Fn(&dyn Fn(&Policy) -> bool) -> bool> Known for KnownTo<'_, F> {
    fn has_topic(&self, name: &str) -> bool {
        (self.0)(&|policy| policy.topics.contains_key(name))
    }

    fn has_group(&self, name: &str) -> bool {
        (self.0)(&|policy| policy.groups.contains_key(name))
    }
}

impl Revived {
    fn of(py: Python<'_>, done: Done) -> PyResult<Self> {
        let needs = done.needs.map(|(topic, group)| RetryTopic { topic, group });
        Ok(Self {
            done_offset: done.done_offset,
            read: done.read,
            revived: done.revived,
            acknowledged: done.acknowledged,
            skipped: done.skipped,
            waiting: done.waiting,
            has_more: done.has_more,
            needs: needs.map(|topic| Py::new(py, topic)).transpose()?,
            end: done.end,
        })
    }
}
