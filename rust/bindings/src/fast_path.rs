//! The class over the fast path: policy, drain, delayed messages. Each method unpacks, calls with the GIL
//! kept or released, and hands on what came up.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mqcore_engine::clock::Clock;
use mqcore_fast_path::bits::BitRow;
use mqcore_fast_path::bounds::Bounds;
use mqcore_fast_path::gets::Got;
use mqcore_fast_path::policy::{Group, Members, Topic};
use mqcore_fast_path::quotas::{Amount, Asked, Quotas};
use mqcore_fast_path::repeats::Repeats;
use mqcore_fast_path::{FastPath, delay, numbers};
use mqcore_reactor::Report;
use mqcore_record::Host;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::access::Access;
use crate::connection::{Connections, FastPathConnection};
use crate::consumer_offsets::ConsumerOffsets;
use crate::drained::{Delivered, DrainedRequest, FastPathDrained, GroupGets, RememberedSends};
use crate::errors::raised;
use crate::gil::{Gil, KEEP_RECORDS_MAX, gil_call};
use crate::half_messages::HalfMessages;
use crate::locked::{Home, LockedFastPath};
use crate::policy_rows::BrokerRow;
use crate::pops::Pops;
use crate::quotas::{QuotaRow, QuotaWait};
use crate::reports;
use crate::request_times::RequestTimes;
use crate::store::NativeStore;
use crate::tables::{ExpressionBitsRow, GroupRow, MembersRow, TopicRow};
use crate::timers::NativeTimers;

/// Threads for cold reads: a disk serves two readers better than one, and more would only compete
/// with the flush.
const READER_THREADS: usize = 2;

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
    /// How long requests take; what was stored.
    #[pyo3(get)]
    times: Py<RequestTimes>,
    store_host: Host,
}

#[pymethods]
impl NativeFastPath {
    #[new]
    #[pyo3(signature = (store, broker, *, reader_threads=READER_THREADS, reactors=0))]
    fn new(
        py: Python<'_>,
        store: PyRef<'_, NativeStore>,
        broker: BrokerRow,
        reader_threads: usize,
        reactors: usize,
    ) -> PyResult<Self> {
        let (engine, store_host) = store.parts();
        let mut first = FastPath::new(Arc::clone(&engine), reader_threads);
        let broker = broker.broker(store_host);
        first.decide_broker(broker.clone());
        let mut others = Vec::with_capacity(reactors);
        for _ in 0..reactors {
            let beside = first.beside(reader_threads);
            let mut beside = beside.map_err(|error| raised(py, &error))?;
            beside.decide_broker(broker.clone());
            others.push(beside);
        }
        let fast_path = Arc::new(LockedFastPath::new(first, others, engine));
        Ok(Self {
            connections: Arc::new(Connections::new(py, Arc::clone(&fast_path))?),
            offsets: Py::new(py, ConsumerOffsets::new(Arc::clone(&fast_path)))?,
            half_messages: Py::new(py, HalfMessages::new(Arc::clone(&fast_path)))?,
            pops: Py::new(py, Pops::new(Arc::clone(&fast_path)))?,
            times: Py::new(py, RequestTimes::new(Arc::clone(&fast_path)))?,
            store_host,
            fast_path,
        })
    }

    /// Makes a new connection one of this fast path.
    fn bind(&self, connection: &Bound<'_, FastPathConnection>) {
        connection.get().join(&self.connections);
    }

    /// Starts the reactors: connections that are attached from now on are theirs. Before one sleeps it
    /// looks for events for up to `busy_poll_us`, while that pays.
    fn start_reactors(&self, py: Python<'_>, busy_poll_us: u64) -> PyResult<()> {
        let busy_poll = Duration::from_micros(busy_poll_us);
        let reactors = &self.connections.reactors;
        let started = reactors.start_all(self.fast_path.of_reactors(), busy_poll);
        started.map_err(|error| raised(py, &error))
    }

    /// The rules of quotas as they are now; all loops share them.
    fn quotas(&self, py: Python<'_>) -> Vec<QuotaRow> {
        let now_ms = self.fast_path.clock.elapsed_ms();
        let quotas = self.shared_quotas();
        let rows = gil_call(py, Gil::Released, || quotas.rows(now_ms));
        rows.into_iter().map(QuotaRow::of).collect()
    }

