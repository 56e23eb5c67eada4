//! Commands of the remoting protocol, and compressed bodies.

use mqcore_record::{Compression, sys_flag};
use mqcore_wire::command::{VERSION_DEFAULT, encode};
use mqcore_wire::header::{ONEWAY, RESPONSE};
use mqcore_wire::{CommandRef, Head, Language, Serialization};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::draft::bytes_of;
use crate::errors;
use crate::gil::{Gil, KEEP_BYTES_MAX, gil_call};

/// A command, as Python reads and writes it.
#[pyclass(module = "mqcore.native._native")]
pub(crate) struct Command {
    #[pyo3(get, set)]
    code: i32,
    #[pyo3(get, set)]
    opaque: i32,
    #[pyo3(get, set)]
    flag: i32,
    #[pyo3(get, set)]
    language: u8,
    #[pyo3(get, set)]
    version: i32,
    #[pyo3(get, set)]
    remark: Option<String>,
    #[pyo3(get, set)]
    ext: Py<PyDict>,
    #[pyo3(get, set)]
    body: Py<PyBytes>,
    /// Whose signature it has, where access control was asked; empty otherwise. Not on the wire.
    #[pyo3(get, set)]
    user: String,
    serialization: Serialization,
}

impl Command {
    /// A command out of a frame.
    pub(crate) fn of(py: Python<'_>, from: &CommandRef<'_>) -> PyResult<Self> {
        let head = Head {
            code: from.code,
            language: from.language,
            version: from.version,
            opaque: from.opaque,
            flag: from.flag,
            remark: from.remark.as_deref(),
            serialization: from.serialization,
        };
        Self::made(py, &head, from.fields.iter(), from.body)
    }

    /// A command that is owned already.
    pub(crate) fn owned(py: Python<'_>, from: &mqcore_wire::Command) -> PyResult<Self> {
        let ext = from.ext.iter().map(|(name, value)| (&**name, &**value));
        Self::made(py, &from.head(), ext, &from.body)
    }

    fn made<'a>(
        py: Python<'_>,
        head: &Head<'_>,
        fields: impl Iterator<Item = (&'a str, &'a str)>,
        body: &[u8],
    ) -> PyResult<Self> {
        let ext = PyDict::new(py);
        for (name, value) in fields {
            ext.set_item(name, value)?;
        }
        Ok(Self {
            code: head.code,
            opaque: head.opaque,
            flag: head.flag,
            language: head.language.0,
            version: head.version,
            remark: head.remark.map(str::to_owned),
            ext: ext.unbind(),
            body: PyBytes::new(py, body).unbind(),
            user: String::new(),
            serialization: head.serialization,
        })
    }

    /// Names the request among those of its connection.
    pub(crate) const fn opaque(&self) -> i32 {
        self.opaque
    }

    /// The same with the signature of a user.
    pub(crate) fn of_user(mut self, user: &str) -> Self {
        user.clone_into(&mut self.user);
        self
    }

    /// What it asks for.
    pub(crate) const fn code(&self) -> i32 {
        self.code
    }

    /// The version of who sent it.
    pub(crate) const fn version(&self) -> i32 {
        self.version
    }

    /// The fields of its header.
    pub(crate) fn fields(&self, py: Python<'_>) -> PyResult<Vec<(PyBackedStr, PyBackedStr)>> {
        self.ext.bind(py).items().extract()
    }

    /// Its body.
    pub(crate) fn body<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        self.body.bind(py).as_bytes()
    }

    /// The same without Python.
    pub(crate) fn to_wire(&self, py: Python<'_>) -> PyResult<mqcore_wire::Command> {
        Ok(mqcore_wire::Command {
            code: self.code,
            language: Language(self.language),
            version: self.version,
            opaque: self.opaque,
            flag: self.flag,
            remark: self.remark.clone(),
            ext: self.ext.bind(py).extract()?,
            body: self.body.bind(py).as_bytes().to_vec(),
            serialization: self.serialization,
        })
    }
}

/// A dictionary of its own with what `ext` holds.
fn copied(ext: Option<&Bound<'_, PyDict>>, py: Python<'_>) -> PyResult<Py<PyDict>> {
    Ok(match ext {
        Some(ext) => ext.copy()?.unbind(),
        None => PyDict::new(py).unbind(),
    })
}

fn no_body(py: Python<'_>) -> Py<PyBytes> {
    PyBytes::new(py, b"").unbind()
}

