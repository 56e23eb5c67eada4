//! Units at the ends of queues that another broker has given up and left in the files: it cut the log and
//! moved the ends of its queues in memory only (`ConsumeQueue.truncateDirtyLogicFiles`). Which units
//! these are, the store decides, which has the log; here they are found from the ends back, and taken
//! away. Knows no record.

use std::sync::Arc;

use super::queue::Queue;
use super::recover::QueueRecovery;
use super::unit::Unit;
use crate::config::QUEUE_UNIT_BYTES;
use crate::disk::Disk;
use crate::error::Result;

/// What was left at the end of one queue.
#[derive(Debug, Clone)]
pub struct Rest {
    /// The queue.
    pub queue: Arc<Queue>,
    /// Queue offset of its first unit, where the queue ends in truth.
    pub from: u64,
    /// One after the last.
    pub to: u64,
    /// Where the record of the unit before it ends in the log; 0 where there is none.
    pub log_from: u64,
}

impl<D: Disk> QueueRecovery<D> {
    /// The units at the end of each queue for which `is_rest` holds; it is asked from the last unit back, and
    /// not any more of a queue where it has answered no. Changes nothing.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`], and those of `is_rest`.
    ///
    /// # Blocking
    /// Reads the last unit of every queue.
    pub fn rests(
        &self,
        mut is_rest: impl FnMut(&Queue, u64, &Unit) -> Result<bool>,
    ) -> Result<Vec<Rest>> {
        let mut rests = Vec::new();
        for queue in self.shared.map.all() {
            let (first, to) = {
                let state = self.shared.loader.lock_known(&queue)?;
                (state.first_base / QUEUE_UNIT_BYTES, state.end)
            };
            let mut from = to;
            let mut log_from = 0;
            while from > first {
                let unit = self.shared.segments.file_unit(&queue, from - 1)?;
                if !unit.is_present() || unit.is_blank() || !is_rest(&queue, from - 1, &unit)? {
                    log_from = if unit.is_blank() {
                        0
                    } else {
                        u64::try_from(unit.physical_end()).unwrap_or(0)
                    };
                    break;
                }
                from -= 1;
            }
            if from < to {
                rests.push(Rest {
                    queue,
                    from,
                    to,
                    log_from,
                });
            }
        }
        Ok(rests)
    }

    /// Takes away what was left at the ends of queues.
    ///
    /// # Durability
    /// Gone for good after the next [`QueueTable::sync`](super::QueueTable::sync) of 0 pages.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Cuts files.
    pub fn take_away(&self, rests: &[Rest]) -> Result<()> {
        for rest in rests {
            let _gate = self.shared.pending.hold_writes();
            let mut state = self.shared.loader.lock_known(&rest.queue)?;
            if !state.is_gone && state.end > rest.from {
                self.cutter.take_back(&rest.queue, &mut state, rest.from)?;
            }
        }
        Ok(())
    }
}
