//! The unit of an extension, and places in extensions as they stand in queue units. Pure functions
//! of bytes.
//!
//! | field | type | at |
//! |---|---|---|
//! | size of the unit | i16 | 0 |
//! | tags code | i64 | 2 |
//! | store time, ms | i64 | 10 |
//! | bytes of bits | i16 | 18 |
//! | bits | n | 20 |
//!
//! Big endian (`ConsumeQueueExt.CqExtUnit`). A size of -1 ends a file before its end.

/// Bytes of a unit without bits.
pub(super) const HEAD_LEN: usize = 2 + 8 + 8 + 2;
/// Bytes of a unit at the most (`CqExtUnit.MAX_EXT_UNIT_SIZE`).
pub(super) const UNIT_LEN_MAX: usize = i16::MAX as usize;
/// Replaces a size where nothing more follows in a file.
pub(super) const END_MARK: [u8; 2] = (-1i16).to_be_bytes();
/// Bytes that stay free at the end of each file (`ConsumeQueueExt.END_BLANK_DATA_LENGTH`).
pub(super) const END_BLANK_LEN: u64 = 4;

/// Greatest number in a queue unit that is no tags code but the address of an offset in the
/// extension (`ConsumeQueueExt.MAX_ADDR`): hashes are ints, times of delivery are not negative.
const EXT_ADDRESS_MAX: i64 = i32::MIN as i64 - 1;
/// Greatest offset that a queue unit can name (`ConsumeQueueExt.MAX_REAL_OFFSET`).
pub(super) const EXT_OFFSET_MAX: u64 = EXT_ADDRESS_MAX.wrapping_sub(i64::MIN).cast_unsigned();

/// Whether the code of a queue unit is an address in its extension.
#[inline]
#[must_use]
pub(in crate::consume_queue) const fn is_ext_address(code: i64) -> bool {
    code <= EXT_ADDRESS_MAX
}

/// The offset in the extension that a code names (`ConsumeQueueExt.unDecorate`); `None` for a tags
/// code.
#[inline]
#[must_use]
pub fn ext_offset_of(code: i64) -> Option<u64> {
    is_ext_address(code).then(|| code.wrapping_sub(i64::MIN).cast_unsigned())
}

/// The code of an offset (`ConsumeQueueExt.decorate`).
#[inline]
pub(super) fn ext_address_of(ext_offset: u64) -> i64 {
    ext_offset.cast_signed().wrapping_add(i64::MIN)
}

/// What an extension holds of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extended<'a> {
    /// Java's hash of the tags, or the delivery time of a delayed message.
    pub tags_code: i64,
    /// When the message was stored, ms.
    pub store_timestamp_ms: i64,
    /// Bits of the groups whose expression it passes; empty when none were made.
    pub bits: &'a [u8],
}

impl<'a> Extended<'a> {
    /// Bytes of the unit.
    pub(super) fn len(&self) -> usize {
        HEAD_LEN + self.bits.len()
    }

    /// Appends the unit's bytes; nothing where they are too many for a size.
    pub(super) fn encode_into(&self, out: &mut Vec<u8>) {
        let sizes = (i16::try_from(self.len()), i16::try_from(self.bits.len()));
        let (Ok(len), Ok(bits_len)) = sizes else {
            return;
        };
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(&self.tags_code.to_be_bytes());
        out.extend_from_slice(&self.store_timestamp_ms.to_be_bytes());
        out.extend_from_slice(&bits_len.to_be_bytes());
        out.extend_from_slice(self.bits);
    }

    /// The unit at the start of the bytes; `None` where none is there whole. Its two lengths
    /// must agree, which the official reader does not ask for: what is out of step is no unit.
    #[must_use]
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (len, rest) = bytes.split_first_chunk::<2>()?;
        let (tags_code, rest) = rest.split_first_chunk::<8>()?;
        let (store_timestamp_ms, rest) = rest.split_first_chunk::<8>()?;
        let (bits_len, rest) = rest.split_first_chunk::<2>()?;
        let len = usize::try_from(i16::from_be_bytes(*len)).ok()?;
        let bits_len = usize::try_from(i16::from_be_bytes(*bits_len)).ok()?;
        let found = Self {
            tags_code: i64::from_be_bytes(*tags_code),
            store_timestamp_ms: i64::from_be_bytes(*store_timestamp_ms),
            bits: rest.get(..bits_len)?,
        };
        (found.len() == len).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_and_its_bytes_are_the_same_thing() {
        let unit = Extended {
            tags_code: -2,
            store_timestamp_ms: 0x0102_0304_0506_0708,
            bits: &[0xaa, 0x55],
        };
        let mut bytes = vec![];
        unit.encode_into(&mut bytes);
        let expected = b"\x00\x16\xff\xff\xff\xff\xff\xff\xff\xfe\x01\x02\x03\x04\x05\x06\x07\x08\
                         \x00\x02\xaa\x55";
        assert_eq!(bytes, expected);
        assert_eq!(Extended::decode(&bytes), Some(unit));
        bytes.extend_from_slice(b"the next");
        assert_eq!(
            Extended::decode(&bytes),
            Some(unit),
            "what follows is not its own"
        );
    }

    #[test]
    fn what_is_no_whole_unit_is_none() {
        let mut bytes = vec![];
        let bits = &[1; 14][..];
        let unit = Extended {
            tags_code: 7,
            store_timestamp_ms: 9,
            bits,
        };
        unit.encode_into(&mut bytes);
        for len in 0..bytes.len() {
            assert_eq!(Extended::decode(&bytes[..len]), None, "{len} bytes");
        }
        assert_eq!(Extended::decode(&[0; 64]), None, "a hole");
        assert_eq!(Extended::decode(&[0xff; 64]), None, "the end of a file");
        bytes[1] += 1;
        bytes.push(0);
        assert_eq!(Extended::decode(&bytes), None, "lengths that do not agree");
    }

    #[test]
    fn codes_of_offsets_are_no_hashes() {
        assert_eq!(ext_address_of(0), i64::MIN);
        assert_eq!(ext_address_of(EXT_OFFSET_MAX), EXT_ADDRESS_MAX);
        for ext_offset in [0, 1, 48 << 20, EXT_OFFSET_MAX] {
            assert_eq!(ext_offset_of(ext_address_of(ext_offset)), Some(ext_offset));
        }
        for hash in [i64::from(i32::MIN), -1, 0, 1, i64::from(i32::MAX), i64::MAX] {
            assert_eq!(ext_offset_of(hash), None, "{hash}");
        }
        assert_eq!(EXT_OFFSET_MAX, 9_223_372_034_707_292_159);
    }

    #[test]
    fn bits_that_no_size_can_hold_are_not_written() {
        let bits = vec![0; UNIT_LEN_MAX - HEAD_LEN + 1];
        let unit = Extended {
            tags_code: 0,
            store_timestamp_ms: 0,
            bits: &bits,
        };
        let mut bytes = vec![];
        unit.encode_into(&mut bytes);
        assert!(bytes.is_empty());
    }
}
