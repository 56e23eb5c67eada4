//! Reading units: file and memory tail as one, across files. Any thread may, beside appends and
//! writes; a unit is seen from its append on.

use std::sync::Arc;

use super::holes::HoleMender;
use super::load::QueueLoader;
use super::queue::Queue;
use super::unit::{Bounds, Unit};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::queue_store::{QueueMap, ReadBy, Segments, Step};

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

/// Reads units of queues.
pub(super) struct UnitReader<D: Disk> {
    pub(super) map: Arc<QueueMap<Unit>>,
    pub(super) segments: Arc<Segments<D, Unit>>,
    pub(super) loader: Arc<QueueLoader<D>>,
    pub(super) mender: Arc<HoleMender<D>>,
}

impl<D: Disk> UnitReader<D> {
    /// As [`QueueTable::bounds`](super::QueueTable::bounds).
    pub(super) fn bounds(&self, topic: &[u8], queue_id: i32) -> Result<Option<Bounds>> {
        let Some(queue) = self.map.find(topic, queue_id) else {
            return Ok(None);
        };
        let state = self.loader.lock_bounds(&queue)?;
        Ok((!state.is_gone).then(|| state.bounds()))
    }

    /// As [`QueueTable::read_by`](super::QueueTable::read_by).
    pub(super) fn read_by(
        &self,
        topic: &[u8],
        queue_id: i32,
        from: u64,
        (count_max, out): (usize, &mut Vec<Unit>),
        by: ReadBy,
    ) -> Result<QueueRead> {
        match self.map.find(topic, queue_id) {
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
                let state = self.loader.lock_known(queue)?;
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
            if !is_checked && self.mender.has_log() {
                match source {
                    ReadBy::Disk => self.mender.check_ends(queue)?,
                    ReadBy::Cache => read.is_cold = true,
                    ReadBy::AsItIs => {}
                }
                if read.is_cold {
                    return Ok(read);
                }
            }
            let to = bounds.max.min(from.saturating_add(count_max as u64));
            let done = loop {
                match self.segments.read_step(queue, read.next, to, out, source) {
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
            if read.next < to && !read.is_cold && self.mender.has_log() {
                // A unit that was never written, or a file that ends before it.
                if source == ReadBy::Cache {
                    read.is_cold = out.len() == start;
                } else if source == ReadBy::Disk && mended_at != Some(read.next) {
                    mended_at = Some(read.next);
                    self.mender.mend_at(queue, read.next)?;
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
