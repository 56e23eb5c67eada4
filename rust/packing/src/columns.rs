//! The columns that rows are packed from, by name, out of Arrow's arrays.
//!
//! All texts come as bytes, so that nothing relies on their being UTF-8.
#![deny(clippy::indexing_slicing)]

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, BinaryArray, Int64Array, MapArray, StructArray};

use crate::error::ColumnFault;

/// A column of texts or bytes; without it each of its values is null.
#[derive(Debug, Clone, Default)]
pub(crate) struct Strings(Option<BinaryArray>);

impl Strings {
    pub(crate) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    #[inline]
    pub(crate) fn value(&self, row: usize) -> Option<&[u8]> {
        let column = self.0.as_ref()?;
        (row < column.len() && column.is_valid(row)).then(|| column.value(row))
    }
}

/// A column of whole numbers; without it each of its values is null.
#[derive(Debug, Clone, Default)]
pub(crate) struct Numbers(Option<Int64Array>);

impl Numbers {
    #[inline]
    pub(crate) fn value(&self, row: usize) -> Option<i64> {
        let column = self.0.as_ref()?;
        (row < column.len() && column.is_valid(row)).then(|| column.value(row))
    }
}

/// A column of maps from text to text; without it each of them is empty.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pairs(Option<(MapArray, Strings, Strings)>);

impl Pairs {
    /// The pairs of a row whose value is not null; none of a row that is null.
    #[inline]
    pub(crate) fn of(&self, row: usize) -> impl Iterator<Item = (&[u8], &[u8])> {
        let found = self.0.as_ref();
        let found = found.filter(|(maps, ..)| row < maps.len() && maps.is_valid(row));
        found.into_iter().flat_map(move |(maps, names, values)| {
            let ends = maps
                .value_offsets()
                .get(row..)
                .and_then(|rest| rest.first_chunk());
            let [start, end] = *ends.unwrap_or(&[0, 0]);
            (start as usize..end as usize)
                .filter_map(|index| Some((names.value(index)?, values.value(index)?)))
        })
    }
}

/// The columns of some rows. Those that are not there are null in every row.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// How many rows.
    pub(crate) count: usize,
    /// The topic that all of them go to, by its number, where there is no column of topics.
    pub(crate) topic_number: Option<usize>,
    /// Where each goes.
    pub(crate) topic: Strings,
    /// The bodies.
    pub(crate) body: Strings,
    pub(crate) tags: Strings,
    pub(crate) keys: Strings,
    /// What orders rows.
    pub(crate) group: Strings,
    /// Further properties.
    pub(crate) properties: Pairs,
    /// Levels of delay.
    pub(crate) delay_level: Numbers,
    /// Times of delivery, in microseconds since 1970.
    pub(crate) deliver_at_us: Numbers,
    /// Numbers of queues; of the whole topic where there is no column of brokers.
    pub(crate) queue_id: Numbers,
    /// Names of brokers.
    pub(crate) broker: Strings,
}

impl Rows {
    /// The rows of columns by name: bytes, 64-bit numbers, and maps from bytes to bytes.
    ///
    /// # Errors
    /// [`ColumnFault`] for a column of another type, or of a name that is not known.
    pub fn new(columns: &StructArray, topic_number: Option<usize>) -> Result<Self, ColumnFault> {
        let mut rows = Self {
            count: columns.len(),
            topic_number,
            ..Self::default()
        };
        for (field, column) in columns.fields().iter().zip(columns.columns()) {
            let name = field.name().as_str();
            match name {
                "topic" => rows.topic = texts(name, column)?,
                "body" => rows.body = texts(name, column)?,
                "tags" => rows.tags = texts(name, column)?,
                "keys" => rows.keys = texts(name, column)?,
                "messageGroup" => rows.group = texts(name, column)?,
                "brokerName" => rows.broker = texts(name, column)?,
                "properties" => rows.properties = maps(name, column)?,
                "delayLevel" => rows.delay_level = numbers(name, column)?,
                "deliverTimestamp" => rows.deliver_at_us = numbers(name, column)?,
                "queueId" => rows.queue_id = numbers(name, column)?,
                _ => return Err(fault(name, column)),
            }
        }
        Ok(rows)
    }
}

