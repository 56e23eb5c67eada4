//! Which offsets of its queue a record takes: one, or one for each message of the batch in it
//! (`INNER_NUM`, `INNER_BASE` of 5.x).
//!
//! How many is set by whoever makes the record; the first of them is known only under the append
//! lock, so its property is reserved while the properties are made ([`reserve`]) and filled when
//! the record is written ([`fill`]): with as many digits as the largest offset has. Every reader
//! takes it as a number (`Long.parseLong`). Source: `CommitLog.getMessageNum`,
//! `setBatchSizeIfNeeded`, `BatchConsumeQueue.assignQueueOffset`. Knows no queue.
#![deny(clippy::indexing_slicing)]

use crate::properties::{
    INNER_BASE, INNER_NUM, NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, Wanted, lookup, pairs,
};
use crate::sys_flag::INNER_BATCH;

/// Most messages of one record: the official broker keeps the number in 16 bits.
pub const INNER_COUNT_MAX: u64 = i16::MAX as u64;
/// Digits of the largest offset.
const DIGITS: usize = 19;
/// Bytes of the property with both separators.
const BASE_PROPERTY_LEN_BYTES: usize = INNER_BASE.len() + 1 + DIGITS + 1;

/// The number of messages in the text of `INNER_NUM`: 1 to 32767, `None` for anything else.
#[must_use]
pub fn count(text: &[u8]) -> Option<u64> {
    let number: u64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (1..=INNER_COUNT_MAX).contains(&number).then_some(number)
}

/// How many queue offsets a record with these flags and properties takes.
#[inline]
#[must_use]
pub fn span(sys_flag: i32, properties: &[u8]) -> u64 {
    if sys_flag & INNER_BATCH == 0 {
        return 1;
    }
    lookup(properties, INNER_NUM).and_then(count).unwrap_or(1)
}

/// First queue offset and number of messages of a record, for its unit in a batch queue.
#[must_use]
pub fn base_and_count(wanted: &Wanted<'_>, queue_offset: u64) -> (u64, u64) {
    let in_record = || {
        let base = std::str::from_utf8(wanted.inner_base?).ok()?.parse().ok()?;
        let count = wanted.inner_num.and_then(count)?;
        i64::try_from(base).ok().map(|_fits| (base, count))
    };
    in_record().unwrap_or((queue_offset, 1))
}

/// Puts the property for the first queue offset in front of the properties of a message, in place
/// of any that it had.
pub fn reserve(properties: &mut Vec<u8>) {
    let mut reserved = property(0).to_vec();
    for (name, value) in pairs(properties).filter(|(name, _)| *name != INNER_BASE.as_bytes()) {
        reserved.extend_from_slice(name);
        reserved.push(NAME_VALUE_SEPARATOR);
        reserved.extend_from_slice(value);
        reserved.push(PROPERTY_SEPARATOR);
    }
    *properties = reserved;
}

/// Writes the first queue offset into its property in a record whose last `properties_len` bytes
/// are its properties; false where [`reserve`] made none: nothing is written then.
pub fn fill(record: &mut [u8], properties_len: usize, base: u64) -> bool {
    let Some(at) = record.len().checked_sub(properties_len) else {
        return false;
    };
    let reserved = record
        .get_mut(at..)
        .and_then(|text| text.first_chunk_mut::<BASE_PROPERTY_LEN_BYTES>());
    let Some(reserved) = reserved else {
        return false;
    };
    let is_reserved = reserved
        .strip_prefix(INNER_BASE.as_bytes())
        .is_some_and(|rest| {
            rest.first() == Some(&NAME_VALUE_SEPARATOR) && rest.last() == Some(&PROPERTY_SEPARATOR)
        });
    if is_reserved {
        *reserved = property(base);
    }
    is_reserved
}

fn property(mut base: u64) -> [u8; BASE_PROPERTY_LEN_BYTES] {
    let mut digits = [b'0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit += (base % 10) as u8;
        base /= 10;
    }
    let bytes = INNER_BASE
        .bytes()
        .chain([NAME_VALUE_SEPARATOR])
        .chain(digits)
        .chain([PROPERTY_SEPARATOR]);
    let mut property = [0; BASE_PROPERTY_LEN_BYTES];
    for (slot, byte) in property.iter_mut().zip(bytes) {
        *slot = byte;
    }
    property
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::scan_wanted;

    #[test]
    fn a_record_takes_as_many_offsets_as_it_has_messages() {
        assert_eq!(span(0, b"INNER_NUM\x015\x02"), 1, "without the flag");
        assert_eq!(span(INNER_BATCH, b"INNER_NUM\x015\x02"), 5);
        assert_eq!(span(INNER_BATCH, b"INNER_NUM\x0132767"), 32_767);
        for bad in ["0", "-3", "32768", "x", ""] {
            let text = format!("INNER_NUM\x01{bad}\x02k\x01v\x02");
            assert_eq!(span(INNER_BATCH, text.as_bytes()), 1, "{bad}");
        }
        assert_eq!(span(INNER_BATCH, b""), 1);
    }

    #[test]
    fn the_first_offset_is_filled_in_under_the_lock_and_read_as_a_number() {
        let mut text = b"INNER_NUM\x017\x02INNER_BASE\x013\x02k\x01v".to_vec();
        reserve(&mut text);
        assert_eq!(
            text,
            b"INNER_BASE\x010000000000000000000\x02INNER_NUM\x017\x02k\x01v\x02"
        );
        let mut record = [b"the record before it", &text[..]].concat();
        assert!(fill(&mut record, text.len(), 1_234));
        let filled = record.get(20..).unwrap();
        assert_eq!(
            lookup(filled, INNER_BASE),
            Some(&b"0000000000000001234"[..])
        );
        assert_eq!(base_and_count(&scan_wanted(filled), 9), (1_234, 7));
        assert!(fill(&mut record, text.len(), i64::MAX as u64));
        let filled = record.get(20..).unwrap();
        assert_eq!(base_and_count(&scan_wanted(filled), 9).0, i64::MAX as u64);
    }

    #[test]
    fn a_record_without_the_reserved_property_is_left_alone() {
        let mut record = *b"INNER_BASE\x01123456789012345678x\x02";
        let before = record;
        assert!(!fill(&mut record, 40, 5), "longer than the record");
        assert!(!fill(&mut record, 3, 5), "too short for the property");
        let mut other = *b"INNER_BASF\x010000000000000000000\x02";
        assert!(!fill(&mut other, 31, 5));
        assert_eq!(record, before);
        assert_eq!(
            base_and_count(&scan_wanted(b"INNER_NUM\x017\x02"), 9),
            (9, 1)
        );
        let negative = scan_wanted(b"INNER_NUM\x017\x02INNER_BASE\x01-7\x02");
        assert_eq!(base_and_count(&negative, 9), (9, 1));
    }
}
