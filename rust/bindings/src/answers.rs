//! What appends and reads by queue answer.

use mqcore_engine::commit_log::Appended as AppendedRecord;
use mqcore_engine::consume_queue::Bounds;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::flush::Ticket;
use mqcore_engine::status::PutStatus;
use mqcore_engine::store::Got;
use mqcore_record::Host;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::frozen::frozen;
use crate::records::Message;

/// Where a message went, and what became of it.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct Appended {
    appended: AppendedRecord,
    status: PutStatus,
    store_host: Host,
}

#[pymethods]
impl Appended {
    #[getter]
    fn physical_offset(&self) -> u64 {
        self.appended.physical_offset
    }

    #[getter]
    fn queue_offset(&self) -> u64 {
        self.appended.queue_offset
    }

    #[getter]
    fn len_bytes(&self) -> u64 {
        self.appended.len_bytes
    }

    #[getter]
    fn end(&self) -> u64 {
        self.appended.end()
    }

    #[getter]
    fn store_timestamp_ms(&self) -> i64 {
        self.appended.store_timestamp_ms
    }

    #[getter]
    fn status(&self) -> &'static str {
        self.status.name()
    }

    #[getter]
    fn message_id(&self) -> String {
        mqcore_record::offset_id(
            &self.store_host,
            self.appended.physical_offset.cast_signed(),
        )
    }

    fn __repr__(&self) -> String {
        format!(
            "Appended(physical_offset={}, queue_offset={}, status={})",
            self.appended.physical_offset,
            self.appended.queue_offset,
            self.status.name()
        )
    }
}

/// What a read by queue offset gave.
#[pyclass(frozen, get_all, module = "mqcore.native._native")]
pub(crate) struct GetResult {
    status: &'static str,
    messages: Py<PyList>,
    next_offset: u64,
    min_offset: u64,
    max_offset: u64,
    suggests_replica: bool,
}

frozen! {
    /// Acknowledgements that were waited for.
    Drained {
        /// Official statuses by ticket, in the order of the log.
        statuses: Py<PyDict>,
        /// Milliseconds until the next call is due although nothing is announced.
        next_ms: Option<u64>,
    }
}

impl Appended {
    pub(crate) fn new(appended: AppendedRecord, status: PutStatus, store_host: Host) -> Self {
        Self {
            appended,
            status,
            store_host,
        }
    }
}

impl GetResult {
    pub(crate) fn of(py: Python<'_>, got: Got<RealDisk>) -> PyResult<Self> {
        let messages = got
            .records
            .into_iter()
            .map(|record| Py::new(py, Message::one(record)));
        let messages = messages.collect::<PyResult<Vec<_>>>()?;
        Ok(Self {
            status: got.status.name(),
            messages: PyList::new(py, messages)?.unbind(),
            next_offset: got.next_offset,
            min_offset: got.min_offset,
            max_offset: got.max_offset,
            suggests_replica: got.suggests_replica,
        })
    }
}

/// The bounds of a queue.
#[pyclass(frozen, get_all, eq, module = "mqcore.native._native")]
#[derive(PartialEq)]
pub(crate) struct OffsetRange {
    /// First queue offset that is kept.
    min_offset: u64,
    /// Queue offset behind the last message.
    max_offset: u64,
}

#[pymethods]
impl OffsetRange {
    #[new]
    #[pyo3(signature = (min_offset, max_offset))]
    fn new(min_offset: u64, max_offset: u64) -> Self {
        Self {
            min_offset,
            max_offset,
        }
    }

    fn __repr__(&self) -> String {
        format!("OffsetRange({}, {})", self.min_offset, self.max_offset)
    }
}

impl From<Bounds> for OffsetRange {
    fn from(bounds: Bounds) -> Self {
        Self {
            min_offset: bounds.min,
            max_offset: bounds.max,
        }
    }
}

impl Drained {
    pub(crate) fn of(
        py: Python<'_>,
        answers: Vec<(Ticket, PutStatus)>,
        next_ms: Option<u64>,
    ) -> PyResult<Self> {
        let statuses = PyDict::new(py);
        for (ticket, status) in answers {
            statuses.set_item(ticket.0, status.name())?;
        }
        Ok(Self {
            statuses: statuses.unbind(),
            next_ms,
        })
    }
}
