//! One unit of the timer log: a message that waits, and where in the log it lies. Pure bytes
//! (`TimerLog.UNIT_SIZE`, `TimerMessageStore.doEnqueue`).
//!
//! | position | field |
//! |---|---|
//! | 0 | i32 length, 52 |
//! | 4 | i64 position of the unit before it in the same slot, -1 for none |
//! | 12 | i32 magic: see [`MAGIC_DEFAULT`] |
//! | 16 | i64 time of the entry, ms |
//! | 24 | i32 time of the slot minus that, ms |
//! | 28 | i64 physical offset of the message |
//! | 36 | i32 its length |
//! | 40 | i32 Java hash of its real topic |
//! | 44 | i64 reserved, 0 |

/// Bytes of a unit.
pub const UNIT_BYTES: usize = 52;
/// Every unit has this bit.
pub const MAGIC_DEFAULT: i32 = 1;
/// The message is due behind the wheel: its slot puts it into the wheel again.
pub const MAGIC_ROLL: i32 = 1 << 1;
/// The message deletes another one of its slot.
pub const MAGIC_DELETE: i32 = 1 << 2;
/// No unit has a bit above these.
const MAGIC_MASK: i32 = 0xF;
/// Marks the end of a file that no unit fits into any more.
pub(super) const BLANK_MAGIC: i32 = 0xCBD4_3194_u32.cast_signed();
/// Bytes of that mark: length, 0, magic.
pub(super) const BLANK_BYTES: usize = 16;
/// Where the position of the unit before is.
pub(super) const PREVIOUS_AT: u64 = 4;

/// A unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// Position of the unit before it in its slot, -1 for none.
    pub previous: i64,
    /// Its kind.
    pub magic: i32,
    /// When it was entered, ms.
    pub entered_ms: i64,
    /// Time of its slot, ms.
    pub slot_ms: i64,
    /// Where the message lies in the log.
    pub physical_offset: i64,
    /// Length of the message.
    pub len_bytes: i32,
    /// Java hash of its real topic.
    pub topic_hash: i32,
}

impl Unit {
    /// Whether its slot puts it into the wheel again.
    #[must_use]
    pub fn is_roll(&self) -> bool {
        self.magic & MAGIC_ROLL != 0
    }

    /// Whether it deletes a message of its slot. One that rolls does so later.
    #[must_use]
    pub fn is_delete(&self) -> bool {
        self.magic & (MAGIC_DELETE | MAGIC_ROLL) == MAGIC_DELETE
    }

    /// What it adds to the number of messages of its slot.
    #[must_use]
    pub fn weight(&self) -> i32 {
        if self.magic & MAGIC_DELETE == 0 {
            1
        } else {
            -1
        }
    }

    pub(super) fn encode(&self) -> [u8; UNIT_BYTES] {
        let mut bytes = [0; UNIT_BYTES];
        let delay = i32::try_from(self.slot_ms - self.entered_ms).unwrap_or(i32::MAX);
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&(UNIT_BYTES as i32).to_be_bytes());
        put(&self.previous.to_be_bytes());
        put(&self.magic.to_be_bytes());
        put(&self.entered_ms.to_be_bytes());
        put(&delay.to_be_bytes());
        put(&self.physical_offset.to_be_bytes());
        put(&self.len_bytes.to_be_bytes());
        put(&self.topic_hash.to_be_bytes());
        bytes
    }
}

/// What is at a position of the timer log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A unit.
    Unit(Unit),
    /// The rest of the file is not used.
    Blank,
    /// Nothing was ever written here, or not all of it.
    End,
}

/// Reads what is at a position.
#[must_use]
pub fn decode(bytes: &[u8], position: u64) -> Found {
    let int = |at: usize| {
        let field = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(i32::from_be_bytes(field))
    };
    let long = |at: usize| {
        let field = bytes.get(at..at + 8)?.try_into().ok()?;
        Some(i64::from_be_bytes(field))
    };
    if int(12) == Some(BLANK_MAGIC) {
        return Found::Blank;
    }
    let read = || {
        let entered_ms = long(16)?;
        let unit = Unit {
            previous: long(4)?,
            magic: int(12)?,
            entered_ms,
            slot_ms: entered_ms.checked_add(int(24)?.into())?,
            physical_offset: long(28)?,
            len_bytes: int(36)?,
            topic_hash: int(40)?,
        };
        // A unit whose end was torn off reads as zeros: no message has that length.
        let is_whole = int(0)? == UNIT_BYTES as i32
            && unit.magic | MAGIC_MASK == MAGIC_MASK
            && unit.magic & MAGIC_DEFAULT != 0
            && unit.previous < position.cast_signed()
            && unit.physical_offset >= 0
            && unit.len_bytes > 0;
        is_whole.then_some(unit)
    };
    read().map_or(Found::End, Found::Unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: Unit = Unit {
        previous: -1,
        magic: MAGIC_DEFAULT | MAGIC_ROLL,
        entered_ms: 1_700_000_000_000,
        slot_ms: 1_700_000_005_000,
        physical_offset: 77,
        len_bytes: 300,
        topic_hash: -5,
    };

    #[test]
    fn a_unit_is_the_bytes_of_the_official_log() {
        let bytes = UNIT.encode();
        assert_eq!(bytes[..4], [0, 0, 0, 52]);
        assert_eq!(bytes[4..12], [0xff; 8]);
        assert_eq!(bytes[12..16], [0, 0, 0, 3]);
        assert_eq!(bytes[24..28], 5_000i32.to_be_bytes());
        assert_eq!(bytes[44..], [0; 8]);
        assert_eq!(decode(&bytes, 0), Found::Unit(UNIT));
    }

    #[test]
    fn what_was_not_written_whole_is_the_end() {
        let mut bytes = UNIT.encode();
        assert_eq!(decode(&bytes[..43], 0), Found::End);
        bytes[36..].fill(0);
        assert_eq!(decode(&bytes, 0), Found::End, "torn behind the offset");
        assert_eq!(decode(&[0; UNIT_BYTES], 0), Found::End);
        let mut ahead = UNIT;
        ahead.previous = 52;
        assert_eq!(decode(&ahead.encode(), 52), Found::End, "points at itself");
        let mut blank = [0; UNIT_BYTES];
        blank[12..16].copy_from_slice(&BLANK_MAGIC.to_be_bytes());
        assert_eq!(decode(&blank, 0), Found::Blank);
    }

    #[test]
    fn a_deletion_that_rolls_is_a_message_like_others() {
        let of = |magic| Unit { magic, ..UNIT };
        assert!(of(MAGIC_DEFAULT | MAGIC_DELETE).is_delete());
        assert!(!of(MAGIC_DEFAULT | MAGIC_DELETE | MAGIC_ROLL).is_delete());
        assert_eq!(of(MAGIC_DEFAULT | MAGIC_DELETE | MAGIC_ROLL).weight(), -1);
        assert_eq!(UNIT.weight(), 1);
    }
}
