//! What a program asks of the system for itself.

use mqcore_engine::disk::process;
use pyo3::prelude::*;

use crate::gil::{Gil, gil_call};

/// Names the file on standard error whose mapped bytes cannot be read, before the process ends.
#[pyfunction]
pub(crate) fn name_failed_reads(py: Python<'_>) -> PyResult<()> {
    Ok(gil_call(py, Gil::Kept, process::name_failed_reads)?)
}

/// Has the allocator keep little of what was freed; returns whether it takes such a bound.
#[pyfunction]
pub(crate) fn bound_allocator(py: Python<'_>, processors: usize) -> bool {
    gil_call(py, Gil::Kept, || process::bound_allocator(processors))
}

/// Gives memory that was freed back to the system; returns whether there was any.
#[pyfunction]
pub(crate) fn give_memory_back(py: Python<'_>) -> bool {
    gil_call(py, Gil::Released, process::give_memory_back)
}
