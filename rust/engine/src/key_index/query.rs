//! Finding records by key and time (`IndexService.queryOffset`, `IndexFile.selectPhyOffset`). Any
//! thread. Hash collisions are not removed: the caller compares the keys of the records.

use std::sync::Arc;

use mqcore_record::index_key_hash;

use super::file::IndexFile;
use super::table::KeyIndex;
use crate::clock::Clock;
use crate::disk::{Disk, DiskFile};
use crate::error::Result;

/// What a query found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueryAnswer {
    /// Places of records that may carry the key, newest first. A record that has the key twice is
    /// in it twice.
    pub physical_offsets: Vec<u64>,
    /// Store time of the latest record in the index, ms; 0 when it is empty.
    pub last_update_timestamp_ms: i64,
    /// Its physical offset.
    pub last_update_physical_offset: u64,
}

/// What is looked for.
struct Wanted {
    hash: u32,
    max: usize,
    begin_ms: i64,
    end_ms: i64,
}

impl<D: Disk, C: Clock> KeyIndex<D, C> {
    /// The newest `max` records (at most `maxMsgsNumBatch`) of the topic with the key that were
    /// stored between `begin_ms` and `end_ms`, both inclusive. The index keeps whole seconds after
    /// the begin of a file, so a record counts as stored up to one second before it was.
    ///
    /// # Blocking
    /// Reads the disk where the page cache has not the pages: two reads per entry of the slot.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn query(
        &self,
        topic: &[u8],
        key: &[u8],
        max: usize,
        begin_ms: i64,
        end_ms: i64,
    ) -> Result<QueryAnswer> {
        let wanted = Wanted {
            hash: index_key_hash(topic, key),
            max: max.min(self.query_max),
            begin_ms,
            end_ms,
        };
        let files: Vec<_> = self.files.read().iter().map(Arc::clone).collect();
        let mut answer = QueryAnswer::default();
        if let Some(newest) = files.last() {
            answer.last_update_timestamp_ms = newest.end_timestamp_ms();
            answer.last_update_physical_offset = newest.end_offset();
        }
        for file in files.iter().rev() {
            if file.next_number() <= 1 {
                // Its times are preset or zero: they say nothing of the files before it.
                continue;
            }
            if overlaps(file, &wanted) {
                walk(file, &wanted, &mut answer.physical_offsets)?;
            }
            if file.begin_timestamp_ms() < begin_ms || answer.physical_offsets.len() >= wanted.max {
                break;
            }
        }
        Ok(answer)
    }
}

/// `IndexFile.isTimeMatched`.
fn overlaps<F: DiskFile>(file: &IndexFile<F>, wanted: &Wanted) -> bool {
    let (begin, end) = (file.begin_timestamp_ms(), file.end_timestamp_ms());
    let (from, to) = (wanted.begin_ms, wanted.end_ms);
    (from < begin && to > end) || (begin..=end).contains(&from) || (begin..=end).contains(&to)
}

/// Follows a slot from its newest entry. Numbers only fall on the way, so the walk ends whatever
/// the file holds.
fn walk<F: DiskFile>(file: &IndexFile<F>, wanted: &Wanted, found: &mut Vec<u64>) -> Result<()> {
    let mut number = file.newest_in_slot(wanted.hash)?;
    while number > 0 && found.len() < wanted.max {
        let entry = file.entry(number)?;
        if entry.seconds < 0 {
            break;
        }
        let begin = file.begin_timestamp_ms();
        let time_ms = begin.saturating_add(i64::from(entry.seconds) * 1000);
        let is_in_time = (wanted.begin_ms..=wanted.end_ms).contains(&time_ms);
        if is_in_time
            && entry.key_hash == wanted.hash
            && let Ok(physical_offset) = u64::try_from(entry.physical_offset)
        {
            found.push(physical_offset);
        }
        if time_ms < wanted.begin_ms {
            break;
        }
        match u32::try_from(entry.previous) {
            Ok(previous) if previous < number => number = previous,
            _ => break,
        }
    }
    Ok(())
}
