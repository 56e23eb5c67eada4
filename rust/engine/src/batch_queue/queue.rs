//! A batch queue in memory, and the decision where a unit belongs. Knows no file.
//!
//! Units are counted by ordinals. A file is named by the byte of its first unit, which gives no
//! queue offset: those are in the units alone.

use super::unit::{BatchUnit, UNIT_LEN};
use crate::queue_store::{self, NO_RECORD, QueueState, QueueUnit};

/// A queue of a topic.
pub(super) type Queue = queue_store::Queue<BatchUnit>;
/// What is known of a queue.
pub(super) type State = QueueState<BatchUnit>;

/// The queue offsets of a batch queue, which its ordinals do not give.
#[derive(Debug, Default)]
pub struct Offsets {
    /// Behind the last message.
    pub(super) end: u64,
    /// The first unit whose record the log has, as last looked up; `None` when nobody has looked.
    pub(super) min: Option<Min>,
}

/// The first unit that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Min {
    /// The queue offset of its first message.
    pub(super) base: u64,
    /// First byte of its record; `u64::MAX` when there is none, so that nothing lies below it.
    pub(super) physical_offset: u64,
}

impl QueueUnit for BatchUnit {
    type Own = Offsets;
    type Beside = ();
    const LEN: usize = UNIT_LEN;
    const BLANK: Option<Self> = None;
    const COUNTS_SYNCED: bool = true;

    fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.encode());
    }

    fn present(bytes: &[u8]) -> Option<Self> {
        Self::decode(bytes.first_chunk()?)
    }

    fn physical_start(&self) -> i64 {
        self.physical_offset.cast_signed()
    }

    fn record_end(&self) -> i64 {
        self.physical_end().cast_signed()
    }
}

/// What appending a unit means for its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AppendCase {
    /// At the end.
    Next,
    /// Nowhere: it, or a later one, is in the queue.
    Duplicate,
    /// At offset 0 again, later in the log: the topic was deleted and made anew there.
    Restart,
    /// Below the end, later in the log: two records claim one queue offset.
    Taken,
}

impl QueueState<BatchUnit> {
    /// Decides as `BatchConsumeQueue.putBatchMessagePositionInfo` does, which looks at offsets in
    /// the log alone; here no two units may claim one offset either, as in a plain queue.
    pub(super) fn append_case(&self, unit: &BatchUnit) -> AppendCase {
        if self.last_physical_end == NO_RECORD {
            AppendCase::Next
        } else if unit.physical_start() < self.last_physical_end {
            AppendCase::Duplicate
        } else if unit.base >= self.own.end {
            AppendCase::Next
        } else if unit.base == 0 {
            AppendCase::Restart
        } else {
            AppendCase::Taken
        }
    }

    /// Adds a unit at the end.
    pub(super) fn add(&mut self, unit: &BatchUnit) {
        let is_none_of_log = |min: Min| min.physical_offset == u64::MAX;
        if self.last_physical_end == NO_RECORD || self.own.min.is_some_and(is_none_of_log) {
            self.own.min = Some(Min {
                base: unit.base,
                physical_offset: unit.physical_offset,
            });
        }
        self.push(unit, unit.store_timestamp_ms);
        self.own.end = unit.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(record: u64, base: u64, count: u64) -> BatchUnit {
        BatchUnit {
            physical_offset: record * 100,
            size_bytes: 100,
            tags_code: 0,
            store_timestamp_ms: 1,
            base,
            count,
        }
    }

    #[test]
    fn the_append_case_of_a_unit_depends_on_the_last_record_and_on_its_offsets() {
        let mut state = State::empty();
        assert_eq!(
            state.append_case(&unit(0, 7, 2)),
            AppendCase::Next,
            "it may begin anywhere"
        );
        state.add(&unit(3, 7, 2));
        assert_eq!(state.append_case(&unit(3, 7, 2)), AppendCase::Duplicate);
        assert_eq!(state.append_case(&unit(2, 9, 1)), AppendCase::Duplicate);
        assert_eq!(state.append_case(&unit(4, 9, 1)), AppendCase::Next);
        assert_eq!(
            state.append_case(&unit(4, 20, 1)),
            AppendCase::Next,
            "gaps stay gaps"
        );
        assert_eq!(state.append_case(&unit(4, 8, 1)), AppendCase::Taken);
        assert_eq!(state.append_case(&unit(4, 0, 1)), AppendCase::Restart);
    }

    #[test]
    fn the_first_unit_and_the_first_one_after_all_were_lost_are_the_minimum() {
        let mut state = State::empty();
        state.add(&unit(3, 7, 2));
        state.add(&unit(4, 9, 5));
        assert_eq!(state.own.min.map(|min| min.base), Some(7));
        assert_eq!((state.own.end, state.end), (14, 2));
        state.own.min = Some(Min {
            base: 14,
            physical_offset: u64::MAX,
        });
        state.add(&unit(5, 14, 1));
        assert_eq!(state.own.min.map(|min| min.physical_offset), Some(500));
    }
}
