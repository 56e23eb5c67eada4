//! The class over the lane: policy, offsets, drain, delayed messages. Each method unpacks, passes
//! the door, calls, and hands on what came up. No Python object is made or dropped under the lane's
//! lock: that could run any Python code, and that code could call here.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use mqcore_engine::clock::{Clock, SystemClock};
use mqcore_engine::disk::RealDisk;
use mqcore_engine::lock::{Mutex, MutexGuard};
use mqcore_engine::store::Store;
use mqcore_lane::bounds::Bounds;
use mqcore_lane::policy::{Group, Members, Policy, Topic};
use mqcore_lane::pop::names::revive_topic;
use mqcore_lane::pop::revive;
use mqcore_lane::repeats::Repeats;
use mqcore_lane::{ConnectionId, Lane, delay};
use mqcore_record::Host;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMemoryView};

use crate::buffer::{ReceiveBuffer, views_of};
use crate::connection::{EscalatedRow, LaneConnection, escalated_row, pump_all};
use crate::door::{KEEP_RECORDS_MAX, Pass, through};
use crate::errors::raised;
use crate::fork::Origin;
use crate::policy_rows::BrokerRow;
use crate::pops::{KnownTo, OrderRow, RevivedRow, Revivers, order_of, order_rows, revived_row};
use crate::store::NativeStore;
use crate::tables::{BitsRow, GroupRow, MembersRow, TopicRow, bit_row};
use crate::timers::NativeTimers;
use crate::transactions::{CheckedRow, Checkers, CountRow, RulesRow, checked_row, count_rows};

pub(crate) type Engine = Store<RealDisk, SystemClock>;
type OffsetRow = (String, BTreeMap<i32, i64>);
type DeliveredRow = (u64, u64, Option<i64>, u64, bool, u64);

/// Threads for cold reads: a disk serves two readers better than one, and more would only compete
/// with the flush.
const READER_THREADS: usize = 2;

/// What the lane's lock protects.
pub(crate) struct Inside {
    pub(crate) lane: Lane<RealDisk, SystemClock>,
    /// When the loop will drain by itself, ms.
    pub(crate) told_ms: u64,
    /// Set: the time is what `drain` was told last.
    manual_ms: Option<u64>,
}

/// The lane.
#[pyclass(frozen, subclass, module = "mqcore.native._native")]
pub(crate) struct NativeLane {
    inside: Mutex<Inside>,
    connections: Mutex<HashMap<ConnectionId, Py<LaneConnection>>>,
    checkers: Checkers,
    revivers: Revivers,
    pub(crate) engine: Arc<Engine>,
    clock: SystemClock,
    store_host: Host,
    origin: Origin,
    pub(crate) buffer: Py<ReceiveBuffer>,
    /// The same as transports ask for it: asyncio wants a length, too.
    pub(crate) view: Py<PyMemoryView>,
    /// The part of it for a connection that has asked nothing yet.
    pub(crate) first_view: Py<PyMemoryView>,
}

impl NativeLane {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock()
    }

    /// The lane with the time.
    pub(crate) fn lock_now(&self) -> (MutexGuard<'_, Inside>, u64) {
        let inside = self.inside.lock();
        let now_ms = inside.manual_ms.unwrap_or_else(|| self.clock.elapsed_ms());
        (inside, now_ms)
    }

    pub(crate) fn join(&self, id: ConnectionId, connection: Py<LaneConnection>) {
        self.connections.lock().insert(id, connection);
    }

    pub(crate) fn leave(&self, id: ConnectionId) {
        let left = self.connections.lock().remove(&id);
        drop(left);
    }

    pub(crate) fn connection(
        &self,
        py: Python<'_>,
        id: ConnectionId,
    ) -> Option<Py<LaneConnection>> {
        let connections = self.connections.lock();
        connections.get(&id).map(|found| found.clone_ref(py))
    }

    /// Wakes the loop when something is due before it will drain by itself.
    pub(crate) fn tell_deadline(&self, inside: &mut Inside) {
        let next_ms = inside.lane.next_deadline_ms().unwrap_or(u64::MAX);
        if next_ms < inside.told_ms {
            inside.told_ms = next_ms;
            self.engine.wake_descriptor().raise();
        }
    }
}

