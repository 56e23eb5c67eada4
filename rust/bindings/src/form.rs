//! Requests of one kind, many times: their fields always have the same names.

use mqcore_wire::command::FrameWriter;
use mqcore_wire::{Head, Language, Serialization, WireError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString, PyTuple};

use crate::errors;

/// Space for usual headers: it saves growing step by step.
const HEADER_LEN_USUAL: usize = 512;

/// What frames of one kind have in common.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct FrameForm {
    code: i32,
    language: Language,
    version: i32,
    names: Vec<String>,
}

/// Why a frame was not written.
pub(crate) enum NotWritten {
    /// A part is too long for its place.
    Wire(WireError),
    /// A value is none that a field can have.
    Value(PyErr),
}

impl NotWritten {
    /// The exception.
    pub(crate) fn raised(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Wire(error) => errors::of_bytes(py, &error),
            Self::Value(error) => error,
        }
    }
}

impl From<WireError> for NotWritten {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl From<PyErr> for NotWritten {
    fn from(error: PyErr) -> Self {
        Self::Value(error)
    }
}

impl FrameForm {
    /// Writes a frame behind what `out` holds; after an error `out` is as before.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        opaque: i32,
        values: &Bound<'_, PyTuple>,
        body: &[u8],
    ) -> Result<(), NotWritten> {
        out.reserve(HEADER_LEN_USUAL + body.len());
        self.write_header(out, opaque, values, body.len(), 0)?;
        out.extend_from_slice(body);
        Ok(())
    }

    /// Writes all of a frame but the body, which has `body_len` bytes.
    fn write_header(
        &self,
        out: &mut Vec<u8>,
        opaque: i32,
        values: &Bound<'_, PyTuple>,
        body_len: usize,
        flag: i32,
    ) -> Result<(), NotWritten> {
        if values.len() != self.names.len() {
            let error = format!("{} values for {} fields", values.len(), self.names.len());
            return Err(PyValueError::new_err(error).into());
        }
        let head = Head {
            code: self.code,
            language: self.language,
            version: self.version,
            opaque,
            flag,
            remark: None,
            serialization: Serialization::Json,
        };
        let mut writer = FrameWriter::begin(out, &head)?;
        for (name, value) in self.names.iter().zip(values.iter_borrowed()) {
            if let Ok(text) = value.cast::<PyString>() {
                writer.text(name, text.to_str()?)?;
            } else if value.is_instance_of::<PyInt>() {
                writer.number(name, value.extract()?)?;
            } else if !value.is_none() {
                let error = format!("{name}: a str, an int or None");
                return Err(PyValueError::new_err(error).into());
            }
        }
        writer.finish_before_body(body_len)?;
        Ok(())
    }
}

#[pymethods]
impl FrameForm {
    #[new]
    fn new(code: i32, names: Vec<String>, language: u8, version: i32) -> Self {
        Self {
            code,
            language: Language(language),
            version,
            names,
        }
    }

    /// A frame with these values: texts, whole numbers, or None for a field that is left out.
    #[pyo3(signature = (opaque, values, body, flag=0))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        opaque: i32,
        values: &Bound<'py, PyTuple>,
        body: &Bound<'py, PyBytes>,
        flag: i32,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let body = body.as_bytes();
        let mut header = Vec::with_capacity(HEADER_LEN_USUAL);
        self.write_header(&mut header, opaque, values, body.len(), flag)
            .map_err(|error| error.raised(py))?;
        // A large body is copied once, to its place.
        PyBytes::new_with(py, header.len() + body.len(), |frame| {
            let (head, rest) = frame.split_at_mut(header.len());
            head.copy_from_slice(&header);
            rest.copy_from_slice(body);
            Ok(())
        })
    }
}
