//! A message as a consumer's handler gets it: the record, decoded field by field, and how its consumer
//! sees it. Here because consumers make one per message.

use std::sync::atomic::{AtomicI32, Ordering};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::records::Message;

const SHARDING_KEY: &str = "__SHARDINGKEY";
const DELAY: &str = "DELAY";

/// Where the record is.
enum Held {
    /// Here; its Python object is made when somebody asks.
    Here(Message),
    There(Py<Message>),
}

/// A message that came, decoded field by field when it is asked for.
///
/// Attributes:
///     record: Everything the broker keeps of it.
///     queue: The queue that it came from.
///     topic: The topic that was subscribed, without the namespace; of a retried message the one
///         that it was first sent to.
///     local_attempts: How often an orderly consumer tried it in vain, which no broker counts.
#[pyclass(frozen, module = "mqcore")]
pub(crate) struct ReceivedMessage {
    record: Held,
    #[pyo3(get)]
    queue: Py<PyAny>,
    #[pyo3(get)]
    topic: Py<PyString>,
    local_attempts: AtomicI32,
    properties: PyOnceLock<Py<PyDict>>,
}

impl ReceivedMessage {
    /// A message of a pulled queue.
    pub(crate) fn of(
        record: Message,
        queue: &Bound<'_, PyAny>,
        topic: &Bound<'_, PyString>,
    ) -> Self {
        Self {
            record: Held::Here(record),
            queue: queue.clone().unbind(),
            topic: topic.clone().unbind(),
            local_attempts: AtomicI32::new(0),
            properties: PyOnceLock::new(),
        }
    }

    fn stored(&self) -> &Message {
        match &self.record {
            Held::Here(record) => record,
            Held::There(record) => record.get(),
        }
    }

    /// The text of a property, through what a user may have changed.
    fn property<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.properties(py)?.bind(py).get_item(name)
    }
}

#[pymethods]
impl ReceivedMessage {
    #[new]
    fn new(record: Py<Message>, queue: Py<PyAny>, topic: Py<PyString>) -> Self {
        Self {
            record: Held::There(record),
            queue,
            topic,
            local_attempts: AtomicI32::new(0),
            properties: PyOnceLock::new(),
        }
    }

    /// Everything the broker keeps of it.
    #[getter]
    fn record(&self, py: Python<'_>) -> PyResult<Py<Message>> {
        match &self.record {
            Held::There(record) => Ok(record.clone_ref(py)),
            Held::Here(record) => Py::new(py, record.clone()),
        }
    }

    /// All its properties: the user's, the client's, the broker's.
    #[getter]
    fn properties(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        let made = || self.stored().properties(py).map(Bound::unbind);
        let known = self.properties.get_or_try_init(py, made)?;
        Ok(known.clone_ref(py))
    }

    #[getter]
    fn local_attempts(&self) -> i32 {
        self.local_attempts.load(Ordering::Relaxed)
    }

    #[setter]
    fn set_local_attempts(&self, attempts: i32) {
        self.local_attempts.store(attempts, Ordering::Relaxed);
    }

    /// The content, inflated where it came small.
    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.stored().body(py)
    }

    /// Its tag.
    #[getter]
    fn tags<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        self.stored().tags(py)
    }

    /// Its keys.
    #[getter]
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let Some(keys) = self.stored().keys(py)? else {
            return Ok(PyTuple::empty(py));
        };
        let listed = keys.call_method0("split")?;
        Ok(listed.cast::<PyList>()?.to_tuple())
    }

    /// What orders it.
    #[getter]
    fn sharding_key<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.property(py, SHARDING_KEY)
    }

    /// Its unique id, which its sender made; the broker's where it has none.
    #[getter]
    fn message_id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        let record = self.stored();
        match record.uniq_key(py)? {
            Some(key) if !key.to_str()?.is_empty() => Ok(key),
            _ => Ok(PyString::new(py, &record.message_id(py)?)),
        }
    }

    /// The broker's id: store address and physical offset.
    #[getter]
    fn offset_message_id(&self, py: Python<'_>) -> PyResult<String> {
        self.stored().message_id(py)
    }

    /// Its queue offset.
    #[getter]
    fn queue_offset(&self, py: Python<'_>) -> PyResult<i64> {
        self.stored().queue_offset(py)
    }

    /// Its physical offset in the broker's log.
    #[getter]
    fn physical_offset(&self, py: Python<'_>) -> PyResult<i64> {
        self.stored().physical_offset(py)
    }

    /// How often it was given back before.
    #[getter]
    fn reconsume_times(&self, py: Python<'_>) -> PyResult<i64> {
        let stored = self.stored().reconsume_times(py)?;
        Ok(i64::from(stored) + i64::from(self.local_attempts()))
    }

    /// Which delivery this is, from 1.
    #[getter]
    fn attempt(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(self.reconsume_times(py)? + 1)
    }

    /// When it was sent, in ms since 1970 by the sender's clock.
    #[getter]
    fn born_timestamp_ms(&self, py: Python<'_>) -> PyResult<i64> {
        self.stored().born_timestamp_ms(py)
    }

    /// When it was stored, in ms since 1970 by the broker's clock.
    #[getter]
    fn store_timestamp_ms(&self, py: Python<'_>) -> PyResult<i64> {
        self.stored().store_timestamp_ms(py)
    }

    /// The address that it was sent from.
    #[getter]
    fn born_host(&self, py: Python<'_>) -> PyResult<String> {
        self.stored().born_host(py)
    }

    /// The address of the broker that it was stored at.
    #[getter]
    fn store_host(&self, py: Python<'_>) -> PyResult<String> {
        self.stored().store_host(py)
    }

    /// The user's number.
    #[getter]
    fn flag(&self, py: Python<'_>) -> PyResult<i32> {
        self.stored().flag(py)
    }

    /// The level of delay that it was sent with; 0 for none.
    #[getter]
    fn delay_level(&self, py: Python<'_>) -> PyResult<i64> {
        let Some(value) = self.property(py, DELAY)? else {
            return Ok(0);
        };
        let text: String = value.extract()?;
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        Ok(text.parse().ok().filter(|_| is_number).unwrap_or(0))
    }

    /// Returns the content as text.
    ///
    /// Raises:
    ///     UnicodeDecodeError: It is none.
    #[pyo3(signature = (encoding = "utf-8"))]
    fn body_text<'py>(&self, py: Python<'py>, encoding: &str) -> PyResult<Bound<'py, PyAny>> {
        self.body(py)?.call_method1("decode", (encoding,))
    }

    /// Returns the value of a content that is JSON.
    ///
    /// Raises:
    ///     ValueError: It is none.
    fn json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (self.body(py)?,))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let record = self.stored();
        let queue = self.queue.bind(py);
        Ok(format!(
            "ReceivedMessage({}, {}/{} at {}, {} bytes, {})",
            self.topic.bind(py).repr()?,
            queue.getattr("broker_name")?,
            queue.getattr("queue_id")?,
            record.queue_offset(py)?,
            record.stored_body_len_bytes(py)?,
            self.message_id(py)?,
        ))
    }
}
