//! Where things lie in an index file. Pure arithmetic on bytes; knows no file.
//!
//! Source: `IndexFile`, `IndexHeader`. All numbers are big-endian.
//!
//! | header field | type | position |
//! |---|---|---|
//! | begin timestamp (store time of the first entry) | i64 | 0 |
//! | end timestamp (of the latest) | i64 | 8 |
//! | begin physical offset | i64 | 16 |
//! | end physical offset | i64 | 24 |
//! | slots in use | i32 | 32 |
//! | number of the next entry; entries count from 1 | i32 | 36 |
//!
//! Then `slots` times i32: number of the newest entry of the slot, 0 for none. Then `entries` times
//!
//! | entry field | type | at |
//! |---|---|---|
//! | key hash | i32 | 0 |
//! | physical offset | i64 | 4 |
//! | seconds after the begin timestamp | i32 | 12 |
//! | number of the entry before it in the slot, 0 for none | i32 | 16 |

use crate::config::StoreConfig;
use crate::error::{Error, Result};

pub(super) const BEGIN_TIMESTAMP: u64 = 0;
pub(super) const END_TIMESTAMP: u64 = BEGIN_TIMESTAMP + 8;
pub(super) const BEGIN_OFFSET: u64 = END_TIMESTAMP + 8;
pub(super) const END_OFFSET: u64 = BEGIN_OFFSET + 8;
pub(super) const SLOTS_USED: u64 = END_OFFSET + 8;
pub(super) const NEXT_NUMBER: u64 = SLOTS_USED + 4;
pub(super) const HEADER_BYTES: u64 = NEXT_NUMBER + 4;
pub(super) const SLOT_BYTES: u64 = 4;

pub(super) const ENTRY_HASH: u64 = 0;
pub(super) const ENTRY_OFFSET: u64 = ENTRY_HASH + 4;
pub(super) const ENTRY_SECONDS: u64 = ENTRY_OFFSET + 8;
pub(super) const ENTRY_PREVIOUS: u64 = ENTRY_SECONDS + 4;
pub(super) const ENTRY_BYTES: u64 = ENTRY_PREVIOUS + 4;

const _: () = assert!(HEADER_BYTES == 40);
const _: () = assert!(ENTRY_BYTES == 20);
const _: () =
    assert!(HEADER_BYTES + 5_000_000 * SLOT_BYTES + 20_000_000 * ENTRY_BYTES == 420_000_040);

/// Entries per slot by default (`maxIndexNum` / `maxHashSlotNum`).
const DEFAULT_ENTRIES_PER_SLOT: u64 = 4;

/// How many slots and entries a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    slots: u32,
    entries: u32,
}

impl Layout {
    /// The layout of the settings.
    ///
    /// # Errors
    /// [`Error::Config`] when such a file could not exist; `StoreConfig::check` refuses the same.
    pub fn new(config: &StoreConfig) -> Result<Self> {
        Self::of(config.index_slots, config.index_entries).ok_or_else(|| Error::Config {
            key: "maxIndexNum".to_owned(),
            value: config.index_entries.to_string(),
            why: "slots * 4 + maxIndexNum * 20 must be below 2 GiB, with a slot and two entries"
                .to_owned(),
        })
    }

    /// A layout of so many slots and entries, when a file can have them.
    #[must_use]
    pub fn of(slots: u64, entries: u64) -> Option<Self> {
        let len = HEADER_BYTES
            .checked_add(slots.checked_mul(SLOT_BYTES)?)?
            .checked_add(entries.checked_mul(ENTRY_BYTES)?)?;
        // Positions are Java ints; entry 0 is never used, so one entry would hold nothing.
        if slots == 0 || entries < 2 || i32::try_from(len).is_err() {
            return None;
        }
        Some(Self {
            slots: u32::try_from(slots).ok()?,
            entries: u32::try_from(entries).ok()?,
        })
    }

    /// The layout of a file of this length when the settings are not known: four entries per slot,
    /// as by default.
    #[must_use]
    pub fn infer(len_bytes: u64) -> Option<Self> {
        let per_slot = SLOT_BYTES + DEFAULT_ENTRIES_PER_SLOT * ENTRY_BYTES;
        let body = len_bytes.checked_sub(HEADER_BYTES)?;
        if !body.is_multiple_of(per_slot) {
            return None;
        }
        let slots = body / per_slot;
        Self::of(slots, slots * DEFAULT_ENTRIES_PER_SLOT)
    }

    /// Hash slots.
    #[must_use]
    pub fn slots(self) -> u32 {
        self.slots
    }

    /// Entries, of which the one with number 0 is never used.
    #[must_use]
    pub fn entries(self) -> u32 {
        self.entries
    }

