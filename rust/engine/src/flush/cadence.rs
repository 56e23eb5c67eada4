//! When the asynchronous flush and the timed commit are due (`FlushRealTimeService`,
//! `CommitRealTimeService`): a pure rule of pages and passed-in time.

use crate::units::PAGE_BYTES;

/// Decides whether a timed step does anything: enough pages behind, or long enough ago.
#[derive(Debug, Clone)]
pub struct Cadence {
    least_pages: u64,
    thorough_interval_ms: u64,
    last_thorough_ms: u64,
}

impl Cadence {
    /// A rule that starts at `now_ms` of a clock that does not step.
    #[must_use]
    pub fn new(least_pages: u64, thorough_interval_ms: u64, now_ms: u64) -> Self {
        Self {
            least_pages,
            thorough_interval_ms,
            last_thorough_ms: now_ms,
        }
    }

    /// Whether what lies between `done` and `end` is to be done now. "Least pages" counts crossed
    /// page borders, as the official store does, not bytes.
    #[must_use]
    pub fn is_due(&mut self, done: u64, end: u64, now_ms: u64) -> bool {
        if now_ms >= self.last_thorough_ms + self.thorough_interval_ms {
            self.last_thorough_ms = now_ms;
            return end > done;
        }
        match self.least_pages {
            0 => end > done,
            least => (end / PAGE_BYTES).saturating_sub(done / PAGE_BYTES) >= least,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_by_their_borders_and_time_overrides() {
        let mut cadence = Cadence::new(4, 10_000, 0);
        assert!(!cadence.is_due(0, 4 * 4096 - 1, 1));
        assert!(cadence.is_due(0, 4 * 4096, 1));
        assert!(
            cadence.is_due(4095, 4 * 4096, 1),
            "from inside page 0 to the start of page 4"
        );
        assert!(!cadence.is_due(10, 11, 9_999));
        assert!(cadence.is_due(10, 11, 10_000));
        assert!(!cadence.is_due(10, 11, 10_001));
        assert!(!cadence.is_due(10, 10, 99_999), "nothing is never due");
    }
}
