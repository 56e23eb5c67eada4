//! Buffers of columns as Arrow lays them out, while they grow and when they are done.
//!
//! Validity is one bit per row from the lowest on, and there is none while nothing is null. Offsets
//! are 32-bit and one more than rows. Knows no record.
#![deny(clippy::indexing_slicing)]

use crate::column::Layout;

/// One buffer that is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Buffer {
    /// Bytes.
    Bytes(Vec<u8>),
    /// 32-bit numbers, native byte order.
    Ints(Vec<i32>),
    /// 64-bit numbers, native byte order.
    Longs(Vec<i64>),
}

/// A column that is done: its buffers in Arrow's order, the validity first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnBuffers {
    /// Rows that are null.
    pub nulls: usize,
    /// Validity (`None` without a null), then numbers; or offsets and bytes; or, for a map, its
    /// offsets, then offsets and bytes of the names, then those of the values.
    pub buffers: Vec<Option<Buffer>>,
}

/// Rows that are done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// How many.
    pub rows: usize,
    /// In the order asked for.
    pub columns: Vec<ColumnBuffers>,
}

/// Which rows are there.
#[derive(Debug, Default)]
struct Validity {
    bits: Vec<u8>,
    rows: usize,
    nulls: usize,
}

impl Validity {
    #[inline]
    fn push_valid(&mut self) {
        if self.nulls > 0 {
            self.push_bit(true);
        }
        self.rows += 1;
    }

    fn push_null(&mut self) {
        if self.nulls == 0 {
            // Up to here every row was there.
            self.bits = vec![0xFF; self.rows / 8];
            if !self.rows.is_multiple_of(8) {
                self.bits.push(!(0xFF << (self.rows % 8)));
            }
        }
        self.push_bit(false);
        self.rows += 1;
        self.nulls += 1;
    }

    fn push_bit(&mut self, is_set: bool) {
        let bit = self.rows % 8;
        if bit == 0 {
            self.bits.push(0);
        }
        if let Some(last) = self.bits.last_mut() {
            *last |= u8::from(is_set) << bit;
        }
    }

    fn done(self) -> Option<Buffer> {
        (self.nulls > 0).then_some(Buffer::Bytes(self.bits))
    }
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

    /// Text; what is no UTF-8 is replaced, as Java does.
    #[inline]
    fn push_text(&mut self, bytes: &[u8]) {
        match str::from_utf8(bytes) {
            Ok(_) => self.push(bytes),
            Err(_) => self.push(String::from_utf8_lossy(bytes).as_bytes()),
        }
    }

    fn done(self) -> [Option<Buffer>; 2] {
        [
            Some(Buffer::Ints(self.offsets)),
            Some(Buffer::Bytes(self.data)),
        ]
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
    validity: Validity,
    values: Values,
}

impl Growing {
    /// An empty column with capacity for so many rows and bytes of text.
    pub(crate) fn with_capacity(layout: Layout, rows: usize, bytes: usize) -> Self {
        let values = match layout {
            Layout::Ints => Values::Ints(Vec::with_capacity(rows)),
            Layout::Longs => Values::Longs(Vec::with_capacity(rows)),
            Layout::Bytes => Values::Bytes(Texts::with_capacity(rows, bytes)),
            Layout::Map => Values::Map {
                offsets: offsets(rows),
                names: Texts::with_capacity(rows, bytes / 2),
                values: Texts::with_capacity(rows, bytes / 2),
            },
        };
        Self {
            validity: Validity::default(),
            values,
        }
    }

    #[inline]
    pub(crate) fn push_int(&mut self, value: i32) {
        match &mut self.values {
            Values::Ints(values) => {
                values.push(value);
                self.validity.push_valid();
            }
            _ => self.push_null(),
        }
    }

    #[inline]
    pub(crate) fn push_long(&mut self, value: i64) {
        match &mut self.values {
            Values::Longs(values) => {
                values.push(value);
                self.validity.push_valid();
            }
            _ => self.push_null(),
        }
    }

    #[inline]
    pub(crate) fn push_bytes(&mut self, value: &[u8]) {
        match &mut self.values {
            Values::Bytes(texts) => {
                texts.push(value);
                self.validity.push_valid();
            }
            _ => self.push_null(),
        }
    }

