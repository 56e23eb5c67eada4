//! Records in log order, batch by batch: as columns made in one pass, or one by one.

use std::collections::HashMap;
use std::sync::Arc;

use mqcore_engine::clock::SystemClock;
use mqcore_engine::commit_log::{LogBatch, LogBatches, Placed, Stop};
use mqcore_engine::disk::RealDisk;
use mqcore_engine::error::{Error, Result};
use mqcore_engine::inspect::Inspection;
use mqcore_engine::store::Store;
use mqcore_record::{RecordView, inner_batch, sys_flag};
use mqcore_wire::compression;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PyString};

use crate::buffer::uncollected;
use crate::errors;
use crate::fork::Origin;
use crate::frozen::frozen;
use crate::gil::{Gil, gil_call};
use crate::received::ReceivedMessage;
use crate::records::{Message, text};

/// Most bytes of an answer whose batches were taken apart: four times the longest frame. Beyond,
/// some bytes were made to blow up a reader.
const UNWRAPPED_MAX_BYTES: usize = 64 << 20;

/// What a walk goes through.
pub(crate) enum Walked {
    Open(Arc<Store<RealDisk, SystemClock>>),
    Inspected(Arc<Inspection<RealDisk>>),
}

impl Walked {
    fn step(&self, batches: &mut LogBatches) -> Result<Option<LogBatch<RealDisk>>> {
        match self {
            Self::Open(store) if store.files().is_closing() => Err(Error::Closed),
            Self::Open(store) => batches.step(&store.files().chain),
            Self::Inspected(inspection) => batches.step(inspection.chain()),
        }
    }
}

/// Columns of a batch, native byte order.
#[derive(Default)]
struct Columns {
    queue_ids: Vec<u8>,
    queue_offsets: Vec<u8>,
    physical_offsets: Vec<u8>,
    store_timestamps_ms: Vec<u8>,
    body_lens: Vec<u8>,
    bodies: Vec<(u32, u32)>,
    topic_of: Vec<u32>,
    topics: Vec<Vec<u8>>,
}

impl Columns {
    fn of(batch: &LogBatch<RealDisk>, wanted: &[Vec<u8>]) -> (Self, Vec<Placed>) {
        let mut out = Self::default();
        let mut records = Vec::with_capacity(batch.placed.len());
        let mut numbers: HashMap<Vec<u8>, u32> = HashMap::new();
        let mut last = 0u32;
        for placed in batch.placed.iter().filter(|placed| !placed.is_blank) {
            let Some(record) = batch.view(*placed) else {
                continue;
            };
            if !wanted.is_empty() && !wanted.iter().any(|topic| topic == record.topic) {
                continue;
            }
            let is_same = out
                .topics
                .get(last as usize)
                .is_some_and(|topic| topic == record.topic);
            if !is_same {
                last = *numbers.entry(record.topic.to_vec()).or_insert_with(|| {
                    out.topics.push(record.topic.to_vec());
                    (out.topics.len() - 1) as u32
                });
            }
            records.push(*placed);
            out.topic_of.push(last);
            out.queue_ids.extend(record.queue_id.to_ne_bytes());
            out.queue_offsets.extend(record.queue_offset.to_ne_bytes());
            out.physical_offsets
                .extend(record.physical_offset.to_ne_bytes());
            out.store_timestamps_ms
                .extend(record.store_timestamp_ms.to_ne_bytes());
            let body_len = record.body.len() as u32;
            out.body_lens.extend(body_len.to_ne_bytes());
            // The body lies inside the record, the record inside the batch: both below 2 GiB.
            let before = record.body.as_ptr() as usize - batch.bytes.as_bytes().as_ptr() as usize;
            out.bodies.push((before as u32, body_len));
        }
        (out, records)
    }
}

frozen! {
    /// The end of a log file that holds no record.
    Blank {
        /// Where it begins, bytes of the log.
        physical_offset: u64,
        /// Its length.
        len_bytes: u32,
    }
}

/// Records that lie side by side in the log.
#[pyclass(frozen, sequence, module = "mqcore.native._native")]
pub(crate) struct RecordBatch {
    batch: Arc<LogBatch<RealDisk>>,
    records: Vec<Placed>,
    columns: Columns,
    origin: Origin,
    wrapped: usize,
}

impl RecordBatch {
    fn of(batch: LogBatch<RealDisk>, wanted: &[Vec<u8>], origin: Origin) -> Self {
        let (columns, records) = Columns::of(&batch, wanted);
        Self {
            batch: Arc::new(batch),
            records,
            columns,
            origin,
            wrapped: 0,
        }
    }
}

/// The records in the body of an answer: those of a pull, a query by key, a look at one message.
/// With `unwraps` batches that are one record become the records of their messages.
#[pyfunction]
#[pyo3(signature = (data, *, unwraps = false))]
pub(crate) fn decode_records(
    py: Python<'_>,
    data: PyBackedBytes,
    unwraps: bool,
) -> PyResult<RecordBatch> {
    let decoded = gil_call(py, Gil::Released, || {
        let unwrapped =
            unwraps.then(|| inner_batch::unwrapped(&data, UNWRAPPED_MAX_BYTES, inflated));
        match unwrapped.flatten() {
            Some(found) => {
                LogBatch::of_bytes(Arc::new(found.bytes)).map(|batch| (batch, found.left))
            }
            None => LogBatch::of_bytes(Arc::new(data)).map(|batch| (batch, 0)),
        }
    });
    match decoded {
        Ok((batch, wrapped)) => {
            let mut records = RecordBatch::of(batch, &[], Origin::here());
            records.wrapped = wrapped;
            Ok(records)
        }
        Err((at, error)) => Err(errors::raised(
            py,
            &Error::NoRecord {
                physical_offset: at as u64,
                why: format!("byte {at} of the answer: {error}"),
            },
        )),
    }
}

