//! The class over an open store: each method unpacks, calls with the GIL kept or released, maps the error.

use std::sync::Arc;

use mqcore_engine::clock::{Clock, SystemClock};
use mqcore_engine::commit_log::Appended as RecordPosition;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::consume_queue::Boundary::{Lower, Upper};
use mqcore_engine::disk::RealDisk;
use mqcore_engine::error::{Error, Result};
use mqcore_engine::store::{Ask, QueueEnds, Store};
use mqcore_record::{Host, Message as Draft};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::answers::{Appended, Drained, GetResult, OffsetRange};
use crate::appending::{RECORD_REST_BYTES, pass_of, settle};
use crate::batch::{Scan, Walked};
use crate::draft::{self, BatchMessage, Head, Labels, bytes_of};
use crate::errors::{raised, raised_after};
use crate::fork::Origin;
use crate::gil::{Gil, KEEP_RECORDS_MAX, gil_call};
use crate::many::{AppendedMany, Columns, QueueIds, Texts, lens_of};
use crate::records::Message;
use crate::settings::{given_settings, open_how, settings_dict};
use crate::store_reports::{DamagedRecord, Notice, OpenReport, QueueBounds, RemovedFiles, Stats};

/// The engine of a store that is open.
pub(crate) type Engine = Store<RealDisk, SystemClock>;

/// An open store.
#[pyclass(frozen, subclass, module = "mqcore.native._native")]
pub(crate) struct NativeStore {
    engine: Arc<Engine>,
    unknown: Vec<String>,
    clock: SystemClock,
    store_host: Host,
    origin: Origin,
}

impl NativeStore {
    /// What a fast path over this store needs.
    pub(crate) fn parts(&self) -> (Arc<Engine>, Host) {
        (Arc::clone(&self.engine), self.store_host)
    }

    #[inline]
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.origin.check(py)?;
        if self.engine.files().is_closing() {
            return Err(raised(py, &Error::Closed));
        }
        Ok(())
    }

    /// Calls into the open store of this process.
    #[inline]
    pub(crate) fn call<T: Send>(
        &self,
        py: Python<'_>,
        pass: Gil,
        call: impl FnOnce(&Engine) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.check(py)?;
        gil_call(py, pass, || call(&self.engine)).map_err(|error| raised(py, &error))
    }

    fn head(&self, queue_id: i32, born_ms: Option<i64>, born_host: Option<&str>) -> PyResult<Head> {
        Ok(Head {
            queue_id,
            born_timestamp_ms: born_ms.unwrap_or_else(|| self.clock.now_ms()),
            born_host: draft::host_or_local(born_host)?,
            store_host: self.store_host,
        })
    }
}

#[pymethods]
impl NativeStore {
    #[new]
    #[pyo3(signature = (settings, *, on_damage="refuse", store_host=None, is_member=false, cut_at=None))]
    fn new(
        py: Python<'_>,
        settings: &Bound<'_, PyDict>,
        on_damage: &str,
        store_host: Option<&str>,
        is_member: bool,
        cut_at: Option<u64>,
    ) -> PyResult<Self> {
        let store_host = draft::host_or_local(store_host)?;
        let how = open_how(on_damage, cut_at)?;
        let pairs = given_settings(settings)?;
        let clock = SystemClock::new();
        let opened = gil_call(py, Gil::Released, || {
            let pairs = pairs.iter().map(|(key, value)| (&**key, &**value));
            let (mut config, unknown) = StoreConfig::from_pairs(pairs)?;
            config.is_member = is_member;
            let engine = Arc::new(Engine::open(RealDisk, clock.clone(), config, how)?);
            engine.start()?;
            Ok((engine, unknown))
        });
        let (engine, unknown) = opened.map_err(|error: Error| raised(py, &error))?;
        Ok(Self {
            engine,
            unknown,
            clock,
            store_host,
            origin: Origin::here(),
        })
    }

    #[getter]
    fn unknown_settings(&self) -> Vec<String> {
        self.unknown.clone()
    }