    #[inline]
    pub(crate) fn push_text(&mut self, value: Option<&[u8]>) {
        match (&mut self.values, value) {
            (Values::Bytes(texts), Some(value)) => {
                texts.push_text(value);
                self.validity.push_valid();
            }
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
                    names.push_text(name);
                    values.push_text(value);
                }
                // The names' own offsets have one more than there are names.
                offsets.push((names.offsets.len() - 1) as i32);
                self.validity.push_valid();
            }
            _ => self.push_null(),
        }
    }

    pub(crate) fn push_null(&mut self) {
        match &mut self.values {
            Values::Ints(values) => values.push(0),
            Values::Longs(values) => values.push(0),
            Values::Bytes(texts) => texts.push(&[]),
            Values::Map { offsets, names, .. } => offsets.push((names.offsets.len() - 1) as i32),
        }
        self.validity.push_null();
    }

    /// Bytes of texts so far.
    #[inline]
    pub(crate) fn text_bytes(&self) -> usize {
        match &self.values {
            Values::Ints(_) | Values::Longs(_) => 0,
            Values::Bytes(texts) => texts.data.len(),
            Values::Map { names, values, .. } => names.data.len() + values.data.len(),
        }
    }

    pub(crate) fn done(self) -> ColumnBuffers {
        let nulls = self.validity.nulls;
        let mut buffers = vec![self.validity.done()];
        match self.values {
            Values::Ints(values) => buffers.push(Some(Buffer::Ints(values))),
            Values::Longs(values) => buffers.push(Some(Buffer::Longs(values))),
            Values::Bytes(texts) => buffers.extend(texts.done()),
            Values::Map {
                offsets,
                names,
                values,
            } => {
                buffers.push(Some(Buffer::Ints(offsets)));
                buffers.extend(names.done());
                buffers.extend(values.done());
            }
        }
        ColumnBuffers { nulls, buffers }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bit(bits: &[u8], row: usize) -> bool {
        bits.get(row / 8).unwrap() >> (row % 8) & 1 == 1
    }

    proptest! {
        #[test]
        fn validity_marks_the_rows_with_a_value(rows in proptest::collection::vec(any::<bool>(), 0..70)) {
            let mut column = Growing::with_capacity(Layout::Longs, 1, 0);
            for (at, is_there) in rows.iter().enumerate() {
                if *is_there { column.push_long(at as i64) } else { column.push_null() }
            }
            let done = column.done();
            prop_assert_eq!(done.nulls, rows.iter().filter(|row| !**row).count());
            match done.buffers.first().unwrap() {
                None => prop_assert_eq!(done.nulls, 0),
                Some(Buffer::Bytes(bits)) => {
                    prop_assert_eq!(bits.len(), rows.len().div_ceil(8));
                    for (at, is_there) in rows.iter().enumerate() {
                        prop_assert_eq!(bit(bits, at), *is_there);
                    }
                }
                Some(_) => prop_assert!(false),
            }
        }
    }

    #[test]
    fn a_map_has_offsets_into_names_and_values() {
        let mut column = Growing::with_capacity(Layout::Map, 4, 0);
        column.push_map([(&b"a"[..], &b"1"[..]), (b"b", b"22")].into_iter());
        column.push_null();
        column.push_map(std::iter::empty());
        assert_eq!(column.text_bytes(), 5);
        let ints = |numbers: &[i32]| Some(Buffer::Ints(numbers.to_vec()));
        let bytes = |text: &[u8]| Some(Buffer::Bytes(text.to_vec()));
        let done = column.done();
        assert_eq!(done.nulls, 1);
        assert_eq!(
            done.buffers,
            [
                bytes(&[0b101]),
                ints(&[0, 2, 2, 2]),
                ints(&[0, 1, 2]),
                bytes(b"ab"),
                ints(&[0, 1, 3]),
                bytes(b"122"),
            ]
        );
    }

    #[test]
    fn text_that_is_none_is_replaced_and_bytes_are_kept() {
        let mut text = Growing::with_capacity(Layout::Bytes, 1, 0);
        text.push_text(Some(b"\xFFa"));
        let mut bytes = Growing::with_capacity(Layout::Bytes, 1, 0);
        bytes.push_bytes(b"\xFFa");
        let data = |column: Growing| column.done().buffers.pop().unwrap().unwrap();
        assert_eq!(data(text), Buffer::Bytes("\u{FFFD}a".into()));
        assert_eq!(data(bytes), Buffer::Bytes(b"\xFFa".to_vec()));
    }
}
