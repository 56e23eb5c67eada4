//! The 20-byte unit of a consume queue, and the bounds of a queue. Pure functions of bytes.
//!
//! | field | type | at |
//! |---|---|---|
//! | physical offset of the record | i64 | 0 |
//! | size of the record | i32 | 8 |
//! | tags code | i64 | 12 |
//!
//! Big endian (`ConsumeQueue.CQ_STORE_UNIT_SIZE`).

use super::extension::{Tail, is_ext_address};
use crate::config::QUEUE_UNIT_BYTES;
use crate::lock::Mutex;
use crate::queue_store::QueueUnit;

/// Bytes of a unit, as a length in memory.
pub(super) const UNIT_LEN: usize = 20;
const _: () = assert!(UNIT_LEN as u64 == QUEUE_UNIT_BYTES && UNIT_LEN == 8 + 4 + 8);

/// Where one message of a queue lies in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// First byte of the record in the log.
    pub physical_offset: i64,
    /// Bytes of the record.
    pub size_bytes: i32,
    /// Java's hash of the tags, or the delivery time of a delayed message, or where in the
    /// extension of the queue that is found ([`Unit::is_extended`]).
    pub tags_code: i64,
}

impl Unit {
    /// Replaces messages that the queue does not hold (`ConsumeQueue.fillPreBlank`).
    pub const BLANK: Self = Self {
        physical_offset: 0,
        size_bytes: i32::MAX,
        tags_code: 0,
    };

    /// The unit's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; UNIT_LEN] {
        let mut bytes = [0; UNIT_LEN];
        bytes[..8].copy_from_slice(&self.physical_offset.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.size_bytes.to_be_bytes());
        bytes[12..].copy_from_slice(&self.tags_code.to_be_bytes());
        bytes
    }

    /// The unit in the bytes.
    #[must_use]
    pub fn decode(bytes: &[u8; UNIT_LEN]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t] = *bytes;
        Self {
            physical_offset: i64::from_be_bytes([a, b, c, d, e, f, g, h]),
            size_bytes: i32::from_be_bytes([i, j, k, l]),
            tags_code: i64::from_be_bytes([m, n, o, p, q, r, s, t]),
        }
    }

    /// All whole units of `bytes`.
    pub(super) fn decode_all(bytes: &[u8]) -> impl Iterator<Item = Self> + '_ {
        let (units, _rest) = bytes.as_chunks::<UNIT_LEN>();
        units.iter().map(Self::decode)
    }

    /// False for the zeros of a file's unused end: `offset >= 0 && size > 0` is RocketMQ's test.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.physical_offset >= 0 && self.size_bytes > 0
    }

    /// True for a unit of no message.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        *self == Self::BLANK
    }

    /// Whether the tags code is in the extension of the queue.
    #[inline]
    #[must_use]
    pub fn is_extended(&self) -> bool {
        is_ext_address(self.tags_code)
    }

    /// The first byte of the log after the record.
    #[must_use]
    pub fn physical_end(&self) -> i64 {
        self.physical_offset
            .saturating_add(i64::from(self.size_bytes))
    }
}

impl QueueUnit for Unit {
    type Own = ();
    type Beside = Mutex<Tail>;
    const LEN: usize = UNIT_LEN;
    const BLANK: Option<Self> = Some(Self::BLANK);
    const COUNTS_SYNCED: bool = false;

    #[inline]
    fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.encode());
    }

    #[inline]
    fn present(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk()?;
        Some(Self::decode(bytes)).filter(Self::is_present)
    }

    #[inline]
    fn physical_start(&self) -> i64 {
        self.physical_offset
    }

    #[inline]
    fn record_end(&self) -> i64 {
        self.physical_end()
    }
}

/// The queue offsets that a queue holds: from `min` on, below `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The first.
    pub min: u64,
    /// One after the last.
    pub max: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_and_its_bytes_are_the_same_thing() {
        let unit = Unit {
            physical_offset: 0x0102_0304_0506_0708,
            size_bytes: 0x1112_1314,
            tags_code: -2,
        };
        let bytes = unit.encode();
        let expected =
            b"\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\xff\xff\xff\xff\xff\xff\xff\xfe";
        assert_eq!(&bytes, expected);
        assert_eq!(Unit::decode(&bytes), unit);
        assert!(unit.is_present() && !unit.is_blank());
    }

    #[test]
    fn a_code_that_no_hash_can_be_is_an_ext_address() {
        let unit = |tags_code| Unit {
            tags_code,
            ..Unit::BLANK
        };
        assert!(!unit(7).is_extended());
        assert!(!unit(i64::from(i32::MIN)).is_extended(), "a hash");
        assert!(unit(i64::MIN + 4096).is_extended());
    }

    #[test]
    fn zeros_are_absent_and_a_blank_is_present() {
        assert!(!Unit::decode(&[0; UNIT_LEN]).is_present());
        assert!(Unit::BLANK.is_present() && Unit::BLANK.is_blank());
        assert_eq!(&Unit::BLANK.encode()[8..12], b"\x7f\xff\xff\xff");
    }
}
