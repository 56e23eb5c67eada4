//! The class over the timers of a store: each method unpacks, calls with the GIL kept or released, maps the
//! error. A call never waits for another one with the GIL kept.

use std::sync::Arc;

use mqcore_engine::clock::SystemClock;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::error::Result;
use mqcore_engine::lock::Mutex;
use mqcore_engine::timer::Wheel;
use mqcore_fast_path::timers::{LIMIT_MAX, Ticked as Done, Timers, Waiting};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::raised;
use crate::fork::Origin;
use crate::frozen::{frozen, shown};
use crate::gil::{Gil, gil_call};
use crate::store::{Engine, NativeStore};

type Inside = Timers<RealDisk, SystemClock>;

frozen! {
    /// Timed messages of a topic since the start.
    TimersMoved {
        /// The topic.
        topic: String,
        /// Entered.
        entered: u64,
        /// Delivered, or deleted before.
        left: u64,
    }

    /// What a call did.
    Ticked {
        /// Messages taken from the queue.
        entered: u64,
        /// Messages stored in their topic.
        delivered: u64,
        /// Messages that go around the wheel again.
        rolled: u64,
        /// Messages that were recalled.
        deleted: u64,
        /// Messages passed over: gone by retention, or with nowhere to go.
        skipped: u64,
        /// How late the last one was delivered, behind the end of its step.
        late_ms: i64,
        /// Whether more can be done now.
        has_more: bool,
    }

    /// How far the timers are.
    TimerProgress {
        /// Time of the first slot that is not delivered, Unix ms.
        read_ms: i64,
        /// Next queue offset to enter.
        queue_offset: u64,
        /// Messages in the queue that are not entered.
        behind: u64,
        /// Messages in slots that are not delivered.
        waiting: i64,
        /// Rises with each change of what waits.
        changes: u64,
        /// Messages entered since the start.
        entered: u64,
        /// Messages delivered since the start.
        delivered: u64,
        /// Bytes of the timer log on the disk.
        log_bytes: u64,
        /// Bytes of the wheel in memory.
        wheel_bytes: u64,
    }
}

impl Ticked {
    fn of(done: Done) -> Self {
        Self {
            entered: done.entered,
            delivered: done.delivered,
            rolled: done.rolled,
            deleted: done.deleted,
            skipped: done.skipped,
            late_ms: done.late_ms,
            has_more: done.has_more,
        }
    }
}

/// The messages of a topic that wait for their time.
#[pyclass(frozen, get_all, eq, module = "mqcore.native._native")]
#[derive(Clone, PartialEq)]
pub(crate) struct TimedTopic {
    /// The topic.
    topic: String,
    /// How many wait.
    count: i64,
    /// When that changed last, Unix ms.
    changed_ms: i64,
}

#[pymethods]
impl TimedTopic {
    #[new]
    #[pyo3(signature = (topic, count, changed_ms))]
    fn new(topic: String, count: i64, changed_ms: i64) -> Self {
        Self {
            topic,
            count,
            changed_ms,
        }
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        shown(
            slf.as_any(),
            "TimedTopic",
            &["topic", "count", "changed_ms"],
        )
    }
}

/// The timers of an open store; `flush` makes durable what was done, deliveries included.
#[pyclass(frozen, name = "Timers", module = "mqcore.native._native")]
pub(crate) struct NativeTimers {
    inside: Mutex<Inside>,
    wheel: Arc<Wheel<RealDisk>>,
    engine: Arc<Engine>,
    origin: Origin,
}

impl NativeTimers {
    pub(crate) fn wheel(&self) -> Arc<Wheel<RealDisk>> {
        Arc::clone(&self.wheel)
    }

    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Inside) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.origin.check(py)?;
        gil_call(py, Gil::Released, || call(&mut self.inside.lock()))
            .map_err(|error| raised(py, &error))
    }

    fn now_ms(&self, now_ms: Option<i64>) -> i64 {
        now_ms.unwrap_or_else(|| self.engine.wall_ms())
    }
}

#[pymethods]
impl NativeTimers {
    #[new]
    #[pyo3(signature = (store, now_ms=None))]
    fn new(py: Python<'_>, store: PyRef<'_, NativeStore>, now_ms: Option<i64>) -> PyResult<Self> {
        let (engine, _store_host) = store.parts();
        let opened = gil_call(py, Gil::Released, || {
            let root = engine.config().root()?;
            let now_ms = now_ms.unwrap_or_else(|| engine.wall_ms());
            Timers::open(Arc::clone(&engine), &RealDisk, &root, now_ms)
        });
        let timers = opened.map_err(|error| raised(py, &error))?;
        Ok(Self {
            wheel: Arc::clone(timers.wheel()),
            inside: Mutex::new(timers),
            engine,
            origin: Origin::here(),
        })
    }

