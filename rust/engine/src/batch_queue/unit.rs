//! A unit of a batch queue: 46 bytes, big-endian (`BatchConsumeQueue.CQ_STORE_UNIT_SIZE`).
//!
//! | at | bytes | field |
//! |---|---|---|
//! | 0 | 8 | physical offset of the record |
//! | 8 | 4 | its length |
//! | 12 | 8 | hash of its tags |
//! | 20 | 8 | its store time, ms |
//! | 28 | 8 | queue offset of its first message |
//! | 36 | 2 | how many messages it holds |
//! | 38 | 4 | place in a compacted log; -1: none |
//! | 42 | 4 | reserved |

use crate::config::BATCH_UNIT_BYTES;

/// Bytes of a unit, as a length in memory.
pub(super) const UNIT_LEN: usize = BATCH_UNIT_BYTES as usize;
/// Means "in no compacted log" (`BatchConsumeQueue.INVALID_POS`).
const NOT_COMPACTED: i32 = -1;

const _: () = assert!(8 + 4 + 8 + 8 + 8 + 2 + 4 + 4 == UNIT_LEN);

/// One record in a batch queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchUnit {
    /// Where the record is in the log.
    pub physical_offset: u64,
    /// Bytes of the record.
    pub size_bytes: u32,
    /// Hash of its tags.
    pub tags_code: i64,
    /// Its store time, ms.
    pub store_timestamp_ms: i64,
    /// Queue offset of its first message.
    pub base: u64,
    /// How many messages it holds.
    pub count: u64,
}

impl BatchUnit {
    /// The unit in these bytes; `None` where none was written (`BatchConsumeQueue.recover`).
    #[must_use]
    pub fn decode(bytes: &[u8; UNIT_LEN]) -> Option<Self> {
        let mut rest = &bytes[..];
        let physical_offset = i64::from_be_bytes(take(&mut rest)?);
        let size_bytes = i32::from_be_bytes(take(&mut rest)?);
        let tags_code = i64::from_be_bytes(take(&mut rest)?);
        let store_timestamp_ms = i64::from_be_bytes(take(&mut rest)?);
        let base = i64::from_be_bytes(take(&mut rest)?);
        let count = i16::from_be_bytes(take(&mut rest)?);
        Some(Self {
            physical_offset: u64::try_from(physical_offset).ok()?,
            size_bytes: u32::try_from(size_bytes).ok().filter(|size| *size > 0)?,
            tags_code,
            store_timestamp_ms,
            base: u64::try_from(base).ok()?,
            count: u64::try_from(count).ok().filter(|count| *count > 0)?,
        })
    }

    /// The bytes of the unit, as `BatchConsumeQueue.putBatchMessagePositionInfo` writes them.
    #[must_use]
    pub fn encode(&self) -> [u8; UNIT_LEN] {
        // No truncation: a length has 31 bits, a count 15 (`is_sound`).
        let fields: [&[u8]; 8] = [
            &self.physical_offset.to_be_bytes(),
            &self.size_bytes.to_be_bytes(),
            &self.tags_code.to_be_bytes(),
            &self.store_timestamp_ms.to_be_bytes(),
            &self.base.to_be_bytes(),
            &(self.count as u16).to_be_bytes(),
            &NOT_COMPACTED.to_be_bytes(),
            &[0; 4],
        ];
        let mut bytes = [0; UNIT_LEN];
        let mut rest = &mut bytes[..];
        for field in fields {
            let (target, after) = rest.split_at_mut(field.len());
            target.copy_from_slice(field);
            rest = after;
        }
        bytes
    }

    /// Whether each number fits its field.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        const OFFSET_MAX: u64 = i64::MAX as u64;
        const COUNT_MAX: u64 = i16::MAX as u64;
        self.physical_offset <= OFFSET_MAX
            && (1..=i32::MAX.unsigned_abs()).contains(&self.size_bytes)
            && (1..=COUNT_MAX).contains(&self.count)
            && self.base <= OFFSET_MAX - COUNT_MAX
    }

    /// The physical offset behind its record.
    #[must_use]
    pub fn physical_end(&self) -> u64 {
        self.physical_offset + u64::from(self.size_bytes)
    }

    /// The queue offset behind its last message.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.base.saturating_add(self.count)
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_what_the_official_broker_writes() {
        let mut bytes = Vec::new();
        bytes.extend(2_676_623_i64.to_be_bytes());
        bytes.extend(582_i32.to_be_bytes());
        bytes.extend((-7_i64).to_be_bytes());
        bytes.extend(1_795_249_548_253_i64.to_be_bytes());
        bytes.extend(14_i64.to_be_bytes());
        bytes.extend(5_i16.to_be_bytes());
        bytes.extend((-1_i32).to_be_bytes());
        bytes.extend(0_i32.to_be_bytes());
        let bytes: [u8; UNIT_LEN] = bytes.try_into().unwrap();
        let unit = BatchUnit::decode(&bytes).unwrap();
        assert_eq!((unit.base, unit.end()), (14, 19));
        assert_eq!(unit.store_timestamp_ms, 1_795_249_548_253);
        assert_eq!(unit.physical_offset, 2_676_623);
        assert_eq!((unit.size_bytes, unit.tags_code), (582, -7));
        assert_eq!(unit.encode(), bytes);
        assert!(unit.is_sound());
        assert_eq!(BatchUnit::decode(&[0; UNIT_LEN]), None);
        for (at, value) in [(0, 0x80), (28, 0x80), (36, 0x80)] {
            let mut broken = bytes;
            broken[at] = value;
            assert_eq!(BatchUnit::decode(&broken), None, "at {at}");
        }
    }

    #[test]
    fn a_number_that_no_field_can_hold_is_not_sound() {
        let unit = BatchUnit {
            physical_offset: 0,
            size_bytes: 100,
            tags_code: 0,
            store_timestamp_ms: 1,
            base: 0,
            count: 1,
        };
        assert!(unit.is_sound());
        assert!(
            !BatchUnit {
                size_bytes: 0,
                ..unit
            }
            .is_sound()
        );
        assert!(
            !BatchUnit {
                size_bytes: 1 << 31,
                ..unit
            }
            .is_sound()
        );
        assert!(!BatchUnit { count: 0, ..unit }.is_sound());
        assert!(
            !BatchUnit {
                count: 32_768,
                ..unit
            }
            .is_sound()
        );
        let far = i64::MAX.cast_unsigned();
        assert!(!BatchUnit { base: far, ..unit }.is_sound());
        let far = far + 1;
        assert!(
            !BatchUnit {
                physical_offset: far,
                ..unit
            }
            .is_sound()
        );
    }
}