#[pymethods]
impl NativeLane {
    #[new]
    #[pyo3(signature = (store, broker, *, reader_threads=READER_THREADS))]
    fn new(
        py: Python<'_>,
        store: PyRef<'_, NativeStore>,
        broker: BrokerRow,
        reader_threads: usize,
    ) -> PyResult<Self> {
        let (engine, store_host) = store.parts();
        let buffer = Bound::new(py, ReceiveBuffer::new())?;
        let (view, first_view) = views_of(&buffer)?;
        let mut lane = Lane::new(Arc::clone(&engine), reader_threads);
        lane.decide_broker(broker.broker(store_host));
        Ok(Self {
            inside: Mutex::new(Inside {
                lane,
                told_ms: u64::MAX,
                manual_ms: None,
            }),
            connections: Mutex::default(),
            checkers: Checkers::default(),
            revivers: Revivers::default(),
            engine,
            clock: SystemClock::new(),
            store_host,
            origin: Origin::here(),
            buffer: buffer.unbind(),
            view,
            first_view,
        })
    }

    fn set_broker(&self, broker: BrokerRow) {
        let broker = broker.broker(self.store_host);
        self.lock().lane.decide_broker(broker);
    }

    /// Bounds what all connections may occupy, bytes, and how long one of them is executed before
    /// others have their turn.
    fn set_bounds(&self, half_frames: usize, output: usize, deferred: usize, turn_us: u64) {
        let clock = self.clock.clone();
        let connections = &mut self.lock().lane.connections;
        connections.bounds = Bounds {
            half_frames_bytes: half_frames,
            output_bytes: output,
            deferred_bytes: deferred,
        };
        let turn = Duration::from_micros(turn_us);
        connections
            .execution_time
            .bound(turn, move || clock.elapsed());
    }

    /// Replaces the delay levels.
    fn set_delay_levels(&self, py: Python<'_>, text: &str) -> PyResult<()> {
        self.engine
            .delay_levels()
            .set(text)
            .map_err(|error| raised(py, &error))
    }

    /// Lets sends ask how full a step of time is.
    fn set_timers(&self, timers: PyRef<'_, NativeTimers>) {
        let wheel = timers.wheel();
        self.lock().lane.set_wheel(wheel);
    }

    fn set_topics(&self, topics: HashMap<String, TopicRow>) {
        let rows = topics.into_iter();
        let table = rows.map(|(name, row)| (name.into_boxed_str(), Topic::from(row)));
        let table = table.collect();
        self.lock().lane.policy.topics = table;
    }

    fn set_topic(&self, name: String, topic: Option<TopicRow>) {
        let mut inside = self.lock();
        let topics = &mut inside.lane.policy.topics;
        match topic {
            Some(row) => topics.insert(name.into_boxed_str(), row.into()),
            None => topics.remove(name.as_str()),
        };
    }

    fn set_groups(&self, groups: HashMap<String, GroupRow>) {
        let rows = groups.into_iter();
        let table = rows.map(|(name, row)| (name.into_boxed_str(), Group::from(row)));
        let table = table.collect();
        self.lock().lane.policy.groups = table;
    }

    fn set_group(&self, name: String, group: Option<GroupRow>) {
        let mut inside = self.lock();
        let groups = &mut inside.lane.policy.groups;
        match group {
            Some(row) => groups.insert(name.into_boxed_str(), row.into()),
            None => groups.remove(name.as_str()),
        };
    }

    fn set_group_lock(&self, group: String, until_ms: Option<i64>) {
        let mut inside = self.lock();
        let table = &mut inside.lane.policy.locked_until_ms;
        match until_ms {
            Some(until_ms) => table.insert(group.into_boxed_str(), until_ms),
            None => table.remove(group.as_str()),
        };
    }

    fn set_members(&self, group: String, members: Option<MembersRow>) {
        // Expressions are compiled before the lock is taken.
        let members = members.map(Members::from);
        let mut inside = self.lock();
        let table = &mut inside.lane.policy.members;
        match members {
            Some(members) => table.insert(group.into_boxed_str(), members),
            None => table.remove(group.as_str()),
        };
    }

    /// Lets the bits of messages be made by expressions: topic, text, bits. Since when that holds.
    fn set_filter_bits(&self, py: Python<'_>, rows: Vec<(String, String, BitsRow)>) -> i64 {
        let rows = rows.into_iter();
        let rows = rows.filter_map(|(topic, text, bits)| bit_row(topic, text, &bits));
        let rows = rows.collect();
        // New texts are compiled.
        through(py, Pass::Detached, || self.lock().lane.decide_bits(rows))
    }

