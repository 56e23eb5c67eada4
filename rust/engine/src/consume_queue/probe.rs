//! Looking at single units of plain queues and searching among them, absent and blank ones included.
//! Reads only.

use super::queue::{MIN_UNKNOWN, Queue, State};
use super::unit::{UNIT_LEN, Unit};
use crate::config::QUEUE_UNIT_BYTES;
use crate::disk::{Disk, read_exact_at};
use crate::error::Result;
use crate::queue_store::Segments;
use crate::units::PAGE_BYTES;

/// Units that are looked at together: those of one page.
const PROBE_UNITS: u64 = PAGE_BYTES / QUEUE_UNIT_BYTES;

impl<D: Disk> Segments<D, Unit> {
    /// One after the last unit from `end` on that holds; `end` where none does. What follows a
    /// place that was found to be the end makes it a hole of damaged units.
    pub(super) fn end_behind(
        &self,
        queue: &Queue,
        state: &State,
        end: u64,
        holds: impl Fn(&Unit) -> bool,
    ) -> Result<u64> {
        let len = self.file_len_bytes();
        let mut found = end;
        let mut position = end * QUEUE_UNIT_BYTES;
        let mut buffer = vec![0; PROBE_UNITS as usize * UNIT_LEN];
        while position < state.files_end {
            let in_file = position % len;
            let base = position - in_file;
            let file = self.file(queue, base)?;
            let is_first_part = in_file == 0 || position == end * QUEUE_UNIT_BYTES;
            if is_first_part && self.is_absent_behind(queue, base, (file.as_ref(), in_file))? {
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
        let to = first + self.file_len_bytes() / QUEUE_UNIT_BYTES;
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
        let mut buffer = [0; PROBE_UNITS as usize * UNIT_LEN];
        let len = ((to - from).min(PROBE_UNITS) * QUEUE_UNIT_BYTES) as usize;
        let bytes = &mut buffer[..len];
        self.read_bytes(queue, position, bytes)?;
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
        let mut bytes = [0; UNIT_LEN];
        self.read_bytes(queue, position, &mut bytes)?;
        Ok(Unit::decode(&bytes))
    }

    /// The unit at `index`, read without holding the queue's lock; blank where there is none.
    pub(super) fn unit_at(&self, queue: &Queue, index: u64) -> Result<Unit> {
        let in_memory = {
            let state = queue.lock();
            if index >= state.end {
                return Ok(Unit::BLANK);
            }
            state.tail_unit(index)
        };
        match in_memory {
            Some(unit) => Ok(unit),
            None => self.file_unit(queue, index),
        }
    }
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
