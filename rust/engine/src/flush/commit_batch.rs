//! When the next sync should begin: those whom the last one answered are about to append again, and
//! one sync for all of them costs what a sync for half of them costs. Pure: counts and times are
//! passed in (`commit_delay` of other stores, with the delay taken from what was just seen).

use std::time::Duration;

/// Of the last sync's duration that a commit batch is waited for at most. Half a sync is less than what a
/// straggler would otherwise wait: the whole sync that began without it.
const SHARE_OF_SYNC: u32 = 2;

/// Waited for at most, however long a sync takes.
const LINGER_MAX: Duration = Duration::from_millis(1);

/// What the last sync has shown.
#[derive(Debug, Default, Clone, Copy)]
pub struct CommitBatch {
    in_flight: usize,
    took: Duration,
}

impl CommitBatch {
    /// Notes a sync that took `took` and found `in_flight` acknowledgements parked at its end: those
    /// that it answers and those that came meanwhile.
    pub fn note(&mut self, in_flight: usize, took: Duration) {
        *self = Self { in_flight, took };
    }

    /// Whether a sync should begin, with `parked` acknowledgements waiting since `waited`, of which
    /// `fresh` came since the last look.
    #[must_use]
    pub fn is_full(&self, parked: usize, fresh: usize, waited: Duration) -> bool {
        let linger = (self.took / SHARE_OF_SYNC).min(LINGER_MAX);
        // A batch of one has nobody to wait for; one that stopped growing will not grow.
        parked >= self.in_flight || waited >= linger || (fresh == 0 && !waited.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_millis(4);
    const HALF: Duration = Duration::from_micros(250);

    #[test]
    fn a_lone_caller_never_waits() {
        let mut commit_batch = CommitBatch::default();
        assert!(commit_batch.is_full(1, 1, Duration::ZERO));
        commit_batch.note(1, SYNC);
        assert!(commit_batch.is_full(1, 1, Duration::ZERO));
    }

    #[test]
    fn a_commit_batch_is_waited_for_until_it_is_complete_still_or_late() {
        let mut commit_batch = CommitBatch::default();
        commit_batch.note(256, SYNC);
        assert!(!commit_batch.is_full(128, 128, Duration::ZERO));
        assert!(!commit_batch.is_full(200, 72, HALF));
        assert!(commit_batch.is_full(256, 56, HALF));
        assert!(commit_batch.is_full(200, 0, HALF));
        assert!(commit_batch.is_full(200, 10, LINGER_MAX));
    }

    #[test]
    fn a_slow_disk_does_not_make_the_wait_long() {
        let mut commit_batch = CommitBatch::default();
        commit_batch.note(256, Duration::from_secs(2));
        assert!(commit_batch.is_full(10, 5, Duration::from_millis(1)));
    }
}
