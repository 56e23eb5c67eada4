//! The classes over records as columns: unpack what is asked, detach, hand out buffers.

use std::collections::HashSet;
use std::hash::Hash;

use arrow_array::ffi::to_ffi;
use arrow_array::{Array, StructArray};
use arrow_schema::ArrowError;
use mqcore_columns::{BadRecords, Batch, Column, Filter, Limits, RecordColumns, ScanError, Span};
use mqcore_engine::error::Error;
use mqcore_record::CrcCheck;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::buffer::{ARROW_ARRAY, ARROW_SCHEMA, Still};
use crate::errors;
use crate::frozen::frozen;
use crate::gil::{Gil, KEEP_BYTES_MAX, gil_call};

/// `mqcore.native.columns.Asked`.
#[derive(FromPyObject)]
pub(crate) struct Asked {
    columns: Vec<String>,
    topics: Option<Vec<String>>,
    hidden_topics: Vec<String>,
    hidden_prefixes: Vec<String>,
    tags: Option<Vec<String>>,
    queue_ids: Option<Vec<i32>>,
    start_ms: Option<i64>,
    end_ms: Option<i64>,
    start_queue_offset: Option<i64>,
    end_queue_offset: Option<i64>,
    is_queued_only: bool,
    broker_name: Option<String>,
    batch_rows: usize,
    batch_bytes: usize,
    inflated_bytes: usize,
    bad_records: String,
    verify_crc: bool,
    start: u64,
    end: u64,
    limit: u64,
    is_inside: bool,
    is_log_end: bool,
}

fn set<T: Eq + Hash>(values: impl IntoIterator<Item = T>) -> HashSet<T> {
    values.into_iter().collect()
}

fn texts(values: Vec<String>) -> HashSet<Vec<u8>> {
    set(values.into_iter().map(String::into_bytes))
}

impl Asked {
    fn columns(&self) -> PyResult<Vec<Column>> {
        let column = |name: &String| {
            Column::named(name)
                .ok_or_else(|| PyValueError::new_err(format!("there is no column {name}")))
        };
        self.columns.iter().map(column).collect()
    }

    fn reading(self) -> PyResult<RecordColumns> {
        let columns = self.columns()?;
        let bad = match self.bad_records.as_str() {
            "fail" => BadRecords::Fail,
            "skip" => BadRecords::Skip,
            "emit" => BadRecords::Emit,
            other => {
                let why = format!("bad_records is fail, skip or emit, and not {other:?}");
                return Err(PyValueError::new_err(why));
            }
        };
        let prefixes = self.hidden_prefixes.into_iter().map(String::into_bytes);
        let filter = Filter {
            topics: self.topics.map(texts),
            hidden_topics: texts(self.hidden_topics),
            hidden_prefixes: prefixes.collect(),
            tags: self.tags.map(texts),
            queue_ids: self.queue_ids.map(set),
            start_ms: self.start_ms,
            end_ms: self.end_ms,
            start_queue_offset: self.start_queue_offset,
            end_queue_offset: self.end_queue_offset,
            is_queued_only: self.is_queued_only,
        };
        let limits = Limits {
            batch_rows: self.batch_rows,
            batch_bytes: self.batch_bytes,
            inflated_bytes: self.inflated_bytes,
        };
        let span = Span {
            start: self.start,
            end: self.end,
            limit: self.limit,
            is_inside: self.is_inside,
            is_log_end: self.is_log_end,
        };
        let crc = if self.verify_crc {
            CrcCheck::Verify
        } else {
            CrcCheck::Skip
        };
        let broker = self.broker_name.map(String::into_bytes);
        Ok(RecordColumns::new(
            &columns,
            filter,
            broker,
            limits,
            bad,
            (span, crc),
        ))
    }
}

frozen! {
    /// What a reading of records has come upon.
    Tally {
        /// Whole records.
        records: u64,
        /// Damaged ranges that were left out.
        skipped: u64,
        /// Bytes of these.
        skipped_bytes: u64,
    }
}

/// Rows by column, which whoever reads Arrow's C data interface takes without copying.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct ColumnBatch {
    array: StructArray,
}