    #[getter]
    fn settings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        settings_dict(py, self.engine.config())
    }

    #[pyo3(signature = (topic, body, *, queue_id=0, tags=None, keys=None, properties=None, flag=0,
        sys_flag=0, born_timestamp_ms=None, born_host=None, wait=true))]
    #[expect(
        clippy::too_many_arguments,
        reason = "one crossing takes the whole message"
    )]
    fn append(
        &self,
        py: Python<'_>,
        topic: &str,
        body: &Bound<'_, PyAny>,
        queue_id: i32,
        tags: Option<&str>,
        keys: Option<&Bound<'_, PyAny>>,
        properties: Option<&Bound<'_, PyDict>>,
        flag: i32,
        sys_flag: i32,
        born_timestamp_ms: Option<i64>,
        born_host: Option<&str>,
        wait: bool,
    ) -> PyResult<Appended> {
        let text = Labels {
            tags,
            keys,
            properties,
        }
        .encode(py)?;
        let body = bytes_of(body)?;
        let head = self.head(queue_id, born_timestamp_ms, born_host)?;
        let message = Draft {
            flag,
            sys_flag,
            ..head.draft(topic, &body, &text)
        };
        let pass = pass_of(&self.engine, body.len() + text.len());
        let (appended, status) = self.call(py, pass, |engine| {
            let appended = engine.writer().append(&message)?;
            Ok((appended, settle(engine, appended.end(), wait)?))
        })?;
        Ok(Appended::new(appended, status, self.store_host))
    }

    #[pyo3(signature = (topic, messages, *, queue_id=0, born_timestamp_ms=None, born_host=None,
        wait=true))]
    #[expect(
        clippy::too_many_arguments,
        reason = "one crossing takes the whole batch"
    )]
    fn append_batch(
        &self,
        py: Python<'_>,
        topic: &str,
        messages: Vec<BatchMessage<'_>>,
        queue_id: i32,
        born_timestamp_ms: Option<i64>,
        born_host: Option<&str>,
        wait: bool,
    ) -> PyResult<Vec<Appended>> {
        let head = self.head(queue_id, born_timestamp_ms, born_host)?;
        let mut parts = Vec::with_capacity(messages.len());
        for message in &messages {
            parts.push((bytes_of(&message.body)?, message.text(py)?));
        }
        let drafts: Vec<Draft<'_>> = parts
            .iter()
            .map(|(body, text)| head.draft(topic, body, text))
            .collect();
        let bytes = parts
            .iter()
            .map(|(body, text)| body.len() + text.len() + RECORD_REST_BYTES)
            .sum();
        let (appended, status) = self.call(py, pass_of(&self.engine, bytes), |engine| {
            let appended = engine.writer().append_batch(&drafts)?;
            let end = appended.last().map_or(0, RecordPosition::end);
            Ok((appended, settle(engine, end, wait)?))
        })?;
        Ok(appended
            .into_iter()
            .map(|appended| Appended::new(appended, status, self.store_host))
            .collect())
    }

    #[pyo3(signature = (topic, bodies, lens, *, queue_ids=None, properties=None,
        properties_lens=None, flag=0, born_timestamp_ms=None, born_host=None, wait=true))]
    #[expect(clippy::too_many_arguments, reason = "one crossing takes all columns")]
    fn append_many(
        &self,
        py: Python<'_>,
        topic: &str,
        bodies: &Bound<'_, PyAny>,
        lens: &Bound<'_, PyAny>,
        queue_ids: Option<&Bound<'_, PyAny>>,
        properties: Option<&Bound<'_, PyAny>>,
        properties_lens: Option<&Bound<'_, PyAny>>,
        flag: i32,
        born_timestamp_ms: Option<i64>,
        born_host: Option<&str>,
        wait: bool,
    ) -> PyResult<AppendedMany> {
        let bodies = bytes_of(bodies)?;
        let columns = Columns {
            topic,
            bodies: &bodies,
            lens: lens_of(lens)?,
            queue_ids: queue_ids.map_or(Ok(QueueIds::All(0)), QueueIds::of)?,
            properties: Texts::of(properties, properties_lens)?,
            flag,
            head: self.head(0, born_timestamp_ms, born_host)?,
        };
        columns.check()?;
        self.check(py)?;
        let pass = pass_of(
            &self.engine,
            bodies.len() + columns.lens.len() * RECORD_REST_BYTES,
        );
        let engine = &*self.engine;
        let mut many = AppendedMany::with_capacity(columns.lens.len());
        let outcome = gil_call(py, pass, || {
            columns.each(|draft| engine.writer().append(draft).map(|at| many.push(at)))?;
            many.status = settle(engine, many.end, wait).map_err(|error| (many.count, error))?;
            Ok(())
        });
        outcome.map_err(|(stored, error): (usize, Error)| raised_after(py, &error, stored))?;
        Ok(many)
    }

    #[pyo3(signature = (topic, queue_id, offset, max_count=32, *, max_bytes=262_144, tags=None))]
    #[expect(clippy::too_many_arguments, reason = "what a pull asks for")]
    fn get(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        offset: u64,
        max_count: usize,
        max_bytes: u64,
        tags: Option<&str>,
    ) -> PyResult<GetResult> {
        let codes = draft::tags_codes_of(tags);
        let ask = Ask {
            from: offset,
            count_max: max_count,
            bytes_max: max_bytes,
            tags_codes: &codes,
            is_bulk: false,
        };
        self.check(py)?;
        let topic = topic.as_bytes();
        // With a tag test the engine may look at many more units than it gives records.
        let is_hot = self
            .engine
            .reader()
            .is_hot(topic, queue_id, offset, max_count);
        let is_few = max_count <= KEEP_RECORDS_MAX && codes.is_empty();
        let pass = Gil::kept_if(is_few && is_hot.unwrap_or(false));
        let got = self.call(py, pass, |engine| engine.reader().get(topic, queue_id, ask))?;
        GetResult::of(py, got)
    }

    fn message_at(&self, py: Python<'_>, physical_offset: u64) -> PyResult<Message> {
        let record = self.call(py, Gil::Released, |engine| {
            engine.reader().record_at(physical_offset)
        })?;
        Ok(Message::one(record))
    }

    #[pyo3(signature = (from_offset=None, to_offset=None, *, topics=None, batch_bytes=1_048_576))]
    fn scan(
        &self,
        py: Python<'_>,
        from_offset: Option<u64>,
        to_offset: Option<u64>,
        topics: Option<Vec<String>>,
        batch_bytes: usize,
    ) -> PyResult<Scan> {
        self.check(py)?;
        let batches = self
            .engine
            .reader()
            .walk(from_offset, to_offset, batch_bytes);
        Ok(Scan::new(
            Walked::Open(Arc::clone(&self.engine)),
            batches,
            topics,
        ))
    }

    #[pyo3(signature = (topic, key, max_count=64, *, begin_ms=0, end_ms=i64::MAX))]
    #[expect(clippy::too_many_arguments, reason = "what a query asks for")]
    fn query(
        &self,
        py: Python<'_>,
        topic: &str,
        key: &str,
        max_count: usize,
        begin_ms: i64,
        end_ms: i64,
    ) -> PyResult<Vec<Message>> {
        let found = self.call(py, Gil::Released, |engine| {
            engine.key_reader().query(
                topic.as_bytes(),
                key.as_bytes(),
                max_count,
                begin_ms,
                end_ms,
            )
        })?;
        Ok(found.records.into_iter().map(Message::one).collect())
    }

    #[pyo3(signature = (topic, queue_id, timestamp_ms, *, is_upper=false))]
    fn offset_by_time(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        timestamp_ms: i64,
        is_upper: bool,
    ) -> PyResult<Option<u64>> {
        let boundary = if is_upper { Upper } else { Lower };
        self.call(py, Gil::Released, |engine| {
            engine
                .reader()
                .offset_by_time(topic.as_bytes(), queue_id, timestamp_ms, boundary)
        })
    }

    fn bounds(&self, py: Python<'_>, topic: &str, queue_id: i32) -> PyResult<Option<OffsetRange>> {
        let bounds = self.call(py, Gil::Released, |engine| {
            engine.topics().bounds(topic.as_bytes(), queue_id)
        })?;
        Ok(bounds.map(OffsetRange::from))
    }

    fn ends_behind_queues(&self, py: Python<'_>) -> PyResult<QueueEnds> {
        self.call(py, Gil::Released, |e| e.replica().ends_behind_queues())
    }

    fn queues(&self, py: Python<'_>) -> PyResult<Vec<QueueBounds>> {
        let infos = self.call(py, Gil::Released, |engine| engine.topics().queue_infos())?;
        Ok(infos.into_iter().map(QueueBounds::from).collect())
    }

    fn damaged_records(&self, py: Python<'_>) -> PyResult<Vec<DamagedRecord>> {
        let (found, _count) = self.call(py, Gil::Kept, |engine| Ok(engine.damaged().records()))?;
        Ok(found.into_iter().map(DamagedRecord::from).collect())
    }

    fn flush(&self, py: Python<'_>) -> PyResult<u64> {
        self.call(py, Gil::Released, |engine| engine.durability().flush())
    }

    #[pyo3(signature = (physical_offset, *, timeout_ms=10_000))]
    fn wait_dispatched(
        &self,
        py: Python<'_>,
        physical_offset: u64,
        timeout_ms: u64,
    ) -> PyResult<()> {
        let timeout = std::time::Duration::from_millis(timeout_ms);
        self.call(py, Gil::Released, |engine| {
            let files = engine.files();
            let gives_up = || files.is_closing() || files.poison.reason().is_some();
            let dispatched = &files.positions.dispatched;
            if dispatched.wait(physical_offset, timeout, gives_up) {
                return Ok(());
            }
            files.poison.check()?;
            Err(Error::Timeout {
                what: "dispatch",
                waited_ms: timeout_ms,
            })
        })
    }

    fn delete_topic(&self, py: Python<'_>, topic: &str) -> PyResult<()> {
        self.call(py, Gil::Released, |engine| {
            engine.topics().delete_topic(topic.as_bytes())
        })
    }

    fn declare_batch_queues(&self, py: Python<'_>, topic: &str) -> PyResult<()> {
        self.call(py, Gil::Released, |engine| {
            engine.topics().declare_batch_queues(topic)
        })
    }

    #[pyo3(signature = (*, expired_before_ms=None, max_files=10, unread_from=None))]
    fn remove_oldest(
        &self,
        py: Python<'_>,
        expired_before_ms: Option<i64>,
        max_files: usize,
        unread_from: Option<u64>,
    ) -> PyResult<RemovedFiles> {
        let cleaned = self.call(py, Gil::Released, |engine| {
            engine
                .retention()
                .remove_oldest(expired_before_ms, max_files, unread_from)
        })?;
        Ok(cleaned.into())
    }

    /// The store in numbers; the faults are the process's, which Python asks the system for.
    fn stats_beside(
        &self,
        py: Python<'_>,
        minor_faults: u64,
        major_faults: u64,
    ) -> PyResult<Stats> {
        let stats = self.call(py, Gil::Released, |engine| Ok(engine.stats()))?;
        Stats::of(py, stats, minor_faults, major_faults)
    }

    fn open_report(&self) -> OpenReport {
        OpenReport::of(self.engine.report())
    }

    fn take_notices(&self, py: Python<'_>) -> PyResult<Vec<Notice>> {
        self.origin.check(py)?;
        let notices = self.engine.files().notices.drain();
        Ok(notices.into_iter().map(Notice::from).collect())
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.engine.files().is_closing()
    }

    #[getter]
    fn wake_descriptor(&self) -> i32 {
        self.engine.wake_descriptor().raw()
    }

    #[pyo3(signature = (end, *, needs_replica=false))]
    fn park(&self, py: Python<'_>, end: u64, needs_replica: bool) -> PyResult<u64> {
        let ticket = self.call(py, Gil::Kept, |engine| {
            engine.durability().park(end, needs_replica)
        })?;
        Ok(ticket.0)
    }

    fn drain(&self, py: Python<'_>) -> PyResult<Drained> {
        self.origin.check(py)?;
        let mut answers = Vec::new();
        let next_ms = gil_call(py, Gil::Kept, || {
            self.engine.durability().drain(&mut answers)
        });
        Drained::of(py, answers, next_ms)
    }

    fn close(&self, py: Python<'_>) -> PyResult<bool> {
        self.origin.check(py)?;
        gil_call(py, Gil::Released, || self.engine.close()).map_err(|error| raised(py, &error))
    }

    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        self.origin.check(py)?;
        gil_call(py, Gil::Released, || self.engine.abandon());
        Ok(())
    }
}

impl Drop for NativeStore {
    fn drop(&mut self) {
        if self.origin.is_elsewhere() {
            // The threads did not come along and the maps are not there: nothing can be given back.
            std::mem::forget(Arc::clone(&self.engine));
            return;
        }
        if !self.engine.files().is_closing() {
            // The threads hold the store too: without this they would never end.
            self.engine.abandon();
        }
    }
}
