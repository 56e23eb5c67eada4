//! Columns while they grow, and as Arrow arrays when they are done. Knows no record.
//!
//! Text is checked once, when a column is done and all of it at a time: that is several times faster
//! than value by value. Which rows are null is a list: most columns have none.
#![deny(clippy::indexing_slicing)]

use std::sync::Arc;

use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{
    Array, ArrayRef, BinaryArray, MapArray, PrimitiveArray, StringArray, StructArray,
};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields};

use crate::column::Layout;

const TIME_ZONE: &str = "UTC";

/// Rows that are done.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// How many.
    pub rows: usize,
    /// Names and types of the columns.
    pub fields: Fields,
    /// In the order asked for.
    pub columns: Vec<ArrayRef>,
}

/// Bytes of rows, one after another.
#[derive(Debug)]
struct Texts {
    offsets: Vec<i32>,
    data: Vec<u8>,
}

impl Texts {
    fn with_capacity(rows: usize, bytes: usize) -> Self {
        Self {
            offsets: offsets(rows),
            data: Vec::with_capacity(bytes),
        }
    }

    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        // Batches are cut by bytes, far below the range of 32 bits: see `scan::BATCH_BYTES_MAX`.
        self.offsets.push(self.data.len() as i32);
    }

    fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    fn bytes(self, nulls: Option<NullBuffer>) -> BinaryArray {
        let offsets = OffsetBuffer::new(self.offsets.into());
        BinaryArray::new(offsets, Buffer::from_vec(self.data), nulls)
    }

    /// Text; what is no UTF-8 is replaced, as Java does.
    fn text(self, nulls: Option<NullBuffer>) -> StringArray {
        let (offsets, data, nulls) = self.bytes(nulls).into_parts();
        let text = StringArray::try_new(offsets.clone(), data.clone(), nulls.clone());
        text.unwrap_or_else(|_| {
            let bytes = BinaryArray::new(offsets, data, nulls);
            let replaced = |value: &'_ [u8]| String::from_utf8_lossy(value).into_owned();
            bytes.iter().map(|value| value.map(replaced)).collect()
        })
    }
}

/// The offsets of nothing, with capacity.
fn offsets(rows: usize) -> Vec<i32> {
    let mut offsets = Vec::with_capacity(rows + 1);
    offsets.push(0);
    offsets
}

#[derive(Debug)]
enum Values {
    Ints(Vec<i32>),
    Longs(Vec<i64>),
    Times(Vec<i64>),
    Texts(Texts),
    Bytes(Texts),
    Map {
        offsets: Vec<i32>,
        names: Texts,
        values: Texts,
    },
}

/// A column that grows. A value of another layout than the column's is taken for a null.
#[derive(Debug)]
pub(crate) struct Growing {
    /// Rows without a value.
    nulls: Vec<usize>,
    values: Values,
}

impl Growing {
    /// An empty column with capacity for so many rows and bytes of text.
    pub(crate) fn with_capacity(layout: Layout, rows: usize, bytes: usize) -> Self {
        let values = match layout {
            Layout::Ints => Values::Ints(Vec::with_capacity(rows)),
            Layout::Longs => Values::Longs(Vec::with_capacity(rows)),
            Layout::Times => Values::Times(Vec::with_capacity(rows)),
            Layout::Texts => Values::Texts(Texts::with_capacity(rows, bytes)),
            Layout::Bytes => Values::Bytes(Texts::with_capacity(rows, bytes)),
            Layout::Map => Values::Map {
                offsets: offsets(rows),
                names: Texts::with_capacity(rows, bytes / 2),
                values: Texts::with_capacity(rows, bytes / 2),
            },
        };
        let nulls = Vec::new();
        Self { nulls, values }
    }

    #[inline]
    pub(crate) fn push_int(&mut self, value: i32) {
        match &mut self.values {
            Values::Ints(values) => values.push(value),
            _ => self.push_null(),
        }
    }

    #[inline]
    pub(crate) fn push_long(&mut self, value: i64) {
        match &mut self.values {
            Values::Longs(values) | Values::Times(values) => values.push(value),
            _ => self.push_null(),
        }
    }

    /// Bytes, or what is to be text.
    #[inline]
    pub(crate) fn push_bytes(&mut self, value: Option<&[u8]>) {
        match (&mut self.values, value) {
            (Values::Bytes(texts) | Values::Texts(texts), Some(value)) => texts.push(value),
            _ => self.push_null(),
        }
    }

