//! Parts of queues that dispatch has passed over while the end of the log is dispatched again: units
//! that may be missing before the place where a queue goes on. Notes them alone; which of them really
//! miss something, the older part of the log decides ([`super::lost`]).

use std::sync::Arc;

use super::queue::{GAP_UNITS_MAX, Queue};
use crate::lock::Mutex;

/// A part of a queue that dispatch has passed over.
#[derive(Debug, Clone)]
pub struct Suspect {
    /// The queue.
    pub queue: Arc<Queue>,
    /// First queue offset.
    pub from: u64,
    /// One after the last.
    pub to: u64,
    /// The queue had no files: where it begins is not known.
    pub begins: bool,
    /// The queue surely had these units, and its files have not.
    pub is_lost: bool,
}

/// The end of a range of lost units that begins at `from`: `to`, or none of it where a damaged record
/// made it longer than any gap.
fn near(from: u64, to: u64) -> u64 {
    if to - from <= GAP_UNITS_MAX { to } else { from }
}

/// The parts that were passed over; nothing is noted before [`Suspects::watch`].
#[derive(Debug, Default)]
pub(super) struct Suspects {
    noted: Mutex<Option<Vec<Suspect>>>,
}

impl Suspects {
    /// From now on what dispatch passes over is noted, until [`Suspects::take`].
    pub(super) fn watch(&self) {
        *self.noted.lock() = Some(Vec::new());
    }

    /// What dispatch has passed over since it was watched.
    pub(super) fn take(&self) -> Vec<Suspect> {
        self.noted.lock().take().unwrap_or_default()
    }

    /// Notes queue offsets that may be missing.
    pub(super) fn note(&self, queue: &Arc<Queue>, part: (u64, u64), begins: bool) {
        self.push(queue, part, (begins, false));
    }

    /// Notes that a queue without files begins at a queue offset.
    pub(super) fn note_beginning(&self, queue: &Arc<Queue>, queue_offset: u64) {
        self.push(queue, (0, near(0, queue_offset)), (true, false));
    }

    /// Notes units that a queue surely had; false when nobody watches.
    pub(super) fn note_lost(&self, queue: &Arc<Queue>, part: (u64, u64), begins: bool) -> bool {
        self.push(queue, part, (begins, true))
    }

    /// Notes that a queue has lost the files between the queue offset of a record and its first
    /// unit; false when nobody watches.
    pub(super) fn note_lost_before(
        &self,
        queue: &Arc<Queue>,
        queue_offset: u64,
        first: u64,
    ) -> bool {
        self.push(
            queue,
            (queue_offset, near(queue_offset, first)),
            (true, true),
        )
    }

    fn push(
        &self,
        queue: &Arc<Queue>,
        (from, to): (u64, u64),
        (begins, is_lost): (bool, bool),
    ) -> bool {
        let mut noted = self.noted.lock();
        let Some(noted) = noted.as_mut().filter(|_| from < to) else {
            return false;
        };
        noted.push(Suspect {
            queue: Arc::clone(queue),
            from,
            to,
            begins,
            is_lost,
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue_store::{QueueMap, QueueState};

    fn queue() -> Arc<Queue> {
        QueueMap::default().insert("T", 0, QueueState::empty())
    }

    #[test]
    fn nothing_is_noted_before_it_is_watched_and_after_it_is_taken() {
        let (suspects, queue) = (Suspects::default(), queue());
        assert!(!suspects.note_lost(&queue, (0, 1), false));
        suspects.watch();
        suspects.note(&queue, (3, 5), false);
        assert!(suspects.note_lost(&queue, (5, 6), true));
        assert!(!suspects.note_lost(&queue, (6, 6), true), "empty");
        let taken = suspects.take();
        let parts: Vec<_> = taken.iter().map(|s| (s.from, s.to, s.is_lost)).collect();
        assert_eq!(parts, [(3, 5, false), (5, 6, true)]);
        assert!(!suspects.note_lost(&queue, (0, 1), false));
        assert!(suspects.take().is_empty());
    }

    #[test]
    fn a_range_that_damage_made_longer_than_any_gap_is_not_noted() {
        let (suspects, queue) = (Suspects::default(), queue());
        suspects.watch();
        suspects.note_beginning(&queue, GAP_UNITS_MAX + 1);
        assert!(!suspects.note_lost_before(&queue, 7, GAP_UNITS_MAX + 8));
        suspects.note_beginning(&queue, GAP_UNITS_MAX);
        assert!(suspects.note_lost_before(&queue, 7, GAP_UNITS_MAX + 7));
        assert_eq!(suspects.take().len(), 2);
    }
}