    /// Remembers the sends of the last minutes; from and end of the log that was looked through, its
    /// records of that time, those that count.
    fn remember(
        &self,
        py: Python<'_>,
        length_ms: i64,
        memory_bytes: usize,
    ) -> PyResult<(u64, u64, u64, u64)> {
        let opened = through(py, Pass::Detached, || {
            Repeats::open(&self.engine, length_ms, memory_bytes)
        });
        let (repeats, found) = opened.map_err(|error| raised(py, &error))?;
        self.lock().lane.remember(Some(repeats));
        Ok((found.from, found.end, found.records, found.marks))
    }

    fn load_offsets(&self, table: HashMap<String, BTreeMap<i32, i64>>) {
        self.lock().lane.offsets.load(table);
    }

    /// The pairs in some slots, and the next slot; none where there are no more.
    fn offset_rows(&self, start: usize, count: usize) -> (Vec<OffsetRow>, Option<usize>) {
        self.lock().lane.offsets.rows(start, count)
    }

    fn group_gets(&self, py: Python<'_>) -> Vec<(String, String, u64)> {
        through(py, Pass::Detached, || self.lock().lane.gets())
    }

    fn offsets_of(&self, group: &str, topic: &str) -> BTreeMap<i32, i64> {
        let offsets = self.lock().lane.offsets.of(group, topic);
        offsets.unwrap_or_default()
    }

    fn offset(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.lock().lane.offsets.find(group, topic, queue_id)
    }

    fn commit_offset(&self, group: &str, topic: &str, queue_id: i32, offset: i64) -> bool {
        let mut inside = self.lock();
        inside.lane.commit_offset(group, topic, queue_id, offset)
    }

    fn reset_offset(&self, group: &str, topic: &str, queue_id: i32, offset: i64) -> bool {
        let mut inside = self.lock();
        inside.lane.reset_offset(group, topic, queue_id, offset)
    }

    #[pyo3(signature = (*, group=None, topic=None))]
    fn remove_offsets(&self, group: Option<&str>, topic: Option<&str>) -> usize {
        self.lock().lane.remove_offsets(group, topic)
    }

    #[getter]
    fn offset_changes(&self) -> u64 {
        self.lock().lane.offsets.changes()
    }

    #[pyo3(signature = (level, offset, *, limit=delay::LIMIT_MAX / 4, now_ms=None))]
    fn deliver(
        &self,
        py: Python<'_>,
        level: i32,
        offset: u64,
        limit: usize,
        now_ms: Option<i64>,
    ) -> PyResult<DeliveredRow> {
        let now_ms = now_ms.unwrap_or_else(|| self.engine.wall_ms());
        let done = through(py, Pass::Detached, || {
            delay::deliver_due(&self.engine, level, offset, now_ms, limit)
        });
        let done = done.map_err(|error| raised(py, &error))?;
        self.lock().lane.connections.stats.delivered += done.count;
        Ok((
            done.count,
            done.next_offset,
            done.next_due_ms,
            done.end,
            done.has_more,
            done.skipped,
        ))
    }

    /// Writes the notes of all ends; whether all are written, and the end of the log behind them.
    fn write_op_messages(&self) -> (bool, u64) {
        let is_all = self.lock().lane.write_op_messages();
        (is_all, self.engine.files().positions.appended.position())
    }

    fn check(
        &self,
        py: Python<'_>,
        at: (i32, u64, u64),
        rules: RulesRow,
        until: Option<u64>,
    ) -> PyResult<CheckedRow> {
        let (done, ended) = through(py, Pass::Detached, || {
            let mut checker = self.checkers.take(at);
            let done = checker.go_on(&self.engine, rules.into(), until)?;
            self.checkers.keep(at.0, checker);
            let mut inside = self.lock();
            let ended = inside.lane.note_checked(&done);
            self.tell_deadline(&mut inside);
            Ok((done, ended))
        })
        .map_err(|error| raised(py, &error))?;
        Ok(checked_row(py, done, &ended))
    }

    /// Stores every open pop; whether all are stored.
    fn store_pops(&self, py: Python<'_>) -> bool {
        through(py, Pass::Detached, || self.lock().lane.store_pops())
    }

    /// Check points and acknowledgements stored since the lane was made.
    fn pop_records(&self) -> u64 {
        self.lock().lane.pops_stored()
    }

