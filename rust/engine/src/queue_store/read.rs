//! Units of a queue, from its tail or its files. Any thread may, beside appends and writes.

use super::queue::Queue;
use super::segments::Segments;
use super::unit::{QueueUnit, UNIT_LEN_MAX, present_units};
use crate::disk::{Disk, DiskFile};
use crate::error::Result;

/// Bytes read from a file at once: with larger ones a long scan gains nothing measurable.
const READ_MAX_BYTES: u64 = 65_520;
/// A read up to this is done on the stack: a usual pull is 32 messages.
const SMALL_READ_BYTES: usize = 1_280;
const _: () = assert!(SMALL_READ_BYTES >= UNIT_LEN_MAX);

/// Whether a read may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadBy {
    /// May wait; absent units are made again.
    Disk,
    /// May not wait.
    Cache,
    /// May wait; absent units end it.
    AsItIs,
}

/// What one step of a read did.
pub(crate) enum Step {
    /// Read on at this ordinal.
    On(u64),
    /// The bytes are not in the page cache.
    Cold,
    /// The next unit is absent.
    End,
}

impl<D: Disk, U: QueueUnit> Segments<D, U> {
    /// Reads one piece of `[next, to)`, below the end of the queue: of one file, or the rest from the
    /// tail.
    pub(crate) fn read_step(
        &self,
        queue: &Queue<U>,
        next: u64,
        to: u64,
        out: &mut Vec<U>,
        by: ReadBy,
    ) -> Result<Step> {
        let written = {
            let state = queue.lock();
            if next >= state.written {
                out.extend((next..to).map_while(|index| state.tail_unit(index)));
                return Ok(Step::On(to));
            }
            state.written
        };
        let unit_len = U::LEN as u64;
        let position = next * unit_len;
        let in_file = position % self.file_len_bytes();
        let wanted = (to.min(written) - next) * unit_len;
        let len = wanted
            .min(self.file_len_bytes() - in_file)
            .min(READ_MAX_BYTES / unit_len * unit_len) as usize;
        let file = self.file(queue, position - in_file)?;
        let before = out.len();
        let is_warm = if len <= SMALL_READ_BYTES {
            let mut buffer = [0; SMALL_READ_BYTES];
            take(file.as_ref(), &mut buffer[..len], in_file, by, out)?
        } else {
            take(file.as_ref(), &mut vec![0; len], in_file, by, out)?
        };
        let count = (out.len() - before) as u64;
        if !is_warm {
            Ok(Step::Cold)
        } else if count == 0 {
            Ok(Step::End)
        } else {
            Ok(Step::On(next + count))
        }
    }

    /// The unit at `index` of a file; `None` where none was written.
    pub(crate) fn present_unit(&self, queue: &Queue<U>, index: u64) -> Result<Option<U>> {
        let mut buffer = [0; UNIT_LEN_MAX];
        let bytes = &mut buffer[..U::LEN];
        self.read_bytes(queue, index * U::LEN as u64, bytes)?;
        Ok(U::present(bytes))
    }

    /// Where the newest file begins whose first unit is of a record below `safe`: all before it were
    /// synced as a whole, since units are appended in the order of the log. The oldest file where
    /// none is. A blank proves nothing, so it counts as not safe.
    pub(crate) fn last_safe_file(
        &self,
        queue: &Queue<U>,
        (first_base, files_end): (u64, u64),
        is_safe: impl Fn(&U) -> bool,
    ) -> Result<u64> {
        let mut base = files_end - self.file_len_bytes();
        while base > first_base {
            let unit = self.present_unit(queue, base / U::LEN as u64)?;
            if unit.is_some_and(|unit| is_safe(&unit)) {
                break;
            }
            base -= self.file_len_bytes();
        }
        Ok(base)
    }
}

/// Reads units into `out`, up to the first absent one; false when they are not in the cache.
fn take<F: DiskFile, U: QueueUnit>(
    file: &F,
    buffer: &mut [u8],
    position: u64,
    by: ReadBy,
    out: &mut Vec<U>,
) -> Result<bool> {
    let got = match by {
        ReadBy::Disk | ReadBy::AsItIs => file.read_at(buffer, position)?,
        ReadBy::Cache => match file.read_cached_at(buffer, position)? {
            Some(got) => got,
            None => return Ok(false),
        },
    };
    out.extend(present_units::<U>(buffer.get(..got).unwrap_or_default()));
    Ok(true)
}

/// The first index of `[low, high)` for which `holds` is false, `high` if it holds for all. It must
/// hold for a prefix.
pub(crate) fn first_not(
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
