//! Settings of a store between Python and the engine: texts by their official keys.

use mqcore_engine::config::StoreConfig;
use mqcore_engine::store::OpenHow;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// Settings with their values, in the order of the documentation.
pub(crate) fn settings_dict<'py>(
    py: Python<'py>,
    config: &StoreConfig,
) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for (key, value) in config.pairs() {
        out.set_item(key, value)?;
    }
    Ok(out)
}

/// Settings as Python gives them, in its order: of two spellings of a key the later one wins.
pub(crate) fn given_settings(settings: &Bound<'_, PyDict>) -> PyResult<Vec<(String, String)>> {
    let mut pairs = Vec::with_capacity(settings.len());
    for (key, value) in settings {
        let (key, value) = (key.cast_into::<PyString>()?, value.cast_into::<PyString>()?);
        pairs.push((key.to_str()?.to_owned(), value.to_str()?.to_owned()));
    }
    Ok(pairs)
}

/// Every key that a store knows, with its default.
#[pyfunction]
pub(crate) fn settings(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    settings_dict(py, &StoreConfig::default())
}

/// What to do about damage, by its name in Python, or where the log is to be cut.
pub(crate) fn open_how(on_damage: &str, cut_at: Option<u64>) -> PyResult<OpenHow> {
    match on_damage {
        "refuse" if cut_at.is_some() => Ok(OpenHow::CutAt(cut_at.unwrap_or(0))),
        _ if cut_at.is_some() => {
            let why = "on_damage is \"refuse\" where the log is to be cut";
            Err(PyValueError::new_err(why))
        }
        "refuse" => Ok(OpenHow::RefuseDamage),
        "cut" => Ok(OpenHow::CutDamage),
        "keep" => Ok(OpenHow::KeepBehind),
        other => Err(PyValueError::new_err(format!(
            "on_damage is {other:?}: it is \"refuse\", \"cut\" or \"keep\""
        ))),
    }
}
