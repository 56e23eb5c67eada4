//! What the batch queues hold after the last end of the store: a function of their files. Called by
//! the engine while it opens, before anyone appends.

use super::queue::{BatchQueue, State};
use super::table::BatchTable;
use super::unit::{BatchUnit, UNIT_LEN};
use crate::config::BATCH_UNIT_BYTES;
use crate::disk::{Disk, DiskFile, Open, read_exact_at};
use crate::error::Result;
use crate::units::{PAGE_BYTES, parse_offset_file_name};

/// Units read at once while they are walked, some 180 KiB.
const WALK_UNITS: u64 = 4_096;
/// Where a unit is cut in two, when one is taken away: behind place and length of its record.
const HALVES_AT: u64 = 12;

/// How far the files are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The store was stopped cleanly: the units of a queue are a prefix of its files.
    All,
    /// Only units of records below this physical offset were surely synced; behind them there may
    /// be holes, and units that a hole separates from the rest. 0 trusts nothing.
    Below(u64),
}

impl<D: Disk> BatchTable<D> {
    /// Looks where every queue ends, and takes away what is not trusted or belongs to records at or
    /// above `log_end`, so that no stale unit can come back. Where not all is trusted, `is_of_log` says
    /// whether the log has the record of a unit: one that was torn may claim any place.
    ///
    /// # Durability
    /// What was taken away is gone for good.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads, cuts and syncs files.
    pub fn recover(
        &self,
        trust: Trust,
        log_end: u64,
        is_of_log: impl Fn(&BatchQueue<D>, &BatchUnit) -> Result<bool>,
    ) -> Result<()> {
        for queue in self.all() {
            let _gate = self.write_gate.lock();
            let mut state = queue.lock();
            let len = match trust {
                Trust::All => clean_len(&queue, &state, log_end)?,
                Trust::Below(safe) => {
                    let walked = walked_len(&queue, &state, safe.min(log_end))?;
                    proven_len(&queue, &state, walked, &is_of_log)?
                }
            };
            let first = state.first;
            *state = State::of_files(first, state.room);
            state.written = len;
            state.synced = len;
            if len > first
                && let Some(last) = queue.file_unit(len - 1)?
            {
                state.end = last.end();
                state.last_physical = Some(last.physical_offset);
            }
            let is_left_behind = match trust {
                Trust::All => len < state.room && queue.file_unit(len)?.is_some(),
                Trust::Below(_) => true,
            };
            if is_left_behind {
                self.cut_behind(&queue, &mut state)?;
            }
        }
        self.make_dir()
    }

    /// Makes everything behind the last unit absent in the files.
    fn cut_behind(&self, queue: &BatchQueue<D>, state: &mut State<D>) -> Result<()> {
        let kept = if state.written > state.first {
            state.written.next_multiple_of(queue.file_units)
        } else {
            state.first
        };
        self.remove_from(queue, state, kept)?;
        if kept == state.first {
            // Without a unit it may begin anywhere: as a queue that never had a file.
            *state = State::of_files(0, 0);
        } else if state.written < kept {
            zero_behind(queue, state.written)?;
        }
        Ok(())
    }

    /// Removes the files from an ordinal on, newest first, each for good: were two removed before a
    /// sync, a crash could bring back the newer one alone, and the queue would seem to begin there.
    /// The write gate is held.
    pub(super) fn remove_from(
        &self,
        queue: &BatchQueue<D>,
        state: &mut State<D>,
        from: u64,
    ) -> Result<()> {
        for entry in self.disk.list(&queue.dir)?.iter().rev() {
            let base = parse_offset_file_name(&entry.name).filter(|_| !entry.is_dir);
            if base.is_some_and(|base| base / BATCH_UNIT_BYTES >= from) {
                self.disk.unlink(&queue.dir.join(&entry.name))?;
                self.disk.sync_dir(&queue.dir)?;
            }
        }
        state.room = state.room.min(from);
        Ok(())
    }
}