    #[pyo3(signature = (queue_id, done_offset, timers_ms, *, limit=revive::LIMIT_MAX))]
    fn revive_row(
        &self,
        py: Python<'_>,
        queue_id: i32,
        done_offset: i64,
        timers_ms: i64,
        limit: usize,
    ) -> PyResult<RevivedRow> {
        let done = through(py, Pass::Detached, || {
            let broker = Arc::clone(&self.lock().lane.policy.broker);
            let rules = revive::Rules {
                topic: &revive_topic(&broker.cluster),
                timers_ms,
                broker: &broker.name,
                store_host: broker.store_host,
                has_retry_v2: broker.pops.has_retry_v2,
                limit,
            };
            let ask = |asked: &dyn Fn(&Policy) -> bool| asked(&self.lock().lane.policy);
            let mut reviver = self.revivers.take(queue_id, done_offset);
            let done = reviver.go_on(&self.engine, rules, &KnownTo(&ask));
            self.revivers.keep(queue_id, reviver);
            done
        });
        let done = done.map_err(|error| raised(py, &error))?;
        let mut inside = self.lock();
        for landed in &done.landed {
            let queue = (
                landed.topic.as_str(),
                landed.group.as_str(),
                landed.queue_id,
            );
            inside.lane.land(queue, landed.pop_time_ms, 1);
        }
        self.tell_deadline(&mut inside);
        drop(inside);
        Ok(revived_row(done))
    }

    fn order_rows(&self) -> Vec<OrderRow> {
        order_rows(self.lock().lane.orders())
    }

    fn load_orders(&self, rows: Vec<OrderRow>) {
        let orders = rows.into_iter().map(order_of);
        self.lock().lane.orders().load(orders);
    }

    fn order_changes(&self) -> u64 {
        self.lock().lane.orders().changes()
    }

    fn transaction_rows(&self) -> Vec<CountRow> {
        count_rows(self.lock().lane.transaction_counts())
    }

    fn load_transactions(&self, waiting: HashMap<String, i64>) {
        let rows = waiting.into_iter();
        let rows = rows.map(|(topic, count)| (topic.into_boxed_str(), count));
        self.lock().lane.transaction_counts().load(rows);
    }

    fn transaction_changes(&self) -> u64 {
        self.lock().lane.transaction_counts().changes()
    }

    /// Answers what can be answered; milliseconds until the next call is due, tickets that are not
    /// the lane's, and requests for Python by connection.
    #[pyo3(signature = (now_ms=None))]
    #[expect(
        clippy::type_complexity,
        reason = "a row for Python's face, read in one place"
    )]
    fn drain_all(
        &self,
        py: Python<'_>,
        now_ms: Option<u64>,
    ) -> PyResult<(
        Option<u64>,
        Vec<(u64, &'static str)>,
        Vec<(Py<LaneConnection>, EscalatedRow)>,
    )> {
        self.origin.check(py)?;
        let mut others = Vec::new();
        let mut dirty = Vec::new();
        let pass = Pass::keeping_if(self.lock().lane.waiting() <= KEEP_RECORDS_MAX);
        let (handed, next) = through(py, pass, || {
            if now_ms.is_some() {
                self.lock().manual_ms = now_ms;
            }
            let (mut inside, now_ms) = self.lock_now();
            inside.lane.drain(now_ms, &mut others);
            inside.lane.connections.take_dirty(&mut dirty);
            let next = inside.lane.next_deadline_ms();
            inside.told_ms = next.unwrap_or(u64::MAX);
            let next = next.map(|next| next.saturating_sub(now_ms));
            (inside.lane.take_escalated(), next)
        });
        pump_all(py, self, &dirty)?;
        let mut rows = Vec::with_capacity(handed.len());
        for each in handed {
            if let Some(connection) = self.connection(py, each.connection) {
                rows.push((connection, escalated_row(py, each)?));
            }
        }
        let others = others.into_iter().map(|(ticket, s)| (ticket.0, s.name()));
        Ok((next, others.collect(), rows))
    }

    fn numbers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let pairs = self.lock().lane.numbers();
        let dict = PyDict::new(py);
        for (name, number) in pairs {
            dict.set_item(name, number)?;
        }
        Ok(dict)
    }
}

impl Drop for NativeLane {
    fn drop(&mut self) {
        if self.origin.is_elsewhere()
            && let Some(mut inside) = self.inside.try_lock()
        {
            inside.lane.abandon();
        }
    }
}
