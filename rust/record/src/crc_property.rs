//! The CRC of a whole record as its last property (`__CRC32#`, 5.x, `enabledAppendPropCRC`).
//!
//! The last 20 bytes of the record: name, 0x01, ten digits, 0x02. The digits are those of the CRC
//! in decimal, the least significant first, filled up with `0`. The CRC runs from the record's
//! first byte to the last one before these 20, after offsets and store time have been filled in: so
//! the property is reserved while the properties are made ([`reserve`]) and filled when the record
//! is written ([`fill`]). Source: `MessageExtEncoder`, `MessageDecoder.createCrc32`,
//! `CommitLog.checkMessageAndReturnSize`.
#![deny(clippy::indexing_slicing)]

use crate::crc::body_crc;
use crate::error::RecordError;
use crate::properties::{CRC32, NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, lookup, pairs};

/// Digits of the CRC.
const DIGITS: usize = 10;
/// Bytes of the property with both separators.
pub const CRC_PROPERTY_LEN_BYTES: usize = CRC32.len() + 1 + DIGITS + 1;

const _: () = assert!(CRC_PROPERTY_LEN_BYTES == 20);

/// Appends the property with a CRC of 0 to the properties of a message, in place of any it had, and
/// a separator before it when the last property has none.
pub fn reserve(properties: &mut Vec<u8>) {
    if pairs(properties).any(|(name, _)| name == CRC32.as_bytes()) {
        let mut kept = Vec::with_capacity(properties.len());
        for (name, value) in pairs(properties).filter(|(name, _)| *name != CRC32.as_bytes()) {
            kept.extend_from_slice(name);
            kept.push(NAME_VALUE_SEPARATOR);
            kept.extend_from_slice(value);
            kept.push(PROPERTY_SEPARATOR);
        }
        *properties = kept;
    }
    if properties
        .last()
        .is_some_and(|last| *last != PROPERTY_SEPARATOR)
    {
        properties.push(PROPERTY_SEPARATOR);
    }
    properties.extend_from_slice(&property(0));
}

/// Takes the CRC of a record whose properties were made with [`reserve`] and writes it into the
/// reserved property, the last 20 bytes.
///
/// # Errors
///
/// [`RecordError::Truncated`] when the record is shorter than the property;
/// [`RecordError::CrcPropertyMissing`] when none was reserved: nothing is written then.
pub fn fill(record: &mut [u8]) -> Result<(), RecordError> {
    let have = record.len();
    let (covered, reserved) = record
        .split_last_chunk_mut::<CRC_PROPERTY_LEN_BYTES>()
        .ok_or(RecordError::Truncated {
            need: CRC_PROPERTY_LEN_BYTES,
            have,
        })?;
    if !reserved.starts_with(CRC32.as_bytes()) {
        return Err(RecordError::CrcPropertyMissing);
    }
    *reserved = property(body_crc(covered));
    Ok(())
}

/// Compares the CRC property of a record (exactly its bytes) with its content. `properties` are
/// those of the same record.
///
/// # Errors
///
/// [`RecordError::CrcPropertyMissing`] when there is none or it is no number;
/// [`RecordError::CrcMismatch`].
pub fn verify(record: &[u8], properties: &[u8]) -> Result<(), RecordError> {
    let stored = lookup(properties, CRC32)
        .and_then(number)
        .ok_or(RecordError::CrcPropertyMissing)?;
    let (covered, _) =
        record
            .split_last_chunk::<CRC_PROPERTY_LEN_BYTES>()
            .ok_or(RecordError::Truncated {
                need: CRC_PROPERTY_LEN_BYTES,
                have: record.len(),
            })?;
    let computed = body_crc(covered);
    if stored == computed {
        Ok(())
    } else {
        Err(RecordError::CrcMismatch { stored, computed })
    }
}

fn property(mut crc: u32) -> [u8; CRC_PROPERTY_LEN_BYTES] {
    let mut digits = [b'0'; DIGITS];
    for digit in &mut digits {
        *digit += (crc % 10) as u8;
        crc /= 10;
    }
    let bytes = CRC32
        .bytes()
        .chain([NAME_VALUE_SEPARATOR])
        .chain(digits)
        .chain([PROPERTY_SEPARATOR]);
    let mut property = [0; CRC_PROPERTY_LEN_BYTES];
    for (slot, byte) in property.iter_mut().zip(bytes) {
        *slot = byte;
    }
    property
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().rev().try_fold(0_u32, |number, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digits_stand_the_least_significant_first() {
        assert_eq!(&property(0), b"__CRC32#\x010000000000\x02");
        assert_eq!(&property(907_060_870), b"__CRC32#\x010780607090\x02");
        assert_eq!(&property(0x7FFF_FFFF), b"__CRC32#\x017463847412\x02");
        for crc in [0, 1, 9, 10, 907_060_870, 0x7FFF_FFFF] {
            assert_eq!(lookup(&property(crc), CRC32).and_then(number), Some(crc));
        }
        assert_eq!(number(b"00000000000000000005"), None);
        assert_eq!(number(b"12a"), None);
    }

    #[test]
    fn the_reserved_property_is_the_last_and_the_only_one_of_its_name() {
        let reserved = |text: &[u8]| {
            let mut text = text.to_vec();
            reserve(&mut text);
            text
        };
        let zero = property(0);
        assert_eq!(reserved(b""), zero);
        assert_eq!(reserved(b"a\x01b"), [b"a\x01b\x02", &zero[..]].concat());
        assert_eq!(reserved(b"a\x01b\x02"), [b"a\x01b\x02", &zero[..]].concat());
        let twice = reserved(&[&property(5)[..], b"a\x01b"].concat());
        assert_eq!(twice, [b"a\x01b\x02", &zero[..]].concat());
    }

    #[test]
    fn a_record_without_the_reserved_property_is_left_alone() {
        let mut record = *b"this record has no place for a CRC";
        let before = record;
        assert_eq!(fill(&mut record), Err(RecordError::CrcPropertyMissing));
        assert_eq!(record, before);
        assert_eq!(
            fill(&mut [0; 19]),
            Err(RecordError::Truncated { need: 20, have: 19 })
        );
        assert_eq!(
            verify(&record, b"a\x01b\x02"),
            Err(RecordError::CrcPropertyMissing)
        );
        let text = property(7);
        assert_eq!(
            verify(&[0; 3], &text),
            Err(RecordError::Truncated { need: 20, have: 3 })
        );
    }
}
