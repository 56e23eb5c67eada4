//! The class over the consumer offsets of a fast path: which message each group reads next.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::gil::{Gil, gil_call};
use crate::locked::LockedFastPath;

/// Pairs of a snapshot that are taken under one lock: less than a millisecond.
const PAIRS_PER_LOCK: usize = 256;

/// The live consumer offsets of a fast path.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct ConsumerOffsets {
    fast_path: Arc<LockedFastPath>,
}

impl ConsumerOffsets {
    pub(crate) fn new(fast_path: Arc<LockedFastPath>) -> Self {
        Self { fast_path }
    }
}

#[pymethods]
impl ConsumerOffsets {
    fn load(&self, table: HashMap<String, BTreeMap<i32, i64>>) {
        self.fast_path.shared.offsets.load(table);
    }

    fn follow(
        &self,
        py: Python<'_>,
        table: HashMap<String, BTreeMap<i32, i64>>,
        before: HashMap<String, BTreeMap<i32, i64>>,
    ) {
        gil_call(py, Gil::Released, || {
            for (key, queues) in &table {
                self.fast_path
                    .shared
                    .offsets
                    .follow(key, queues, before.get(key));
            }
        });
    }

    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        let mut next_slot = Some(0);
        while let Some(slot) = next_slot {
            let (rows, next) = gil_call(py, Gil::Released, || {
                self.fast_path.shared.offsets.rows(slot, PAIRS_PER_LOCK)
            });
            for (key, offsets) in rows {
                found.set_item(key, offsets)?;
            }
            next_slot = next;
        }
        Ok(found)
    }

    fn of(&self, group: &str, topic: &str) -> BTreeMap<i32, i64> {
        let offsets = self.fast_path.shared.offsets.of(group, topic);
        offsets.unwrap_or_default()
    }

    fn find(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.fast_path.shared.offsets.find(group, topic, queue_id)
    }

    fn commit(&self, group: &str, topic: &str, queue_id: i32, offset: i64) -> bool {
        let mut inside = self.fast_path.locked();
        inside.path.commit_offset(group, topic, queue_id, offset)
    }

    fn reset(&self, group: &str, topic: &str, queue_id: i32, offset: i64) -> bool {
        let mut inside = self.fast_path.locked();
        inside.path.reset_offset(group, topic, queue_id, offset)
    }

    #[pyo3(signature = (*, group=None, topic=None))]
    fn remove(&self, group: Option<&str>, topic: Option<&str>) -> usize {
        if topic.is_some() {
            self.fast_path.kept_times.forget();
        }
        for home in self.fast_path.of_reactors() {
            home.locked().path.forget_gets(group, topic);
        }
        self.fast_path.locked().path.remove_offsets(group, topic)
    }

    #[getter]
    fn changes(&self) -> u64 {
        self.fast_path.shared.offsets.changes()
    }
}
