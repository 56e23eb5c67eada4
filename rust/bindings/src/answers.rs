//! What appends and reads by queue answer.

use mqcore_engine::commit_log::Appended as Place;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::status::PutStatus;
use mqcore_engine::store::Got;
use mqcore_record::Host;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::records::Message;

/// Where a message went, and what became of it.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct Appended {
    place: Place,
    status: PutStatus,
    store_host: Host,
}

#[pymethods]
impl Appended {
    #[getter]
    fn physical_offset(&self) -> u64 {
        self.place.physical_offset
    }

    #[getter]
    fn queue_offset(&self) -> u64 {
        self.place.queue_offset
    }

    #[getter]
    fn len_bytes(&self) -> u64 {
        self.place.len_bytes
    }

    #[getter]
    fn end(&self) -> u64 {
        self.place.end()
    }

    #[getter]
    fn store_timestamp_ms(&self) -> i64 {
        self.place.store_timestamp_ms
    }

    #[getter]
    fn status(&self) -> &'static str {
        self.status.name()
    }

    #[getter]
    fn message_id(&self) -> String {
        mqcore_record::offset_id(&self.store_host, self.place.physical_offset.cast_signed())
    }

    fn __repr__(&self) -> String {
        format!(
            "Appended(physical_offset={}, queue_offset={}, status={})",
            self.place.physical_offset,
            self.place.queue_offset,
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

impl Appended {
    pub(crate) fn new(place: Place, status: PutStatus, store_host: Host) -> Self {
        Self {
            place,
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
