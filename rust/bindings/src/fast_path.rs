//! The class over the fast path: policy, drain, delayed messages. Each method unpacks, calls with the GIL
//! kept or released, and hands on what came up.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mqcore_engine::clock::Clock;
use mqcore_fast_path::bounds::Bounds;
use mqcore_fast_path::policy::{Group, Members, Topic};
use mqcore_fast_path::repeats::Repeats;
use mqcore_fast_path::{FastPath, delay};
use mqcore_record::Host;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::connection::{Connections, FastPathConnection, Handed};
use crate::consumer_offsets::ConsumerOffsets;
use crate::errors::raised;
use crate::frozen::frozen;
use crate::gil::{Gil, KEEP_RECORDS_MAX, gil_call};
use crate::half_messages::HalfMessages;
use crate::locked::LockedFastPath;
use crate::policy_rows::BrokerRow;
use crate::pops::Pops;
use crate::store::NativeStore;
use crate::tables::{ExpressionBitsRow, GroupRow, MembersRow, TopicRow};
use crate::timers::NativeTimers;

/// Threads for cold reads: a disk serves two readers better than one, and more would only compete
/// with the flush.
const READER_THREADS: usize = 2;

frozen! {
    /// What was delivered of a level of delayed messages.
    Delivered {
        /// Messages delivered.
        count: u64,
        /// Where the level goes on.
        next_offset: u64,
        /// When the next one is due, Unix ms, where it is known.
        next_due_ms: Option<i64>,
        /// End of the last one in the log: write `next_offset` down only when the log is flushed up
        /// to it. 0 without one.
        end: u64,
        /// Whether more may be due now.
        has_more: bool,
        /// Messages passed over: gone by retention, or with nowhere to go.
        skipped: u64,
    }

    /// The sends that a fast path has read to remember them.
    RememberedSends {
        /// Where in the log it began, bytes.
        start: u64,
        /// Where it ended.
        end: u64,
        /// Records of the time that is remembered.
        records: u64,
        /// Those among them with a unique key, which count.
        keys: u64,
    }

    /// How much a group got of a topic.
    GroupGets {
        /// The group.
        group: String,
        /// The topic.
        topic: String,
        /// Messages since the start.
        messages: u64,
    }

    /// A request for Python that came up while the fast path drained.
    DrainedRequest {
        /// Whose it is.
        connection: Py<FastPathConnection>,
        /// The request.
        request: Py<Handed>,
    }

    /// What a fast path could answer.
    FastPathDrained {
        /// Milliseconds until the next call is due although nothing is announced.
        next_ms: Option<u64>,
        /// Official statuses by ticket, of tickets that are not the fast path's, in the order of the log.
        statuses: Py<PyDict>,
        /// Requests for Python.
        handed: Vec<Py<DrainedRequest>>,
    }
}

/// The fast path.
#[pyclass(frozen, subclass, module = "mqcore.native._native")]
pub(crate) struct NativeFastPath {
    fast_path: Arc<LockedFastPath>,
    connections: Arc<Connections>,
    /// The live consumer offsets.
    #[pyo3(get)]
    offsets: Py<ConsumerOffsets>,
    /// Half messages: their check, their counts.
    #[pyo3(get)]
    half_messages: Py<HalfMessages>,
    /// What is popped.
    #[pyo3(get)]
    pops: Py<Pops>,
    store_host: Host,
}

