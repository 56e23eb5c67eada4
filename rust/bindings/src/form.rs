//! Requests of one kind, many times: their fields always have the same names.

use mqcore_wire::command::FrameWriter;
use mqcore_wire::{Head, Language, Serialization};
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
        if values.len() != self.names.len() {
            return Err(PyValueError::new_err(format!(
                "{} values for {} fields",
                values.len(),
                self.names.len()
            )));
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
        let mut out = Vec::with_capacity(HEADER_LEN_USUAL + body.as_bytes().len());
        let raised = |error| errors::of_bytes(py, &error);
        let mut writer = FrameWriter::begin(&mut out, &head).map_err(raised)?;
        for (name, value) in self.names.iter().zip(values.iter_borrowed()) {
            if let Ok(text) = value.cast::<PyString>() {
                writer.text(name, text.to_str()?).map_err(raised)?;
            } else if value.is_instance_of::<PyInt>() {
                writer.number(name, value.extract()?).map_err(raised)?;
            } else if !value.is_none() {
                return Err(PyValueError::new_err(format!(
                    "{name}: a str, an int or None"
                )));
            }
        }
        writer.finish(body.as_bytes()).map_err(raised)?;
        Ok(PyBytes::new(py, &out))
    }
}