    /// Takes the time of a send that Python executes.
    fn admit_send(&self, user: &str, topic: &str, group: &str, bytes: u64) -> QuotaWait {
        let asked = Asked { user, group, topic };
        let amount = Amount { messages: 1, bytes };
        let now_ms = self.fast_path.clock.elapsed_ms();
        QuotaWait::of(self.shared_quotas().admit_send(asked, amount, now_ms))
    }

    /// When a read goes that Python executes.
    fn admit_read(&self, user: &str, topic: &str, group: &str) -> QuotaWait {
        let asked = Asked { user, group, topic };
        let now_ms = self.fast_path.clock.elapsed_ms();
        QuotaWait::of(self.shared_quotas().admit_read(asked, now_ms))
    }

    /// Counts what such a read has brought.
    fn have_read(&self, user: &str, topic: &str, group: &str, messages: u64, bytes: u64) {
        let asked = Asked { user, group, topic };
        let amount = Amount { messages, bytes };
        let now_ms = self.fast_path.clock.elapsed_ms();
        self.shared_quotas().have_read(asked, amount, now_ms);
    }

    /// How many connections each reactor has.
    fn connections_of_reactors(&self) -> Vec<usize> {
        self.connections.reactors.connections()
    }

    /// Lets idle connections of the reactor with the most go to the one with the fewest, where these are
    /// far fewer.
    fn even_out_reactors(&self) {
        self.connections.reactors.even_out();
    }

    /// Waits until the reactors have done what was asked of them before.
    fn settle_reactors(&self, py: Python<'_>) {
        gil_call(py, Gil::Released, || self.connections.reactors.settle_all());
    }

    /// Ends the reactors: what their connections still wait for is answered to nobody.
    fn stop_reactors(&self, py: Python<'_>) {
        if !self.fast_path.origin.is_elsewhere() {
            gil_call(py, Gil::Released, || self.connections.reactors.stop_all());
        }
    }

    /// Checks requests from now on.
    fn set_access(&self, access: PyRef<'_, Access>) -> PyResult<()> {
        for home in self.fast_path.homes() {
            let engine = Arc::clone(access.engine());
            let set = home.locked().path.set_access(engine);
            set.map_err(|code| {
                PyValueError::new_err(format!("nobody reads the body of request {code} here"))
            })?;
        }
        Ok(())
    }

    fn set_broker(&self, broker: BrokerRow) {
        let broker = broker.broker(self.store_host);
        for home in self.fast_path.homes() {
            home.locked().path.decide_broker(broker.clone());
        }
    }

    /// Bounds what all connections may occupy, bytes, and how long one of them is executed before
    /// others have their turn.
    fn set_bounds(&self, half_frames: usize, output: usize, deferred: usize, turn_us: u64) {
        // Half frames are counted over all loops; of the rest each has its share.
        let shares = self.fast_path.homes().count();
        for home in self.fast_path.homes() {
            let clock = self.fast_path.clock.clone();
            let connections = &mut home.locked().path.connections;
            connections.bounds = Bounds {
                half_frames_bytes: half_frames,
                output_bytes: output / shares,
                deferred_bytes: deferred / shares,
            };
            let turn = Duration::from_micros(turn_us);
            connections
                .execution_time
                .bound(turn, move || clock.elapsed());
        }
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
        for home in self.fast_path.homes() {
            home.locked().path.set_wheel(timers.wheel());
        }
    }

    fn set_topics(&self, topics: HashMap<String, TopicRow>) {
        let rows = topics.into_iter();
        let table = rows.map(|(name, row)| (name.into_boxed_str(), Topic::from(row)));
        let table: hashbrown::HashMap<_, _> = table.collect();
        for home in self.fast_path.of_reactors() {
            home.locked().path.policy.topics = table.clone();
        }
        self.fast_path.locked().path.policy.topics = table;
    }

    fn set_topic(&self, name: String, topic: Option<TopicRow>) {
        let topic = topic.map(Topic::from);
        for home in self.fast_path.homes() {
            let topics = &mut home.locked().path.policy.topics;
            match &topic {
                Some(topic) => topics.insert(name.as_str().into(), *topic),
                None => topics.remove(name.as_str()),
            };
        }
    }

