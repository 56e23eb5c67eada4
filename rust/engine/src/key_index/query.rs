//! Finding records by key and time (`IndexService.queryOffset`, `IndexFile.selectPhyOffset`). Any
//! thread. Hash collisions are not removed: the caller compares the keys of the records.

use super::file::IndexFile;
use super::files::Files;
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
pub(super) struct Wanted {
    pub(super) hash: u32,
    pub(super) max: usize,
    pub(super) begin_ms: i64,
    pub(super) end_ms: i64,
}

/// Looks in all files, the newest first.
///
/// # Errors
/// [`crate::error::Error::Io`].
pub(super) fn find<D: Disk>(files: &Files<D>, wanted: &Wanted) -> Result<QueryAnswer> {
    let mut answer = QueryAnswer::default();
    if let Some(newest) = files.last() {
        answer.last_update_timestamp_ms = newest.end_timestamp_ms();
        answer.last_update_physical_offset = newest.end_offset();
    }
    for file in files.iter().rev() {
        if file.next_number() <= 1 {
            // Its times are preset or zero: they prove nothing of the files before it.
            continue;
        }
        if overlaps(file, wanted) {
            walk(file, wanted, &mut answer.physical_offsets)?;
        }
        if file.begin_timestamp_ms() < wanted.begin_ms
            || answer.physical_offsets.len() >= wanted.max
        {
            break;
        }
    }
    Ok(answer)
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
