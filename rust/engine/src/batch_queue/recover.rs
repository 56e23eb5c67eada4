//! What the batch queues hold after the last end of the store: a function of their files. Called by
//! the engine while it opens, before anyone appends.

use std::sync::Arc;

use super::queue::{Queue, State};
use super::read::BatchQueue;
use super::unit::{BatchUnit, UNIT_LEN};
use crate::config::BATCH_UNIT_BYTES;
use crate::disk::{Disk, DiskFile};
use crate::error::Result;
use crate::queue_store::{Known, Pending, Segments, first_not};
use crate::units::parse_offset_file_name;

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

type BatchSegments<D> = Segments<D, BatchUnit>;

/// Looks at all queues after the end of a store.
pub(super) struct BatchRecovery<'a, D: Disk> {
    pub(super) segments: &'a Arc<BatchSegments<D>>,
    pub(super) pending: &'a Pending<BatchUnit>,
    pub(super) trust: Trust,
    /// Units of records at or above are taken away.
    pub(super) log_end: u64,
}

impl<D: Disk> BatchRecovery<'_, D> {
    /// Looks where a queue ends, and takes away what is not trusted; `is_of_log` answers whether the
    /// log has the record of a unit.
    pub(super) fn recover(
        &self,
        queue: &Arc<Queue>,
        is_of_log: impl Fn(&BatchQueue<D>, &BatchUnit) -> Result<bool>,
    ) -> Result<()> {
        let segments = self.segments;
        let _gate = self.pending.hold_writes();
        let handle = BatchQueue::new(Arc::clone(queue), Arc::clone(segments));
        let mut state = queue.lock();
        let first = state.first();
        let end = match self.trust {
            Trust::All => clean_end(segments, queue, &state, self.log_end)?,
            Trust::Below(safe) => {
                let walked = walked_end(segments, queue, &state, safe.min(self.log_end))?;
                proven_end(segments, queue, (first, walked), |unit| {
                    is_of_log(&handle, unit)
                })?
            }
        };
        *state = State::of_files(state.first_base, state.files_end);
        state.set_end(end);
        state.synced = end;
        state.known = Known::All;
        if end > first
            && let Some(last) = segments.present_unit(queue, end - 1)?
        {
            state.own.end = last.end();
            state.last_physical_end = last.physical_end().cast_signed();
        }
        let is_left_behind = match self.trust {
            Trust::All => {
                end * BATCH_UNIT_BYTES < state.files_end
                    && segments.present_unit(queue, end)?.is_some()
            }
            Trust::Below(_) => true,
        };
        if is_left_behind {
            cut_behind(segments, queue, &mut state)?;
        }
        Ok(())
    }
}

/// Makes everything behind the last unit absent in the files.
fn cut_behind<D: Disk>(
    segments: &BatchSegments<D>,
    queue: &Queue,
    state: &mut State,
) -> Result<()> {
    let end = state.end * BATCH_UNIT_BYTES;
    let kept = if end > state.first_base {
        end.next_multiple_of(segments.file_len_bytes())
    } else {
        state.first_base
    };
    remove_from(segments, queue, state, kept)?;
    if kept == state.first_base {
        // Without a unit it may begin anywhere: as a queue that never had a file.
        *state = State::empty();
    } else if end < kept {
        zero_behind(segments, queue, end)?;
    }
    Ok(())
}

/// Removes the files from a position on, newest first, each for good. The write gate is held.
pub(super) fn remove_from<D: Disk>(
    segments: &BatchSegments<D>,
    queue: &Queue,
    state: &mut State,
    from: u64,
) -> Result<()> {
    let entries = segments.disk().list(&segments.queue_dir(queue))?;
    for entry in entries.iter().rev().filter(|entry| !entry.is_dir) {
        if let Some(base) = parse_offset_file_name(&entry.name).filter(|base| *base >= from) {
            segments.remove_file_for_good(queue, base)?;
        }
    }
    state.files_end = state.files_end.min(from);
    Ok(())
}

/// Ordinal behind the last unit of a record below `log_end`, after a clean end.
fn clean_end<D: Disk>(
    segments: &BatchSegments<D>,
    queue: &Queue,
    state: &State,
    log_end: u64,
) -> Result<u64> {
    first_not(state.first(), state.files_end / BATCH_UNIT_BYTES, |at| {
        let unit = segments.present_unit(queue, at)?;
        Ok(unit.is_some_and(|unit| unit.physical_offset < log_end))
    })
}

/// Ordinal behind the last unit that is there, belongs to a record below `safe`, and follows the one
/// before it.
fn walked_end<D: Disk>(
    segments: &BatchSegments<D>,
    queue: &Queue,
    state: &State,
    safe: u64,
) -> Result<u64> {
    if !state.has_files() {
        return Ok(state.first());
    }
    let files = (state.first_base, state.files_end);
    let is_safe = |unit: &BatchUnit| unit.physical_offset < safe;
    let mut at = segments.last_safe_file(queue, files, is_safe)? / BATCH_UNIT_BYTES;
    let mut before = if at > state.first() {
        segments.present_unit(queue, at - 1)?
    } else {
        None
    };
    let per_file = segments.units_per_file();
    while at * BATCH_UNIT_BYTES < state.files_end {
        let count = WALK_UNITS.min(per_file - at % per_file);
        let mut bytes = vec![0; count as usize * UNIT_LEN];
        segments.read_bytes(queue, at * BATCH_UNIT_BYTES, &mut bytes)?;
        let (units, _rest) = bytes.as_chunks::<UNIT_LEN>();
        for bytes in units {
            let unit = BatchUnit::decode(bytes).filter(is_safe);
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

/// `end` without units at the end of which the log has no record. Those before the last one that it
/// has were synced with it, or before.
fn proven_end<D: Disk>(
    segments: &BatchSegments<D>,
    queue: &Queue,
    (first, end): (u64, u64),
    is_of_log: impl Fn(&BatchUnit) -> Result<bool>,
) -> Result<u64> {
    let mut end = end;
    while end > first {
        match segments.present_unit(queue, end - 1)? {
            Some(unit) if is_of_log(&unit)? => break,
            _ => end -= 1,
        }
    }
    Ok(end)
}

/// Makes one file absent from a position in the queue on, and that durable: a stale unit behind new
/// ones would one day lie below what counts as synced.
fn zero_behind<D: Disk>(segments: &BatchSegments<D>, queue: &Queue, from: u64) -> Result<()> {
    let start = from % segments.file_len_bytes();
    let file = segments.file(queue, from - start)?;
    if !segments.has_bytes_behind(file.as_ref(), start)? {
        return Ok(());
    }
    // The second half of the first unit goes before its first one, which names its record: torn the
    // other way it could claim a place far below its own.
    file.write_at(&[0; UNIT_LEN - HALVES_AT as usize], start + HALVES_AT)?;
    file.sync_data()?;
    file.write_at(&[0; HALVES_AT as usize], start)?;
    segments.zero_behind(file.as_ref(), start)?;
    file.sync_data()
}
