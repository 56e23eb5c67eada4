//! The class over the timers of a store: each method unpacks, passes the door, calls, maps the error.
//! A call never waits for another one with the GIL kept.

use std::sync::Arc;

use mqcore_engine::clock::SystemClock;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::error::Result;
use mqcore_engine::lock::Mutex;
use mqcore_engine::timer::Wheel;
use mqcore_lane::timers::{LIMIT_MAX, Timers, Waiting};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::door::{Pass, through};
use crate::errors::raised;
use crate::fork::Origin;
use crate::lane::Engine;
use crate::store::NativeStore;

type Inside = Timers<RealDisk, SystemClock>;
/// Entered, delivered, rolled, deleted, skipped, late ms, whether more can be done.
type TickedRow = (u64, u64, u64, u64, u64, i64, bool);
/// Read time, queue offset, behind, waiting, changes, entered, delivered, bytes of log and wheel.
type ProgressRow = (i64, u64, u64, i64, u64, u64, u64, u64, u64);

/// The timers of an open store.
#[pyclass(frozen, subclass, module = "mqcore.native._native")]
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
        through(py, Pass::Detached, || call(&mut self.inside.lock()))
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
        let opened = through(py, Pass::Detached, || {
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
        let due = through(py, Pass::Keeping, || inside.is_due(now_ms));
        due.map_err(|error| raised(py, &error))
    }

    #[pyo3(signature = (now_ms=None, *, limit=LIMIT_MAX))]
    fn tick_row(&self, py: Python<'_>, now_ms: Option<i64>, limit: usize) -> PyResult<TickedRow> {
        let now_ms = self.now_ms(now_ms);
        let done = self.call(py, |inside| inside.tick(now_ms, limit))?;
        Ok((
            done.entered,
            done.delivered,
            done.rolled,
            done.deleted,
            done.skipped,
            done.late_ms,
            done.has_more,
        ))
    }

    #[pyo3(signature = (now_ms=None))]
    fn flush(&self, py: Python<'_>, now_ms: Option<i64>) -> PyResult<()> {
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

    /// Topic, count, time of the last change.
    fn waiting_rows(&self, py: Python<'_>) -> PyResult<Vec<(String, i64, i64)>> {
        self.call(py, |inside| {
            let rows = inside.waiting();
            let rows = rows.map(|(topic, each)| (topic.to_owned(), each.count, each.changed_ms));
            Ok(rows.collect())
        })
    }

    fn set_waiting_rows(&self, py: Python<'_>, rows: Vec<(String, i64, i64)>) -> PyResult<()> {
        self.call(py, |inside| {
            let rows = rows
                .into_iter()
                .map(|(topic, count, changed_ms)| (topic, Waiting { count, changed_ms }));
            inside.set_waiting(rows);
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
        through(py, Pass::Detached, || {
            self.wheel.count(from_ms, Some(to_ms))
        })
    }

    fn progress_row(&self, py: Python<'_>) -> PyResult<ProgressRow> {
        let all = self.call(py, |inside| inside.progress())?;
        Ok((
            all.read_ms,
            all.queue_offset,
            all.behind,
            all.waiting,
            all.changes,
            all.entered,
            all.delivered,
            all.log_bytes,
            all.wheel_bytes,
        ))
    }

    #[getter]
    fn step_ms(&self) -> i64 {
        self.wheel.step_ms()
    }
}
