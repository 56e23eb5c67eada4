//! How much of what waits is worked off in one turn of the event loop, so that the requests of others
//! run in between. Counts work, reads no time.
//!
//! A unit of work is about 100 ns on the slowest machine that is measured. Each kind of waiting has a
//! slice of its own in every turn, so that none of them waits for another to end; all slices together
//! are some milliseconds.

/// One held request is looked at and passed over, or removed.
pub(crate) const LOOKED_AT: usize = 2;
/// One request is run again: its checks, its read, its answer and its part of a write to a socket.
pub(crate) const RUN: usize = 60;
/// Bytes of an answer that are copied and sent in one unit.
pub(crate) const BYTES_PER_UNIT: usize = 256;

/// Answers to sends that have reached their watermark, per turn. One costs about as much as two looks,
/// so half a millisecond for what a sync answers, and the hot path has one turn for thousands of sends.
pub(crate) const ANSWERS_PER_TURN: usize = 2_048;
/// News of queues taken per turn.
pub(crate) const NEWS_PER_TURN: usize = 1_024;
/// Work for pulls that were woken, per turn: some two hundred small answers.
pub(crate) const WOKEN_WORK: usize = 12_000;
/// Work for pulls whose time is over, per turn.
pub(crate) const DUE_WORK: usize = 6_000;
/// Work for the check of queues, per turn.
pub(crate) const CHECK_WORK: usize = 2_000;
/// Work for what closed connections leave behind, per turn.
pub(crate) const CLOSED_WORK: usize = 4_000;
/// Work for the same at the close itself: what a usual client has is gone at once.
pub(crate) const CLOSE_WORK: usize = 256;
/// Work for held pops and questions, per turn: waking them and running them again, each.
pub(crate) const POPS_WORK: usize = 6_000;
/// Work for sends that waited for a log file, per turn.
pub(crate) const DEFERRED_WORK: usize = 12_000;
/// Work for what threads have read, per turn.
pub(crate) const READ_WORK: usize = 12_000;

/// What is left of the work that may be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    left: usize,
    spent: usize,
}

impl Slice {
    /// A slice of so much work.
    #[must_use]
    pub fn new(work: usize) -> Self {
        Self {
            left: work,
            spent: 0,
        }
    }

    /// Takes work off. The last piece may be larger than what is left: it has been begun.
    #[inline]
    pub fn spend(&mut self, work: usize) {
        self.left = self.left.saturating_sub(work);
        self.spent = self.spent.saturating_add(work);
    }

    /// Takes off a request that was run again with so many bytes of answer.
    pub(crate) fn spend_run(&mut self, answer_bytes: usize) {
        self.spend(RUN + answer_bytes / BYTES_PER_UNIT);
    }

    /// Whether nothing is left: the rest waits for the next turn.
    #[inline]
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// What is left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Work that was done.
    #[must_use]
    pub fn spent(&self) -> usize {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_ends_and_its_last_piece_may_be_larger() {
        let mut slice = Slice::new(10);
        slice.spend(8);
        assert!(!slice.is_spent());
        slice.spend(100);
        assert!(slice.is_spent());
        assert_eq!(slice.spent(), 108);
    }
}