    fn set_groups(&self, groups: HashMap<String, GroupRow>) {
        let rows = groups.into_iter();
        let table = rows.map(|(name, row)| (name.into_boxed_str(), Group::from(row)));
        let table: hashbrown::HashMap<_, _> = table.collect();
        for home in self.fast_path.of_reactors() {
            home.locked().path.policy.groups = table.clone();
        }
        self.fast_path.locked().path.policy.groups = table;
    }

    fn set_group(&self, name: String, group: Option<GroupRow>) {
        let group = group.map(Group::from);
        for home in self.fast_path.homes() {
            let groups = &mut home.locked().path.policy.groups;
            match &group {
                Some(group) => groups.insert(name.as_str().into(), *group),
                None => groups.remove(name.as_str()),
            };
        }
    }

    fn set_group_lock(&self, group: String, until_ms: Option<i64>) {
        for home in self.fast_path.homes() {
            let table = &mut home.locked().path.policy.locked_until_ms;
            match until_ms {
                Some(until_ms) => table.insert(group.as_str().into(), until_ms),
                None => table.remove(group.as_str()),
            };
        }
    }

    fn set_members(&self, group: String, members: Option<MembersRow>) {
        // Expressions are compiled before the lock is taken.
        let members = members.map(Members::from);
        for home in self.fast_path.homes() {
            let table = &mut home.locked().path.policy.members;
            match &members {
                Some(members) => table.insert(group.as_str().into(), members.clone()),
                None => table.remove(group.as_str()),
            };
        }
    }

    /// Lets the bits of messages be made by expressions; since when that holds, Unix ms.
    fn set_filter_bits(&self, py: Python<'_>, rows: Vec<ExpressionBitsRow>) -> i64 {
        let rows = rows.into_iter().filter_map(ExpressionBitsRow::bit_row);
        let rows: Vec<BitRow> = rows.collect();
        // New texts are compiled. What holds on every loop counts.
        gil_call(py, Gil::Released, || {
            let decide = |home: &Arc<Home>| home.locked().path.decide_bits(rows.clone());
            let since_ms = self.fast_path.homes().map(decide).max();
            since_ms.unwrap_or(i64::MAX)
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
        let mut counts: HashMap<(String, String), Got> = HashMap::new();
        gil_call(py, Gil::Released, || {
            for home in self.fast_path.homes() {
                let of_loop = home.locked().path.gets();
                for (group, topic, got) in of_loop {
                    counts.entry((group, topic)).or_default().add(&got);
                }
            }
        });
        let gets = counts.into_iter();
        let gets = gets.map(|((group, topic), got)| GroupGets {
            group,
            topic,
            messages: got.messages,
            bytes: got.bytes,
            pulls: got.answered.iter().map(|each| each.pulls).collect(),
            pulls_us: got.answered.iter().map(|each| each.us).collect(),
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
            bytes: done.bytes,
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
            if let Some(connection) = self.connections.connection_of(py, (0, each.connection)) {
                requests.push(DrainedRequest::of(py, connection, each)?);
            }
        }
        let mut has_moved = false;
        for (number, report) in self.connections.reactors.take_reports() {
            has_moved |= matches!(report, Report::Spared(..));
            match reports::deliver(&self.connections, py, number, report) {
                Ok(Some((connection, each))) => {
                    requests.push(DrainedRequest::of(py, connection, each)?);
                }
                Ok(None) => {}
                // The others are not lost with it.
                Err(error) => error.write_unraisable(py, None),
            }
        }
        if has_moved {
            self.connections.reactors.even_out();
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
        let mut sums: Vec<(&str, u64)> = numbers::of_loop(&self.fast_path.locked().path);
        for home in self.fast_path.of_reactors() {
            let numbers = numbers::of_loop(&home.locked().path);
            for ((_, sum), (_, number)) in sums.iter_mut().zip(numbers) {
                *sum += number;
            }
        }
        sums.extend(numbers::of_all_loops(&self.fast_path.locked().path));
        let dict = PyDict::new(py);
        for (name, number) in sums {
            dict.set_item(name, number)?;
        }
        Ok(dict)
    }
}

impl NativeFastPath {
    /// Those that all loops share.
    fn shared_quotas(&self) -> Arc<Quotas> {
        Arc::clone(&self.fast_path.locked().path.connections.quotas)
    }
}
