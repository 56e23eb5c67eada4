//! A plain queue in memory, and the decision where a unit belongs. Knows no file.

use super::unit::{Bounds, Unit};
use crate::config::QUEUE_UNIT_BYTES;
use crate::queue_store::{self, QueueState};
pub(super) use crate::queue_store::{Known, MIN_UNKNOWN, NO_RECORD, NOTHING_WAITS_MS};

/// Queues at the most: some 300 MB of them. Every name in a log can ask for one, so there is a
/// bound.
pub(super) const QUEUES_MAX: usize = 1_000_000;
/// Missing units that are stood in for by blanks, 60 MB of them; a longer gap starts the queue anew
/// behind it, because so many blanks in each of many queues would fill the disk.
pub(super) const GAP_UNITS_MAX: u64 = 3_000_000;

/// A queue of a topic: a handle that dispatch may keep.
pub type Queue = queue_store::Queue<Unit>;
/// What is known of a queue.
pub(super) type State = QueueState<Unit>;

/// What appending a unit means for its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AppendCase {
    /// At the end.
    Next,
    /// Nowhere: it, or a later one, is in the queue.
    Duplicate,
    /// At the start of an empty queue whose earlier messages are elsewhere or gone.
    First,
    /// After the end: the units between were never seen.
    Gap(u64),
    /// At 0 again, later in the log: the topic was deleted and made anew there.
    Restart,
    /// Below the end, later in the log: two records claim one queue offset.
    Taken,
}

impl QueueState<Unit> {
    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            min: self.min,
            max: self.end,
        }
    }

    /// Decides as `ConsumeQueue.putMessagePositionInfo` does, with two differences that keep every
    /// unit at the index that its message has: a gap is filled (there the unit goes to the end),
    /// and a queue that starts again at 0 is emptied first (there its first unit goes to the end
    /// and the following ones are dropped until they reach it).
    #[inline]
    pub(super) fn append_case(&self, queue_offset: u64, unit: &Unit) -> AppendCase {
        if unit.physical_end() <= self.last_physical_end {
            return AppendCase::Duplicate;
        }
        if queue_offset == self.end {
            return AppendCase::Next;
        }
        if queue_offset > self.end {
            if !self.has_files() && self.end == 0 {
                return AppendCase::First;
            }
            return AppendCase::Gap(queue_offset - self.end);
        }
        if queue_offset == 0 {
            AppendCase::Restart
        } else {
            AppendCase::Taken
        }
    }

    /// An empty queue without files begins at `queue_offset`: blanks from the start of the file up
    /// to it (`ConsumeQueue.fillPreBlank`).
    pub(super) fn begin_at(&mut self, queue_offset: u64, file_len_bytes: u64) {
        let position = queue_offset * QUEUE_UNIT_BYTES;
        self.first_base = position - position % file_len_bytes;
        self.files_end = self.first_base;
        self.written = self.first_base / QUEUE_UNIT_BYTES;
        self.fill_to = queue_offset;
        self.end = queue_offset;
        self.min = queue_offset;
        self.min_physical = MIN_UNKNOWN;
        self.last_physical_end = NO_RECORD;
        self.oldest_pending_ms = NOTHING_WAITS_MS;
        self.tail = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: u64 = 10 * QUEUE_UNIT_BYTES;

    fn unit(record: i64) -> Unit {
        Unit {
            physical_offset: record * 100,
            size_bytes: 100,
            tags_code: 0,
        }
    }

    #[test]
    fn the_append_case_of_a_unit_depends_on_the_end_and_on_the_log() {
        let mut state = State::empty();
        assert_eq!(state.append_case(0, &unit(0)), AppendCase::Next);
        assert_eq!(state.append_case(4, &unit(0)), AppendCase::First);
        state.push(&unit(3), 1);
        assert_eq!(state.append_case(1, &unit(3)), AppendCase::Duplicate);
        assert_eq!(state.append_case(1, &unit(4)), AppendCase::Next);
        assert_eq!(state.append_case(5, &unit(4)), AppendCase::Gap(4));
        assert_eq!(state.append_case(0, &unit(4)), AppendCase::Restart);
        state.push(&unit(4), 1);
        assert_eq!(state.append_case(1, &unit(5)), AppendCase::Taken);
    }

    #[test]
    fn a_queue_that_begins_late_has_blanks_from_the_start_of_its_file() {
        let mut state = State::empty();
        state.begin_at(13, FILE);
        assert_eq!((state.first_base, state.files_end), (FILE, FILE));
        assert_eq!(state.bounds(), Bounds { min: 13, max: 13 });
        state.push(&unit(0), 1);
        assert_eq!(state.tail_unit(12), Some(Unit::BLANK));
        assert_eq!(state.tail_unit(13), Some(unit(0)));
        assert_eq!(state.tail_unit(14), None);
    }
}
