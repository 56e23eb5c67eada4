//! The class over a store directory that is looked at, never changed.

use std::path::Path;
use std::sync::Arc;

use mqcore_engine::clock::SystemClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::error::{Error, Result};
use mqcore_engine::inspect::{Inspection as Engine, Verdict};
use mqcore_engine::key_index::IndexHeader;
use mqcore_record::CrcCheck;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::batch::{Scan, Walked};
use crate::door::{Pass, through};
use crate::errors::raised;

/// A file: path below the root, length, bytes on the device, bytes in memory where that is known.
type FileRow = (String, u64, u64, Option<u64>);

/// A queue: topic, number, first and next queue offset, place of the first record.
type QueueRow = (String, i32, u64, u64, Option<u64>);

/// Builds queues and index of a closed store again; the log is only read. What was built, in numbers.
#[pyfunction]
pub(crate) fn rebuild(
    py: Python<'_>,
    pairs: Vec<(String, String)>,
) -> PyResult<(u64, u64, usize, u64)> {
    let rebuilt = through(py, Pass::Detached, || {
        let pairs = pairs
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        let (config, _unknown) = StoreConfig::from_pairs(pairs)?;
        mqcore_engine::store::rebuild(&RealDisk, &SystemClock::new(), config)
    });
    let rebuilt = rebuilt.map_err(|error| raised(py, &error))?;
    Ok((
        rebuilt.log_end,
        rebuilt.records,
        rebuilt.queues,
        rebuilt.index_entries,
    ))
}

/// A store directory, read only and without a lock.
#[pyclass(frozen, subclass, module = "mqcore.native._native")]
pub(crate) struct NativeInspection {
    engine: Arc<Engine<RealDisk>>,
}

impl NativeInspection {
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Engine<RealDisk>) -> Result<T> + Send,
    ) -> PyResult<T> {
        let engine = &*self.engine;
        through(py, Pass::Detached, || call(engine)).map_err(|error| raised(py, &error))
    }
}

#[pymethods]
impl NativeInspection {
    #[new]
    #[pyo3(signature = (root, pairs=Vec::new()))]
    fn new(py: Python<'_>, root: String, pairs: Vec<(String, String)>) -> PyResult<Self> {
        let opened = through(py, Pass::Detached, || {
            Engine::open(RealDisk, Path::new(&root), &pairs)
        });
        let engine = Arc::new(opened.map_err(|error: Error| raised(py, &error))?);
        Ok(Self { engine })
    }

    #[getter]
    fn settings(&self) -> Vec<(&'static str, String)> {
        self.engine.config().pairs()
    }

    /// First and last physical offset of the files of the log: bytes.
    #[getter]
    fn log_range(&self) -> (u64, u64) {
        (self.engine.chain().start(), self.engine.chain().end())
    }

    #[pyo3(signature = (from_offset=None, to_offset=None, *, topics=None, batch_bytes=1_048_576,
        verify_crc=true))]
    fn scan(
        &self,
        from_offset: Option<u64>,
        to_offset: Option<u64>,
        topics: Option<Vec<String>>,
        batch_bytes: usize,
        verify_crc: bool,
    ) -> Scan {
        let crc = if verify_crc {
            CrcCheck::Verify
        } else {
            CrcCheck::Skip
        };
        let batches = self.engine.walk(from_offset, to_offset, crc, batch_bytes);
        Scan::new(Walked::Inspected(Arc::clone(&self.engine)), batches, topics)
    }

    fn file_rows(&self, py: Python<'_>) -> PyResult<Vec<FileRow>> {
        let files = self.call(py, Engine::files)?;
        let row = |file: mqcore_engine::inspect::FileReport| {
            let path = file.path.display().to_string();
            (
                path,
                file.len_bytes,
                file.allocated_bytes,
                file.resident_bytes,
            )
        };
        Ok(files.into_iter().map(row).collect())
    }

    fn queue_rows(&self, py: Python<'_>) -> PyResult<Vec<QueueRow>> {
        let queues = self.call(py, Engine::queues)?;
        let row = |queue: mqcore_engine::inspect::QueueReport| {
            let place = queue.min_physical_offset;
            (
                queue.topic,
                queue.queue_id,
                queue.min_offset,
                queue.max_offset,
                place,
            )
        };
        Ok(queues.into_iter().map(row).collect())
    }

    fn index_numbers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let headers = self.call(py, Engine::index_headers)?;
        let out = PyList::empty(py);
        for (path, header) in headers {
            out.append(header_dict(py, &path, &header)?)?;
        }
        Ok(out)
    }

    fn checkpoint(&self, py: Python<'_>) -> PyResult<Option<Vec<i64>>> {
        self.call(py, Engine::checkpoint)
    }

    fn has_abort(&self, py: Python<'_>) -> PyResult<bool> {
        self.call(py, Engine::has_abort)
    }

    fn verify_numbers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let verdict = self.call(py, Engine::verify)?;
        verdict_dict(py, &verdict)
    }

    /// Bytes of the log that a running `verify` has seen, and all of them.
    fn progress(&self) -> (u64, u64) {
        self.engine.progress()
    }
}

fn header_dict<'py>(
    py: Python<'py>,
    path: &Path,
    header: &IndexHeader,
) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("path", path.display().to_string())?;
    out.set_item("begin_timestamp_ms", header.begin_timestamp_ms)?;
    out.set_item("end_timestamp_ms", header.end_timestamp_ms)?;
    out.set_item("begin_physical_offset", header.begin_physical_offset)?;
    out.set_item("end_physical_offset", header.end_physical_offset)?;
    out.set_item("slots_used", header.slots_used)?;
    out.set_item("entries", header.next_number - 1)?;
    Ok(out)
}

fn verdict_dict<'py>(py: Python<'py>, verdict: &Verdict) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for (name, value) in [
        ("log_start", verdict.log_start),
        ("log_end", verdict.log_end),
        ("records", verdict.records),
        ("blanks", verdict.blanks),
        ("queues", verdict.queues),
        ("units", verdict.units),
        ("index_files", verdict.index_files),
        ("index_entries", verdict.index_entries),
        ("problem_count", verdict.problem_count),
    ] {
        out.set_item(name, value)?;
    }
    let problems: Vec<(&str, &str, &str)> = verdict
        .problems
        .iter()
        .map(|problem| (problem.part, problem.place.as_str(), problem.why.as_str()))
        .collect();
    out.set_item("problems", problems)?;
    out.set_item("notes", &verdict.notes)?;
    Ok(out)
}
