//! The epochs of a log: which master has written what of it (`EpochFileCache`, `EpochEntry`), and the text of
//! the file that keeps them (`CheckpointFile`). Knows no file.
//!
//! | line | content |
//! |---|---|
//! | 1 | how many entries follow |
//! | 2 | CRC-32 of all bytes behind it, without its highest bit, as a decimal number; 0: not checked |
//! | then | `epoch-start`, one line per entry |
//!
//! An official table takes no entry that begins where the one before it does. Ours does: two masters in a
//! row that have stored nothing are two epochs, and a log that has one of them alone is no copy beyond it.

use crate::fault::LinkFault;

/// Bytes of a file of epochs at the most: a million entries, each of which is a change of the master.
const TEXT_LEN_MAX_BYTES: usize = 32 * 1024 * 1024;
/// What RocketMQ keeps of a CRC-32 (`UtilAll.crc32`): a number of Java that is not negative.
const CRC_MASK: u32 = 0x7FFF_FFFF;
/// A checksum that is not looked at.
const UNCHECKED: u32 = 0;

/// The epoch of a log without any.
pub const NO_EPOCH: i32 = -1;

/// Where the log of one master begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEntry {
    /// The epoch of the master; never negative.
    pub epoch: i32,
    /// Physical offset of its first byte.
    pub start: u64,
}

/// The last place up to which two logs are copies of each other, as their epochs show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consistent {
    /// The place.
    pub offset: u64,
    /// The epoch that both have written there.
    pub epoch: i32,
}

/// The epochs of a log, oldest first: epochs rise, and starts do not fall.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EpochTable {
    entries: Vec<EpochEntry>,
}

impl EpochTable {
    /// The table of these entries.
    ///
    /// # Errors
    /// What of them cannot be, in words.
    pub fn of(entries: Vec<EpochEntry>) -> Result<Self, String> {
        if let Some(first) = entries.first().filter(|first| first.epoch < 0) {
            return Err(format!("epoch {} is negative", first.epoch));
        }
        for (one, next) in entries.iter().zip(entries.iter().skip(1)) {
            if next.epoch <= one.epoch || next.start < one.start {
                return Err(format!(
                    "epoch {} from {} follows epoch {} from {}",
                    next.epoch, next.start, one.epoch, one.start
                ));
            }
        }
        Ok(Self { entries })
    }

    /// All entries, oldest first.
    #[must_use]
    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    /// The last entry.
    #[must_use]
    pub fn last(&self) -> Option<EpochEntry> {
        self.entries.last().copied()
    }

    /// The last epoch, [`NO_EPOCH`] without one.
    #[must_use]
    pub fn last_epoch(&self) -> i32 {
        self.last().map_or(NO_EPOCH, |last| last.epoch)
    }

    /// The entry that holds a byte at `offset`, and where it ends: the last one has no end.
    #[must_use]
    pub fn at(&self, offset: u64) -> Option<(EpochEntry, Option<u64>)> {
        let behind = self.entries.partition_point(|entry| entry.start <= offset);
        let entry = *self.entries.get(behind.checked_sub(1)?)?;
        let end = self.entries.get(behind).map(|next| next.start);
        Some((entry, end))
    }

    /// Adds an entry behind the others; false where it is none that could follow them.
    pub fn append(&mut self, entry: EpochEntry) -> bool {
        let follows = match self.last() {
            Some(last) => entry.epoch > last.epoch && entry.start >= last.start,
            None => entry.epoch >= 0,
        };
        if follows {
            self.entries.push(entry);
        }
        follows
    }

    /// Forgets the entries of `epoch` and of those behind it; whether there were some.
    pub fn forget_from_epoch(&mut self, epoch: i32) -> bool {
        let kept = self.entries.partition_point(|entry| entry.epoch < epoch);
        self.keep_first(kept)
    }

    /// Forgets the entries that begin behind `end`, the end of the log: what they are about is not there.
    /// Whether there were some.
    pub fn forget_behind(&mut self, end: u64) -> bool {
        let kept = self.entries.partition_point(|entry| entry.start <= end);
        self.keep_first(kept)
    }

    fn keep_first(&mut self, kept: usize) -> bool {
        let is_less = kept < self.entries.len();
        self.entries.truncate(kept);
        is_less
    }

    /// Forgets the entries that end before `start`, the first byte that the log still has
    /// (`truncatePrefixByOffset` with the byte before it). Whether there were some.
    pub fn forget_before(&mut self, start: u64) -> bool {
        // The last entry has no end.
        let gone = self
            .entries
            .iter()
            .skip(1)
            .take_while(|next| next.start < start)
            .count();
        self.entries.drain(..gone);
        gone > 0
    }