    /// Length of a file.
    #[must_use]
    pub fn len_bytes(self) -> u64 {
        self.entry_position(self.entries)
    }

    #[inline]
    pub(super) fn slot_position(self, slot: u32) -> u64 {
        HEADER_BYTES + u64::from(slot) * SLOT_BYTES
    }

    #[inline]
    pub(super) fn entry_position(self, number: u32) -> u64 {
        HEADER_BYTES + u64::from(self.slots) * SLOT_BYTES + u64::from(number) * ENTRY_BYTES
    }
}

/// The header of an index file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexHeader {
    /// Store time of the first entry, ms.
    pub begin_timestamp_ms: i64,
    /// Store time of the latest entry, ms.
    pub end_timestamp_ms: i64,
    /// Physical offset of the first entry's record.
    pub begin_physical_offset: i64,
    /// Physical offset of the latest entry's record.
    pub end_physical_offset: i64,
    /// Slots in use.
    pub slots_used: i32,
    /// Number of the next entry; 1 in an empty file.
    pub next_number: i32,
}

impl IndexHeader {
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES as usize]) -> Self {
        Self {
            begin_timestamp_ms: long_at(bytes, BEGIN_TIMESTAMP),
            end_timestamp_ms: long_at(bytes, END_TIMESTAMP),
            begin_physical_offset: long_at(bytes, BEGIN_OFFSET),
            end_physical_offset: long_at(bytes, END_OFFSET),
            slots_used: word_at(bytes, SLOTS_USED) as i32,
            // 0 on disk is read as 1 (`IndexHeader.load`).
            next_number: (word_at(bytes, NEXT_NUMBER) as i32).max(1),
        }
    }

    /// What does not hold in this header, if anything.
    pub(super) fn problem(&self, layout: Layout) -> Option<String> {
        let Self {
            next_number,
            slots_used,
            end_physical_offset: end,
            begin_physical_offset: begin,
            ..
        } = *self;
        if i64::from(next_number) > i64::from(layout.entries) {
            return Some(format!(
                "it counts {next_number} entries of at most {}",
                layout.entries
            ));
        }
        if slots_used < 0 || slots_used >= next_number.max(1) {
            return Some(format!(
                "it counts {slots_used} slots in use by {} entries",
                next_number - 1
            ));
        }
        if begin < 0 || end < begin {
            return Some(format!("its offsets go from {begin} to {end}"));
        }
        None
    }
}

/// One entry of an index file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry {
    /// Its number in the file, from 1.
    pub number: u32,
    /// Hash of `topic#key`.
    pub key_hash: u32,
    /// The record's place in the log, as stored.
    pub physical_offset: i64,
    /// Seconds after the file's begin timestamp, as stored.
    pub seconds: i32,
    /// Number of the entry before it in the slot, 0 for none, as stored.
    pub previous: i32,
}

impl IndexEntry {
    pub(super) fn decode(number: u32, bytes: &[u8; ENTRY_BYTES as usize]) -> Self {
        Self {
            number,
            key_hash: word_at(bytes, ENTRY_HASH),
            physical_offset: long_at(bytes, ENTRY_OFFSET),
            seconds: word_at(bytes, ENTRY_SECONDS) as i32,
            previous: word_at(bytes, ENTRY_PREVIOUS) as i32,
        }
    }
}

/// The big-endian 32 bits at `position`; 0 outside of `bytes`.
pub(super) fn word_at(bytes: &[u8], position: u64) -> u32 {
    let rest = bytes.get(position as usize..).unwrap_or_default();
    rest.first_chunk().copied().map_or(0, u32::from_be_bytes)
}

/// The big-endian 64 bits at `position`; 0 outside of `bytes`.
fn long_at(bytes: &[u8], position: u64) -> i64 {
    let rest = bytes.get(position as usize..).unwrap_or_default();
    rest.first_chunk().copied().map_or(0, i64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_real_files_are_inferred() {
        let default = Layout::infer(420_000_040).unwrap();
        assert_eq!(
            (default.slots(), default.entries()),
            (5_000_000, 20_000_000)
        );
        let golden = Layout::infer(84_040).unwrap();
        assert_eq!((golden.slots(), golden.entries()), (1000, 4000));
        assert_eq!(golden.len_bytes(), 84_040);
        assert_eq!(Layout::infer(84_041), None);
        assert_eq!(Layout::infer(40), None);
        assert_eq!(Layout::infer(0), None);
        assert_eq!(Layout::of(1, u64::MAX), None);
        assert_eq!(Layout::of(1, 1), None);
    }
}
