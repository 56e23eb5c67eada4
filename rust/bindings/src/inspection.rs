//! The class over a store directory that is looked at, never changed.

use std::path::Path;
use std::sync::Arc;

use mqcore_engine::clock::SystemClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::error::{Error, Result};
use mqcore_engine::inspect::{self, Inspection as Engine};
use mqcore_engine::key_index::{Layout, found_layout};
use mqcore_record::CrcCheck;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::batch::{Scan, Walked};
use crate::errors::raised;
use crate::frozen::frozen;
use crate::gil::{Gil, gil_call};
use crate::settings::{given_settings, settings_dict};

frozen! {
    /// One file of a store.
    FileSize {
        /// Its path below the store's directory.
        path: String,
        /// Its length.
        len_bytes: u64,
        /// Bytes it takes on the device.
        allocated_bytes: u64,
        /// Bytes of it in memory, None where the system does not report it.
        resident_bytes: Option<u64>,
    }

    /// One queue as its files have it.
    QueueState {
        /// Its topic.
        topic: String,
        /// Its number in the topic.
        queue_id: i32,
        /// First queue offset whose record the log still has.
        min_offset: u64,
        /// Queue offset behind the last unit.
        max_offset: u64,
        /// Place of the first record, bytes of the log; None in an empty queue.
        min_physical_offset: Option<u64>,
    }

    /// The header of an index file.
    IndexHeader {
        /// The file.
        path: String,
        /// Store time of the first entry.
        begin_timestamp_ms: i64,
        /// Store time of the latest entry.
        end_timestamp_ms: i64,
        /// Record of the first entry, bytes of the log.
        begin_physical_offset: i64,
        /// Record of the latest entry.
        end_physical_offset: i64,
        /// Hash slots in use.
        slots_used: i32,
        /// Entries.
        entries: i32,
    }

    /// How much an index file holds.
    IndexCapacity {
        /// Hash slots.
        slots: u32,
        /// Entries.
        entries: u32,
    }

    /// A disagreement inside a store.
    Problem {
        /// The part of the store.
        part: &'static str,
        /// Where in it: a file, an offset.
        at: String,
        /// What disagrees.
        why: String,
    }

    /// What a verification found.
    Findings {
        /// First byte of the log that is there.
        log_start: u64,
        /// Byte behind the last good record.
        log_end: u64,
        /// Records of the log.
        records: u64,
        /// Blank ends of files.
        blanks: u64,
        /// Queues looked at.
        queues: u64,
        /// Queue units looked at.
        units: u64,
        /// Index files looked at.
        index_files: u64,
        /// Index entries looked at.
        index_entries: u64,
        /// How many disagreements there are.
        problem_count: u64,
        /// The first thousand of them.
        problems: Vec<Py<Problem>>,
        /// What looks odd and has a lawful reason.
        notes: Vec<String>,
    }

    /// How far a verification is, bytes of the log.
    VerifyProgress {
        /// Bytes it has seen.
        seen_bytes: u64,
        /// All of them.
        total_bytes: u64,
    }

    /// The files of a log: physical offsets.
    LogRange {
        /// First byte.
        start: u64,
        /// Byte behind the last one.
        end: u64,
    }

    /// What a rebuild made.
    Rebuilt {
        /// Physical offset behind the last record of the log.
        log_end: u64,
        /// Records walked.
        records: u64,
        /// Queues made.
        queues: usize,
        /// Entries of the index.
        index_entries: u64,
    }
}

/// Builds queues and index of a closed store again; the log is only read.
#[pyfunction]
pub(crate) fn rebuild(py: Python<'_>, settings: &Bound<'_, PyDict>) -> PyResult<Rebuilt> {
    let pairs = given_settings(settings)?;
    let rebuilt = gil_call(py, Gil::Released, || {
        let pairs = pairs
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        let (config, _unknown) = StoreConfig::from_pairs(pairs)?;
        mqcore_engine::store::rebuild(&RealDisk, &SystemClock::new(), config)
    });
    let rebuilt = rebuilt.map_err(|error| raised(py, &error))?;
    Ok(Rebuilt {
        log_end: rebuilt.log_end,
        records: rebuilt.records,
        queues: rebuilt.queues,
        index_entries: rebuilt.index_entries,
    })
}