    /// The last place up to which a log that ends at `end` is a copy of one with the epochs `other`, which
    /// ends at `other_end` (`findConsistentPoint`): where the first of the two ends the largest epoch that
    /// both begin at one place. `None` where they have none.
    #[must_use]
    pub fn consistent(&self, end: u64, other: &Self, other_end: u64) -> Option<Consistent> {
        let is_common = |entry: &&EpochEntry| {
            let at = other.entries.partition_point(|one| one.epoch < entry.epoch);
            other.entries.get(at) == Some(entry)
        };
        let common = self.entries.iter().rev().find(is_common)?;
        let offset = self
            .end_of(common.epoch, end)
            .min(other.end_of(common.epoch, other_end));
        Some(Consistent {
            offset,
            epoch: common.epoch,
        })
    }

    /// Where an epoch ends, in a log that ends at `end`.
    pub(crate) fn end_of(&self, epoch: i32, end: u64) -> u64 {
        let behind = self.entries.partition_point(|entry| entry.epoch <= epoch);
        self.entries.get(behind).map_or(end, |next| next.start)
    }

    /// The text of its file.
    #[must_use]
    pub fn to_text(&self) -> Vec<u8> {
        let lines: String = self
            .entries
            .iter()
            .map(|EpochEntry { epoch, start }| format!("{epoch}-{start}\n"))
            .collect();
        let crc = checksum(lines.as_bytes());
        format!("{}\n{crc}\n{lines}", self.entries.len()).into_bytes()
    }

    /// The table whose text this is.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn of_text(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > TEXT_LEN_MAX_BYTES {
            return Err(format!("{} bytes are no file of epochs", bytes.len()));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| "it is no text".to_owned())?;
        let (count, rest) = text.split_once('\n').ok_or("it ends in the first line")?;
        let (crc, lines) = rest.split_once('\n').ok_or("it ends in the second line")?;
        let number = |what: &str, text: &str| {
            let no_number = |_| format!("{what} is {text:?}");
            text.parse::<u32>().map_err(no_number)
        };
        let (count, crc) = (number("the count", count)?, number("the checksum", crc)?);
        if !lines.is_empty() && !lines.ends_with('\n') {
            return Err("it ends in the middle of a line".to_owned());
        }
        if crc != UNCHECKED && crc != checksum(lines.as_bytes()) {
            return Err("the checksum is another".to_owned());
        }
        let entries = lines.lines().map(entry_of).collect::<Result<Vec<_>, _>>()?;
        if u32::try_from(entries.len()) != Ok(count) {
            return Err(format!(
                "{count} entries are announced, {} are there",
                entries.len()
            ));
        }
        Self::of(entries)
    }
}

fn checksum(lines: &[u8]) -> u32 {
    crc32fast::hash(lines) & CRC_MASK
}

fn entry_of(line: &str) -> Result<EpochEntry, String> {
    let parts = line.split_once('-');
    let entry = parts.and_then(|(epoch, start)| {
        Some(EpochEntry {
            epoch: epoch.parse().ok()?,
            start: start.parse().ok()?,
        })
    });
    entry.ok_or_else(|| format!("{line:?} is no epoch with its start"))
}

