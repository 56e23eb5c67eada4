//! Reading units: file and memory tail as one, across files. Any thread may, beside appends and
//! writes; a unit is seen from its append on.

use std::sync::Arc;

use super::queue::Queue;
use super::table::QueueTable;
use super::unit::{Bounds, UNIT_LEN, Unit};
use crate::config::QUEUE_UNIT_BYTES;
use crate::disk::{Disk, DiskFile};
use crate::error::{Error, Result};

/// Bytes read from a file at once: with larger ones a long scan gains nothing measurable.
const READ_MAX_BYTES: usize = 3_276 * UNIT_LEN;
/// A read up to this is done on the stack: a usual pull is 32 messages.
const SMALL_READ_BYTES: usize = 64 * UNIT_LEN;
/// A reader that meets units being taken back tries this often; each is a truncation or a deletion
/// of the very queue, so once is usual.
const TRIES_MAX: usize = 8;

/// What a read found out beside the units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueRead {
    /// What the queue held; `None` when there is no such queue.
    pub bounds: Option<Bounds>,
    /// The queue offset after the last unit given.
    pub next: u64,
    /// Bytes would have to come from the disk, and [`ReadBy::Cache`] may not wait.
    pub is_cold: bool,
}

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
enum Step {
    /// Read on at this queue offset.
    On(u64),
    Cold,
    End,
}

impl<D: Disk> QueueTable<D> {
    /// The bounds of a queue; `None` when there is no such queue.
    ///
    /// # Errors
    /// Those of the first look at a queue.
    ///
    /// # Blocking
    /// At the first use of a queue.
    pub fn bounds(&self, topic: &[u8], queue_id: i32) -> Result<Option<Bounds>> {
        let Some(queue) = self.find(topic, queue_id) else {
            return Ok(None);
        };
        let state = self.lock_told(&queue)?;
        Ok((!state.is_gone).then(|| state.bounds()))
    }

    /// Adds to `out` up to `count_max` units from queue offset `from` on, across files. Nothing
    /// when `from` is outside of the bounds. Units of messages that were never seen are
    /// [`Unit::BLANK`].
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk where the page cache has not the bytes.
    pub fn read(
        &self,
        topic: &[u8],
        queue_id: i32,
        from: u64,
        count_max: usize,
        out: &mut Vec<Unit>,
    ) -> Result<QueueRead> {
        self.read_by(topic, queue_id, from, (count_max, out), ReadBy::Disk)
    }

    /// Like [`QueueTable::read`], from where `by` allows: at most so many units, added to those.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// At the first use of a queue; else as [`ReadBy`] has it.
    pub fn read_by(
        &self,
        topic: &[u8],
        queue_id: i32,
        from: u64,
        (count_max, out): (usize, &mut Vec<Unit>),
        by: ReadBy,
    ) -> Result<QueueRead> {
        match self.find(topic, queue_id) {
            Some(queue) => self.read_from(&queue, from, count_max, out, by),
            None => Ok(QueueRead::of_no_queue(from)),
        }
    }

    fn read_from(
        &self,
        queue: &Arc<Queue>,
        from: u64,
        count_max: usize,
        out: &mut Vec<Unit>,
        source: ReadBy,
    ) -> Result<QueueRead> {
        let start = out.len();
        // Absent units are made again once; what is then still absent ends the read.
        let mut mended_at = None;
        for _try in 0..TRIES_MAX {
            out.truncate(start);
            let (bounds, epoch, is_checked) = {
                let state = self.lock_known(queue)?;
                if state.is_gone {
                    return Ok(QueueRead::of_no_queue(from));
                }
                (state.bounds(), state.epoch, state.has_checked_ends)
            };
            let mut read = QueueRead {
                bounds: Some(bounds),
                next: from,
                is_cold: false,
            };
            if from < bounds.min || from >= bounds.max {
                return Ok(read);
            }
            if !is_checked && self.log.get().is_some() {
                match source {
                    ReadBy::Disk => self.check_ends(queue)?,
                    ReadBy::Cache => read.is_cold = true,
                    ReadBy::AsItIs => {}
                }
                if read.is_cold {
                    return Ok(read);
                }
            }
            let to = bounds.max.min(from.saturating_add(count_max as u64));
            let done = loop {
                match self.read_step(queue, read.next, to, out, source) {
                    Ok(Step::On(next)) if next < to => read.next = next,
                    Ok(Step::On(next)) => break Ok(next),
                    Ok(Step::Cold) => {
                        read.is_cold = true;
                        break Ok(read.next);
                    }
                    Ok(Step::End) => break Ok(read.next),
                    Err(error) => break Err(error),
                }
            };
            // Units taken back while we read: what we have may be neither old nor new.
            if queue.lock().epoch != epoch {
                continue;
            }
            read.next = done?;
            if read.next < to && !read.is_cold && self.log.get().is_some() {
                // A unit that was never written, or a file that ends before it.
                if source == ReadBy::Cache {
                    read.is_cold = out.len() == start;
                } else if source == ReadBy::Disk && mended_at != Some(read.next) {
                    mended_at = Some(read.next);
                    self.mend_at(queue, read.next)?;
                    continue;
                }
            }
            return Ok(read);
        }
        out.truncate(start);
        Err(Error::Timeout {
            what: "a read of a queue that is being cut",
            waited_ms: 0,
        })
    }

    /// Reads one piece of `[next, to)`: of one file, or the rest from the tail.
    fn read_step(
        &self,
        queue: &Queue,
        next: u64,
        to: u64,
        out: &mut Vec<Unit>,
        source: ReadBy,
    ) -> Result<Step> {
        let written = {
            let state = queue.lock();
            if next >= state.written {
                out.extend((next..to).map_while(|index| state.tail_unit(index)));
                return Ok(Step::On(to));
            }
            state.written
        };
        let position = next * QUEUE_UNIT_BYTES;
        let in_file = position % self.file_len_bytes;
        let base = position - in_file;
        let wanted = (to.min(written) - next) * QUEUE_UNIT_BYTES;
        let len = wanted
            .min(self.file_len_bytes - in_file)
            .min(READ_MAX_BYTES as u64) as usize;
        let file = self
            .files
            .existing((queue.uid(), base), || self.file_path(queue, base))?;
        let before = out.len();
        let is_warm = if len <= SMALL_READ_BYTES {
            let mut buffer = [0; SMALL_READ_BYTES];
            take(file.as_ref(), &mut buffer[..len], in_file, source, out)?
        } else {
            take(file.as_ref(), &mut vec![0; len], in_file, source, out)?
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
}

/// Reads units into `out`, up to the first absent one; false when they are not in the cache.
fn take<F: DiskFile>(
    file: &F,
    buffer: &mut [u8],
    position: u64,
    source: ReadBy,
    out: &mut Vec<Unit>,
) -> Result<bool> {
    let got = match source {
        ReadBy::Disk | ReadBy::AsItIs => file.read_at(buffer, position)?,
        ReadBy::Cache => match file.read_cached_at(buffer, position)? {
            Some(got) => got,
            None => return Ok(false),
        },
    };
    let read = buffer.get(..got).unwrap_or_default();
    out.extend(Unit::decode_all(read).take_while(Unit::is_present));
    Ok(true)
}

impl QueueRead {
    fn of_no_queue(from: u64) -> Self {
        Self {
            bounds: None,
            next: from,
            is_cold: false,
        }
    }
}