/// Ordinal behind the last unit of a record below `log_end`, after a clean end.
fn clean_len<D: Disk>(queue: &BatchQueue<D>, state: &State<D>, log_end: u64) -> Result<u64> {
    let (mut low, mut high) = (state.first, state.room);
    while low < high {
        let middle = low + (high - low) / 2;
        let unit = queue.file_unit(middle)?;
        if unit.is_some_and(|unit| unit.physical_offset < log_end) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// Ordinal behind the last unit that is there, belongs to a record below `safe`, and follows the one
/// before it.
fn walked_len<D: Disk>(queue: &BatchQueue<D>, state: &State<D>, safe: u64) -> Result<u64> {
    if state.room == state.first {
        return Ok(state.first);
    }
    // A file whose first unit was synced follows files that were synced as a whole: units are
    // appended in the order of the log.
    let mut at = state.room - queue.file_units;
    let is_safe = |unit: Option<BatchUnit>| unit.is_some_and(|unit| unit.physical_offset < safe);
    while at > state.first && !is_safe(queue.file_unit(at)?) {
        at -= queue.file_units;
    }
    let mut before = if at > state.first {
        queue.file_unit(at - 1)?
    } else {
        None
    };
    while at < state.room {
        let base = queue.base_of(at);
        let count = WALK_UNITS.min(queue.file_units - (at - base));
        let mut bytes = vec![0; count as usize * UNIT_LEN];
        let file = queue.disk.open(&queue.file_path(base), Open::Read)?;
        read_exact_at(&file, &mut bytes, (at - base) * BATCH_UNIT_BYTES)?;
        let (units, _rest) = bytes.as_chunks::<UNIT_LEN>();
        for bytes in units {
            let unit = BatchUnit::decode(bytes).filter(|unit| unit.physical_offset < safe);
            let follows = |unit: &BatchUnit| {
                before.is_none_or(|before| {
                    unit.physical_offset >= before.physical_end() && unit.base >= before.end()
                })
            };
            let Some(unit) = unit.filter(follows) else {
                return Ok(at);
            };
            before = Some(unit);
            at += 1;
        }
    }
    Ok(at)
}

/// `len` without units at the end of which the log has no record. Those before the last one that it
/// has were synced with it, or before.
fn proven_len<D: Disk>(
    queue: &BatchQueue<D>,
    state: &State<D>,
    len: u64,
    is_of_log: impl Fn(&BatchQueue<D>, &BatchUnit) -> Result<bool>,
) -> Result<u64> {
    let mut len = len;
    while len > state.first {
        match queue.file_unit(len - 1)? {
            Some(unit) if is_of_log(queue, &unit)? => break,
            _ => len -= 1,
        }
    }
    Ok(len)
}

/// Makes the units of one file from an ordinal on absent, and that durable: a stale unit behind new
/// ones would one day lie below what counts as synced.
fn zero_behind<D: Disk>(queue: &BatchQueue<D>, from: u64) -> Result<()> {
    let base = queue.base_of(from);
    let file = queue.disk.open(&queue.file_path(base), Open::Write)?;
    let start = (from - base) * BATCH_UNIT_BYTES;
    let Some(first) = first_page_with_bytes(&file, start, queue.file_len_bytes())? else {
        return Ok(());
    };
    // The second half of the first unit goes before its first one, which says whose unit it is: torn
    // the other way it could claim a place far below its own.
    let half = start + HALVES_AT;
    file.write_at(&[0; UNIT_LEN - HALVES_AT as usize], half)?;
    file.sync_data()?;
    file.write_at(&[0; HALVES_AT as usize], start)?;
    let mut at = first;
    while at < queue.file_len_bytes() {
        let len = (PAGE_BYTES - at % PAGE_BYTES).min(queue.file_len_bytes() - at);
        let mut page = vec![0; len as usize];
        read_exact_at(&file, &mut page, at)?;
        if page.iter().any(|byte| *byte != 0) {
            page.fill(0);
            file.write_at(&page, at)?;
        }
        at += len;
    }
    file.sync_data()
}

/// Where, from a position on, the first page begins that holds anything; `None` when none does.
fn first_page_with_bytes(
    file: &impl DiskFile,
    start: u64,
    file_len_bytes: u64,
) -> Result<Option<u64>> {
    let mut at = start;
    while at < file_len_bytes {
        let len = (PAGE_BYTES - at % PAGE_BYTES).min(file_len_bytes - at);
        let mut page = vec![0; len as usize];
        read_exact_at(file, &mut page, at)?;
        if page.iter().any(|byte| *byte != 0) {
            return Ok(Some(at));
        }
        at += len;
    }
    Ok(None)
}
