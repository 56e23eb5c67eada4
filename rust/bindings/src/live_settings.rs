//! Settings that change while a store is open. No logic: which do is the engine's.

use mqcore_engine::config::StoreConfig;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::gil::Gil;
use crate::settings::given_settings;
use crate::store::NativeStore;

/// Lets a store take all settings anew, as far as they may change while it is open.
#[pyfunction]
pub(crate) fn change_settings(
    store: &Bound<'_, NativeStore>,
    settings: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let pairs = given_settings(settings)?;
    store.get().call(store.py(), Gil::Released, |engine| {
        let pairs = pairs.iter().map(|(key, value)| (&**key, &**value));
        let (config, _unknown) = StoreConfig::from_pairs(pairs)?;
        engine.change(config)
    })
}