/// The body of a record as its sender made it.
fn inflated(record: &RecordView<'_>) -> Option<Vec<u8>> {
    let kind = sys_flag::compression(record.sys_flag)?;
    compression::inflate(kind, record.body, UNWRAPPED_MAX_BYTES).ok()
}

/// Bytes as a memory view of numbers.
pub(crate) fn column<'py>(
    py: Python<'py>,
    bytes: &[u8],
    format: &str,
) -> PyResult<Bound<'py, PyAny>> {
    PyMemoryView::from(&PyBytes::new(py, bytes))?.call_method1("cast", (format,))
}

#[pymethods]
impl RecordBatch {
    fn __len__(&self) -> usize {
        self.records.len()
    }

    fn __getitem__(&self, index: isize) -> PyResult<Message> {
        let at = if index < 0 {
            index + self.records.len() as isize
        } else {
            index
        };
        usize::try_from(at)
            .ok()
            .and_then(|at| self.records.get(at))
            .map(|placed| Message::part(Arc::clone(&self.batch), *placed, self.origin))
            .ok_or_else(|| PyIndexError::new_err("no such record in this batch"))
    }

    /// All records as messages that came from a queue.
    fn received<'py>(
        &self,
        py: Python<'py>,
        queue: &Bound<'py, PyAny>,
        topic: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyList>> {
        let all = PyList::empty(py);
        for placed in &self.records {
            let record = Message::part(Arc::clone(&self.batch), *placed, self.origin);
            let message = ReceivedMessage::of(record, queue, topic);
            let message = Bound::new(py, message)?.into_any();
            uncollected(&message);
            all.append(message)?;
        }
        Ok(all)
    }

    #[getter]
    fn topics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let names: Vec<Bound<'py, PyString>> = self
            .columns
            .topics
            .iter()
            .map(|topic| text(py, topic))
            .collect();
        let of = self.columns.topic_of.iter();
        PyList::new(py, of.map(|number| &names[*number as usize]))
    }

    #[getter]
    fn queue_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, &self.columns.queue_ids, "i")
    }

    #[getter]
    fn queue_offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, &self.columns.queue_offsets, "q")
    }

    #[getter]
    fn physical_offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, &self.columns.physical_offsets, "q")
    }

    #[getter]
    fn store_timestamps_ms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, &self.columns.store_timestamps_ms, "q")
    }

    #[getter]
    fn stored_body_lens_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, &self.columns.body_lens, "I")
    }

    #[getter]
    fn stored_bodies<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.origin.check(py)?;
        let all = self.batch.bytes.as_bytes();
        let body = |(start, len): &(u32, u32)| {
            let start = *start as usize;
            PyBytes::new(
                py,
                all.get(start..start + *len as usize).unwrap_or_default(),
            )
        };
        PyList::new(py, self.columns.bodies.iter().map(body))
    }

    #[getter]
    fn wrapped(&self) -> usize {
        self.wrapped
    }

    #[getter]
    fn blanks(&self) -> Vec<Blank> {
        let blanks = self.batch.placed.iter().filter(|placed| placed.is_blank);
        let blanks = blanks.map(|blank| Blank {
            physical_offset: self.batch.physical_offset(*blank),
            len_bytes: blank.len_bytes,
        });
        blanks.collect()
    }
}

/// Gives batches until the walk comes to its end.
#[pyclass(module = "mqcore.native._native")]
pub(crate) struct Scan {
    walked: Walked,
    batches: LogBatches,
    topics: Vec<Vec<u8>>,
    origin: Origin,
}

impl Scan {
    pub(crate) fn new(walked: Walked, batches: LogBatches, topics: Option<Vec<String>>) -> Self {
        let topics = topics
            .unwrap_or_default()
            .into_iter()
            .map(String::into_bytes)
            .collect();
        Self {
            walked,
            batches,
            topics,
            origin: Origin::here(),
        }
    }
}

#[pymethods]
impl Scan {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        self.origin.check(py)?;
        let Self {
            walked,
            batches,
            topics,
            origin,
        } = self;
        let step = gil_call(py, Gil::Released, || {
            walked
                .step(batches)
                .map(|step| step.map(|batch| RecordBatch::of(batch, topics, *origin)))
        });
        step.map_err(|error| errors::raised(py, &error))
    }

    /// Physical offset where the walk goes on: bytes of the log.
    #[getter]
    fn position(&self) -> u64 {
        self.batches.position()
    }

    /// What is at the end of the walk when that is no record and not the limit.
    #[getter]
    fn end_why(&self) -> Option<String> {
        self.batches.stop().and_then(Stop::why)
    }
}
