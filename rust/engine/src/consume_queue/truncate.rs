//! Taking units back: those of records that the log lost, and whole queues that start anew. What is
//! taken back reads as absent afterwards, so no stale unit can come back.

use std::sync::Arc;

use super::probe::first_at_or_above;
use super::queue::{AppendCase, Known, MIN_UNKNOWN, Queue, State};
use super::shared::Shared;
use super::unit::{UNIT_LEN, Unit};
use crate::config::QUEUE_UNIT_BYTES;
use crate::disk::{Disk, DiskFile, read_exact_at};
use crate::error::Result;
use crate::units::{PAGE_BYTES, round_up};

/// At which byte of a unit its size begins.
const UNIT_SIZE_AT: u64 = 8;

/// Takes units back.
pub(super) struct UnitCutter<D: Disk> {
    pub(super) shared: Shared<D>,
}

impl<D: Disk> UnitCutter<D> {
    /// As [`QueueTable::truncate_from`](super::QueueTable::truncate_from).
    pub(super) fn truncate_from(&self, physical_offset: u64) -> Result<()> {
        let cut = i64::try_from(physical_offset).unwrap_or(i64::MAX);
        for queue in self.shared.map.all() {
            let _gate = self.shared.pending.hold_writes();
            let is_below = {
                let state = queue.lock();
                state.known != Known::Names && state.last_physical_end <= cut
            };
            if is_below {
                continue;
            }
            let mut state = self.shared.loader.lock_known(&queue)?;
            if !state.is_gone && state.last_physical_end > cut {
                self.truncate_queue(&queue, &mut state, cut)?;
            }
        }
        Ok(())
    }

    fn truncate_queue(&self, queue: &Arc<Queue>, state: &mut State, cut: i64) -> Result<()> {
        let first = state.first_base / QUEUE_UNIT_BYTES;
        // Blanks at the start stay: they give where the queue goes on.
        let unit = |index| self.shared.segments.unit_of(queue, state, index);
        let (end, _) = first_at_or_above(first, state.end, cut, unit)?;
        self.take_back(queue, state, end)
    }

    /// Takes the units from the queue offset `end` on out of a queue. The write gate is held.
    pub(super) fn take_back(&self, queue: &Arc<Queue>, state: &mut State, end: u64) -> Result<()> {
        self.shared.extensions.forget(queue)?;
        self.drop_tail(state, end);
        state.epoch = state.epoch.wrapping_add(1);
        if end < state.written {
            state.set_end(end);
            self.cut_behind(queue, state)?;
        } else {
            state.end = end;
        }
        if state.min >= end {
            state.min = end;
            state.min_physical = MIN_UNKNOWN;
        }
        self.shared.loader.find_last_record(queue, state)
    }

    /// Takes what is at or above `end` out of the tail.
    fn drop_tail(&self, state: &mut State, end: u64) {
        let kept = end.saturating_sub(state.fill_to) as usize * UNIT_LEN;
        let before = state.tail.len();
        state.tail.truncate(kept);
        let dropped = (before - state.tail.len()) as u64;
        self.shared.pending.subtract_bytes(dropped);
        state.fill_to = state.fill_to.min(end.max(state.written));
    }

    /// Makes everything behind `state.end` absent in the files; true when something was there. The
    /// write gate is held, the tail is empty.
    pub(super) fn cut_behind(&self, queue: &Arc<Queue>, state: &mut State) -> Result<bool> {
        let len = self.shared.segments.file_len_bytes();
        let end = state.end * QUEUE_UNIT_BYTES;
        // A queue that begins behind 0 keeps one file, even empty: its name is its offset.
        let kept_end = if state.first_base > 0 {
            round_up(end, len).max(state.first_base + len)
        } else {
            round_up(end, len)
        };
        let mut is_cut = false;
        while state.files_end > kept_end {
            self.shared.witness.retire()?;
            self.remove_newest(queue, state)?;
            is_cut = true;
        }
        if end < state.files_end {
            is_cut |= self.cut_file(queue, state.files_end - len, end)?;
        }
        Ok(is_cut)
    }

    /// Removes the newest file, for good: were two removed before a sync, a crash could bring back
    /// the newer one alone, and the queue would seem to begin there.
    fn remove_newest(&self, queue: &Queue, state: &mut State) -> Result<()> {
        let base = state.files_end - self.shared.segments.file_len_bytes();
        self.shared.segments.remove_file(queue, base)?;
        state.files_end = base;
        self.shared
            .segments
            .disk()
            .sync_dir(&self.shared.segments.queue_dir(queue))
    }

    /// Makes the part of a file from `end` (a position in the queue) on zero. Never by cutting and
    /// extending the file: a crash between the two would leave a length that no queue file has.
    fn cut_file(&self, queue: &Arc<Queue>, base: u64, end: u64) -> Result<bool> {
        let from = end - base;
        let file = self.shared.segments.file(queue, base)?;
        let len = self.shared.segments.file_len_bytes();
        let part = (file.as_ref(), from);
        if self.shared.segments.is_absent_behind(queue, base, part)? {
            return Ok(false);
        }
        self.shared.witness.retire()?;
        let was_present = Self::make_absent(file.as_ref(), from)?;
        if !self.shared.segments.zero_behind(file.as_ref(), from)? && !was_present {
            return Ok(false);
        }
        self.shared
            .segments
            .note_taken_back(queue, base, (from, len));
        Ok(true)
    }

    /// Takes the size of the unit at `from` away, before anything else of it. A write of zeros that
    /// power loss tears could leave a unit with a size whose place is 0 already: that of a record
    /// at the start of the log, as it seems. Four aligned bytes are not torn; a unit across two
    /// pages needs the sync, since the pages may come to the disk in any order. True when there was
    /// a size.
    fn make_absent(file: &D::File, from: u64) -> Result<bool> {
        let mut size = [0; 4];
        read_exact_at(file, &mut size, from + UNIT_SIZE_AT)?;
        if size == [0; 4] {
            return Ok(false);
        }
        file.write_at(&[0; 4], from + UNIT_SIZE_AT)?;
        if from / PAGE_BYTES != (from + QUEUE_UNIT_BYTES - 1) / PAGE_BYTES {
            file.sync_data()?;
        }
        Ok(true)
    }

    /// Empties a queue so that it begins at `queue_offset`: its topic was deleted and made anew at
    /// that place of the log, or too much is missing before it. Its files are gone for good before
    /// the first new unit is written, or old units could stand behind new ones after a crash.
    pub(super) fn restart(&self, queue: &Arc<Queue>, queue_offset: u64, unit: &Unit) -> Result<()> {
        let _gate = self.shared.pending.hold_writes();
        let mut state = self.shared.loader.lock_known(queue)?;
        let append_case = state.append_case(queue_offset, unit);
        if state.is_gone || !matches!(append_case, AppendCase::Restart | AppendCase::Gap(_)) {
            return Ok(());
        }
        self.shared.witness.void()?;
        state.epoch = state.epoch.wrapping_add(1);
        while state.has_files() {
            self.remove_newest(queue, &mut state)?;
        }
        self.shared.pending.drop_tail(&mut state);
        state.begin_at(queue_offset, self.shared.segments.file_len_bytes());
        Ok(())
    }
}