fn fault(name: &str, column: &dyn Array) -> ColumnFault {
    ColumnFault {
        name: name.to_owned(),
        found: column.data_type().clone(),
    }
}

fn texts(name: &str, column: &dyn Array) -> Result<Strings, ColumnFault> {
    let bytes = column.as_binary_opt::<i32>().cloned();
    bytes.map_or_else(
        || Err(fault(name, column)),
        |bytes| Ok(Strings(Some(bytes))),
    )
}

fn numbers(name: &str, column: &dyn Array) -> Result<Numbers, ColumnFault> {
    let longs = column.as_primitive_opt::<Int64Type>().cloned();
    longs.map_or_else(
        || Err(fault(name, column)),
        |longs| Ok(Numbers(Some(longs))),
    )
}

fn maps(name: &str, column: &dyn Array) -> Result<Pairs, ColumnFault> {
    let maps = column.as_map_opt().ok_or_else(|| fault(name, column))?;
    let (names, values) = (texts(name, maps.keys())?, texts(name, maps.values())?);
    Ok(Pairs(Some((maps.clone(), names, values))))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{BinaryBuilder, MapBuilder};
    use arrow_array::{ArrayRef, Int32Array, StringArray};

    use super::*;

    fn rows(name: &str, column: ArrayRef) -> Result<Rows, ColumnFault> {
        Rows::new(&StructArray::try_from(vec![(name, column)]).unwrap(), None)
    }

    #[test]
    fn texts_are_read_from_where_the_column_begins() {
        let all = BinaryArray::from(vec![Some(&b"a"[..]), Some(b"bb"), None, Some(b"ddd")]);
        let part = rows("tags", Arc::new(all.slice(1, 3))).unwrap();
        let read: Vec<_> = (0..4).map(|row| part.tags.value(row)).collect();
        assert_eq!(read, [Some(&b"bb"[..]), None, Some(b"ddd"), None]);
        assert_eq!((part.keys.is_there(), part.keys.value(0)), (false, None));
    }

    #[test]
    fn columns_of_other_types_and_names_are_refused() {
        let why = |name, column: ArrayRef| rows(name, column).unwrap_err().to_string();
        let numbers = || Arc::new(Int32Array::from(vec![1])) as ArrayRef;
        let text = Arc::new(StringArray::from(vec!["a"]));
        assert_eq!(
            why("tags", text),
            "column tags cannot be packed: it is Utf8"
        );
        assert_eq!(
            why("queueId", numbers()),
            "column queueId cannot be packed: it is Int32"
        );
        assert_eq!(
            why("properties", numbers()),
            "column properties cannot be packed: it is Int32"
        );
        assert_eq!(
            why("other", numbers()),
            "column other cannot be packed: it is Int32"
        );
    }

    #[test]
    fn numbers_may_be_null() {
        let column = Int64Array::from(vec![None, Some(1 << 40)]);
        let rows = rows("delayLevel", Arc::new(column)).unwrap();
        let read = [0, 1, 2].map(|row| rows.delay_level.value(row));
        assert_eq!(read, [None, Some(1 << 40), None]);
    }

    #[test]
    fn maps_give_the_pairs_of_a_row_without_nulls() {
        let mut maps = MapBuilder::new(None, BinaryBuilder::new(), BinaryBuilder::new());
        maps.append(true).unwrap();
        for (name, value) in [(b"a", Some(b"1")), (b"b", None), (b"c", Some(b"3"))] {
            maps.keys().append_value(name);
            maps.values().append_option(value);
        }
        maps.append(true).unwrap();
        maps.append(false).unwrap();
        let rows = rows("properties", Arc::new(maps.finish())).unwrap();
        let pairs: Vec<_> = rows.properties.of(1).collect();
        assert_eq!(pairs, [(&b"a"[..], &b"1"[..]), (b"c", b"3")]);
        assert!(
            [0, 2, 3]
                .iter()
                .all(|row| rows.properties.of(*row).next().is_none())
        );
    }
}
