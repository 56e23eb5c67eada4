//! A stored message: holds the record's bytes and decodes a field when it is asked for.

use std::sync::Arc;

use mqcore_engine::commit_log::{LogBatch, Placed, RecordBytes};
use mqcore_engine::disk::RealDisk;
use mqcore_engine::error::Error;
use mqcore_record::{CrcCheck, Found, RecordView, check, properties, sys_flag};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::errors;
use crate::fork::Origin;
use crate::wire::inflated;

/// Longest inflated body. Bodies are below `maxMessageSize` before they are compressed, 4 MiB by
/// default; beyond this bound some bytes were made to blow up a reader.
const INFLATED_MAX_BYTES: usize = 128 << 20;

#[derive(Clone)]
enum Source {
    One(Arc<RecordBytes<RealDisk>>),
    Part {
        batch: Arc<LogBatch<RealDisk>>,
        placed: Placed,
    },
}

/// One stored message. Its bytes stay good as long as it is held, whatever becomes of the file.
#[derive(Clone)]
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct Message {
    source: Source,
    origin: Origin,
}

impl Message {
    pub(crate) fn one(record: RecordBytes<RealDisk>) -> Self {
        Self {
            source: Source::One(Arc::new(record)),
            origin: Origin::here(),
        }
    }

    pub(crate) fn part(batch: Arc<LogBatch<RealDisk>>, placed: Placed, origin: Origin) -> Self {
        Self {
            source: Source::Part { batch, placed },
            origin,
        }
    }

    fn bytes(&self) -> &[u8] {
        match &self.source {
            Source::One(record) => record.as_bytes(),
            Source::Part { batch, placed } => batch.record_bytes(*placed),
        }
    }

    fn stored_offset(&self) -> u64 {
        match &self.source {
            Source::One(record) => record.physical_offset,
            Source::Part { batch, placed } => batch.physical_offset(*placed),
        }
    }

    #[inline]
    fn view(&self, py: Python<'_>) -> PyResult<RecordView<'_>> {
        self.origin.check(py)?;
        let none = |why: String| {
            errors::raised(
                py,
                &Error::NoRecord {
                    physical_offset: self.stored_offset(),
                    why,
                },
            )
        };
        match check(self.bytes(), CrcCheck::Skip) {
            Ok(Found::Record(record)) => Ok(record),
            Ok(Found::Blank { .. }) => Err(none("the blank end of a file".to_owned())),
            Err(error) => Err(none(error.to_string())),
        }
    }

    fn property<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyString>>> {
        let record = self.view(py)?;
        Ok(properties::lookup(record.properties, name).map(|value| text(py, value)))
    }
}

/// Text of bytes; what is no UTF-8 is replaced, as Java does.
pub(crate) fn text<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyString> {
    PyString::new(py, &String::from_utf8_lossy(bytes))
}

#[pymethods]
impl Message {
    #[getter]
    fn topic<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        Ok(text(py, self.view(py)?.topic))
    }

    #[getter]
    fn queue_id(&self, py: Python<'_>) -> PyResult<i32> {
        Ok(self.view(py)?.queue_id)
    }

    #[getter]
    pub(crate) fn queue_offset(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(self.view(py)?.queue_offset)
    }

    #[getter]
    pub(crate) fn physical_offset(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(self.view(py)?.physical_offset)
    }

    #[getter]
    fn record<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.bytes())
    }

    #[getter]
    fn store_size_bytes(&self) -> usize {
        self.bytes().len()
    }

    #[getter]
    fn magic(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.view(py)?.version.magic().cast_unsigned())
    }

    #[getter]
    fn sys_flag(&self, py: Python<'_>) -> PyResult<i32> {
        Ok(self.view(py)?.sys_flag)
    }

    #[getter]
    pub(crate) fn flag(&self, py: Python<'_>) -> PyResult<i32> {
        Ok(self.view(py)?.flag)
    }

    #[getter]
    pub(crate) fn born_timestamp_ms(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(self.view(py)?.born_timestamp_ms)
    }

    #[getter]
    pub(crate) fn store_timestamp_ms(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(self.view(py)?.store_timestamp_ms)
    }

    #[getter]
    pub(crate) fn born_host(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.view(py)?.born_host.to_string())
    }

    #[getter]
    pub(crate) fn store_host(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.view(py)?.store_host.to_string())
    }

    #[getter]
    pub(crate) fn reconsume_times(&self, py: Python<'_>) -> PyResult<i32> {
        Ok(self.view(py)?.reconsume_times)
    }

    #[getter]
    fn prepared_transaction_offset(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(self.view(py)?.prepared_transaction_offset)
    }

    #[getter]
    fn body_crc(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.view(py)?.body_crc)
    }

    #[getter]
    fn stored_body<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, self.view(py)?.body))
    }

    #[getter]
    pub(crate) fn stored_body_len_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.view(py)?.body.len())
    }

    #[getter]
    pub(crate) fn body<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let record = self.view(py)?;
        match sys_flag::compression(record.sys_flag) {
            None => Ok(PyBytes::new(py, record.body)),
            Some(kind) => inflated(py, kind, record.body, INFLATED_MAX_BYTES),
        }
    }

    #[getter]
    pub(crate) fn tags<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        self.property(py, properties::TAGS)
    }

    #[getter]
    pub(crate) fn keys<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        self.property(py, properties::KEYS)
    }

    #[getter]
    pub(crate) fn uniq_key<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        self.property(py, properties::UNIQ_KEY)
    }

    #[getter]
    pub(crate) fn properties<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let record = self.view(py)?;
        let out = PyDict::new(py);
        for (name, value) in properties::pairs(record.properties) {
            out.set_item(text(py, name), text(py, value))?;
        }
        Ok(out)
    }

    #[getter]
    pub(crate) fn message_id(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.view(py)?.offset_id())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let record = self.view(py)?;
        Ok(format!(
            "Message(topic={:?}, queue_id={}, queue_offset={}, physical_offset={}, {} bytes)",
            record.topic_str(),
            record.queue_id,
            record.queue_offset,
            record.physical_offset,
            record.body.len()
        ))
    }
}
