//! Columns of Arrow into the bodies of requests, in one crossing per batch of rows.
//!
//! Columns come as the named tuples of `mqcore.native.packing`: of texts, of numbers, of maps.

use mqcore_packing::{
    ColumnFault, Ids, Numbers, Packed, Packer, Pairs, RowError, Rows, Settings, Strings, Topic,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::buffer::Still;
use crate::errors;
use crate::gil::{Gil, gil_call};
use crate::wire::compression;

/// `TextColumn`.
#[derive(FromPyObject)]
struct TextColumn<'py> {
    validity: Option<Bound<'py, PyAny>>,
    offsets: Bound<'py, PyAny>,
    data: Bound<'py, PyAny>,
    first: usize,
}

/// `NumberColumn`.
#[derive(FromPyObject)]
struct NumberColumn<'py> {
    validity: Option<Bound<'py, PyAny>>,
    data: Bound<'py, PyAny>,
    width_bytes: usize,
    first: usize,
}

/// `MapColumn`.
#[derive(FromPyObject)]
struct MapColumn<'py> {
    validity: Option<Bound<'py, PyAny>>,
    offsets: Bound<'py, PyAny>,
    names: Bound<'py, PyAny>,
    values: Bound<'py, PyAny>,
    first: usize,
    pairs: usize,
}

/// `mqcore.model.queues.MessageQueue`, as far as rows name a queue.
#[derive(FromPyObject)]
struct TopicQueue {
    broker_name: String,
    queue_id: i32,
}

/// A column of texts as buffers.
struct Texts {
    valid: Option<Still>,
    offsets: Still,
    data: Still,
    at: usize,
    count: usize,
}

impl Texts {
    fn of(parts: &Bound<'_, PyAny>, count: usize) -> PyResult<Self> {
        let parts: TextColumn<'_> = parts.extract()?;
        Ok(Self {
            valid: parts.validity.as_ref().map(Still::of).transpose()?,
            offsets: Still::of(&parts.offsets)?,
            data: Still::of(&parts.data)?,
            at: parts.first,
            count,
        })
    }

    fn view(&self, name: &str) -> Result<Strings<'_>, ColumnFault> {
        let valid = self.valid.as_ref().map(Still::as_bytes);
        let (offsets, data) = (self.offsets.as_bytes(), self.data.as_bytes());
        Strings::new(name, valid, offsets, data, self.at, self.count)
    }
}

/// A column of whole numbers as buffers.
struct Whole {
    valid: Option<Still>,
    data: Still,
    width_bytes: usize,
    at: usize,
    count: usize,
}

impl Whole {
    fn of(parts: &Bound<'_, PyAny>, count: usize) -> PyResult<Self> {
        let parts: NumberColumn<'_> = parts.extract()?;
        Ok(Self {
            valid: parts.validity.as_ref().map(Still::of).transpose()?,
            data: Still::of(&parts.data)?,
            width_bytes: parts.width_bytes,
            at: parts.first,
            count,
        })
    }

    fn view(&self, name: &str) -> Result<Numbers<'_>, ColumnFault> {
        let valid = self.valid.as_ref().map(Still::as_bytes);
        let data = self.data.as_bytes();
        Numbers::new(name, valid, data, self.width_bytes, self.at, self.count)
    }
}

/// A column of maps as buffers.
struct Maps {
    valid: Option<Still>,
    offsets: Still,
    names: Texts,
    values: Texts,
    at: usize,
    count: usize,
}

impl Maps {
    fn of(parts: &Bound<'_, PyAny>, count: usize) -> PyResult<Self> {
        let parts: MapColumn<'_> = parts.extract()?;
        Ok(Self {
            valid: parts.validity.as_ref().map(Still::of).transpose()?,
            offsets: Still::of(&parts.offsets)?,
            names: Texts::of(&parts.names, parts.pairs)?,
            values: Texts::of(&parts.values, parts.pairs)?,
            at: parts.first,
            count,
        })
    }

    fn view(&self, name: &str) -> Result<Pairs<'_>, ColumnFault> {
        let valid = self.valid.as_ref().map(Still::as_bytes);
        let offsets = self.offsets.as_bytes();
        let pairs = (self.names.view(name)?, self.values.view(name)?);
        Pairs::new(name, valid, offsets, pairs, self.at, self.count)
    }
}

