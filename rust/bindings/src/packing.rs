//! Columns of Arrow into the bodies of requests, in one crossing per batch of rows.

use mqcore_packing::{Ids, Packed, Packer, Rows, Settings, Topic};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::buffer::struct_array;
use crate::errors;
use crate::gil::{Gil, gil_call};
use crate::wire::compression;

/// `mqcore.model.queues.MessageQueue`, as far as rows name a queue.
#[derive(FromPyObject)]
struct TopicQueue {
    broker_name: String,
    queue_id: i32,
}

/// What one request carries.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct PackedRows {
    packed: Packed,
}

#[pymethods]
impl PackedRows {
    #[getter]
    fn topic(&self) -> usize {
        self.packed.topic
    }

    #[getter]
    fn queue(&self) -> Option<usize> {
        self.packed.queue
    }

    #[getter]
    fn sys_flag(&self) -> i32 {
        self.packed.sys_flag
    }

    #[getter]
    fn is_batch(&self) -> bool {
        self.packed.is_batch
    }

    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.packed.body)
    }

    #[getter]
    fn properties<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        PyString::new(py, &String::from_utf8_lossy(&self.packed.properties))
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.packed.rows
    }

    #[getter]
    fn first_row(&self) -> u64 {
        self.packed.first_row
    }

    #[getter]
    fn last_row(&self) -> u64 {
        self.packed.last_row
    }

    #[getter]
    fn topic_rows(&self) -> Option<u64> {
        self.packed.topic_rows
    }

    fn __len__(&self) -> usize {
        self.packed.body.len()
    }
}

fn given(all: Vec<Packed>) -> Vec<PackedRows> {
    all.into_iter()
        .map(|packed| PackedRows { packed })
        .collect()
}

/// The open requests of a task.
#[pyclass(module = "mqcore.native._native")]
pub(crate) struct RowPacker {
    packer: Packer,
}

#[pymethods]
impl RowPacker {
    #[new]
    #[pyo3(signature = (*, batch_bytes, message_bytes_max, open_bytes_max, compression_kind,
        compression_level, compress_above_bytes, shared_len_bytes, is_marked, system_names))]
    #[expect(clippy::too_many_arguments, reason = "settings have that many members")]
    fn new(
        batch_bytes: usize,
        message_bytes_max: usize,
        open_bytes_max: usize,
        compression_kind: Option<u8>,
        compression_level: i32,
        compress_above_bytes: usize,
        shared_len_bytes: usize,
        is_marked: bool,
        system_names: Vec<String>,
    ) -> Self {
        Self {
            packer: Packer::new(Settings {
                batch_bytes,
                message_bytes_max,
                open_bytes_max,
                compression: compression_kind.map(compression),
                compression_level,
                compress_above_bytes,
                shared_len_bytes,
                is_marked,
                system_names,
            }),
        }
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.packer.rows()
    }

    fn topic(&mut self, name: String, queues: Vec<TopicQueue>) -> usize {
        let queues = queues.into_iter();
        let queues = queues
            .map(|queue| (queue.broker_name, queue.queue_id))
            .collect();
        self.packer.topic(Topic { name, queues })
    }

    #[pyo3(signature = (columns, id_lead, id_first, topic_number=None))]
    fn pack(
        &mut self,
        py: Python<'_>,
        columns: &Bound<'_, PyAny>,
        id_lead: &str,
        id_first: u16,
        topic_number: Option<usize>,
    ) -> PyResult<Vec<PackedRows>> {
        let columns = struct_array(columns)?;
        let rows = Rows::new(&columns, topic_number);
        let rows = rows.map_err(|fault| PyValueError::new_err(fault.to_string()))?;
        let ids = Ids {
            lead: id_lead,
            first: id_first,
        };
        let packer = &mut self.packer;
        let packed = gil_call(py, Gil::Released, || packer.pack(&rows, ids));
        packed
            .map(given)
            .map_err(|error| errors::of_row(py, &error))
    }

    fn finish(&mut self) -> Vec<PackedRows> {
        given(self.packer.finish())
    }
}
