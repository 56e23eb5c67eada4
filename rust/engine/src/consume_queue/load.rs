//! The first look at a queue: what its files hold. Also the reading of single units for whoever
//! searches a queue. Reads only.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::lock::MutexGuard;

use super::queue::{Known, MIN_UNKNOWN, NO_RECORD, Queue, State};
use super::table::QueueTable;
use super::unit::{UNIT_LEN, Unit};
use super::walk::file_range;
use crate::config::QUEUE_UNIT_BYTES;
use crate::disk::{Disk, read_exact_at};
use crate::error::Result;
use crate::units::PAGE_BYTES;

/// Units that are looked at together: those of one page.
const PROBE_UNITS: u64 = PAGE_BYTES / QUEUE_UNIT_BYTES;

impl State {
    /// True when the state needs no look at the files before it is used for appending or reading.
    #[inline]
    pub(super) fn is_known(&self) -> bool {
        self.known == Known::All && !self.is_gone
    }
}

impl<D: Disk> QueueTable<D> {
    /// The locked state of a queue after its first look. A deleted queue is given as it is.
    pub(super) fn lock_known<'a>(&self, queue: &'a Arc<Queue>) -> Result<MutexGuard<'a, State>> {
        let mut state = queue.lock();
        if state.known != Known::All && !state.is_gone {
            self.look(queue, &mut state)?;
        }
        Ok(state)
    }

    /// As [`QueueTable::lock_known`], for whoever wants bounds and ends alone: what the manifest
    /// says is enough, so that a start with very many queues looks at no directory.
    pub(super) fn lock_told<'a>(&self, queue: &'a Arc<Queue>) -> Result<MutexGuard<'a, State>> {
        let state = queue.lock();
        if state.known == Known::Manifest {
            return Ok(state);
        }
        drop(state);
        self.lock_known(queue)
    }

    /// Brings `state` to [`Known::All`].
    fn look(&self, queue: &Queue, state: &mut State) -> Result<()> {
        let dir = self.queue_dir(queue);
        if state.known == Known::Manifest {
            let range = file_range(&self.disk, &dir, self.file_len_bytes, &self.notices)?;
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
        let len = self.file_len_bytes;
        let mut base = state.files_end;
        let mut end = state.first_base / QUEUE_UNIT_BYTES;
        while base > state.first_base {
            base -= len;
            let first = base / QUEUE_UNIT_BYTES;
            let found = self.first_not_in_file(queue, base, Unit::is_present)?;
            if found > first || base == state.first_base {
                end = found;
                break;
            }
            // An empty newest file still says where the queue ends.
            end = first;
            if self.file_unit(queue, first - 1)?.is_present() {
                break;
            }
        }
        let end = self.end_behind(queue, state, end, Unit::is_present)?;
        state.set_end(end);
        Ok(())
    }

    /// One after the last unit from `end` on that holds; `end` where none does. What stands behind a
    /// place that was found to be the end makes it a hole of damaged units.
    pub(super) fn end_behind(
        &self,
        queue: &Queue,
        state: &State,
        end: u64,
        holds: impl Fn(&Unit) -> bool,
    ) -> Result<u64> {
        let len = self.file_len_bytes;
        let mut found = end;
        let mut position = end * QUEUE_UNIT_BYTES;
        let mut buffer = vec![0; PROBE_UNITS as usize * UNIT_LEN];
        while position < state.files_end {
            let in_file = position % len;
            let base = position - in_file;
            let path = self.file_path(queue, base);
            let file = self.files.existing((queue.uid(), base), || path.clone())?;
            let is_first_part = in_file == 0 || position == end * QUEUE_UNIT_BYTES;
            if is_first_part && self.is_absent_behind(&path, file.as_ref(), in_file, len)? {
                position = base + len;
                continue;
            }
            let part = (len - in_file).min(buffer.len() as u64) as usize;
            let bytes = &mut buffer[..part];
            read_exact_at(file.as_ref(), bytes, in_file)?;
            for (at, unit) in (position / QUEUE_UNIT_BYTES..).zip(Unit::decode_all(bytes)) {
                if holds(&unit) {
                    found = at + 1;
                }
            }
            position += part as u64;
        }
        Ok(found)
    }

    /// Sets the end in the log of the last unit that is no blank.
    pub(super) fn find_last_record(&self, queue: &Queue, state: &mut State) -> Result<()> {
        let first = state.first_base / QUEUE_UNIT_BYTES;
        state.last_physical_end = NO_RECORD;
        for index in (first..state.end).rev() {
            let unit = self.unit_of(queue, state, index)?;
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
        let log_min = self.log_min.load(Ordering::Acquire).cast_signed();
        let unit = |index| self.unit_of(queue, state, index);
        let found = first_live(state.min, state.end, log_min, unit)?;
        (state.min, state.min_physical) = found;
        Ok(())
    }

    /// The first index of a file whose unit does not hold; that of the next file if all do. It must
    /// hold for a prefix. Looks at the start first and then in doubling steps: most queues have a
    /// few units, and far probes would fill the page cache with holes.
    pub(super) fn first_not_in_file(
        &self,
        queue: &Queue,
        base: u64,
        holds: impl Fn(&Unit) -> bool,
    ) -> Result<u64> {
        let first = base / QUEUE_UNIT_BYTES;
        let to = first + self.file_len_bytes / QUEUE_UNIT_BYTES;
        let near = to.min(first + PROBE_UNITS);
        let found = self.holding(queue, first, near, &holds)?;
        if found < near || near == to {
            return Ok(found);
        }
        // All below `low` hold, the one at `high` does not (or is that of the next file).
        let (mut low, mut high, mut step) = (near, to, PROBE_UNITS);
        while high - low > PROBE_UNITS {
            let probe = if high == to {
                (low + step).min(low + (high - low) / 2)
            } else {
                low + (high - low) / 2
            };
            step *= 2;
            if holds(&self.file_unit(queue, probe)?) {
                low = probe + 1;
            } else {
                high = probe;
            }
        }
        self.holding(queue, low, high, &holds)
    }

    /// One after the last unit of `[from, to)` up to which all hold. At most [`PROBE_UNITS`] of one
    /// file: they are read at once.
    fn holding(
        &self,
        queue: &Queue,
        from: u64,
        to: u64,
        holds: impl Fn(&Unit) -> bool,
    ) -> Result<u64> {
        if from >= to {
            return Ok(from);
        }
        let position = from * QUEUE_UNIT_BYTES;
        let base = position - position % self.file_len_bytes;
        let file = self
            .files
            .existing((queue.uid(), base), || self.file_path(queue, base))?;
        let mut buffer = [0; PROBE_UNITS as usize * UNIT_LEN];
        let len = ((to - from).min(PROBE_UNITS) * QUEUE_UNIT_BYTES) as usize;
        let bytes = &mut buffer[..len];
        read_exact_at(file.as_ref(), bytes, position - base)?;
        Ok(from
            + Unit::decode_all(bytes)
                .take_while(|unit| holds(unit))
                .count() as u64)
    }

    /// The unit at `index`, wherever it is. Only below the end of a queue.
    pub(super) fn unit_of(&self, queue: &Queue, state: &State, index: u64) -> Result<Unit> {
        match state.tail_unit(index) {
            Some(unit) => Ok(unit),
            None => self.file_unit(queue, index),
        }
    }

    /// The unit at `index` of a file.
    pub(super) fn file_unit(&self, queue: &Queue, index: u64) -> Result<Unit> {
        let position = index * QUEUE_UNIT_BYTES;
        let base = position - position % self.file_len_bytes;
        let file = self
            .files
            .existing((queue.uid(), base), || self.file_path(queue, base))?;
        let mut bytes = [0; UNIT_LEN];
        read_exact_at(file.as_ref(), &mut bytes, position - base)?;
        Ok(Unit::decode(&bytes))
    }
}

impl State {
    /// All below `end` is in files, nothing is in memory.
    pub(super) fn set_end(&mut self, end: u64) {
        self.end = end;
        self.written = end;
        self.fill_to = end;
        self.tail = Vec::new();
        self.min = self.min.min(end);
    }
}

/// The first index of `[low, high)` for which `holds` is false, `high` if it holds for all. It must
/// hold for a prefix.
pub(super) fn first_not(
    mut low: u64,
    mut high: u64,
    mut holds: impl FnMut(u64) -> Result<bool>,
) -> Result<u64> {
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// The first unit of `[low, high)` whose record the log still has, as [`first_at_or_above`] finds it. A
/// damaged unit before that one proves nothing, so it stays: who reads it has it made again.
pub(super) fn first_live(
    low: u64,
    high: u64,
    log_min: i64,
    unit: impl Fn(u64) -> Result<Unit>,
) -> Result<(u64, i64)> {
    let without_damaged = |index| {
        let unit = unit(index)?;
        Ok(if unit.is_present() { unit } else { Unit::BLANK })
    };
    let mut found = first_at_or_above(low, high, log_min, without_damaged)?;
    while found.0 > low && !unit(found.0 - 1)?.is_present() {
        found = (found.0 - 1, MIN_UNKNOWN);
    }
    Ok(found)
}

/// The first unit of `[low, high)` that is no blank and whose record lies at or above `physical`:
/// its index and its record's place; `high` and [`MIN_UNKNOWN`] when there is none. Blanks between
/// hide the order of the records, so the halving looks at the next record.
pub(super) fn first_at_or_above(
    mut low: u64,
    mut high: u64,
    physical: i64,
    unit: impl Fn(u64) -> Result<Unit>,
) -> Result<(u64, i64)> {
    let mut found = (high, MIN_UNKNOWN);
    if low < high {
        // Usually the first one is it.
        let record = unit(low)?;
        if !record.is_blank() && record.physical_offset >= physical {
            return Ok((low, record.physical_offset));
        }
    }
    while low < high {
        let middle = low + (high - low) / 2;
        let mut probe = middle;
        let mut record = unit(probe)?;
        while record.is_blank() && probe + 1 < high {
            probe += 1;
            record = unit(probe)?;
        }
        if record.is_blank() {
            high = middle;
        } else if record.physical_offset >= physical {
            found = (probe, record.physical_offset);
            high = middle;
        } else {
            low = probe + 1;
        }
    }
    Ok(found)
}
