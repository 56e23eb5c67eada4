//! Taking units back: those of records that the log lost, and whole queues that start anew. What is
//! taken back reads as absent afterwards, so no stale unit can come back.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ledger::Dirty;
use super::load::first_at_or_above;
use super::queue::{Known, MIN_UNKNOWN, Place, Queue, State};
use super::table::QueueTable;
use super::unit::Unit;
use crate::config::QUEUE_UNIT_BYTES;
use crate::disk::{Disk, DiskFile, read_exact_at};
use crate::error::Result;
use crate::units::{PAGE_BYTES, round_up};

/// Bytes that are looked at, and made zero, at once: a page, so that holes stay holes.
const ZERO_BYTES: usize = PAGE_BYTES as usize;

/// Where the size stands in a unit.
const UNIT_SIZE_AT: u64 = 8;

impl<D: Disk> QueueTable<D> {
    /// Takes the units of all records at or above `physical_offset` out of every queue, in memory
    /// and in files (`ConsumeQueue.truncateDirtyLogicFiles`). A newest file that becomes empty is
    /// removed, but for one that alone still says at which offset the queue goes on.
    ///
    /// # Durability
    /// Gone for good after the next [`QueueTable::sync`] of 0 pages.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads and cuts files.
    pub fn truncate_from(&self, physical_offset: u64) -> Result<()> {
        let cut = i64::try_from(physical_offset).unwrap_or(i64::MAX);
        for queue in self.all() {
            let _gate = self.write_gate.lock();
            let is_below = {
                let state = queue.lock();
                state.known != Known::Names && state.last_physical_end <= cut
            };
            if is_below {
                continue;
            }
            let mut state = self.lock_known(&queue)?;
            if !state.is_gone && state.last_physical_end > cut {
                self.truncate_queue(&queue, &mut state, cut)?;
            }
        }
        Ok(())
    }

    fn truncate_queue(&self, queue: &Arc<Queue>, state: &mut State, cut: i64) -> Result<()> {
        self.forget_extension(queue)?;
        let first = state.first_base / QUEUE_UNIT_BYTES;
        // Blanks at the start stay: they say where the queue goes on.
        let unit = |index| self.unit_of(queue, state, index);
        let (end, _) = first_at_or_above(first, state.end, cut, unit)?;
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
        self.find_last_record(queue, state)
    }

    /// Takes what is at or above `end` out of the tail.
    fn drop_tail(&self, state: &mut State, end: u64) {
        let kept = end.saturating_sub(state.fill_to) as usize * super::unit::UNIT_LEN;
        let before = state.tail.len();
        state.tail.truncate(kept);
        let dropped = (before - state.tail.len()) as u64;
        self.pending.bytes.fetch_sub(dropped, Ordering::Relaxed);
        state.fill_to = state.fill_to.min(end.max(state.written));
    }

    /// Makes everything behind `state.end` absent in the files; true when something was there. The
    /// write gate is held, the tail is empty.
    pub(super) fn cut_behind(&self, queue: &Arc<Queue>, state: &mut State) -> Result<bool> {
        let len = self.file_len_bytes;
        let end = state.end * QUEUE_UNIT_BYTES;
        // A queue that begins behind 0 keeps one file, even empty: its name is its offset.
        let kept_end = if state.first_base > 0 {
            round_up(end, len).max(state.first_base + len)
        } else {
            round_up(end, len)
        };
        let mut is_cut = false;
        while state.files_end > kept_end {
            self.retire_manifest()?;
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
        let base = state.files_end - self.file_len_bytes;
        self.remove_file(queue, base)?;
        state.files_end = base;
        self.disk.sync_dir(&self.queue_dir(queue))
    }

    /// Makes the part of a file from `end` (a position in the queue) on zero. Never by cutting and
    /// extending the file: a crash between the two would leave a length that no queue file has.
    fn cut_file(&self, queue: &Arc<Queue>, base: u64, end: u64) -> Result<bool> {
        let from = end - base;
        let path = self.file_path(queue, base);
        let file = self.files.existing((queue.uid(), base), || path.clone())?;
        let len = self.file_len_bytes;
        if self.is_absent_behind(&path, file.as_ref(), from, len)? {
            return Ok(false);
        }
        self.retire_manifest()?;
        let was_present = Self::make_absent(file.as_ref(), from)?;
        if !Self::zero_behind(file.as_ref(), from, len)? && !was_present {
            return Ok(false);
        }
        self.ledger.note(Dirty {
            queue: Arc::clone(queue),
            base,
            from,
            to: len,
            oldest_ms: i64::MIN,
            is_new: false,
        });
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

    /// Writes zeros over what is not zero from `from` on; false when there was nothing.
    pub(super) fn zero_behind(file: &D::File, from: u64, file_len_bytes: u64) -> Result<bool> {
        let mut is_changed = false;
        let mut buffer = vec![0; ZERO_BYTES];
        let mut position = from;
        while position < file_len_bytes {
            let len = (file_len_bytes - position).min(ZERO_BYTES as u64) as usize;
            let bytes = &mut buffer[..len];
            read_exact_at(file, bytes, position)?;
            if bytes.iter().any(|byte| *byte != 0) {
                bytes.fill(0);
                file.write_at(bytes, position)?;
                is_changed = true;
            }
            position += len as u64;
        }
        Ok(is_changed)
    }

    /// True when the file surely holds nothing from `from` on: the rest of the page is zero and the
    /// file occupies what the pages before need, neither more nor (a compressing file system) less.
    pub(super) fn is_absent_behind(
        &self,
        path: &std::path::Path,
        file: &D::File,
        from: u64,
        file_len_bytes: u64,
    ) -> Result<bool> {
        let pages_end = round_up(from, PAGE_BYTES).min(file_len_bytes);
        let stat = self.disk.stat(path)?;
        if stat.is_none_or(|stat| stat.allocated_bytes != round_up(from, PAGE_BYTES)) {
            return Ok(false);
        }
        let mut rest = vec![0; (pages_end - from) as usize];
        read_exact_at(file, &mut rest, from)?;
        Ok(rest.iter().all(|byte| *byte == 0))
    }

    /// Removes one file of a queue and everything that knows it.
    pub(super) fn remove_file(&self, queue: &Queue, base: u64) -> Result<()> {
        let key = (queue.uid(), base);
        let path = self.file_path(queue, base);
        if self.disk.stat(&path)?.is_some() {
            self.disk.unlink(&path)?;
        }
        self.files.close(key);
        self.ledger.forget(key);
        Ok(())
    }

    /// Empties a queue so that it begins at `queue_offset`: its topic was deleted and made anew at
    /// that place of the log, or too much is missing before it. Its files are gone for good before
    /// the first new unit is written, or old units could stand behind new ones after a crash.
    pub(super) fn restart(&self, queue: &Arc<Queue>, queue_offset: u64, unit: &Unit) -> Result<()> {
        let _gate = self.write_gate.lock();
        let mut state = self.lock_known(queue)?;
        let place = state.place(queue_offset, unit);
        if state.is_gone || !matches!(place, Place::Restart | Place::Gap(_)) {
            return Ok(());
        }
        self.void_witness()?;
        state.epoch = state.epoch.wrapping_add(1);
        while state.has_files() {
            self.remove_newest(queue, &mut state)?;
        }
        let dropped = state.tail.len() as u64;
        self.pending.bytes.fetch_sub(dropped, Ordering::Relaxed);
        state.begin_at(queue_offset, self.file_len_bytes);
        Ok(())
    }
}
