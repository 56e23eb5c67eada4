//! Frames in pieces: answers go to who waits for them, the rest to Python as commands.

use mqcore_wire::{CommandRef, FRAME_BYTES_MAX, WireError};
use pyo3::prelude::*;

use crate::calls::CallTable;
use crate::draft::bytes_of;
use crate::errors;
use crate::wire::Command;

/// Why a feed ended: the bytes are bad, or Python could not make an object.
enum Ended {
    Bytes(WireError),
    Python(PyErr),
}

impl From<WireError> for Ended {
    fn from(error: WireError) -> Self {
        Self::Bytes(error)
    }
}

/// Commands out of bytes that arrive in any pieces.
#[pyclass(module = "mqcore.native._native")]
pub(crate) struct FrameReader {
    reader: mqcore_wire::FrameReader,
    before_error: Vec<Py<Command>>,
    made_whole: bool,
}

#[pymethods]
impl FrameReader {
    #[new]
    #[pyo3(signature = (max_frame_bytes=FRAME_BYTES_MAX))]
    fn new(max_frame_bytes: usize) -> Self {
        Self {
            reader: mqcore_wire::FrameReader::new(max_frame_bytes),
            before_error: Vec::new(),
            made_whole: false,
        }
    }

    #[pyo3(signature = (data, calls=None))]
    fn feed(
        &mut self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        calls: Option<&CallTable>,
    ) -> PyResult<Vec<Py<Command>>> {
        let bytes = bytes_of(data)?;
        let mut commands = Vec::new();
        let mut made_whole = false;
        let fed = self.reader.feed(&bytes, |frame| {
            made_whole = true;
            let command = CommandRef::decode(frame)?;
            if let Some(calls) = calls
                && command.is_response()
                && calls.answer(py, &command).map_err(Ended::Python)?
            {
                return Ok(());
            }
            let made = Command::of(py, &command).and_then(|command| Py::new(py, command));
            commands.push(made.map_err(Ended::Python)?);
            Ok(())
        });
        self.made_whole = made_whole;
        match fed {
            Ok(()) => Ok(commands),
            Err(Ended::Python(error)) => Err(error),
            Err(Ended::Bytes(error)) => {
                self.before_error = commands;
                Err(errors::of_bytes(py, &error))
            }
        }
    }

    #[getter]
    fn before_error(&self, py: Python<'_>) -> Vec<Py<Command>> {
        let commands = self.before_error.iter();
        commands.map(|command| command.clone_ref(py)).collect()
    }

    #[getter]
    fn made_whole(&self) -> bool {
        self.made_whole
    }

    #[getter]
    fn kept_bytes(&self) -> usize {
        self.reader.kept_bytes()
    }
}