fn refused(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

impl ColumnBatch {
    fn of(batch: Batch) -> PyResult<Self> {
        let (fields, columns) = (batch.fields, batch.columns);
        let array = StructArray::try_new_with_length(fields, columns, None, batch.rows);
        let array = array.map_err(refused)?;
        Ok(Self { array })
    }
}

#[pymethods]
impl ColumnBatch {
    fn __len__(&self) -> usize {
        self.array.len()
    }

    #[getter]
    fn rows(&self) -> usize {
        self.array.len()
    }

    /// The schema and the array as capsules; another schema cannot be had.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyCapsule>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        let (array, schema) = to_ffi(&self.array.to_data()).map_err(refused)?;
        let schema = PyCapsule::new_with_value(py, schema, ARROW_SCHEMA)?;
        let array = PyCapsule::new_with_value(py, array, ARROW_ARRAY)?;
        Ok((schema, array))
    }
}

/// A reading of one part of one file of a log, or of answers.
#[pyclass(subclass, module = "mqcore.native._native")]
pub(crate) struct NativeRecordColumns {
    reading: RecordColumns,
}

impl NativeRecordColumns {
    fn run(
        &mut self,
        py: Python<'_>,
        pass: Gil,
        run: impl FnOnce(&mut RecordColumns, &mut Vec<Batch>) -> Result<(), ScanError> + Send,
    ) -> PyResult<Vec<ColumnBatch>> {
        let reading = &mut self.reading;
        let ran = gil_call(py, pass, || {
            let mut batches = Vec::new();
            run(reading, &mut batches).map(|()| batches)
        });
        match ran {
            Ok(batches) => batches.into_iter().map(ColumnBatch::of).collect(),
            Err(ScanError::Damaged(damage)) => {
                let len_bytes = damage.end.saturating_sub(damage.at);
                let error = Error::NoRecord {
                    physical_offset: damage.at,
                    why: format!("{} ({len_bytes} bytes are no whole record)", damage.why),
                };
                Err(errors::raised(py, &error))
            }
        }
    }
}

#[pymethods]
impl NativeRecordColumns {
    #[new]
    fn new(asked: Asked) -> PyResult<Self> {
        let reading = asked.reading()?;
        Ok(Self { reading })
    }

    /// Takes the next piece of the log, or an answer where no offset is given.
    #[pyo3(signature = (data, physical_offset=None))]
    fn feed(
        &mut self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        physical_offset: Option<u64>,
    ) -> PyResult<Vec<ColumnBatch>> {
        let still = Still::of(data)?;
        let bytes = still.as_bytes();
        let pass = Gil::kept_if(bytes.len() <= KEEP_BYTES_MAX);
        let Some(begins) = physical_offset else {
            return self.run(py, pass, |reading, out| reading.answer(bytes, out));
        };
        let next = self.next_position();
        if begins != next {
            let why = format!("the piece begins at {begins}, the one before ended at {next}");
            return Err(PyValueError::new_err(why));
        }
        self.run(py, pass, |reading, out| reading.feed(bytes, out))
    }

    /// Gives the rows that wait for a full batch.
    fn flush(&mut self, py: Python<'_>) -> PyResult<Vec<ColumnBatch>> {
        self.run(py, Gil::Kept, |reading, out| {
            reading.flush(out);
            Ok(())
        })
    }

    fn finish(&mut self, py: Python<'_>) -> PyResult<Vec<ColumnBatch>> {
        self.run(py, Gil::Released, RecordColumns::finish)
    }

    #[getter]
    fn next_position(&self) -> u64 {
        self.reading.walk().next_position()
    }

    #[getter]
    fn is_done(&self) -> bool {
        self.reading.walk().is_done()
    }

    #[getter]
    fn good_end(&self) -> u64 {
        self.reading.walk().good_end()
    }

    #[getter]
    fn tally(&self) -> Tally {
        let tally = self.reading.tally();
        Tally {
            records: tally.records,
            skipped: tally.skipped,
            skipped_bytes: tally.skipped_bytes,
        }
    }
}

/// The units in a piece of a queue file: queue offset, physical offset, size, tags code.
#[pyfunction]
pub(crate) fn queue_units(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    first_queue_offset: i64,
) -> PyResult<ColumnBatch> {
    let still = Still::of(data)?;
    let bytes = still.as_bytes();
    let pass = Gil::kept_if(bytes.len() <= KEEP_BYTES_MAX);
    let units = gil_call(py, pass, || {
        mqcore_columns::queue_units(bytes, first_queue_offset)
    });
    ColumnBatch::of(units)
}
