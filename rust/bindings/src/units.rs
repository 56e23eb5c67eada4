//! The units of a queue as rows, for tools that look at queues.

use mqcore_engine::store::SeenExtension;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::frozen::frozen;
use crate::gil::Gil;
use crate::store::NativeStore;

frozen! {
    /// What the extension of a queue has of a unit.
    UnitExtension {
        /// Store time of the message.
        store_timestamp_ms: i64,
        /// Bits that stand for filters; empty for none.
        bits: Py<PyBytes>,
    }

    /// One unit of a queue, as it is stored.
    QueueUnit {
        /// Queue offset of its first message.
        queue_offset: u64,
        /// Where its record begins in the log.
        physical_offset: i64,
        /// Length of the record.
        size_bytes: i32,
        /// Hash of its tags, or when a delayed message is delivered.
        tags_code: i64,
        /// Whether the extension of the queue has the code; then the code here is a place there
        /// where `extension` is None.
        is_extended: bool,
        /// What the extension has of the unit, where it has it.
        extension: Option<Py<UnitExtension>>,
    }
}

/// The units of up to `count` messages of a queue, from a queue offset on.
#[pyfunction]
pub(crate) fn stored_units(
    store: &Bound<'_, NativeStore>,
    topic: &str,
    queue_id: i32,
    first: u64,
    count: usize,
) -> PyResult<Vec<QueueUnit>> {
    let py = store.py();
    let found = store.get().call(py, Gil::Released, |engine| {
        engine
            .reader()
            .units(topic.as_bytes(), queue_id, first, count)
    })?;
    let units = found.into_iter().map(|seen| {
        let extension = match &seen.extension {
            SeenExtension::Found(store_timestamp_ms, bits) => Some(Py::new(
                py,
                UnitExtension {
                    store_timestamp_ms: *store_timestamp_ms,
                    bits: PyBytes::new(py, bits).unbind(),
                },
            )?),
            SeenExtension::None | SeenExtension::Missing => None,
        };
        Ok(QueueUnit {
            queue_offset: seen.queue_offset,
            physical_offset: seen.unit.physical_offset,
            size_bytes: seen.unit.size_bytes,
            tags_code: seen.unit.tags_code,
            is_extended: seen.extension != SeenExtension::None,
            extension,
        })
    });
    units.collect()
}
