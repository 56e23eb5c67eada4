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

/// Bytes of a unit.
pub const BATCH_UNIT_BYTES: u64 = 46;
const UNIT_LEN: usize = BATCH_UNIT_BYTES as usize;

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

    /// The queue offset behind its last message.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.base + self.count
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
        assert_eq!(BatchUnit::decode(&[0; UNIT_LEN]), None);
        for (at, value) in [(0, 0x80), (28, 0x80), (36, 0x80)] {
            let mut broken = bytes;
            broken[at] = value;
            assert_eq!(BatchUnit::decode(&broken), None, "at {at}");
        }
    }
}