    /// Whether a tick would do anything; true while one is under way.
    #[pyo3(signature = (now_ms=None))]
    fn is_due(&self, py: Python<'_>, now_ms: Option<i64>) -> PyResult<bool> {
        self.origin.check(py)?;
        let now_ms = self.now_ms(now_ms);
        let Some(inside) = self.inside.try_lock() else {
            return Ok(true);
        };
        let due = gil_call(py, Gil::Kept, || inside.is_due(now_ms));
        due.map_err(|error| raised(py, &error))
    }

    #[pyo3(signature = (now_ms=None, *, limit=LIMIT_MAX))]
    fn tick(&self, py: Python<'_>, now_ms: Option<i64>, limit: usize) -> PyResult<Ticked> {
        let now_ms = self.now_ms(now_ms);
        self.call(py, |inside| inside.tick(now_ms, limit))
            .map(Ticked::of)
    }

    #[pyo3(signature = (read_ms, queue_offset, now_ms=None))]
    fn follow_master(
        &self,
        py: Python<'_>,
        read_ms: i64,
        queue_offset: u64,
        now_ms: Option<i64>,
    ) -> PyResult<Ticked> {
        let now_ms = self.now_ms(now_ms);
        self.call(py, |inside| {
            inside.follow_master(read_ms, queue_offset, now_ms)
        })
        .map(Ticked::of)
    }

    #[pyo3(signature = (now_ms=None))]
    fn flush(&self, py: Python<'_>, now_ms: Option<i64>) -> PyResult<bool> {
        let now_ms = self.now_ms(now_ms);
        self.call(py, |inside| inside.flush(now_ms))
    }

    fn retain(&self, py: Python<'_>) -> PyResult<usize> {
        self.call(py, Inside::retain)
    }

    /// The 56 bytes of the check point as they were written last.
    fn check_point(&self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        let bytes = self.call(py, |inside| Ok(inside.point().encode()))?;
        Ok(PyBytes::new(py, &bytes).unbind())
    }

    fn waiting(&self, py: Python<'_>) -> PyResult<Vec<TimedTopic>> {
        self.call(py, |inside| {
            let topics = inside.waiting();
            let topics = topics.map(|(topic, each)| {
                TimedTopic::new(topic.to_owned(), each.count, each.changed_ms)
            });
            Ok(topics.collect())
        })
    }

    /// What came and left since the start, by topic.
    fn moved(&self, py: Python<'_>) -> PyResult<Vec<TimersMoved>> {
        self.call(py, |inside| {
            let topics = inside.moved();
            let topics = topics.map(|(topic, each)| TimersMoved {
                topic: topic.to_owned(),
                entered: each.entered,
                left: each.left,
            });
            Ok(topics.collect())
        })
    }

    fn set_waiting(&self, py: Python<'_>, topics: Vec<Bound<'_, TimedTopic>>) -> PyResult<()> {
        let topics = topics.into_iter().map(|topic| topic.get().clone());
        let topics: Vec<TimedTopic> = topics.collect();
        self.call(py, |inside| {
            let waiting = topics.into_iter().map(|each| {
                let TimedTopic {
                    topic,
                    count,
                    changed_ms,
                } = each;
                (topic, Waiting { count, changed_ms })
            });
            inside.set_waiting(waiting);
            Ok(())
        })
    }

    /// Forgets how many wait for a topic that is deleted.
    fn forget(&self, py: Python<'_>, topic: &str) -> PyResult<()> {
        self.call(py, |inside| {
            inside.forget(topic);
            Ok(())
        })
    }

    /// How many wait in slots of a span of time.
    fn waiting_between(&self, py: Python<'_>, from_ms: i64, to_ms: i64) -> i64 {
        gil_call(py, Gil::Released, || self.wheel.count(from_ms, Some(to_ms)))
    }

    fn progress(&self, py: Python<'_>) -> PyResult<TimerProgress> {
        let all = self.call(py, |inside| inside.progress())?;
        Ok(TimerProgress {
            read_ms: all.read_ms,
            queue_offset: all.queue_offset,
            behind: all.behind,
            waiting: all.waiting,
            changes: all.changes,
            entered: all.entered,
            delivered: all.delivered,
            log_bytes: all.log_bytes,
            wheel_bytes: all.wheel_bytes,
        })
    }

    #[getter]
    fn step_ms(&self) -> i64 {
        self.wheel.step_ms()
    }
}
