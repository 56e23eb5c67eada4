//! Functions over the bad records of a closed store, and of an open one. Each unpacks, calls without the GIL, maps the error.

use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::error::Result;
use mqcore_engine::store as log;
use mqcore_engine::store::TheirRecord;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;

use crate::errors::raised;
use crate::frozen::frozen;
use crate::gil::{Gil, gil_call};
use crate::settings::given_settings;
use crate::store::NativeStore;

frozen! {
    /// A record that is bad, with whole ones behind it. Positions are physical offsets (bytes of the log).
    BadRecord {
        /// Where it begins.
        physical_offset: u64,
        /// Where the whole record before it in the same file begins; None where there is none.
        before: Option<u64>,
        /// Where the first whole record behind it begins.
        next_whole: u64,
        /// What is wrong.
        why: String,
    }
}

fn config_of(pairs: &[(String, String)]) -> Result<StoreConfig> {
    let pairs = pairs
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    StoreConfig::from_pairs(pairs).map(|(config, _unknown)| config)
}

/// The first bad record of a closed store from a place on.
#[pyfunction]
pub(crate) fn next_bad_record(
    py: Python<'_>,
    settings: &Bound<'_, PyDict>,
    physical_offset: u64,
) -> PyResult<Option<BadRecord>> {
    let pairs = given_settings(settings)?;
    let found = gil_call(py, Gil::Released, || {
        log::next_bad_record(&RealDisk, config_of(&pairs)?, physical_offset)
    });
    let found = found.map_err(|error| raised(py, &error))?;
    Ok(found.map(BadRecord::from))
}

impl From<log::BadRecord> for BadRecord {
    fn from(bad: log::BadRecord) -> Self {
        Self {
            physical_offset: bad.physical_offset,
            before: bad.before,
            next_whole: bad.next_whole,
            why: bad.why,
        }
    }
}

/// The bad record that begins at an offset of an open store.
#[pyfunction]
pub(crate) fn bad_record_at(
    py: Python<'_>,
    store: &NativeStore,
    physical_offset: u64,
) -> PyResult<Option<BadRecord>> {
    let engine = store.parts().0;
    let found = gil_call(py, Gil::Released, || {
        log::bad_record_at(&engine, physical_offset)
    });
    let found = found.map_err(|error| raised(py, &error))?;
    Ok(found.map(BadRecord::from))
}

/// Puts a record of another replica in place of a bad one of an open store; where the bad one is kept.
#[pyfunction]
pub(crate) fn replace_record(
    py: Python<'_>,
    store: &NativeStore,
    physical_offset: u64,
    record: PyBackedBytes,
    around: Vec<(u64, PyBackedBytes)>,
) -> PyResult<String> {
    let engine = store.parts().0;
    let replaced = gil_call(py, Gil::Released, || {
        let theirs = TheirRecord {
            physical_offset,
            bytes: &record,
        };
        log::replace_record(&engine, theirs, &their(&around))
    });
    let kept = replaced.map_err(|error| raised(py, &error))?;
    Ok(kept.display().to_string())
}

fn their(around: &[(u64, PyBackedBytes)]) -> Vec<TheirRecord<'_>> {
    around
        .iter()
        .map(|(physical_offset, bytes)| TheirRecord {
            physical_offset: *physical_offset,
            bytes,
        })
        .collect()
}

/// Puts a record of another replica in place of a bad one of a closed store; where the bad one is kept.
#[pyfunction]
#[pyo3(signature = (settings, physical_offset, record, around, *, is_dry))]
pub(crate) fn replace_bad_record(
    py: Python<'_>,
    settings: &Bound<'_, PyDict>,
    physical_offset: u64,
    record: PyBackedBytes,
    around: Vec<(u64, PyBackedBytes)>,
    is_dry: bool,
) -> PyResult<String> {
    let pairs = given_settings(settings)?;
    let replaced = gil_call(py, Gil::Released, || {
        let theirs = TheirRecord {
            physical_offset,
            bytes: &record,
        };
        log::replace_bad_record(
            &RealDisk,
            config_of(&pairs)?,
            theirs,
            &their(&around),
            is_dry,
        )
    });
    let kept = replaced.map_err(|error| raised(py, &error))?;
    Ok(kept.display().to_string())
}
