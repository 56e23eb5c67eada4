//! The first look at a queue: what its files hold. Reads only.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::probe::first_live;
use super::queue::{Known, NO_RECORD, Queue, State};
use super::unit::Unit;
use crate::config::QUEUE_UNIT_BYTES;
use crate::disk::Disk;
use crate::error::Result;
use crate::lock::MutexGuard;
use crate::notice::Notices;
use crate::queue_store::{Segments, file_range};

/// Looks queues up at their first use.
pub(super) struct QueueLoader<D: Disk> {
    segments: Arc<Segments<D, Unit>>,
    /// First byte of the log, as last set: units below it count for nothing.
    log_min: AtomicU64,
    notices: Arc<Notices>,
}

impl<D: Disk> QueueLoader<D> {
    pub(super) fn new(segments: Arc<Segments<D, Unit>>, notices: Arc<Notices>) -> Self {
        Self {
            segments,
            log_min: AtomicU64::new(0),
            notices,
        }
    }

    /// The first byte of the log, as last set.
    pub(super) fn log_min(&self) -> i64 {
        self.log_min.load(Ordering::Acquire).cast_signed()
    }

    /// The log begins here now.
    pub(super) fn set_log_min(&self, log_min: u64) {
        self.log_min.store(log_min, Ordering::Release);
    }

    /// The locked state of a queue after its first look. A deleted queue is given as it is.
    pub(super) fn lock_known<'a>(&self, queue: &'a Arc<Queue>) -> Result<MutexGuard<'a, State>> {
        let mut state = queue.lock();
        if state.known != Known::All && !state.is_gone {
            self.look(queue, &mut state)?;
        }
        Ok(state)
    }

    /// As [`QueueLoader::lock_known`], for whoever wants bounds and ends alone: what the manifest
    /// has is enough, so that a start with very many queues looks at no directory.
    pub(super) fn lock_bounds<'a>(&self, queue: &'a Arc<Queue>) -> Result<MutexGuard<'a, State>> {
        let state = queue.lock();
        if state.known == Known::Manifest {
            return Ok(state);
        }
        drop(state);
        self.lock_known(queue)
    }

    /// Brings `state` to [`Known::All`].
    fn look(&self, queue: &Queue, state: &mut State) -> Result<()> {
        let dir = self.segments.queue_dir(queue);
        if state.known == Known::Manifest {
            let range = file_range(
                self.segments.disk(),
                &dir,
                self.segments.length(),
                &self.notices,
            )?;
            if range.files_end == state.files_end && range.first_base <= state.first_base {
                // After a power loss the name of a file that retention removed may have come back.
                state.first_base = range.first_base;
                self.find_min(queue, state)?;
                state.known = Known::All;
                return Ok(());
            }
            let at = dir.display();
            self.notices.warn(format!(
                "the files in {at} are not those of the clean stop: read again"
            ));
            *state = State::of_files(range.first_base, range.files_end);
        }
        self.find_end(queue, state)?;
        self.find_last_record(queue, state)?;
        self.find_min(queue, state)?;
        state.known = Known::All;
        Ok(())
    }

    /// Sets the end behind the last present unit: after a clean stop the units of a file are a
    /// prefix of it.
    fn find_end(&self, queue: &Queue, state: &mut State) -> Result<()> {
        let len = self.segments.file_len_bytes();
        let mut base = state.files_end;
        let mut end = state.first_base / QUEUE_UNIT_BYTES;
        while base > state.first_base {
            base -= len;
            let first = base / QUEUE_UNIT_BYTES;
            let found = self
                .segments
                .first_not_in_file(queue, base, Unit::is_present)?;
            if found > first || base == state.first_base {
                end = found;
                break;
            }
            // An empty newest file still gives where the queue ends.
            end = first;
            if self.segments.file_unit(queue, first - 1)?.is_present() {
                break;
            }
        }
        let end = self
            .segments
            .end_behind(queue, state, end, Unit::is_present)?;
        state.set_end(end);
        Ok(())
    }

    /// Sets the end in the log of the last unit that is no blank.
    pub(super) fn find_last_record(&self, queue: &Queue, state: &mut State) -> Result<()> {
        let first = state.first_base / QUEUE_UNIT_BYTES;
        state.last_physical_end = NO_RECORD;
        for index in (first..state.end).rev() {
            let unit = self.segments.unit_of(queue, state, index)?;
            if !unit.is_blank() {
                state.last_physical_end = unit.physical_end();
                break;
            }
        }
        Ok(())
    }

    /// Sets the minimum to the first unit of a record that the log still has; to the end when
    /// there is none (`ConsumeQueue.correctMinOffset`). Blanks count for nothing.
    pub(super) fn find_min(&self, queue: &Queue, state: &mut State) -> Result<()> {
        let log_min = self.log_min();
        let unit = |index| self.segments.unit_of(queue, state, index);
        let found = first_live(state.min, state.end, log_min, unit)?;
        (state.min, state.min_physical) = found;
        Ok(())
    }
}