#[pymethods]
impl NativeFastPath {
    #[new]
    #[pyo3(signature = (store, broker, *, reader_threads=READER_THREADS))]
    fn new(
        py: Python<'_>,
        store: PyRef<'_, NativeStore>,
        broker: BrokerRow,
        reader_threads: usize,
    ) -> PyResult<Self> {
        let (engine, store_host) = store.parts();
        let mut fast_path = FastPath::new(Arc::clone(&engine), reader_threads);
        fast_path.decide_broker(broker.broker(store_host));
        let fast_path = Arc::new(LockedFastPath::new(fast_path, engine));
        Ok(Self {
            connections: Arc::new(Connections::new(py, Arc::clone(&fast_path))?),
            offsets: Py::new(py, ConsumerOffsets::new(Arc::clone(&fast_path)))?,
            half_messages: Py::new(py, HalfMessages::new(Arc::clone(&fast_path)))?,
            pops: Py::new(py, Pops::new(Arc::clone(&fast_path)))?,
            store_host,
            fast_path,
        })
    }

    /// Makes a new connection one of this fast path.
    fn bind(&self, connection: &Bound<'_, FastPathConnection>) {
        connection.get().join(&self.connections);
    }

    fn set_broker(&self, broker: BrokerRow) {
        let broker = broker.broker(self.store_host);
        self.fast_path.locked().path.decide_broker(broker);
    }

    /// Bounds what all connections may occupy, bytes, and how long one of them is executed before
    /// others have their turn.
    fn set_bounds(&self, half_frames: usize, output: usize, deferred: usize, turn_us: u64) {
        let clock = self.fast_path.clock.clone();
        let connections = &mut self.fast_path.locked().path.connections;
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
        self.fast_path
            .engine
            .delay_levels()
            .set(text)
            .map_err(|error| raised(py, &error))
    }

    /// Lets sends ask how full a step of time is.
    fn set_timers(&self, timers: PyRef<'_, NativeTimers>) {
        let wheel = timers.wheel();
        self.fast_path.locked().path.set_wheel(wheel);
    }

    fn set_topics(&self, topics: HashMap<String, TopicRow>) {
        let rows = topics.into_iter();
        let table = rows.map(|(name, row)| (name.into_boxed_str(), Topic::from(row)));
        let table = table.collect();
        self.fast_path.locked().path.policy.topics = table;
    }

    fn set_topic(&self, name: String, topic: Option<TopicRow>) {
        let mut inside = self.fast_path.locked();
        let topics = &mut inside.path.policy.topics;
        match topic {
            Some(row) => topics.insert(name.into_boxed_str(), row.into()),
            None => topics.remove(name.as_str()),
        };
    }

    fn set_groups(&self, groups: HashMap<String, GroupRow>) {
        let rows = groups.into_iter();
        let table = rows.map(|(name, row)| (name.into_boxed_str(), Group::from(row)));
        let table = table.collect();
        self.fast_path.locked().path.policy.groups = table;
    }

    fn set_group(&self, name: String, group: Option<GroupRow>) {
        let mut inside = self.fast_path.locked();
        let groups = &mut inside.path.policy.groups;
        match group {
            Some(row) => groups.insert(name.into_boxed_str(), row.into()),
            None => groups.remove(name.as_str()),
        };
    }

    fn set_group_lock(&self, group: String, until_ms: Option<i64>) {
        let mut inside = self.fast_path.locked();
        let table = &mut inside.path.policy.locked_until_ms;
        match until_ms {
            Some(until_ms) => table.insert(group.into_boxed_str(), until_ms),
            None => table.remove(group.as_str()),
        };
    }

    fn set_members(&self, group: String, members: Option<MembersRow>) {
        // Expressions are compiled before the lock is taken.
        let members = members.map(Members::from);
        let mut inside = self.fast_path.locked();
        let table = &mut inside.path.policy.members;
        match members {
            Some(members) => table.insert(group.into_boxed_str(), members),
            None => table.remove(group.as_str()),
        };
    }

    /// Lets the bits of messages be made by expressions; since when that holds, Unix ms.
    fn set_filter_bits(&self, py: Python<'_>, rows: Vec<ExpressionBitsRow>) -> i64 {
        let rows = rows.into_iter().filter_map(ExpressionBitsRow::bit_row);
        let rows = rows.collect();
        // New texts are compiled.
        gil_call(py, Gil::Released, || {
            self.fast_path.locked().path.decide_bits(rows)
        })
    }

