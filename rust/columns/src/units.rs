//! The units of a consume queue as columns. Pure; knows no file.

use crate::buffers::{Batch, Growing, fields};
use crate::column::Layout;

/// Bytes of a unit: physical offset (i64), bytes of the record (i32), tags code (i64).
pub const UNIT_LEN_BYTES: usize = 20;
/// Size of a unit that only fills the file before its first one (`ConsumeQueue.fillPreBlank`).
const PRE_BLANK_SIZE: i32 = i32::MAX;
const COLUMNS: [(&str, Layout); 4] = [
    ("queueOffset", Layout::Longs),
    ("physicalOffset", Layout::Longs),
    ("sizeBytes", Layout::Ints),
    ("tagsCode", Layout::Longs),
];

/// Queue offset, physical offset, size and tags code of the units in a piece of a queue file that
/// begins at queue offset `first`. Units that are not written (size 0) or only fill are left out,
/// and so is a unit that is cut off at the end.
#[must_use]
pub fn queue_units(bytes: &[u8], first: i64) -> Batch {
    let (units, _cut_off) = bytes.as_chunks::<UNIT_LEN_BYTES>();
    let mut columns = COLUMNS.map(|(_name, layout)| Growing::with_capacity(layout, units.len(), 0));
    let mut rows = 0;
    for (number, unit) in units.iter().enumerate() {
        let [p0, p1, p2, p3, p4, p5, p6, p7, s0, s1, s2, s3, tags @ ..] = *unit;
        let size = i32::from_be_bytes([s0, s1, s2, s3]);
        if size <= 0 || size == PRE_BLANK_SIZE {
            continue;
        }
        let offset = i64::from_be_bytes([p0, p1, p2, p3, p4, p5, p6, p7]);
        let [queue_offset, physical_offset, size_bytes, tags_code] = &mut columns;
        queue_offset.push_long(first.saturating_add(number as i64));
        physical_offset.push_long(offset);
        size_bytes.push_int(size);
        tags_code.push_long(i64::from_be_bytes(tags));
        rows += 1;
    }
    Batch {
        rows,
        fields: fields(COLUMNS),
        columns: columns.map(Growing::done).into(),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int32Type, Int64Type};

    use super::*;

    fn unit(offset: i64, size: i32, tags: i64) -> Vec<u8> {
        let numbers = [offset.to_be_bytes(), tags.to_be_bytes()];
        [&numbers[0][..], &size.to_be_bytes(), &numbers[1]].concat()
    }

    #[test]
    fn units_without_a_record_are_left_out() {
        let bytes = [
            unit(0, i32::MAX, 0),
            unit(7, 100, -5),
            unit(107, 50, 6),
            unit(0, 0, 0),
            vec![1; 19],
        ];
        let batch = queue_units(&bytes.concat(), 1_000);
        assert_eq!(batch.rows, 2);
        let longs = |at: usize| {
            batch.columns[at]
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        };
        assert_eq!(longs(0), [1_001, 1_002]);
        assert_eq!(longs(1), [7, 107]);
        let sizes = batch.columns[2].as_primitive::<Int32Type>();
        assert_eq!(sizes.values().to_vec(), [100, 50]);
        assert_eq!(longs(3), [-5, 6]);
    }
}