/// How much the index files of a directory hold, as they are; None without a file, or where no
/// sizes fit.
#[pyfunction]
pub(crate) fn index_capacity(
    py: Python<'_>,
    folder: &str,
    slots: u64,
    entries: u64,
) -> PyResult<Option<IndexCapacity>> {
    let found = gil_call(py, Gil::Released, || {
        found_layout(&RealDisk, Path::new(folder), Layout::of(slots, entries))
    });
    let found = found.map_err(|error| raised(py, &error))?;
    Ok(found.map(|layout| IndexCapacity {
        slots: layout.slots(),
        entries: layout.entries(),
    }))
}

/// Bytes of a file in the page cache, by equal parts of it; None where there is no such file, or the
/// system does not report it.
#[pyfunction]
pub(crate) fn resident_parts(py: Python<'_>, path: &str, parts: u64) -> PyResult<Option<Vec<u64>>> {
    let found = gil_call(py, Gil::Released, || {
        inspect::resident_parts(&RealDisk, Path::new(path), parts)
    });
    found.map_err(|error| raised(py, &error))
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
        gil_call(py, Gil::Released, || call(engine)).map_err(|error| raised(py, &error))
    }
}

#[pymethods]
impl NativeInspection {
    #[new]
    #[pyo3(signature = (root, settings))]
    fn new(py: Python<'_>, root: String, settings: &Bound<'_, PyDict>) -> PyResult<Self> {
        let pairs = given_settings(settings)?;
        let opened = gil_call(py, Gil::Released, || {
            Engine::open(RealDisk, Path::new(&root), &pairs)
        });
        let engine = Arc::new(opened.map_err(|error: Error| raised(py, &error))?);
        Ok(Self { engine })
    }

    #[getter]
    fn settings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        settings_dict(py, self.engine.config())
    }

    #[getter]
    fn log_range(&self) -> LogRange {
        LogRange {
            start: self.engine.chain().start(),
            end: self.engine.chain().end(),
        }
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

    fn files(&self, py: Python<'_>) -> PyResult<Vec<FileSize>> {
        let files = self.call(py, Engine::files)?.into_iter();
        let files = files.map(|file| FileSize {
            path: file.path.display().to_string(),
            len_bytes: file.len_bytes,
            allocated_bytes: file.allocated_bytes,
            resident_bytes: file.resident_bytes,
        });
        Ok(files.collect())
    }

    fn queues(&self, py: Python<'_>) -> PyResult<Vec<QueueState>> {
        let queues = self.call(py, Engine::queues)?.into_iter();
        let queues = queues.map(|queue| QueueState {
            topic: queue.topic,
            queue_id: queue.queue_id,
            min_offset: queue.min_offset,
            max_offset: queue.max_offset,
            min_physical_offset: queue.min_physical_offset,
        });
        Ok(queues.collect())
    }

    fn index_headers(&self, py: Python<'_>) -> PyResult<Vec<IndexHeader>> {
        let headers = self.call(py, Engine::index_headers)?.into_iter();
        let headers = headers.map(|(path, header)| IndexHeader {
            path: path.display().to_string(),
            begin_timestamp_ms: header.begin_timestamp_ms,
            end_timestamp_ms: header.end_timestamp_ms,
            begin_physical_offset: header.begin_physical_offset,
            end_physical_offset: header.end_physical_offset,
            slots_used: header.slots_used,
            entries: header.next_number - 1,
        });
        Ok(headers.collect())
    }

    fn checkpoint(&self, py: Python<'_>) -> PyResult<Option<Vec<i64>>> {
        self.call(py, Engine::checkpoint)
    }

    fn has_abort(&self, py: Python<'_>) -> PyResult<bool> {
        self.call(py, Engine::has_abort)
    }

    fn verify(&self, py: Python<'_>) -> PyResult<Findings> {
        let found = self.call(py, Engine::verify)?;
        let problems = found.problems.into_iter().map(|problem| {
            let problem = Problem {
                part: problem.part,
                at: problem.location,
                why: problem.why,
            };
            Py::new(py, problem)
        });
        Ok(Findings {
            log_start: found.log_start,
            log_end: found.log_end,
            records: found.records,
            blanks: found.blanks,
            queues: found.queues,
            units: found.units,
            index_files: found.index_files,
            index_entries: found.index_entries,
            problem_count: found.problem_count,
            problems: problems.collect::<PyResult<_>>()?,
            notes: found.notes,
        })
    }

    fn progress(&self) -> VerifyProgress {
        let (seen_bytes, total_bytes) = self.engine.progress();
        VerifyProgress {
            seen_bytes,
            total_bytes,
        }
    }
}