#[pymethods]
impl Command {
    #[new]
    #[pyo3(signature = (code, *, ext=None, body=None, remark=None, opaque=0, flag=0, language=0,
        version=VERSION_DEFAULT, serialization=0))]
    #[expect(clippy::too_many_arguments, reason = "a header has that many members")]
    fn new(
        py: Python<'_>,
        code: i32,
        ext: Option<&Bound<'_, PyDict>>,
        body: Option<Py<PyBytes>>,
        remark: Option<String>,
        opaque: i32,
        flag: i32,
        language: u8,
        version: i32,
        serialization: u8,
    ) -> PyResult<Self> {
        let serialization = Serialization::numbered(serialization);
        Ok(Self {
            code,
            opaque,
            flag,
            language,
            version,
            remark,
            ext: copied(ext, py)?,
            body: body.unwrap_or_else(|| no_body(py)),
            user: String::new(),
            serialization: serialization.map_err(|error| errors::of_bytes(py, &error))?,
        })
    }

    #[staticmethod]
    #[pyo3(signature = (request, code, *, remark=None, ext=None, body=None,
        version=VERSION_DEFAULT))]
    #[expect(clippy::too_many_arguments, reason = "a header has that many members")]
    fn response_to(
        py: Python<'_>,
        request: PyRef<'_, Self>,
        code: i32,
        remark: Option<String>,
        ext: Option<&Bound<'_, PyDict>>,
        body: Option<Py<PyBytes>>,
        version: i32,
    ) -> PyResult<Self> {
        Ok(Self {
            code,
            opaque: request.opaque,
            flag: RESPONSE,
            language: Language::JAVA.0,
            version,
            remark,
            ext: copied(ext, py)?,
            body: body.unwrap_or_else(|| no_body(py)),
            user: String::new(),
            serialization: request.serialization,
        })
    }

    #[getter]
    fn serialization(&self) -> u8 {
        self.serialization.number()
    }

    #[getter]
    fn is_response(&self) -> bool {
        self.flag & RESPONSE != 0
    }

    #[getter]
    fn is_oneway(&self) -> bool {
        self.flag & ONEWAY != 0
    }

    fn encode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let head = Head {
            code: self.code,
            language: Language(self.language),
            version: self.version,
            opaque: self.opaque,
            flag: self.flag,
            remark: self.remark.as_deref(),
            serialization: self.serialization,
        };
        let pairs: Vec<(Bound<'_, PyString>, Bound<'_, PyString>)> =
            self.ext.bind(py).items().extract()?;
        let texts: Vec<(&str, &str)> = pairs
            .iter()
            .map(|(name, value)| Ok((name.to_str()?, value.to_str()?)))
            .collect::<PyResult<_>>()?;
        let frame = encode(&head, texts, self.body.bind(py).as_bytes());
        let frame = frame.map_err(|error| errors::of_bytes(py, &error))?;
        Ok(PyBytes::new(py, &frame))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!(
            "Command(code={}, opaque={}, flag={}, remark={:?}, ext={}, {} bytes)",
            self.code,
            self.opaque,
            self.flag,
            self.remark,
            self.ext.bind(py).repr()?,
            self.body.bind(py).as_bytes().len()
        ))
    }
}

/// The compression of a number as it is in bits 8 to 10 of a system flag.
pub(crate) fn compression(kind: u8) -> Compression {
    let bits = i32::from(kind) << 8 | sys_flag::COMPRESSED;
    match sys_flag::compression(bits) {
        Some(known) if kind <= 7 => known,
        _ => Compression::Unknown(kind),
    }
}

/// A body made small.
#[pyfunction]
#[pyo3(signature = (body, kind, level=mqcore_wire::compression::LEVEL_DEFAULT))]
pub(crate) fn compress<'py>(
    py: Python<'py>,
    body: &Bound<'py, PyAny>,
    kind: u8,
    level: i32,
) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = bytes_of(body)?;
    // Compressing 64 KiB takes longer than copying them: detached from a sixteenth on.
    let pass = Gil::kept_if(bytes.len() <= KEEP_BYTES_MAX / 16);
    let small = gil_call(py, pass, || {
        mqcore_wire::compression::compress(compression(kind), &bytes, level)
    });
    let small = small.map_err(|error| errors::of_bytes(py, &error))?;
    Ok(PyBytes::new(py, &small))
}

/// A body as it was before it was made small.
#[pyfunction]
pub(crate) fn decompress<'py>(
    py: Python<'py>,
    body: &Bound<'py, PyAny>,
    kind: u8,
    limit_bytes: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = bytes_of(body)?;
    inflated(py, compression(kind), &bytes, limit_bytes)
}

/// Inflates within a bound.
pub(crate) fn inflated<'py>(
    py: Python<'py>,
    kind: Compression,
    body: &[u8],
    limit_bytes: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let pass = Gil::kept_if(body.len() <= KEEP_BYTES_MAX / 16);
    let out = gil_call(py, pass, || {
        mqcore_wire::compression::inflate(kind, body, limit_bytes)
    });
    let out = out.map_err(|error| errors::of_bytes(py, &error))?;
    Ok(PyBytes::new(py, &out))
}