    /// One row of a map; no name may come twice.
    #[inline]
    pub(crate) fn push_map<'a>(&mut self, pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) {
        match &mut self.values {
            Values::Map {
                offsets,
                names,
                values,
            } => {
                for (name, value) in pairs {
                    names.push(name);
                    values.push(value);
                }
                offsets.push(names.rows() as i32);
            }
            _ => self.push_null(),
        }
    }

    pub(crate) fn push_null(&mut self) {
        self.nulls.push(self.rows());
        match &mut self.values {
            Values::Ints(values) => values.push(0),
            Values::Longs(values) | Values::Times(values) => values.push(0),
            Values::Texts(texts) | Values::Bytes(texts) => texts.push(&[]),
            Values::Map { offsets, names, .. } => offsets.push(names.rows() as i32),
        }
    }

    fn rows(&self) -> usize {
        match &self.values {
            Values::Ints(values) => values.len(),
            Values::Longs(values) | Values::Times(values) => values.len(),
            Values::Texts(texts) | Values::Bytes(texts) => texts.rows(),
            Values::Map { offsets, .. } => offsets.len() - 1,
        }
    }

    /// Bytes of texts so far.
    #[inline]
    pub(crate) fn text_bytes(&self) -> usize {
        match &self.values {
            Values::Ints(_) | Values::Longs(_) | Values::Times(_) => 0,
            Values::Texts(texts) | Values::Bytes(texts) => texts.data.len(),
            Values::Map { names, values, .. } => names.data.len() + values.data.len(),
        }
    }

    fn validity(&self) -> Option<NullBuffer> {
        let rows = self.rows();
        match self.nulls.len() {
            0 => None,
            nulls if nulls == rows => Some(NullBuffer::new_null(rows)),
            _ => {
                let mut bits = BooleanBufferBuilder::new(rows);
                bits.append_n(rows, true);
                for row in &self.nulls {
                    bits.set_bit(*row, false);
                }
                Some(NullBuffer::new(bits.finish()))
            }
        }
    }

    pub(crate) fn done(self) -> ArrayRef {
        let nulls = self.validity();
        match self.values {
            Values::Ints(values) => {
                Arc::new(PrimitiveArray::<Int32Type>::new(values.into(), nulls))
            }
            Values::Longs(values) => {
                Arc::new(PrimitiveArray::<Int64Type>::new(values.into(), nulls))
            }
            Values::Times(values) => {
                let times = PrimitiveArray::<TimestampMicrosecondType>::new(values.into(), nulls);
                Arc::new(times.with_timezone(TIME_ZONE))
            }
            Values::Texts(texts) => Arc::new(texts.text(nulls)),
            Values::Bytes(texts) => Arc::new(texts.bytes(nulls)),
            Values::Map {
                offsets,
                names,
                values,
            } => {
                let fields = Fields::from(vec![
                    Field::new(Field::MAP_KEY_FIELD_DEFAULT_NAME, DataType::Utf8, false),
                    Field::new(Field::MAP_VALUE_FIELD_DEFAULT_NAME, DataType::Utf8, true),
                ]);
                let columns: Vec<ArrayRef> =
                    vec![Arc::new(names.text(None)), Arc::new(values.text(None))];
                let entries = StructArray::new(fields, columns, None);
                let name = Field::MAP_ENTRIES_FIELD_DEFAULT_NAME;
                let entry = Field::new(name, entries.data_type().clone(), false);
                let offsets = OffsetBuffer::new(offsets.into());
                Arc::new(MapArray::new(entry.into(), offsets, entries, nulls, false))
            }
        }
    }
}

/// Columns of these names and layouts; each may have nulls.
pub(crate) fn fields<'a>(columns: impl IntoIterator<Item = (&'a str, Layout)>) -> Fields {
    let field = |(name, layout)| {
        let empty = Growing::with_capacity(layout, 0, 0).done();
        Field::new(name, empty.data_type().clone(), true)
    };
    columns.into_iter().map(field).collect()
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn validity_marks_the_rows_with_a_value(rows in proptest::collection::vec(any::<bool>(), 0..70)) {
            let mut column = Growing::with_capacity(Layout::Longs, 1, 0);
            for (at, is_there) in rows.iter().enumerate() {
                if *is_there { column.push_long(at as i64) } else { column.push_bytes(Some(b"no number")) }
            }
            let done = column.done();
            let values: Vec<_> = done.as_primitive::<Int64Type>().iter().collect();
            let expected = rows.iter().enumerate().map(|(at, is_there)| is_there.then_some(at as i64));
            prop_assert_eq!(values, expected.collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_map_has_offsets_into_names_and_values() {
        let mut column = Growing::with_capacity(Layout::Map, 4, 0);
        column.push_map([(&b"a"[..], &b"1"[..]), (b"b", b"22")].into_iter());
        column.push_null();
        column.push_map(std::iter::empty());
        assert_eq!(column.text_bytes(), 5);
        let done = column.done();
        let map = done.as_map();
        assert_eq!((map.len(), map.null_count(), map.is_null(1)), (3, 1, true));
        assert_eq!(map.value_offsets(), [0, 2, 2, 2]);
        let texts = |array: &ArrayRef| -> Vec<_> {
            let texts = array.as_string::<i32>().iter();
            texts.map(|text| text.unwrap().to_owned()).collect()
        };
        assert_eq!(texts(map.keys()), ["a", "b"]);
        assert_eq!(texts(map.values()), ["1", "22"]);
    }

    #[test]
    fn a_character_that_two_values_share_is_none() {
        let mut text = Growing::with_capacity(Layout::Texts, 1, 0);
        let [first, second] = *b"\xC3\xA9";
        text.push_bytes(Some(&[first]));
        text.push_null();
        text.push_bytes(Some(&[second]));
        let texts = text.done();
        let texts: Vec<_> = texts.as_string::<i32>().iter().collect();
        assert_eq!(texts, [Some("\u{FFFD}"), None, Some("\u{FFFD}")]);
    }

    #[test]
    fn text_that_is_none_is_replaced_and_bytes_are_kept() {
        let mut text = Growing::with_capacity(Layout::Texts, 1, 0);
        text.push_bytes(Some(b"\xFFa"));
        let mut bytes = Growing::with_capacity(Layout::Bytes, 1, 0);
        bytes.push_bytes(Some(b"\xFFa"));
        assert_eq!(text.done().as_string::<i32>().value(0), "\u{FFFD}a");
        assert_eq!(bytes.done().as_binary::<i32>().value(0), b"\xFFa");
    }
}
