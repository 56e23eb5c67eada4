//! The units of a queue as rows, for tools that look at queues.

use mqcore_engine::store::SeenExtension;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::door::Pass;
use crate::store::NativeStore;

/// What an extension says: store time, ms, and bits.
type ExtensionRow = (i64, Py<PyBytes>);
/// Queue offset, place of the record, its size, tags code, whether an extension has the code, and
/// what that says where the unit is there.
type UnitRow = (u64, i64, i32, i64, bool, Option<ExtensionRow>);

/// The units of up to `count` messages of a queue, from a queue offset on.
#[pyfunction]
pub(crate) fn stored_units(
    store: &Bound<'_, NativeStore>,
    topic: &str,
    queue_id: i32,
    first: u64,
    count: usize,
) -> PyResult<Vec<UnitRow>> {
    let py = store.py();
    let found = store.get().call(py, Pass::Detached, |engine| {
        engine
            .reader()
            .units(topic.as_bytes(), queue_id, first, count)
    })?;
    let rows = found.into_iter().map(|seen| {
        let extension = match &seen.extension {
            SeenExtension::Found(stored_ms, bits) => {
                Some((*stored_ms, PyBytes::new(py, bits).unbind()))
            }
            SeenExtension::None | SeenExtension::Missing => None,
        };
        let unit = seen.unit;
        (
            seen.queue_offset,
            unit.physical_offset,
            unit.size_bytes,
            unit.tags_code,
            seen.extension != SeenExtension::None,
            extension,
        )
    });
    Ok(rows.collect())
}
