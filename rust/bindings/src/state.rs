//! Small state files: replaced whole and durably through the engine.

use std::path::PathBuf;

use mqcore_engine::disk::RealDisk;
use mqcore_engine::small_state;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::errors::raised;
use crate::gil::{Gil, gil_call};

/// Replaces a small file; what it held becomes its `.bak`. Both survive power loss on return.
#[pyfunction]
#[pyo3(signature = (path, content, *, is_private=false))]
pub(crate) fn write_state(
    py: Python<'_>,
    path: PathBuf,
    content: PyBackedBytes,
    is_private: bool,
) -> PyResult<()> {
    gil_call(py, Gil::Released, || {
        if is_private {
            small_state::write_private(&RealDisk, &path, &content)
        } else {
            small_state::write(&RealDisk, &path, &content)
        }
    })
    .map_err(|error| raised(py, &error))
}