/// All columns of some rows.
struct Columns {
    count: usize,
    topic_number: Option<usize>,
    topic: Option<Texts>,
    body: Option<Texts>,
    tags: Option<Texts>,
    keys: Option<Texts>,
    group: Option<Texts>,
    broker: Option<Texts>,
    properties: Option<Maps>,
    delay_level: Option<Whole>,
    deliver_at_us: Option<Whole>,
    queue_id: Option<Whole>,
}

impl Columns {
    fn of(
        columns: &Bound<'_, PyDict>,
        count: usize,
        topic_number: Option<usize>,
    ) -> PyResult<Self> {
        let texts = |name| -> PyResult<Option<Texts>> {
            let found = columns.get_item(name)?;
            found.map(|parts| Texts::of(&parts, count)).transpose()
        };
        let numbers = |name| -> PyResult<Option<Whole>> {
            let found = columns.get_item(name)?;
            found.map(|parts| Whole::of(&parts, count)).transpose()
        };
        let properties = columns.get_item("properties")?;
        Ok(Self {
            count,
            topic_number,
            topic: texts("topic")?,
            body: texts("body")?,
            tags: texts("tags")?,
            keys: texts("keys")?,
            group: texts("messageGroup")?,
            broker: texts("brokerName")?,
            properties: properties
                .map(|parts| Maps::of(&parts, count))
                .transpose()?,
            delay_level: numbers("delayLevel")?,
            deliver_at_us: numbers("deliverTimestamp")?,
            queue_id: numbers("queueId")?,
        })
    }

    fn view(&self) -> Result<Rows<'_>, ColumnFault> {
        fn texts<'a>(
            column: Option<&'a Texts>,
            name: &str,
        ) -> Result<Option<Strings<'a>>, ColumnFault> {
            column.map(|column| column.view(name)).transpose()
        }
        fn numbers<'a>(
            column: Option<&'a Whole>,
            name: &str,
        ) -> Result<Option<Numbers<'a>>, ColumnFault> {
            column.map(|column| column.view(name)).transpose()
        }
        let properties = self.properties.as_ref();
        Ok(Rows {
            count: self.count,
            topic_number: self.topic_number,
            topic: texts(self.topic.as_ref(), "topic")?,
            body: texts(self.body.as_ref(), "body")?,
            tags: texts(self.tags.as_ref(), "tags")?,
            keys: texts(self.keys.as_ref(), "keys")?,
            group: texts(self.group.as_ref(), "messageGroup")?,
            broker: texts(self.broker.as_ref(), "brokerName")?,
            properties: properties.map(|maps| maps.view("properties")).transpose()?,
            delay_level: numbers(self.delay_level.as_ref(), "delayLevel")?,
            deliver_at_us: numbers(self.deliver_at_us.as_ref(), "deliverTimestamp")?,
            queue_id: numbers(self.queue_id.as_ref(), "queueId")?,
        })
    }
}

/// Why rows were not packed.
enum Refused {
    Columns(ColumnFault),
    Row(RowError),
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

    #[expect(clippy::too_many_arguments, reason = "plain values cross to Rust")]
    #[pyo3(signature = (columns, count, id_lead, id_first, topic_number=None))]
    fn pack(
        &mut self,
        py: Python<'_>,
        columns: &Bound<'_, PyDict>,
        count: usize,
        id_lead: &str,
        id_first: u16,
        topic_number: Option<usize>,
    ) -> PyResult<Vec<PackedRows>> {
        let columns = Columns::of(columns, count, topic_number)?;
        let ids = Ids {
            lead: id_lead,
            first: id_first,
        };
        let packer = &mut self.packer;
        let packed = gil_call(py, Gil::Released, || {
            let rows = columns.view().map_err(Refused::Columns)?;
            packer.pack(&rows, ids).map_err(Refused::Row)
        });
        packed.map(given).map_err(|refused| match refused {
            Refused::Columns(fault) => PyValueError::new_err(fault.to_string()),
            Refused::Row(error) => errors::of_row(py, &error),
        })
    }

    fn finish(&mut self) -> Vec<PackedRows> {
        given(self.packer.finish())
    }
}
