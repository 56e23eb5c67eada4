//! The columns of `append_many`: many messages from one buffer, checked once, then appended without
//! touching Python.
//!
//! Bodies lie one after another in one buffer; `lens` has the length of each. Properties are either
//! one text for all messages, or a second buffer with lengths of its own. Queue ids are one number
//! for all, or a buffer of them.

use std::borrow::Cow;

use mqcore_engine::commit_log::Appended;
use mqcore_engine::status::PutStatus;
use mqcore_record::Message;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::batch::column;
use crate::draft::{Head, bytes_of};

/// Where many messages went: columns in native byte order.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct AppendedMany {
    pub(crate) count: usize,
    pub(crate) end: u64,
    pub(crate) status: PutStatus,
    physical_offsets: Vec<u8>,
    queue_offsets: Vec<u8>,
}

impl AppendedMany {
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self {
            count: 0,
            end: 0,
            status: PutStatus::PutOk,
            physical_offsets: Vec::with_capacity(count * 8),
            queue_offsets: Vec::with_capacity(count * 8),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, appended: Appended) {
        self.count += 1;
        self.end = appended.end();
        self.physical_offsets
            .extend_from_slice(&appended.physical_offset.to_ne_bytes());
        self.queue_offsets
            .extend_from_slice(&appended.queue_offset.to_ne_bytes());
    }
}

#[pymethods]
impl AppendedMany {
    #[getter]
    fn count(&self) -> usize {
        self.count
    }

    #[getter]
    fn end(&self) -> u64 {
        self.end
    }

    #[getter]
    fn status(&self) -> &'static str {
        self.status.name()
    }

    #[getter]
    fn physical_offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, &self.physical_offsets, "q")
    }

    #[getter]
    fn queue_offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, &self.queue_offsets, "q")
    }

    fn __len__(&self) -> usize {
        self.count
    }
}

/// Queue ids: one for all, or one per message.
pub(crate) enum QueueIds {
    All(i32),
    Each(Vec<i32>),
}

impl QueueIds {
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyInt>() {
            return Ok(Self::All(object.extract()?));
        }
        Ok(Self::Each(
            PyBuffer::<i32>::get(object)?.to_vec(object.py())?,
        ))
    }
}

/// Lengths from a buffer of unsigned 32-bit numbers.
pub(crate) fn lens_of(object: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    PyBuffer::<u32>::get(object)?.to_vec(object.py())
}

/// Properties: one text for all, or one per message.
pub(crate) struct Texts<'a> {
    bytes: Cow<'a, [u8]>,
    lens: Option<Vec<u32>>,
}

impl<'a> Texts<'a> {
    pub(crate) fn of(
        bytes: Option<&'a Bound<'_, PyAny>>,
        lens: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let bytes = bytes.map_or(Ok(Cow::Borrowed(&[][..])), bytes_of)?;
        Ok(Self {
            bytes,
            lens: lens.map(lens_of).transpose()?,
        })
    }
}

/// The messages.
pub(crate) struct Columns<'a> {
    pub(crate) topic: &'a str,
    pub(crate) bodies: &'a [u8],
    pub(crate) lens: Vec<u32>,
    pub(crate) queue_ids: QueueIds,
    pub(crate) properties: Texts<'a>,
    pub(crate) flag: i32,
    pub(crate) head: Head,
}

fn check_sum(what: &str, lens: &[u32], bytes: &[u8]) -> PyResult<()> {
    let sum: u64 = lens.iter().map(|len| u64::from(*len)).sum();
    if sum == bytes.len() as u64 {
        return Ok(());
    }
    let have = bytes.len();
    Err(PyValueError::new_err(format!(
        "lengths of {what} add up to {sum}, the buffer has {have}"
    )))
}

impl Columns<'_> {
    /// Whether the columns fit together.
    pub(crate) fn check(&self) -> PyResult<()> {
        check_sum("the bodies", &self.lens, self.bodies)?;
        let count = self.lens.len();
        let refuse = |what: &str, have: usize| {
            Err(PyValueError::new_err(format!(
                "{have} {what} for {count} bodies"
            )))
        };
        if let QueueIds::Each(ids) = &self.queue_ids
            && ids.len() != count
        {
            return refuse("queue ids", ids.len());
        }
        if let Some(lens) = &self.properties.lens {
            if lens.len() != count {
                return refuse("lengths of properties", lens.len());
            }
            check_sum("the properties", lens, &self.properties.bytes)?;
        }
        Ok(())
    }

    /// Calls `append` with each message; the error of the first refused one, with how many came
    /// before it.
    pub(crate) fn each<E>(
        &self,
        mut append: impl FnMut(&Message<'_>) -> Result<(), E>,
    ) -> Result<(), (usize, E)> {
        let (mut body_at, mut text_at) = (0usize, 0usize);
        for (number, len) in self.lens.iter().enumerate() {
            let body_end = body_at + *len as usize;
            let (text_end, is_shared) = match &self.properties.lens {
                None => (self.properties.bytes.len(), true),
                Some(lens) => (
                    text_at + lens.get(number).map_or(0, |len| *len as usize),
                    false,
                ),
            };
            let body = self.bodies.get(body_at..body_end).unwrap_or_default();
            let text = self.properties.bytes.get(text_at..text_end);
            let message = Message {
                queue_id: match &self.queue_ids {
                    QueueIds::All(id) => *id,
                    QueueIds::Each(ids) => ids.get(number).copied().unwrap_or_default(),
                },
                flag: self.flag,
                ..self.head.draft(self.topic, body, text.unwrap_or_default())
            };
            append(&message).map_err(|error| (number, error))?;
            body_at = body_end;
            if !is_shared {
                text_at = text_end;
            }
        }
        Ok(())
    }
}
