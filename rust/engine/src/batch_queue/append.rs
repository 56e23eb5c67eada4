//! Appending units: memory only. Knows no record: topic, queue and unit come from whoever reads
//! the log, from any thread, in log order per queue.

use std::sync::Arc;

use super::queue::{AppendCase, Queue, State};
use super::recover::remove_from;
use super::table::BatchTable;
use super::unit::BatchUnit;
use crate::disk::Disk;
use crate::error::Result;

/// What became of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// It is the last one of its queue.
    Appended,
    /// It, or a later one, was in the queue already: nothing changed.
    Duplicate,
    /// The queue begins with it; what it held before (a deleted topic) is gone.
    Restarted,
    /// Another record has its queue offset: it is not in the queue.
    Taken,
    /// Its topic has no batch queues, or a number of it cannot be: it is not in any queue.
    Refused,
}

impl<D: Disk> BatchTable<D> {
    /// Adds a unit to its queue, which is made if absent. Twice the same changes nothing.
    ///
    /// # Durability
    /// None: the unit is in memory until [`BatchTable::write_pending`].
    ///
    /// # Errors
    /// [`crate::error::Error::Io`] where a queue starts anew: the unit was then not added, and may
    /// be again.
    ///
    /// # Blocking
    /// Where a queue starts anew.
    pub fn append(&self, topic: &[u8], queue_id: i32, unit: &BatchUnit) -> Result<Placed> {
        let queue = self.queue(topic, queue_id).filter(|_| unit.is_sound());
        let Some(queue) = queue else {
            let topic = String::from_utf8_lossy(topic);
            self.notices.warn(format!(
                "no batch queue {topic} {queue_id} can hold {unit:?}: it is in none"
            ));
            return Ok(Placed::Refused);
        };
        let append_case = self.append_to(&queue, unit);
        let (placed, what) = match append_case {
            AppendCase::Next => return Ok(Placed::Appended),
            AppendCase::Duplicate => return Ok(Placed::Duplicate),
            AppendCase::Taken => (
                Placed::Taken,
                "another message has this place: it is not in the queue",
            ),
            AppendCase::Restart => (
                Placed::Restarted,
                "the queue starts anew with it, earlier messages are out of it",
            ),
        };
        self.notices.warn(format!(
            "batch queue {} {queue_id}, offset {} (physical offset {}): {what}",
            queue.topic(),
            unit.base,
            unit.physical_offset
        ));
        if placed == Placed::Restarted {
            self.restart(&queue)?;
            self.append_to(&queue, unit);
        }
        Ok(placed)
    }

    fn append_to(&self, queue: &Arc<Queue>, unit: &BatchUnit) -> AppendCase {
        let mut state = queue.lock();
        let append_case = state.append_case(unit);
        if append_case == AppendCase::Next && !state.is_gone {
            state.add(unit);
            self.pending.mark(queue, &mut state);
            self.pending.count_unit(unit.store_timestamp_ms);
        }
        append_case
    }

    /// Empties a queue whose topic was deleted and made anew in the log.
    fn restart(&self, queue: &Queue) -> Result<()> {
        // A sync that is under way would count units of the queue as it was.
        let _syncs = self.sync.hold_syncs();
        let _writes = self.pending.hold_writes();
        let mut state = queue.lock();
        self.pending.drop_tail(&mut state);
        let first_base = state.first_base;
        remove_from(&self.segments, queue, &mut state, first_base)?;
        self.segments.forget_queue(queue);
        let is_pending = state.is_pending;
        *state = State::empty();
        state.is_pending = is_pending;
        Ok(())
    }
}