impl From<Consistent> for LinkFault {
    /// A log that goes on behind the place must be cut there first.
    fn from(common: Consistent) -> Self {
        Self::CutNeeded {
            offset: common.offset,
            epoch: common.epoch,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn table(entries: &[(i32, u64)]) -> EpochTable {
        let entry = |&(epoch, start)| EpochEntry { epoch, start };
        EpochTable::of(entries.iter().map(entry).collect()).unwrap()
    }

    #[test]
    fn the_text_is_that_of_rocketmq() {
        // The example of CheckpointFile.
        let text = b"2\n773307083\n7-7000\n8-8000\n";
        let read = EpochTable::of_text(text).unwrap();
        assert_eq!(read, table(&[(7, 7_000), (8, 8_000)]));
        assert_eq!(read.to_text(), text);
        let unchecked = b"1\n0\n3-40\n";
        assert_eq!(EpochTable::of_text(unchecked).unwrap(), table(&[(3, 40)]));
    }

    #[test]
    fn a_text_that_is_torn_anywhere_is_refused() {
        let text = table(&[(1, 0), (2, 1_000), (5, 123_456_789)]).to_text();
        for cut in 0..text.len() {
            assert!(EpochTable::of_text(&text[..cut]).is_err(), "{cut}");
            let mut bad = text.clone();
            bad[cut] ^= 1;
            assert!(EpochTable::of_text(&bad).is_err(), "{cut}");
        }
        assert!(EpochTable::of_text(b"1\n0\n3-4-5\n").is_err());
        assert!(EpochTable::of_text(b"2\n0\n3-4\n3-9\n").is_err());
        assert!(EpochTable::of_text(b"1\n0\n3--4\n").is_err());
        assert!(EpochTable::of_text(&[0xff; 9]).is_err());
    }

    #[test]
    fn entries_of_length_zero_are_kept_and_none_goes_back() {
        let mut table = table(&[(1, 0)]);
        let entry = |epoch, start| EpochEntry { epoch, start };
        assert!(table.append(entry(2, 100)));
        assert!(table.append(entry(3, 100)));
        assert!(!table.append(entry(3, 200)));
        assert!(!table.append(entry(4, 99)));
        assert_eq!(table.at(99), Some((entry(1, 0), Some(100))));
        assert_eq!(table.at(100), Some((entry(3, 100), None)));
        assert_eq!(EpochTable::default().at(0), None);
        assert!(!EpochTable::default().append(entry(-1, 0)));
        assert!(table.forget_from_epoch(3));
        assert_eq!(table.last_epoch(), 2);
        assert!(!table.forget_behind(100));
        assert!(table.forget_behind(99));
        assert_eq!(table.last_epoch(), 1);
    }

    #[test]
    fn entries_go_with_the_files_that_they_are_about() {
        let mut table = table(&[(1, 0), (2, 100), (3, 100), (4, 300)]);
        assert!(!table.forget_before(100));
        assert!(table.forget_before(101));
        assert_eq!(table.entries().len(), 2);
        assert!(!table.forget_before(300));
        assert!(table.forget_before(1_000));
        assert_eq!(table.last_epoch(), 4);
        assert_eq!(table.entries().len(), 1);
    }

    #[test]
    fn the_consistent_point_is_the_end_of_the_largest_common_epoch() {
        let master = table(&[(1, 0), (3, 100)]);
        let of = |local: &[(i32, u64)], end| {
            let found = table(local).consistent(end, &master, 250);
            found.map(|found| (found.offset, found.epoch))
        };
        assert_eq!(of(&[(1, 0), (2, 100)], 150), Some((100, 1)));
        assert_eq!(of(&[(1, 0), (3, 100)], 150), Some((150, 3)));
        assert_eq!(of(&[(1, 0), (3, 100)], 400), Some((250, 3)));
        assert_eq!(of(&[(1, 0)], 70), Some((70, 1)));
        assert_eq!(of(&[(1, 0)], 170), Some((100, 1)));
        assert_eq!(of(&[(1, 0), (3, 90)], 170), Some((90, 1)));
        assert_eq!(of(&[(2, 0)], 70), None);
        assert_eq!(of(&[], 70), None);
        // Two masters in a row at one place: what the first of them wrote is not ours.
        let master = table(&[(1, 0), (2, 100), (3, 100)]);
        let found = table(&[(1, 0), (2, 100)]).consistent(180, &master, 300);
        assert_eq!(found.map(|found| found.offset), Some(100));
    }

    proptest! {
        #[test]
        fn every_table_comes_back_from_its_text(steps in prop::collection::vec((1..5i32, 0..3u64), 0..20)) {
            let mut table = EpochTable::default();
            let (mut epoch, mut start) = (0, 0);
            for (more, further) in steps {
                epoch += more;
                start += further * 77;
                let is_added = table.append(EpochEntry { epoch, start });
                prop_assert!(is_added);
            }
            prop_assert_eq!(EpochTable::of_text(&table.to_text()), Ok(table));
        }

        /// Two logs that one history has written in parts: up to the consistent point they are equal, and
        /// nothing that both have of the same masters is cut.
        #[test]
        fn logs_are_equal_up_to_the_consistent_point(
            common in prop::collection::vec(0..4u64, 1..6),
            ours in prop::collection::vec(0..4u64, 0..4),
            theirs in prop::collection::vec(0..4u64, 0..4),
        ) {
            // Who wrote each byte; epochs of the two sides are different numbers.
            let (mut one, mut two) = (Vec::new(), Vec::new());
            let (mut a, mut b) = (EpochTable::default(), EpochTable::default());
            let write = |log: &mut Vec<i32>, table: &mut EpochTable, epoch: i32, len: u64| {
                let start = log.len() as u64;
                assert!(table.append(EpochEntry { epoch, start }));
                log.extend((0..len).map(|_| epoch));
            };
            for (at, &len) in common.iter().enumerate() {
                write(&mut one, &mut a, at as i32, len);
                write(&mut two, &mut b, at as i32, len);
            }
            let shared = one.len() as u64;
            for (at, &len) in ours.iter().enumerate() {
                write(&mut one, &mut a, 100 + 2 * at as i32, len);
            }
            for (at, &len) in theirs.iter().enumerate() {
                write(&mut two, &mut b, 101 + 2 * at as i32, len);
            }
            let found = a.consistent(one.len() as u64, &b, two.len() as u64).unwrap();
            for end in 0..=one.len() {
                let is_copied = two.get(..end) == Some(&one[..end]);
                prop_assert_eq!(b.has(a.end_at(end as u64), two.len() as u64), is_copied);
            }
            let upto = found.offset as usize;
            prop_assert_eq!(&one[..upto], &two[..upto]);
            prop_assert_eq!(found.offset, shared);
        }
    }
}