    /// Remembers the sends of the last minutes.
    fn remember(
        &self,
        py: Python<'_>,
        length_ms: i64,
        memory_bytes: usize,
    ) -> PyResult<RememberedSends> {
        let opened = gil_call(py, Gil::Released, || {
            Repeats::open(&self.fast_path.engine, length_ms, memory_bytes)
        });
        let (repeats, found) = opened.map_err(|error| raised(py, &error))?;
        self.fast_path.locked().path.remember(Some(repeats));
        Ok(RememberedSends {
            start: found.from,
            end: found.end,
            records: found.records,
            keys: found.marks,
        })
    }

    fn group_gets(&self, py: Python<'_>) -> Vec<GroupGets> {
        let gets = gil_call(py, Gil::Released, || self.fast_path.locked().path.gets());
        let gets = gets.into_iter().map(|(group, topic, messages)| GroupGets {
            group,
            topic,
            messages,
        });
        gets.collect()
    }

    #[pyo3(signature = (level, offset, *, limit=delay::LIMIT_MAX / 4, now_ms=None))]
    fn deliver_due(
        &self,
        py: Python<'_>,
        level: i32,
        offset: u64,
        limit: usize,
        now_ms: Option<i64>,
    ) -> PyResult<Delivered> {
        let now_ms = now_ms.unwrap_or_else(|| self.fast_path.engine.wall_ms());
        let done = gil_call(py, Gil::Released, || {
            delay::deliver_due(&self.fast_path.engine, level, offset, now_ms, limit)
        });
        let done = done.map_err(|error| raised(py, &error))?;
        self.fast_path.locked().path.connections.stats.delivered += done.count;
        Ok(Delivered {
            count: done.count,
            next_offset: done.next_offset,
            next_due_ms: done.next_due_ms,
            end: done.end,
            has_more: done.has_more,
            skipped: done.skipped,
        })
    }

    /// Answers what can be answered.
    #[pyo3(signature = (now_ms=None))]
    fn drain_all(&self, py: Python<'_>, now_ms: Option<u64>) -> PyResult<FastPathDrained> {
        self.fast_path.origin.check(py)?;
        let mut others = Vec::new();
        let mut dirty = Vec::new();
        let pass = Gil::kept_if(self.fast_path.locked().path.waiting() <= KEEP_RECORDS_MAX);
        let (handed, next_ms) = gil_call(py, pass, || {
            if now_ms.is_some() {
                self.fast_path.locked().manual_ms = now_ms;
            }
            let (mut inside, now_ms) = self.fast_path.locked_now();
            inside.path.drain(now_ms, &mut others);
            inside.path.connections.take_dirty(&mut dirty);
            let next = inside.path.next_deadline_ms();
            inside.drains_at_ms = next.unwrap_or(u64::MAX);
            let next = next.map(|next| next.saturating_sub(now_ms));
            (inside.path.take_escalated(), next)
        });
        self.connections.pump(py, &dirty)?;
        let mut requests = Vec::with_capacity(handed.len());
        for each in handed {
            if let Some(connection) = self.connections.connection(py, each.connection) {
                let request = Py::new(py, Handed::of(py, each)?)?;
                let drained = DrainedRequest {
                    connection,
                    request,
                };
                requests.push(Py::new(py, drained)?);
            }
        }
        let statuses = PyDict::new(py);
        for (ticket, status) in others {
            statuses.set_item(ticket.0, status.name())?;
        }
        Ok(FastPathDrained {
            next_ms,
            statuses: statuses.unbind(),
            handed: requests,
        })
    }

    fn numbers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let pairs = self.fast_path.locked().path.numbers();
        let dict = PyDict::new(py);
        for (name, number) in pairs {
            dict.set_item(name, number)?;
        }
        Ok(dict)
    }
}
